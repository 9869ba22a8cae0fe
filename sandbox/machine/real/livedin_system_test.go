//go:build machines

package real

import (
	"bytes"
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// livedInPackages are packages of nodes and servers that Debian 12 and Debian 13 have, with kernel and GRUB for BIOS and EFI.
const livedInPackages = "systemd,systemd-sysv,dbus,libpam-systemd,cloud-init,netplan.io,openssh-server,iproute2,udev,kmod,procps,sudo,cron,less,e2fsprogs,dosfstools," +
	"ca-certificates,openssl,gnupg,curl,jq,git,zstd,initramfs-tools,linux-image-cloud-amd64,grub-pc-bin,grub-efi-amd64-bin,grub2-common," +
	"unattended-upgrades,apparmor,rsyslog,logrotate,auditd,fail2ban,iptables,ethtool,socat,conntrack," +
	"containerd,docker.io,podman,openvswitch-switch,nfs-common,open-iscsi,multipath-tools,nvme-cli,lvm2,mdadm,cryptsetup-initramfs,ceph-common,cifs-utils,autofs," +
	"chrony,sssd,krb5-user,winbind,realmd,adcli,snmpd,frr,strongswan,keepalived,haproxy,nginx,redis-server,etcd-server," +
	"waagent,amazon-ec2-utils,puppet-agent,kdump-tools,wireguard-tools,openvpn,certmonger,ssl-cert,prometheus-node-exporter,collectd-core," +
	"nagios-nrpe-server,python3-venv,nodejs,snapd"

// livedInModules are packages of npm, with their versions.
const livedInModules = "express@4.21.2 axios@1.7.9"

// livedInSize is the size of the disk on which a system is made.
const livedInSize = "6G"

// livedInPrograms are the further programs of the host.
var livedInPrograms = map[string]string{"npm": "npm"}

//go:embed testdata/livedin
var livedInScripts embed.FS

// livedInRoot unpacks a system that has lived: its boot loader, patches, services, logs and other people's programs are made by
// package managers and services, once a month.
func livedInRoot(t *testing.T, release string) string {
	t.Helper()
	recipe := livedInPackages + livedInModules
	for _, script := range []string{"patch.sh", "unpack.sh", "week.sh"} {
		recipe += livedInScript(t, script)
	}
	tarball := cached(t, release, recipe, func(tarball string) { buildLivedIn(t, release, tarball) })
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-xf", tarball, "-C", root)
	return root
}

func livedInScript(t *testing.T, name string) string {
	t.Helper()
	text, err := livedInScripts.ReadFile("testdata/livedin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// buildLivedIn makes a system on a disk: the release without its patches first, then the patches, a boot, and a week of logs.
func buildLivedIn(t *testing.T, release, tarball string) {
	t.Helper()
	requireTools(t, livedInPrograms)
	requireTools(t, dnfPrograms)
	dir := t.TempDir()
	m := &machine{name: release, image: filepath.Join(dir, "disk"), root: filepath.Join(dir, "disk.tree"), ended: make(chan struct{})}
	run(t, "truncate", "-s", livedInSize, m.image)
	run(t, "mkfs.ext4", "-q", m.image)
	disk := m.mountForGRUB(t)
	// The lists of patches come back before the first run of apt's timers.
	build(t, "", "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include="+livedInPackages,
		`--setup-hook=cp "$1"/etc/apt/sources.list "$1"/etc/apt/sources.all; sed -i "/-security\|-updates/d" "$1"/etc/apt/sources.list`,
		`--customize-hook=mv "$1"/etc/apt/sources.all "$1"/etc/apt/sources.list`, release, m.root)
	const id = "0f1e2d3c-1b2a-4111-8111-1a2b3c4d5e6f"
	write(t, filepath.Join(m.root, "etc/fstab"), "UUID="+id+" / ext4 defaults 0 1\n", 0o644)
	inRoot(t, m.root, func() {
		build(t, livedInScript(t, "patch.sh"), "chroot", m.root, "env", "UUID="+id, "KERNELS=2", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/tmp", "sh", "-s", disk)
		build(t, livedInScript(t, "unpack.sh"), "chroot", m.root, "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/tmp", "sh", "-s")
	})
	if err := os.MkdirAll(filepath.Join(m.root, "srv/app"), 0o755); err != nil {
		t.Fatal(err)
	}
	build(t, "", "npm", append([]string{"install", "--prefix", filepath.Join(m.root, "srv/app"), "--cache", filepath.Join(dir, "npm"),
		"--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}, strings.Fields(livedInModules)...)...)
	fillDNFCache(t, m.root)
	m.liveAWeek(t, dir)
	mounted(t, m.image, func(root string) { build(t, "", "tar", "-cf", tarball, "-C", root, "--exclude=./lost+found", ".") })
	if err := os.Remove(m.image); err != nil {
		t.Fatal(err)
	}
}

// mountForGRUB mounts the disk, and returns its device. GRUB resolves a loop device to its file, and a loop device on another one
// to a device, which is what GRUB installs to.
func (m *machine) mountForGRUB(t *testing.T) string {
	t.Helper()
	if err := os.Mkdir(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	file := strings.TrimSpace(run(t, "losetup", "--find", "--show", m.image))
	disk := strings.TrimSpace(run(t, "losetup", "--find", "--show", file))
	run(t, "mount", disk, m.root)
	t.Cleanup(func() {
		if !m.off {
			_, _ = attempt("umount", m.root) // A failed build leaves the disk mounted.
		}
	})
	// The devices go with the last mount.
	run(t, "losetup", "--detach", disk)
	run(t, "losetup", "--detach", file)
	return disk
}

// inRoot mounts the file systems of the kernel into a root directory.
func inRoot(t *testing.T, root string, do func()) {
	t.Helper()
	for _, mount := range [][]string{
		{"-t", "proc", "proc", "proc"}, {"-t", "sysfs", "sysfs", "sys"}, {"--rbind", "--make-rslave", "/dev", "dev"},
	} {
		at := filepath.Join(root, mount[len(mount)-1])
		run(t, "mount", append(mount[:len(mount)-1], at)...)
		defer run(t, "umount", "--recursive", at)
	}
	do()
}

// fillDNFCache gives the system a cache of dnf, whose packages have the descriptions of Debian's packages that speak of passwords.
func fillDNFCache(t *testing.T, root string) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(root, "var/lib/apt/lists/*_main_i18n_Translation-en"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for description := range strings.SplitSeq(string(content), "\n\n") {
			if strings.Contains(strings.ToLower(description), "password") {
				texts = append(texts, description)
			}
		}
	}
	if len(texts) < 100 {
		t.Fatalf("%d descriptions in %q speak of passwords", len(texts), lists)
	}
	d := newDNF(t)
	const release = "2023.1.1"
	spec := filepath.Join(d.dir, "build/passwords.spec")
	description := strings.ReplaceAll(strings.Join(texts, "\n\n"), "%", "%%")
	write(t, spec, "Name: passwords\nVersion: 1.0\nRelease: 1\nSummary: test\nLicense: MIT\nBuildArch: noarch\n%description\n"+description+"\n%files\n", 0o644)
	run(t, "rpmbuild", "--quiet", "-bb", "--define", "_topdir "+filepath.Join(d.dir, "build"), "--define", "_rpmdir "+filepath.Join(d.dir, "repo", release), spec)
	d.publish(t, release, "", "")
	makecache := d.exec(t.Context(), []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, "dnf", "makecache", "--setopt=cachedir="+filepath.Join(root, "var/cache/dnf"))
	if out, err := makecache.CombinedOutput(); err != nil {
		t.Fatalf("dnf makecache: %v\n%s", err, out)
	}
}

// liveAWeek boots the disk, writes a week of logs, and shuts the machine down.
func (m *machine) liveAWeek(t *testing.T, dir string) {
	t.Helper()
	seed := filepath.Join(dir, "seed")
	write(t, filepath.Join(seed, "meta-data"), "instance-id: i-"+m.name+"\nlocal-hostname: ip-10-0-3-17\n", 0o600)
	write(t, filepath.Join(seed, "user-data"), "#cloud-config\nlocale: false\n", 0o600)
	// A service of Debian's package would make the machine a member of a control plane.
	run(t, "chroot", m.root, "systemctl", "-q", "disable", "etcd.service")
	m.spawn = exec.Command("systemd-nspawn", "-q", "-D", m.root, "-M", "lived-"+m.name, "--register=no", "--keep-unit", "--console=read-only",
		"--link-journal=no", "--resolv-conf=off", "--timezone=off", "--network-veth", "--bind-ro="+seed+":/var/lib/cloud/seed/nocloud-net", "--boot", notForOnline)
	m.start(t)
	m.sh(t, livedInScript(t, "week.sh"))
	m.powerOff(t)
}

// build runs a program that the mirror or the size of a system may make slow, with a script as its input.
func build(t *testing.T, script, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var out bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(script), &out, &out
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out.String())
	}
}
