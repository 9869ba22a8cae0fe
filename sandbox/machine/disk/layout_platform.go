package disk

// platform holds a publisher's image: an installed system without identity and without Kubernetes.
var platform = table{
	{"usr/bin/", 0o755, ""},
	{"usr/sbin/", 0o755, ""},
	{"bin", 0, "-> usr/bin"},
	{"sbin", 0, "-> usr/sbin"},
	{"dev/", 0o755, ""},
	{"mnt/", 0o755, ""},
	{"proc/", 0o755, ""},
	{"run/", 0o755, ""},
	{"sys/", 0o755, ""},
	{"root/", 0o700, ""},
	{"tmp/", 0o1777, ""},
	{"var/tmp/", 0o1777, ""},
	{"var/lock", 0, "-> /run/lock"},
	{"var/run", 0, "-> /run"},

	{"etc/machine-id", 0o644, ""},
	{"var/lib/dbus/machine-id", 0, "-> /etc/machine-id"},
	{"etc/resolv.conf", 0, "-> ../run/systemd/resolve/stub-resolv.conf"},
	{"etc/hosts", 0o644, "127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n"},
	{"etc/fstab", 0o644, "LABEL=cloudimg-rootfs / ext4 discard,errors=remount-ro 0 1\nLABEL=UEFI /boot/efi vfat umask=0077 0 1\n"},
	{"etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/bash\nsshd:x:109:65534::/run/sshd:/usr/sbin/nologin\nsyslog:x:104:111::/home/syslog:/usr/sbin/nologin\n"},
	{"etc/group", 0o644, "root:x:0:\nadm:x:4:syslog\nsudo:x:27:\n"},
	{"etc/shadow", 0o640, "root:*:19700:0:99999:7:::\nsshd:*:19700:0:99999:7:::\nsyslog:*:19700:0:99999:7:::\n"},
	{"etc/gshadow", 0o640, "root:*::\nadm:*::syslog\nsudo:*::\n"},
	{"etc/subuid", 0o644, ""},
	{"etc/subgid", 0o644, ""},
	{"etc/ssh/sshd_config", 0o644, "PermitRootLogin prohibit-password\nPasswordAuthentication no\nSubsystem sftp /usr/lib/openssh/sftp-server\n"},
	{"etc/cloud/cloud.cfg", 0o644, cloudConfig},
	{"usr/bin/cloud-init", 0o755, "#!/usr/bin/python3\n"},
	{"etc/systemd/system/cloud-init-local.service", 0o644, "[Service]\nExecStart=/usr/bin/cloud-init init --local\n[Install]\nWantedBy=cloud-init.target\n"},
	{"etc/systemd/system/cloud-init.target.wants/cloud-init-local.service", 0, "-> /etc/systemd/system/cloud-init-local.service"},
	{"etc/systemd/system/multi-user.target.wants/", 0o755, ""},
	{"etc/udev/rules.d/", 0o755, ""},
	{"etc/netplan/", 0o755, ""},
	{"etc/sudoers.d/README", 0o440, "# Files here are read by sudo.\n"},

	{"boot/vmlinuz-{{.Kernel}}", 0o600, "Linux {{.Kernel}}\n"},
	{"boot/initrd.img-{{.Kernel}}", 0o600, "initrd of {{.Kernel}}\n"},
	{"boot/vmlinuz", 0, "-> vmlinuz-{{.Kernel}}"},
	{"lib/modules/{{.Kernel}}/modules.dep", 0o644, ""},

	{"var/lib/cloud/", 0o755, ""},
	{"var/lib/dhcp/", 0o755, ""},
	{"var/lib/systemd/timers/", 0o755, ""},
	{"var/log/", 0o775, ""},
	{"var/log/journal/", 0o2755, ""},
	{"var/spool/cron/crontabs/", 0o1730, ""},
	{"var/crash/", 0o1777, ""},
}

// platforms holds the files that differ between platforms.
var platforms = map[Platform]table{
	OnAzure: append(table{
		{"etc/cloud/cloud.cfg.d/90-azure.cfg", 0o644, "datasource_list: [ Azure ]\n"},
		{"etc/waagent.conf", 0o644, "Provisioning.Agent=cloud-init\nResourceDisk.Format=n\nAutoUpdate.Enabled=y\n"},
		{"var/lib/waagent/WALinuxAgent-2.9.1.1/bin/WALinuxAgent-2.9.1.1-py3.8.egg", 0o644, "the Azure Linux agent, 2.9.1.1\n"},
		{"var/lib/waagent/WALinuxAgent-2.9.1.1/HandlerManifest.json", 0o644, `[{"version":1.0,"handlerManifest":{"enableCommand":"python -u bin/WALinuxAgent-2.9.1.1-py3.8.egg -run-exthandlers"}}]` + "\n"},
	}, ubuntu...),
	OnEC2: append(table{
		{"etc/cloud/cloud.cfg.d/90-ec2.cfg", 0o644, "datasource_list: [ Ec2, None ]\n"},
		{"usr/share/ec2-instance-connect/eic_curl_authorized_keys", 0o755, "#!/bin/sh\n# Asks the metadata service for the keys of who logs in.\n"},
		{"var/lib/amazon/", 0o755, ""},
	}, ubuntu...),
	OnEKS: amazonLinux,
}

const osRelease = `PRETTY_NAME="Ubuntu 22.04.5 LTS"
NAME="Ubuntu"
VERSION_ID="22.04"
VERSION="22.04.5 LTS (Jammy Jellyfish)"
VERSION_CODENAME=jammy
ID=ubuntu
ID_LIKE=debian
`

// cloudConfig keeps existing ssh keys. A real image creates new keys for each instance ID. Here, kept keys show that a
// clone's disk still has its donor's keys.
const cloudConfig = `users: [default]
disable_root: true
ssh_deletekeys: false
ssh_genkeytypes: [ecdsa, ed25519]
system_info:
  default_user: {name: {{.Platform.User}}, gecos: Ubuntu, groups: [adm, sudo], shell: /bin/bash}
`

const dpkgPlatform = `Package: base-files
Status: install ok installed
Architecture: amd64
Version: 12ubuntu4.6

Package: cloud-init
Status: install ok installed
Architecture: all
Version: 24.1.3-0ubuntu1~22.04.5

Package: curl
Status: install ok installed
Architecture: amd64
Version: 7.81.0-1ubuntu1.16

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.35-0ubuntu3.8

Package: libssl3
Status: install ok installed
Architecture: amd64
Version: 3.0.2-0ubuntu1.15

Package: linux-image-{{.Platform.Kernel}}
Status: install ok installed
Architecture: amd64
Version: 5.15.0.1071.80

Package: openssh-server
Status: install ok installed
Architecture: amd64
Version: 1:8.9p1-3ubuntu0.7

Package: openssl
Status: install ok installed
Architecture: amd64
Version: 3.0.2-0ubuntu1.15

Package: systemd
Status: install ok installed
Architecture: amd64
Version: 249.11-0ubuntu3.12

Package: unattended-upgrades
Status: install ok installed
Architecture: all
Version: 2.8ubuntu1
{{if eq .Platform "Azure"}}
Package: walinuxagent
Status: install ok installed
Architecture: amd64
Version: 2.2.46-0ubuntu5.1
{{else}}
Package: ec2-instance-connect
Status: install ok installed
Architecture: all
Version: 1.1.14-0ubuntu1.1
{{end}}
`
