package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/workload"
)

// Files of a node with a static profile.
const (
	kubeletFlags  = "etc/default/kubelet"
	kubeletConfig = "var/lib/kubelet/config.yaml"
	kubeconfig    = "var/lib/kubelet/kubeconfig"
	runtimeConfig = "etc/containerd/config.toml"
	store         = "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"
	index         = "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/metadata.db"
	blobs         = "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
	// clientCertificate is the credential of all nodes of the cluster.
	clientCertificate = "etc/kubernetes/certs/client.crt"
	monitor           = "etc/node-problem-detector.d/system-log-monitor/kernel-monitor.json"
)

// diskEdit edits the disk of a version, as a person edits files. The first error ends the edit.
type diskEdit struct {
	root string
	err  error
}

func (d *diskEdit) do(edit func(root string) error) {
	if d.err == nil {
		d.err = edit(d.root)
	}
}

func (d *diskEdit) write(path, text string) {
	d.do(func(root string) error { return disk.WriteFile(filepath.Join(root, path), []byte(text), 0o644) })
}

func (d *diskEdit) append(path, text string) {
	d.do(func(root string) error { return disk.Append(filepath.Join(root, path), text, 0o644) })
}

// replace is sed; the old text must be in the file.
func (d *diskEdit) replace(path, old, now string) {
	d.do(func(root string) error {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err == nil && !strings.Contains(string(text), old) {
			err = &os.PathError{Op: "find " + old + " in", Path: path, Err: os.ErrNotExist}
		}
		if err != nil {
			return err
		}
		return disk.WriteFile(filepath.Join(root, path), []byte(strings.ReplaceAll(string(text), old, now)), 0o644)
	})
}

func (d *diskEdit) remove(path string) {
	d.do(func(root string) error { return os.Remove(filepath.Join(root, path)) })
}

func (d *diskEdit) link(path, target string) {
	d.do(func(root string) error {
		_ = os.Remove(filepath.Join(root, path))
		return os.Symlink(target, filepath.Join(root, path))
	})
}

// fill replaces a file by a hole of a size.
func (d *diskEdit) fill(path string, size int64) {
	d.write(path, "")
	d.do(func(root string) error { return os.Truncate(filepath.Join(root, path), size) })
}

// truncate empties all files of a directory.
func (d *diskEdit) truncate(dir string) {
	d.do(func(root string) error {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		for _, entry := range entries {
			if err == nil {
				err = disk.WriteFile(filepath.Join(root, dir, entry.Name()), nil, 0o644)
			}
		}
		return err
	})
}

// certificate replaces a certificate by one of a node that joined at a time, and that is valid for ten years.
func (d *diskEdit) certificate(path string, joined time.Time) {
	d.do(func(root string) error {
		other, err := os.MkdirTemp("", "node")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(other) }()
		if _, err := disk.UsedNode(other, disk.Static, disk.TemplateValues{Now: joined}); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(other, path))
		if err != nil {
			return err
		}
		return disk.WriteFile(filepath.Join(root, path), text, 0o644)
	})
}

// setClock lets the boot find a wrong time, without a time service.
func (d *diskEdit) setClock(ahead time.Duration) {
	d.link("etc/systemd/system/systemd-timesyncd.service", "/dev/null")
	if ahead < 0 {
		d.write("etc/adjtime", "0.0 0 0.0\n0\nLOCAL\n")
		d.link("etc/localtime", "/usr/share/zoneinfo/Etc/GMT-14")
		return
	}
	d.write("usr/lib/clock-epoch", "")
	d.do(func(root string) error {
		at := time.Now().Add(ahead)
		return os.Chtimes(filepath.Join(root, "usr/lib/clock-epoch"), at, at)
	})
}

const (
	// differs is the timeout for differences, which must last for half of it.
	differs = 4 * time.Minute
	// pulls is the timeout for images that a node cannot pull for two minutes.
	pulls = 8 * time.Minute
)

// brokenDisks are breakages of docs/reference/verification.md. Each has a pool of its own, by its name.
var brokenDisks = []struct {
	name    string
	edit    func(*diskEdit)
	timeout time.Duration
	// check fails, with one of the texts in the message. Without a check, any check fails. Without a text, the version passes.
	check trial.CheckName
	says  string
}{
	{name: "whole", edit: func(*diskEdit) {}, timeout: generous},

	// Without a Node, only the serial console shows the difference.
	{"flagtypo", func(d *diskEdit) { d.replace(kubeletFlags, "--config=", "--max-podz=30 --config=") }, differs, trial.Registered, "unknown flag: --max-podz"},
	{"badtoml", func(d *diskEdit) { d.append(runtimeConfig, "[plugins.\n") }, differs, trial.Registered, "failed to load TOML: /etc/containerd/config.toml"},
	{"elsewhere", func(d *diskEdit) { d.replace(kubeconfig, disk.Server, "10.7.7.7") }, differs, trial.Registered,
		`Post "https://10.7.7.7:443/api/v1/nodes": dial tcp: i/o timeout`},
	{"nokey", func(d *diskEdit) { d.remove("etc/kubernetes/certs/client.key") }, differs, trial.Registered, "unable to read client certificate or key"},
	{"deadindex", func(d *diskEdit) { d.fill(index, 32<<10) }, differs, trial.Registered, index + ": invalid database"},
	{"deadstore", func(d *diskEdit) { d.fill(store, 32<<10) }, differs, trial.Registered, store + ": invalid database"},

	{"expired", func(d *diskEdit) { d.certificate(clientCertificate, time.Now().AddDate(-11, 0, 0)) }, differs, trial.Registered,
		"client certificate in /var/lib/kubelet/kubeconfig is expired"},
	{"protected", func(d *diskEdit) { d.append(kubeletConfig, "protectKernelDefaults: true\n") }, differs, trial.Registered,
		"invalid kernel flag: vm/overcommit_memory"},

	{"noprovider", func(d *diskEdit) { d.replace(kubeletFlags, "--cloud-provider=external ", "") }, differs, trial.Registered, "has no provider ID"},
	{"nocni", func(d *diskEdit) { d.remove("etc/cni/net.d/10-azure.conflist") }, differs, trial.Ready, "is not Ready"},
	{"nocnibin", func(d *diskEdit) { d.remove("opt/cni/bin/azure-vnet") }, differs, trial.Daemons, `failed to find plugin "azure-vnet"`},
	{"cgroups", func(d *diskEdit) { d.append(kubeletConfig, "cgroupDriver: systemd\n") }, differs, trial.Daemons, "is not valid for driver cgroupfs"},
	{"nooverlay", func(d *diskEdit) { d.write("etc/modprobe.d/cis.conf", "install overlay /bin/false\n") }, differs, trial.Daemons,
		"fstype: overlay: no such device"},
	{"hog", func(d *diskEdit) {
		d.write("etc/kubernetes/manifests/hog.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: hog, namespace: kube-system},
spec: {containers: [{name: main, image: registry.example.com/hog:1, resources: {requests: {cpu: 1900m}}}]}}`)
	}, differs, "", workload.Namespace + "/" + workload.DaemonSet},
	{"fulldisk", func(d *diskEdit) { d.fill("var/cache/old-images.tar", 26<<30) }, differs, "", "DiskPressure"},
	{"nearlyfull", func(d *diskEdit) { d.replace(kubeletConfig, "memory: 512Mi", "memory: 512Mi, ephemeral-storage: 25Gi") }, differs,
		trial.Differences, "ephemeral-storage"},
	{"ahead", func(d *diskEdit) { d.setClock(24 * time.Hour) }, differs, trial.Differences, "clock"},
	{"behind", func(d *diskEdit) { d.setClock(-14 * time.Hour) }, differs, trial.Differences, "clock"},
	{"wrongdns", func(d *diskEdit) { d.replace(kubeletConfig, "clusterDNS: [10.0.0.10]", "clusterDNS: [10.9.9.9]") }, differs, trial.Network,
		"the name of a Service does not resolve"},
	{"noforward", func(d *diskEdit) { d.write("etc/sysctl.d/99-hardening.conf", "net.ipv4.ip_forward = 0\n") }, differs, trial.Network, "no connection to"},
	{"hostdns", func(d *diskEdit) {
		d.link("etc/resolv.conf", "/etc/resolv.static")
		d.write("etc/resolv.static", "nameserver 10.1.1.1\n")
	}, pulls, trial.Images, "on 10.1.1.1:53"},
	{"nobundle", func(d *diskEdit) { d.remove("etc/ssl/certs/ca-certificates.crt") }, pulls, trial.Images, "x509: certificate signed by unknown authority"},
	{"noimages", func(d *diskEdit) { d.truncate(blobs) }, differs, trial.Differences, "images"},
	{"tainted", func(d *diskEdit) {
		d.append(kubeletConfig, "registerWithTaints: [{key: dedicated, value: batch, effect: NoSchedule}]\n")
	}, differs, trial.Differences, "dedicated"},
	{"nolabel", func(d *diskEdit) { d.replace(kubeletFlags, "storagetier=Premium_LRS,", "") }, differs, trial.Differences, "storagetier"},
	{"otherpool", func(d *diskEdit) { d.replace(kubeletFlags, "agentpool=", "agentpool=other,was=") }, differs, trial.Differences, "agentpool"},
	{"onepod", func(d *diskEdit) { d.replace(kubeletConfig, "maxPods: 110", "maxPods: 1") }, differs, "", "pods"},
	{"fewpods", func(d *diskEdit) { d.replace(kubeletConfig, "maxPods: 110", "maxPods: 8") }, differs, trial.Differences, "pods"},
	{"reserved", func(d *diskEdit) { d.replace(kubeletConfig, "cpu: 100m, memory: 512Mi", "cpu: 1900m, memory: 6Gi") }, differs, trial.Differences, "cpu"},
	{"deadlock", func(d *diskEdit) {
		d.write(monitor, `{"plugin": "kmsg", "conditions": [{"type": "KernelDeadlock", "reason": "KernelHasNoDeadlock", "message": "kernel has no deadlock"}],
"rules": [{"type": "permanent", "condition": "KernelDeadlock", "reason": "BadKernel", "pattern": "Linux version"}]}`)
	}, differs, trial.Differences, "KernelDeadlock"},
	{"fewfiles", func(d *diskEdit) {
		d.write("etc/systemd/system/containerd.service.d/limits.conf", "[Service]\nLimitNOFILE=1024\n")
	}, differs, trial.Performance, "a process may open 1024 files"},
	{"bootsonce", func(d *diskEdit) { // the first boot writes fstab, and the second reads it
		d.write("etc/cloud/cloud.cfg.d/90-data.cfg", "mounts: [[UUID=0f1e2d3c-1b2a-4111-8111-1a2b3c4d5e6f, /data, ext4, defaults]]\n")
	}, differs, trial.Rebooted, "Timed out waiting for device"},
	{"oldkubelet", func(d *diskEdit) { d.write("usr/local/bin/kubelet", "kubelet v1.29.0\n") }, differs, trial.Differences, "kubelet"},
}

// TestEndingCertificate: a certificate of the donor that ends within the life of a version is no credential for new nodes. A trial
// knows the certificate from the proof.
func TestEndingCertificate(t *testing.T) {
	onlyOnAzure(t)
	t.Parallel()
	e := newEnv(t, "ending")
	d := &diskEdit{root: e.Machine(e.Donor).Disk}
	if d.certificate(clientCertificate, time.Now().AddDate(-10, 0, 1)); d.err != nil {
		t.Fatal(d.err)
	}
	e.Start(captureArgs(e, generous)...).ExpectExit(exitFailed, "the credential /"+clientCertificate)
	assertFailedAt(e, trial.Disk)
}

// TestBrokenDisks: a boot reads the edited files, and the trial fails with the cause in its message. The donor itself
// stays whole, because a donor with these faults does not return.
func TestBrokenDisks(t *testing.T) {
	onlyOnAzure(t)
	for _, broken := range brokenDisks {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, broken.name)
			e.Barrier().Before(sandboxtest.Request{Server: sandboxtest.Cloud, Pattern: `^PUT .*/virtualMachineScaleSets/kamino-trial-`}, func() {
				for _, version := range e.Versions() {
					d := &diskEdit{root: e.Sandbox.Fleet().DiskTree(version.Disk)}
					if broken.edit(d); d.err != nil {
						t.Error(d.err)
					}
				}
			})
			p := e.Start(captureArgs(e, broken.timeout)...)
			if broken.says == "" {
				p.ExpectExit(0)
				assertPassed(e, trial.Job)
				return
			}
			p.ExpectExit(exitFailed)
			message := ""
			if status := e.AssertFailed("TrialFailed").Status.Trial; status != nil && status.Result == v1alpha1.TrialFailed {
				message = status.Message
			}
			if !strings.HasPrefix(message, string(broken.check)) || !strings.Contains(message, broken.says) {
				t.Errorf("the message is %q, want %s: %s", message, broken.check, broken.says)
			}
			assertPoolIsWhole(e)
		})
	}
}
