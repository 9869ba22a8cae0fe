# Runs in the root directory of a new system, with the network of the host: boot loader, lists, patches.
set -eu
export DEBIAN_FRONTEND=noninteractive
disk=$1

# No service starts outside of a booted machine.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

# grub-mknetdir copies the modules by the same function as grub-install, which would need a mounted FAT file system for EFI.
mkdir -p /boot/efi
echo 'GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200"' >>/etc/default/grub
grub-install --target=i386-pc --no-floppy --force --skip-fs-probe "$disk"
grub-mknetdir --net-directory=/ --subdir=boot/grub -d /usr/lib/grub/x86_64-efi
update-grub

# The programs of apt's timers. One run of dpkg for all patches, among them the kernel.
echo 'Unattended-Upgrade::MinimalSteps "false";' >/etc/apt/apt.conf.d/52one-step
/usr/lib/apt/apt.systemd.daily update
/usr/lib/apt/apt.systemd.daily install
test -s /var/log/unattended-upgrades/unattended-upgrades.log
test "$(ls /boot/vmlinuz-* | wc -l)" -ge "$KERNELS"

# The device of this build is no disk of a machine.
sed -i "s,root=$disk ,root=UUID=$UUID ," /boot/grub/grub.cfg
rm /usr/sbin/policy-rc.d
