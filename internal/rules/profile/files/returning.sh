#!/bin/sh
# Written by Kamino. A donor that comes back goes on where it was: the handlers of its VM extensions find the number
# of the settings that they ran last, and do not run them again. The donor also loses the masks of a quiet image. A
# clone is another machine, for which all of that is removed, and which keeps the masks. The first argument is the directory of the machine's root, for whoever looks at it from outside.
set -u
umask 077

root=${1:-}
kept=$root/var/lib/kamino/returning
[ -f "$kept" ] || exit 0

failed=0
units=
id=$(tr '[:upper:]' '[:lower:]' 2>/dev/null <"$root/sys/class/dmi/id/product_uuid") || id=
own=$(printf %s "$id" | sha256sum) || own=
{
	read -r word machine
	if [ -n "$id" ] && [ "$word" = machine ] && [ "$machine" = "${own%% *}" ]; then
		while read -r number path; do
			case $path in
			*..*) continue ;;
			/etc/systemd/system/kamino-unmask.* | /etc/systemd/system/timers.target.wants/kamino-unmask.timer)
				[ "$number" != quiet ] || rm -f "$root$path" || failed=1
				continue
				;;
			/etc/systemd/system/*.timer | /etc/systemd/system/*.service)
				if [ "$number" = quiet ] && [ "$(readlink "$root$path")" = /dev/null ]; then
					rm -f "$root$path" && units="$units ${path##*/}" || failed=1
				fi
				continue
				;;
			/etc/apt/apt.conf.d/99kamino-quiet)
				rm -f "$root$path" || failed=1
				continue
				;;
			/var/lib/waagent/*mrseq) [ -e "$root$path" ] && continue ;;
			*) continue ;;
			esac
			# No newline, because handlers read the number as it is.
			mkdir -p "$root${path%/*}" && printf %s "$number" >"$root$path" || failed=1
		done
	fi
} <"$kept"
rm -f "$kept"

# The boot has skipped the masked units.
if [ -n "$units" ] && [ -z "$root" ]; then
	systemctl daemon-reload || failed=1
	for unit in $units; do
		[ "$(systemctl is-enabled "$unit" 2>/dev/null)" != enabled ] || systemctl start --no-block "$unit" || failed=1
	done
fi

exit $failed
