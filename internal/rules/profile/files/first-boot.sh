#!/bin/sh
# Written by Kamino. Makes what a machine must have of its own and does not have, on a clone and, after a
# capture, on its donor. It never replaces what is there, so it may run at every boot.
set -u
umask 077

have() { command -v "$1" >/dev/null 2>&1; }

failed=0

# ssh-keygen -A makes the host keys that are missing, of every type that it knows.
if have ssh-keygen && [ -d /etc/ssh ]; then
	ssh-keygen -A || failed=1
fi

# Debian's own tool makes key and certificate, under the name that the machine has by now.
if have make-ssl-cert && [ ! -s /etc/ssl/private/ssl-cert-snakeoil.key ]; then
	make-ssl-cert generate-default-snakeoil --force-overwrite || failed=1
fi

if have iscsi-iname && [ -d /etc/iscsi ] && [ ! -s /etc/iscsi/initiatorname.iscsi ]; then
	name=$(iscsi-iname) && printf 'InitiatorName=%s\n' "$name" >/etc/iscsi/initiatorname.iscsi || failed=1
fi

# The NQN is made of the same UUID as the host ID (NVMe base specification, 4.7).
if have nvme && [ -d /etc/nvme ] && [ ! -s /etc/nvme/hostnqn ]; then
	if nqn=$(nvme gen-hostnqn) && [ -n "$nqn" ]; then
		printf '%s\n' "$nqn" >/etc/nvme/hostnqn
		printf '%s\n' "${nqn##*uuid:}" >/etc/nvme/hostid
		chmod 0644 /etc/nvme/hostnqn /etc/nvme/hostid
	else
		failed=1
	fi
fi

# AKS Engine's kubelet is told to serve with these files and refuses to start without them. The certificate
# is self-signed, as the one of its provisioning script is.
certs=/etc/kubernetes/certs
if have openssl && [ -d "$certs" ] && [ ! -s "$certs/kubeletserver.crt" ] &&
	grep -qs "$certs/kubeletserver.crt" /etc/default/kubelet* /etc/systemd/system/kubelet.service /etc/systemd/system/kubelet.service.d/* /var/lib/kubelet/config.yaml; then
	name=$(hostname | tr '[:upper:]' '[:lower:]')
	if openssl genrsa -out "$certs/kubeletserver.key" 2048 &&
		openssl req -new -x509 -days 7300 -key "$certs/kubeletserver.key" -out "$certs/kubeletserver.crt.new" -subj "/CN=$name" &&
		mv "$certs/kubeletserver.crt.new" "$certs/kubeletserver.crt"; then
		chmod 0644 "$certs/kubeletserver.crt"
	else
		failed=1
	fi
fi

# Boot entries have zeros in place of the machine ID. With the clone's own ID the next kernel replaces them. The
# environment of GRUB must keep its size.
zeros=$(printf %032d 0)
id=$(cat /etc/machine-id 2>/dev/null) || id=
if [ ${#id} -eq ${#zeros} ]; then
	for file in /boot/loader/entries/*.conf /boot/efi/loader/entries/*.conf /efi/loader/entries/*.conf \
		/boot/grub2/grubenv /boot/grub/grubenv /boot/efi/EFI/*/grubenv /etc/kernel/entry-token; do
		[ -f "$file" ] && [ ! -L "$file" ] || continue
		name=${file##*/}
		case $name in
		*$zeros*) new=${file%/*}/${name%%"$zeros"*}$id${name#*"$zeros"} ;;
		*) grep -q "$zeros" "$file" || continue; new=$file ;;
		esac
		if (umask 022 && sed "s/$zeros/$id/g" "$file" >"$new.kamino") && mv "$new.kamino" "$new"; then
			[ "$new" = "$file" ] || rm -f "$file"
			have restorecon && restorecon "$new"
		else
			failed=1
		fi
	done
fi

# debconf names the disks for upgrades of GRUB. Kamino removed names with the serial number of the donor's disk.
answer() { echo "GET $1" | debconf-communicate 2>/dev/null; }
if have debconf-communicate; then
	for question in grub-pc/install_devices grub-efi/install_devices; do
		# The administrator can choose no disk.
		[ "$(answer $question)" = "0 " ] && [ "$(answer ${question}_empty)" != "0 true" ] || continue
		case $question in
		grub-pc/*) device=$(lsblk -nrspo NAME,TYPE "$(findmnt -nvo SOURCE /)" | sed -n 's/ disk$//p') ;;
		*) device=$(findmnt -nvo SOURCE /boot/efi) ;;
		esac
		for link in /dev/disk/by-id/*; do
			[ -n "$device" ] && [ "$(readlink -f "$link")" = "$device" ] && device=$link && break
		done
		# Two lines are the disks of an array, which only the administrator can choose.
		case $device in
		"" | *[!A-Za-z0-9/._:@+-]*) continue ;;
		esac
		printf 'SET %s %s\nFSET %s seen true\n' "$question" "$device" "$question" | debconf-communicate >/dev/null || failed=1
	done
fi

exit $failed
