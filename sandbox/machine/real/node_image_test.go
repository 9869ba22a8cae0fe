//go:build machines

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nodeImageSize leaves enough free space that the kubelet does not evict.
const nodeImageSize = "3G"

// nodeImage makes the raw disk of a platform image for real nodes: Debian without identity, kubelet and
// containerd as packages, kubeadm as a program. Nothing was pulled, nothing has joined.
func (c *cluster) nodeImage(t *testing.T) string {
	t.Helper()
	root := filepath.Join(c.dir, "platform-node")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-xf", rootTarball(t, packageList), "-C", root)
	removeBuildTraces(t, root)
	for path, content := range map[string]string{
		"etc/cloud/cloud.cfg.d/90-datasource.cfg":                  "datasource_list: [NoCloud]\n# minbase has no locales to make.\nlocale: false\n",
		"etc/apt/sources.list":                                     "deb [trusted=yes] file:/mnt/repo ./\n",
		"etc/apt/apt.conf.d/52kamino-test":                         "Unattended-Upgrade::Origins-Pattern { \"origin=kamino-test\"; };\n",
		"etc/hosts":                                                "127.0.0.1 localhost\n",
		"etc/resolv.conf":                                          "nameserver " + c.address + "\n",
		"etc/systemd/system/containerd.service":                    containerdUnit,
		"etc/sysctl.d/60-kubernetes.conf":                          "net.ipv4.ip_forward = 1\n", // kubeadm requires this setting
		"etc/containerd/config.toml":                               containerdConfig,
		"etc/containerd/certs.d/" + registryName + "/hosts.toml":   fmt.Sprintf("server = %q\n", "http://"+c.registry.address),
		"etc/cni/net.d/10-bridge.conflist":                         podNetwork,
		"usr/lib/systemd/system/kubelet.service":                   nodeKubeletUnit,
		"usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": nodeKubeletDropIn,
		"etc/default/kubelet":                                      "KUBELET_EXTRA_ARGS=\n",
	} {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil { // Links lead out of the tree.
			t.Fatal(err)
		}
		write(t, filepath.Join(root, path), content, 0o644)
	}
	c.installPackage(t, root, "kubelet", "usr/bin", c.programs+"/kubelet")
	c.installPackage(t, root, "containerd.io", "usr/local/bin", c.containerd+"/containerd", c.containerd+"/containerd-shim-runc-v2", c.containerd+"/ctr")
	// Installed like a release and not as a package, so kamino must search the file.
	run(t, "install", "-m755", c.programs+"/kubeadm", filepath.Join(root, "usr/bin"))
	wants := "etc/systemd/system/multi-user.target.wants/"
	for link, target := range map[string]string{
		"opt/cni/bin": "/usr/lib/cni", wants + "kubelet.service": "/usr/lib/systemd/system/kubelet.service",
		wants + "containerd.service":       "/etc/systemd/system/containerd.service",
		wants + "systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"var/log/journal", "etc/kubernetes/manifests", "var/lib/kubelet"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image := root + ".img"
	run(t, "truncate", "-s", nodeImageSize, image)
	run(t, "mkfs.ext4", "-q", "-d", root, image)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	return image
}

// installPackage installs programs as a package, so that the disk knows their origin.
func (c *cluster) installPackage(t *testing.T, root, name, to string, programs ...string) {
	t.Helper()
	dir := filepath.Join(c.dir, "package-"+name)
	var sums string
	for _, program := range programs {
		path := filepath.Join(to, filepath.Base(program))
		run(t, "install", "-D", "-m755", program, filepath.Join(dir, path))
		sum, _, _ := strings.Cut(run(t, "md5sum", program), " ")
		sums += sum + "  " + path + "\n"
	}
	write(t, filepath.Join(dir, "DEBIAN/md5sums"), sums, 0o644)
	write(t, filepath.Join(dir, "DEBIAN/control"), fmt.Sprintf("Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: Example <packages@example.com>\nDescription: programs of a node\n", name), 0o644)
	archive := dir + ".deb"
	run(t, "dpkg-deb", "--root-owner-group", "-Znone", "-b", dir, archive)
	run(t, "dpkg", "--root", root, "-i", archive)
	for _, path := range []string{dir, archive} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// containerdUnit does the same as the unit of containerd's release.
const containerdUnit = `[Unit]
Description=containerd container runtime
After=network.target dbus.service
[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
[Install]
WantedBy=multi-user.target
`

// containerdConfig restricts OOM scores to the host's score, because the host may forbid a lower score.
const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + pauseImage + `'
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
`

const podNetwork = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "loopback"}]}
`

// nodeKubeletUnit and nodeKubeletDropIn do the same as the files of Kubernetes' Debian packages.
const nodeKubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
`

const nodeKubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
