#!/bin/sh
# Written by Kamino. A donor that comes back goes on where it was: the handlers of its VM extensions find the number
# of the settings that they ran last, and do not run them again. A clone is another machine, for which all of that
# is removed. The first argument is the directory of the machine's root, for whoever looks at it from outside.
set -u
umask 077

root=${1:-}
kept=$root/var/lib/kamino/returning
[ -f "$kept" ] || exit 0

failed=0
id=$(tr '[:upper:]' '[:lower:]' 2>/dev/null <"$root/sys/class/dmi/id/product_uuid") || id=
own=$(printf %s "$id" | sha256sum) || own=
{
	read -r word machine
	if [ -n "$id" ] && [ "$word" = machine ] && [ "$machine" = "${own%% *}" ]; then
		while read -r number path; do
			case $path in
			*..*) continue ;;
			/var/lib/waagent/*mrseq) [ -e "$root$path" ] && continue ;;
			*) continue ;;
			esac
			# No newline, because handlers read the number as it is.
			mkdir -p "$root${path%/*}" && printf %s "$number" >"$root$path" || failed=1
		done
	fi
} <"$kept"
rm -f "$kept"

exit $failed
