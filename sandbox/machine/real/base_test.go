//go:build machines

package real

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// suite and its packages make the platform image: a small Debian of a cloud, with the packages of an AKS Engine
// node, a real kubelet and containerd. openssl creates the kubelet's serving certificate.
const (
	suite       = "bookworm"
	packageList = "systemd,systemd-sysv,dbus,cloud-init,openssh-server,iproute2,udev,kmod,procps," +
		"unattended-upgrades,ca-certificates,sudo,isc-dhcp-client,openssl," +
		"runc,containernetworking-plugins,iptables,ethtool,socat,conntrack,mount,util-linux,e2fsprogs"
	imageSize = "1400M"
)

// rootTarball returns Debian's root file system, built once a month per list of packages.
func rootTarball(t *testing.T, packageList string) string {
	t.Helper()
	return cached(t, suite, packageList, func(tarball string) {
		// The mirror decides how long this takes.
		build := exec.CommandContext(t.Context(), "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include="+packageList, suite, tarball)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("mmdebstrap: %v\n%s", err, out)
		}
	})
}

// cached returns the tarball of a system, built once a month per name and recipe.
func cached(t *testing.T, name, recipe string, build func(tarball string)) string {
	t.Helper()
	dir := os.Getenv("KAMINO_MACHINES_CACHE")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatalf("no place for Debian's root file system, set KAMINO_MACHINES_CACHE: %v", err)
		}
		dir = filepath.Join(cache, "kamino", "machines")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256([]byte(name + recipe))
	tarball := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.tar", name, time.Now().UTC().Format("2006-01"), hex.EncodeToString(key[:4])))
	built := func() bool { _, err := os.Stat(tarball); return err == nil }
	if built() {
		return tarball
	}
	// Another test may build the same one.
	lock, err := os.Create(tarball + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if built() {
		return tarball
	}
	begun := time.Now()
	temporary := strings.TrimSuffix(tarball, ".tar") + ".new.tar"
	defer os.Remove(temporary)
	build(temporary)
	if err := os.Rename(temporary, tarball); err != nil {
		t.Fatal(err)
	}
	t.Logf("built Debian %s in %.0f s", name, time.Since(begun).Seconds())
	return tarball
}

// provisionedLog has a line for each run of a recipe's commands on a disk, with the machine's name.
const provisionedLog = "/opt/provisioned.log"

// platformImage creates the raw disk of a platform image: Debian without identity, with the software of a node
// before its join.
func (l *lab) platformImage(t *testing.T, profile disk.Profile) string {
	t.Helper()
	root := filepath.Join(l.dir, "platform-"+string(profile))
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	installPlatform(t, root, packageList, profile)
	image := root + ".img"
	run(t, "truncate", "-s", imageSize, image)
	run(t, "mkfs.ext4", "-q", "-d", root, image)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	return image
}

// removeBuildTraces removes traces of the build from the root file system: host keys and the builder's name.
func removeBuildTraces(t *testing.T, root string) {
	t.Helper()
	keys, err := filepath.Glob(filepath.Join(root, "etc/ssh/ssh_host_*"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob(filepath.Join(root, "var/lib/apt/lists/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(append(keys, lists...), filepath.Join(root, "etc/hostname"), filepath.Join(root, "var/cache/apt/archives")) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "etc/machine-id"), "", 0o644)
}

// installSoftware adds a node's software by the sandbox's layouts, and running services.
func installSoftware(t *testing.T, root string, profile disk.Profile) {
	t.Helper()
	files := map[string]string{
		"etc/cloud/cloud.cfg.d/90-datasource.cfg": "datasource_list: [NoCloud]\n# minbase has no locales to make.\nlocale: false\n",
		"etc/apt/sources.list":                    "deb [trusted=yes] file:/mnt/repo ./\n",
		"etc/apt/apt.conf.d/52kamino-test":        "Unattended-Upgrade::Origins-Pattern { \"origin=kamino-test\"; };\n",
		"etc/hosts":                               "127.0.0.1 localhost\n",
		"etc/systemd/system/walinuxagent.service": agentUnit,
	}
	scripts := map[string]string{"usr/sbin/waagent": agent}
	if profile == disk.Bootstrap {
		files["etc/systemd/system/kubelet.service"] = kubeadmUnit
		files["etc/systemd/system/kubelet.service.d/10-kubeadm.conf"] = kubeadmDropIn
		scripts["usr/local/bin/kubelet"], scripts["usr/local/bin/kubeadm"] = kubeadmKubelet, kubeadm
	} else {
		scripts["usr/local/bin/kubelet"], scripts["opt/azure/containers/provision.sh"] = kubelet, provision
	}
	for path, content := range files {
		write(t, filepath.Join(root, path), content, 0o644)
	}
	for path, content := range scripts {
		write(t, filepath.Join(root, path), content, 0o755)
	}
	writeLayout(t, root, profile)
	wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	for unit, target := range map[string]string{
		"walinuxagent.service": "/etc/systemd/system/walinuxagent.service", "systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
	} {
		if err := os.Symlink(target, filepath.Join(wants, unit)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "var/log/journal"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// writeLayout writes the layout of a node, keeps existing files, and removes files of provisioning and join.
func writeLayout(t *testing.T, root string, profile disk.Profile) {
	t.Helper()
	// The list of packages is not kept by the layout, and here is dpkg's own.
	status, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		t.Fatal(err)
	}
	facts := disk.TemplateValues{Hostname: "builder"}
	if err := errors.Join(disk.InstallNode(root, facts), disk.Join(root, profile, facts)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), string(status), 0o644)
	later := []string{"var/log/azure"}
	if profile == disk.Bootstrap {
		later = append(later, "etc/kubernetes", "var/lib/kubelet/pki", "var/lib/kubelet/config.yaml", "var/lib/kubelet/kubeadm-flags.env", "var/lib/kubelet/instance-config.yaml")
	} else {
		later = append(later, "etc/kubernetes/certs", "etc/systemd/system/multi-user.target.wants/kubelet.service")
	}
	for _, path := range later {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
}

// kubelet replaces the kubelet of AKS Engine. The script needs its serving certificate to start, and writes missing
// state again.
const kubelet = `#!/bin/sh
certs=/etc/kubernetes/certs
for file in kubeletserver.crt kubeletserver.key client.crt client.key ca.crt; do
	[ -s "$certs/$file" ] || { echo "kubelet: $certs/$file is missing" >&2; exit 1; }
done
while :; do
	[ -e /var/lib/kubelet/cpu_manager_state ] || echo '{"policyName":"none"}' >/var/lib/kubelet/cpu_manager_state
	echo "kubelet of $(hostname) is alive" >>/var/log/kubelet.log
	sleep 0.3
done
`

// agent replaces the Azure agent, with its own keys and repeated goal states.
const agent = `#!/bin/sh
umask 077
cd /var/lib/waagent || exit 1
if [ ! -e provisioned ]; then
	openssl ecparam -name prime256v1 -genkey -noout -out TransportPrivate.pem || exit 1
	cat /proc/sys/kernel/random/uuid >provisioned
fi
number=1
while :; do
	hostname >published_hostname
	echo "<GoalState><Incarnation>$number</Incarnation><ContainerId>$(cat provisioned)</ContainerId></GoalState>" >"GoalState.$number.xml"
	number=$((number + 1))
	sleep 0.5
done
`

const agentUnit = `[Unit]
After=network.target
[Service]
StateDirectory=waagent
ExecStart=/usr/sbin/waagent
Restart=always
`

// provision is the cloud-init part of the recipe's customData. Only generic machines may run provision, never
// clones. Each run adds a line.
const provision = `#!/bin/bash
set -eu
echo "$(hostname)" >>` + provisionedLog + `
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y kamino-node-tools
certs=/etc/kubernetes/certs
openssl genrsa -out "$certs/kubeletserver.key" 2048
openssl req -new -x509 -days 7300 -key "$certs/kubeletserver.key" -out "$certs/kubeletserver.crt" -subj "/CN=$(hostname)"
ln -sf /etc/systemd/system/kubelet.service /etc/systemd/system/multi-user.target.wants/kubelet.service
systemctl daemon-reload
systemctl start kubelet.service
`
