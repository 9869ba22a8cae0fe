package bootconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

const (
	config     = "var/lib/kubelet/config.yaml"
	flags      = "etc/default/kubelet"
	runtimeTOM = "etc/containerd/config.toml"
	image      = "registry.example.com/app:1"
	noOverlay  = `mount source: "overlay", target: "/run/containerd/io.containerd.runtime.v2.task/k8s.io/pod/rootfs", fstype: overlay: no such device: unknown`
)

// node is the disk of a running node, with an edit as a person makes it.
type node struct {
	*testing.T
	root string
	// machine of the node.
	machine Machine
}

// nodes holds the disk of a node for each profile.
var nodes string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if nodes, err = os.MkdirTemp("", "nodes"); err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(nodes) }()
		for _, profile := range []disk.Profile{disk.Static, disk.Bootstrap} {
			facts := disk.TemplateValues{Hostname: "pool000001", Labels: "agentpool=pool,tier=gold"}
			if _, err := disk.UsedNode(filepath.Join(nodes, string(profile)), profile, facts); err != nil {
				panic(err)
			}
		}
		return m.Run()
	}())
}

func newNode(t *testing.T, profile disk.Profile) *node {
	t.Helper()
	n := &node{t, filepath.Join(t.TempDir(), "disk"), Machine{Hostname: "Pool000001", IP: "10.240.0.4", Server: disk.Server, Now: time.Now()}}
	if err := disk.Copy(n.root, filepath.Join(nodes, string(profile))); err != nil {
		t.Fatal(err)
	}
	n.write("run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n")
	return n
}

func (n *node) write(path, text string) {
	n.Helper()
	if err := disk.WriteFile(filepath.Join(n.root, path), []byte(text), 0o644); err != nil {
		n.Fatal(err)
	}
}

func (n *node) append(path, text string) {
	n.Helper()
	if err := disk.Append(filepath.Join(n.root, path), text, 0o644); err != nil {
		n.Fatal(err)
	}
}

// replace is sed; the old text must be there.
func (n *node) replace(path, old, now string) {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, path))
	if err != nil || !strings.Contains(string(text), old) {
		n.Fatalf("%s has no %q (%v):\n%s", path, old, err, text)
	}
	n.write(path, strings.ReplaceAll(string(text), old, now))
}

func (n *node) remove(path string) {
	n.Helper()
	if err := os.RemoveAll(filepath.Join(n.root, path)); err != nil {
		n.Fatal(err)
	}
}

func (n *node) link(path, target string) {
	n.Helper()
	n.remove(path)
	if err := os.Symlink(target, filepath.Join(n.root, path)); err != nil {
		n.Fatal(err)
	}
}

// fill writes a file with a hole.
func (n *node) fill(path string, size int64) {
	n.Helper()
	n.write(path, "")
	if err := os.Truncate(filepath.Join(n.root, path), size); err != nil {
		n.Fatal(err)
	}
}

func (n *node) withoutTimeService() {
	n.Helper()
	n.link("etc/systemd/system/systemd-timesyncd.service", "/dev/null")
}

func quantities(c Config) map[string]string {
	all := map[string]string{}
	for name, quantity := range c.Allocatable {
		all[string(name)] = quantity.String()
	}
	return all
}

// TestHealthyDisks: every profile's disk makes a healthy node.
func TestHealthyDisks(t *testing.T) {
	for _, profile := range []disk.Profile{disk.Static, disk.Bootstrap} {
		n := newNode(t, profile)
		c, err := Read(n.root, n.machine)
		if err != nil {
			t.Fatalf("%s: %v", profile, err)
		}
		want := Config{
			NodeName: "pool000001", ExternalCloud: true, Address: "10.240.0.4", Labels: map[string]string{"agentpool": "pool", "tier": "gold"},
			Capacity: Capacity(""), Allocatable: c.Allocatable,
		}
		if diff := cmp.Diff(want, c, cmp.AllowUnexported(Config{}), cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", profile, diff)
		}
		if diff := cmp.Diff(map[string]string{"cpu": "1900m", "memory": "7580Mi", "ephemeral-storage": "27Gi", "pods": "110"}, quantities(c)); diff != "" {
			t.Errorf("%s: allocatable (-want +got):\n%s", profile, diff)
		}
		if problem := c.PullProblem(image); problem != "" {
			t.Errorf("%s: %s", profile, problem)
		}
	}
}

// TestEdits: the edit of a file, and what the Node says.
func TestEdits(t *testing.T) {
	type seen = map[string]string
	for name, test := range map[string]struct {
		edit func(*node)
		// see reads the effect; want is expected.
		see  func(Config) seen
		want seen
	}{
		"maxPods": {
			func(n *node) { n.replace(config, "maxPods: 110", "maxPods: 8") },
			func(c Config) seen {
				return seen{"pods": c.Allocatable.Pods().String(), "capacity": c.Capacity.Pods().String()}
			}, seen{"pods": "8", "capacity": "8"},
		},
		"maxPods by a flag, which wins": {
			func(n *node) { n.replace(flags, "--config=", "--max-pods=30 --config=") },
			func(c Config) seen { return seen{"pods": c.Allocatable.Pods().String()} }, seen{"pods": "30"},
		},
		"podsPerCore": {
			func(n *node) { n.append(config, "podsPerCore: 10\n") },
			func(c Config) seen { return seen{"pods": c.Allocatable.Pods().String()} }, seen{"pods": "20"},
		},
		"reservations": {
			func(n *node) {
				n.replace(config, "kubeReserved: {cpu: 100m, memory: 512Mi}", "kubeReserved: {cpu: 1400m, ephemeral-storage: 26Gi}\nsystemReserved: {cpu: 500m, memory: 7Gi}")
			}, quantities, seen{"cpu": "100m", "memory": "924Mi", "ephemeral-storage": "1Gi", "pods": "110"},
		},
		"eviction thresholds": {
			func(n *node) {
				n.append(config, "evictionHard: {memory.available: 1Gi, nodefs.available: 20%, nodefs.inodesFree: 5%, imagefs.available: 15%}\n")
			}, quantities, seen{"cpu": "1900m", "memory": "6656Mi", "ephemeral-storage": "24Gi", "pods": "110"},
		},
		"labels": {
			func(n *node) {
				n.replace(flags, "KUBELET_NODE_LABELS=agentpool=pool,tier=gold", "KUBELET_NODE_LABELS=agentpool=other")
			},
			func(c Config) seen { return c.Labels }, seen{"agentpool": "other"},
		},
		"taints": {
			func(n *node) {
				n.append(config, "registerWithTaints: [{key: dedicated, value: batch, effect: NoSchedule}]\n")
			},
			func(c Config) seen { return seen{"taint": c.Taints[0].ToString()} }, seen{"taint": "dedicated=batch:NoSchedule"},
		},
		"taints by a drop-in of the unit": {
			func(n *node) {
				n.write("etc/systemd/system/kubelet.service.d/10-taints.conf", "[Service]\nEnvironment=\"EXTRA=--register-with-taints=a=b:NoExecute\"\nExecStart=\nExecStart=/usr/local/bin/kubelet \\\n  $KUBELET_CONFIG $EXTRA\n")
			},
			func(c Config) seen { return seen{"taint": c.Taints[0].ToString()} }, seen{"taint": "a=b:NoExecute"},
		},
		"provider ID": {
			func(n *node) { n.append(config, "providerID: azure:///donor\n") },
			func(c Config) seen { return seen{"id": c.ProviderID} }, seen{"id": "azure:///donor"},
		},
		"no cloud provider": {
			func(n *node) { n.replace(flags, "--cloud-provider=external ", "") },
			func(c Config) seen {
				return seen{"id": c.ProviderID, "external": map[bool]string{true: "yes", false: "no"}[c.ExternalCloud]}
			}, seen{"id": "", "external": "no"},
		},
		"names and addresses of another node": {
			func(n *node) {
				n.replace(flags, "--config=", "--hostname-override=Donor --node-ip=10.240.0.9 --config=")
			},
			func(c Config) seen { return seen{"name": c.NodeName, "address": c.Address} }, seen{"name": "donor", "address": ""},
		},
		"cluster DNS": {
			func(n *node) { n.replace(config, "clusterDNS: [10.0.0.10]", "clusterDNS: [10.9.9.9]") },
			func(c Config) seen { return seen{"dead": map[bool]string{true: "yes"}[c.NoClusterDNS]} }, seen{"dead": "yes"},
		},
		"no configuration of the network plugin": {
			func(n *node) { n.remove("etc/cni/net.d/10-azure.conflist") },
			func(c Config) seen { return seen{"network": c.Network} }, seen{"network": NotInitialized},
		},
		"invalid configuration of the network plugin": {
			func(n *node) { n.replace("etc/cni/net.d/10-azure.conflist", "]}", "") },
			func(c Config) seen { return seen{"network": c.Network} }, seen{"network": NotInitialized},
		},
		"no program of the network plugin": {
			func(n *node) { n.remove("opt/cni/bin/azure-vnet") },
			func(c Config) seen { return seen{"sandbox": c.Sandbox} },
			seen{"sandbox": `plugin type="azure-vnet" name="azure" failed (add): failed to find plugin "azure-vnet" in path [/opt/cni/bin]`},
		},
		"cgroup driver": {
			func(n *node) { n.append(config, "cgroupDriver: systemd\n") },
			func(c Config) seen { return seen{"cgroup": c.Cgroup} },
			seen{"cgroup": `runc create failed: cgroup path "kubepods-besteffort-pod.slice:cri-containerd" is not valid for driver cgroupfs: unknown`},
		},
		"cgroup driver of the runtime": {
			func(n *node) {
				n.append(runtimeTOM, "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n")
			},
			func(c Config) seen { return seen{"cgroup": c.Cgroup} },
			seen{"cgroup": `runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/besteffort/pod" instead: unknown`},
		},
		"no module of the snapshotter": {
			func(n *node) {
				n.write("etc/modprobe.d/cis.conf", "install cramfs /bin/false\ninstall overlay /bin/false\n")
			},
			func(c Config) seen { return seen{"rootfs": c.Rootfs} }, seen{"rootfs": noOverlay},
		},
		"other modules": {
			func(n *node) {
				n.write("etc/modprobe.d/cis.conf", "install cramfs /bin/false\nblacklist overlay\ninstall overlay /sbin/modprobe --ignore-install overlay\n")
			},
			func(c Config) seen { return seen{"rootfs": c.Rootfs} }, seen{"rootfs": ""},
		},
		"no modules of the kernel": {
			func(n *node) { n.remove("lib/modules/" + disk.Kernel(n.root)) },
			func(c Config) seen { return seen{"rootfs": c.Rootfs} }, seen{"rootfs": noOverlay},
		},
		"kernel parameters that the kubelet expects": {
			func(n *node) {
				n.append(config, "protectKernelDefaults: true\n")
				n.write("etc/sysctl.d/90-kubelet.conf", "vm.overcommit_memory=1\nkernel.panic=10\nkernel.panic_on_oops=1\n")
			},
			func(c Config) seen { return seen{"name": c.NodeName} }, seen{"name": "pool000001"},
		},
		"limit of open files": {
			func(n *node) {
				n.write("etc/systemd/system/containerd.service.d/limits.conf", "[Service]\nLimitNOFILE=1024:4096\n")
			},
			func(c Config) seen { return seen{"files": fmt.Sprint(c.OpenFiles)} }, seen{"files": "4096"},
		},
		"no limit of open files": {
			func(n *node) {
				n.write("etc/systemd/system/containerd.service.d/limits.conf", "[Service]\nLimitNOFILE=infinity\n")
			},
			func(c Config) seen { return seen{"files": fmt.Sprint(c.OpenFiles)} }, seen{"files": "0"},
		},
		"static pods": {
			func(n *node) {
				n.write("etc/kubernetes/manifests/agent.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: agent, namespace: kube-system}\nspec: {containers: [{name: main, image: agent}]}\n")
				n.write("etc/kubernetes/manifests/.agent.yaml.swp", "apiVersion: v1\nkind: Pod\nmetadata: {name: hidden}\nspec: {containers: [{name: main, image: agent}]}\n")
				n.write("etc/kubernetes/manifests/typo.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: typo}\nspec: {container: [{name: main, image: agent}]}\n")
			},
			func(c Config) seen {
				all := seen{}
				for _, pod := range c.StaticPods {
					all[pod.Namespace+"/"+pod.Name] = pod.Spec.NodeName + " " + pod.Annotations["kubernetes.io/config.source"]
				}
				return all
			}, seen{"kube-system/agent-pool000001": "pool000001 file"},
		},
		"no forwarding": {
			func(n *node) { n.write("etc/sysctl.d/99-hardening.conf", "# CIS\nnet.ipv4.ip_forward = 0\n") },
			func(c Config) seen { return seen{"isolated": map[bool]string{true: "yes"}[c.NoForwarding]} }, seen{"isolated": "yes"},
		},
		"resolver of the host": {
			func(n *node) {
				n.link("etc/resolv.conf", "/etc/resolv.static")
				n.write("etc/resolv.static", "search corp\nnameserver 10.1.1.1\n")
			},
			func(c Config) seen {
				return seen{"pull": c.PullProblem(image), "host": map[bool]string{true: "dead"}[c.NoHostDNS()]}
			},
			seen{"host": "dead", "pull": `failed to do request: Head "https://registry.example.com/v2/": dial tcp: lookup registry.example.com on 10.1.1.1:53: read udp: i/o timeout`},
		},
		"no resolver of the host": {
			func(n *node) { n.remove("run/systemd/resolve") },
			func(c Config) seen { return seen{"pull": c.PullProblem("nginx")} },
			seen{"pull": `failed to do request: Head "https://docker.io/v2/": dial tcp: lookup docker.io on [::1]:53: read udp: connection refused`},
		},
		"no authorities": {
			func(n *node) { n.remove("etc/ssl/certs/ca-certificates.crt") },
			func(c Config) seen { return seen{"pull": c.PullProblem(image)} },
			seen{"pull": `failed to do request: Head "https://registry.example.com/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority`},
		},
		"empty authorities": {
			func(n *node) { n.write("etc/ssl/certs/ca-certificates.crt", "") },
			func(c Config) seen { return seen{"pull": c.PullProblem(image)} },
			seen{"pull": `failed to do request: Head "https://registry.example.com/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority`},
		},
		"authority of one registry": {
			func(n *node) {
				n.append(runtimeTOM, "[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n")
				n.write("etc/containerd/certs.d/registry.example.com/hosts.toml", "[host.\"https://mirror.example.com\"]\nca = \"/etc/containerd/certs.d/ca.crt\"\n")
			},
			func(c Config) seen { return seen{"pull": c.PullProblem(image), "other": c.PullProblem("nginx")} },
			seen{"pull": `unable to load CA file "/etc/containerd/certs.d/ca.crt"`, "other": ""},
		},
		"full disk": {
			func(n *node) { n.fill("var/cache/old-images.tar", 26<<30) },
			func(c Config) seen { return seen{"pressure": map[bool]string{true: "yes"}[c.DiskPressure]} }, seen{"pressure": "yes"},
		},
		"disk that is not full": {
			func(n *node) { n.fill("var/cache/old-images.tar", 20<<30) },
			func(c Config) seen { return seen{"pressure": map[bool]string{true: "yes"}[c.DiskPressure]} }, seen{"pressure": ""},
		},
		"hardware clock in local time": {
			func(n *node) {
				n.withoutTimeService()
				n.write("etc/adjtime", "0.0 0 0.0\n0\nLOCAL\n")
				n.link("etc/localtime", "/usr/share/zoneinfo/Etc/GMT-14")
			},
			func(c Config) seen { return seen{"clock": c.Clock.String()} }, seen{"clock": "-14h0m0s"},
		},
		"hardware clock in local time, with a time service": {
			func(n *node) {
				n.write("etc/adjtime", "0.0 0 0.0\n0\nLOCAL\n")
				n.link("etc/localtime", "/usr/share/zoneinfo/Etc/GMT-14")
			},
			func(c Config) seen { return seen{"clock": c.Clock.String()} }, seen{"clock": "0s"},
		},
		"earliest time": {
			func(n *node) {
				n.withoutTimeService()
				n.write("usr/lib/clock-epoch", "")
				tomorrow := n.machine.Now.Add(24 * time.Hour)
				if err := os.Chtimes(filepath.Join(n.root, "usr/lib/clock-epoch"), tomorrow, tomorrow); err != nil {
					n.Fatal(err)
				}
			},
			func(c Config) seen { return seen{"clock": c.Clock.Round(time.Minute).String()} }, seen{"clock": "24h0m0s"},
		},
		"node problem detector": {
			func(n *node) {
				n.machine.KernelLog = []string{"Linux version 5.15.0-1071-azure"}
				n.write("etc/node-problem-detector.d/system-log-monitor/kernel-monitor.json", `{"plugin": "kmsg",
 "conditions": [{"type": "KernelDeadlock", "reason": "KernelHasNoDeadlock", "message": "kernel has no deadlock"}, {"type": "ReadonlyFilesystem", "reason": "FilesystemIsNotReadOnly", "message": "Filesystem is not read-only"}],
 "rules": [{"type": "permanent", "condition": "KernelDeadlock", "reason": "BadKernel", "pattern": "Linux version 5\\.15\\.0-1071"}]}`)
			},
			func(c Config) seen {
				all := seen{}
				for _, condition := range c.Conditions {
					all[string(condition.Type)] = string(condition.Status) + " " + condition.Reason
				}
				return all
			}, seen{"KernelDeadlock": "True BadKernel", "ReadonlyFilesystem": "False FilesystemIsNotReadOnly"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, disk.Static)
			test.edit(n)
			c, err := Read(n.root, n.machine)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, test.see(c)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailures: the edit of a file, and the last words of the program that does not start.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		profile disk.Profile
		edit    func(*node)
		unit    string
		text    string
	}{
		"unknown flag": {disk.Static, func(n *node) { n.replace(flags, "--config=", "--max-podz=30 --config=") },
			KubeletUnit, "failed to parse kubelet flag: unknown flag: --max-podz"},
		"unknown flag of kubeadm": {disk.Bootstrap, func(n *node) { n.replace("var/lib/kubelet/kubeadm-flags.env", `ARGS="`, `ARGS="--network-plugin=cni `) },
			KubeletUnit, "failed to parse kubelet flag: unknown flag: --network-plugin"},
		"label that kubelets may not set": {disk.Static, func(n *node) { n.replace(flags, "tier=gold", "node-role.kubernetes.io/worker=") },
			KubeletUnit, "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [node-role.kubernetes.io/worker]"},
		"configuration that is no YAML": {disk.Static, func(n *node) { n.replace(config, "clusterDNS: [", "clusterDNS: {[") },
			KubeletUnit, "failed to load kubelet config file, path: /var/lib/kubelet/config.yaml"},
		"configuration without a file": {disk.Static, func(n *node) { n.remove(config) },
			KubeletUnit, `failed to read kubelet config file "/var/lib/kubelet/config.yaml", error: open /var/lib/kubelet/config.yaml: no such file or directory`},
		"invalid configuration": {disk.Static, func(n *node) { n.replace(config, "maxPods: 110", "maxPods: -1") },
			KubeletUnit, "invalid configuration: maxPods (--max-pods) -1 must not be a negative number"},
		"feature gate of another version": {disk.Static, func(n *node) { n.append(config, "featureGates: {DynamicKubeletConfig: true}\n") },
			KubeletUnit, "unrecognized feature gate: DynamicKubeletConfig"},
		"reservation above the capacity": {disk.Static, func(n *node) { n.replace(config, "memory: 512Mi", "memory: 16Gi") },
			KubeletUnit, `Resource "memory" has a reservation of 16484Mi but capacity of 8Gi`},
		"masked kubelet": {disk.Static, func(n *node) { n.link("etc/systemd/system/kubelet.service", "/dev/null") },
			KubeletUnit, "Unit kubelet.service is masked."},
		"no environment": {disk.Static, func(n *node) { n.remove(flags) },
			KubeletUnit, "Failed to load environment files: open /etc/default/kubelet: no such file or directory"},
		"no kubeconfig": {disk.Static, func(n *node) { n.remove("var/lib/kubelet/kubeconfig") },
			KubeletUnit, "invalid kubeconfig: stat /var/lib/kubelet/kubeconfig: no such file or directory"},
		"another cluster": {disk.Static, func(n *node) { n.replace("var/lib/kubelet/kubeconfig", disk.Server, "10.7.7.7") },
			KubeletUnit, `Unable to register node with API server: Post "https://10.7.7.7:443/api/v1/nodes": dial tcp: i/o timeout`},
		"no authority": {disk.Static, func(n *node) { n.remove("etc/kubernetes/certs/ca.crt") },
			KubeletUnit, "unable to read certificate-authority /etc/kubernetes/certs/ca.crt for localcluster due to open /etc/kubernetes/certs/ca.crt: no such file or directory"},
		"authority that is no certificate": {disk.Static, func(n *node) { n.write("etc/kubernetes/certs/ca.crt", "garbage") },
			KubeletUnit, "unable to load root certificates: unable to parse bytes as PEM block"},
		"no key": {disk.Static, func(n *node) { n.remove("etc/kubernetes/certs/client.key") },
			KubeletUnit, "unable to read client certificate or key: open /etc/kubernetes/certs/client.key: no such file or directory"},
		"certificate that has ended": {disk.Bootstrap, func(n *node) {
			n.machine.Now = n.machine.Now.AddDate(10, 0, 1)
			n.write("etc/kubernetes/pki/ca.crt", authorityOf(n))
		},
			KubeletUnit, "part of the existing bootstrap client certificate in /etc/kubernetes/kubelet.conf is expired: "},
		"authority that is not yet valid": {disk.Static, func(n *node) { n.machine.Now = n.machine.Now.AddDate(-2, 0, 0) },
			KubeletUnit, "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time "},
		"kernel parameters that the kubelet may not change": {disk.Static, func(n *node) {
			n.append(config, "protectKernelDefaults: true\n")
			n.write("etc/sysctl.d/90-kubelet.conf", "vm.overcommit_memory = 1\nkernel.panic = 10\n")
		},
			KubeletUnit, "Failed to start ContainerManager: invalid kernel flag: kernel/panic_on_oops, expected value: 1, actual value: 0"},
		"no registration": {disk.Static, func(n *node) { n.append(config, "registerNode: false\n") },
			KubeletUnit, "--register-node is false"},
		"runtime without CRI": {disk.Static, func(n *node) { n.replace(runtimeTOM, "version = 2\n", "version = 2\ndisabled_plugins = [\"cri\"]\n") },
			KubeletUnit, "unknown service runtime.v1.RuntimeService"},
		"configuration of the runtime that is no TOML": {disk.Static, func(n *node) { n.append(runtimeTOM, "[plugins.\n") },
			RuntimeUnit, "containerd: failed to load TOML: /etc/containerd/config.toml: toml: line "},
		"no runtime": {disk.Static, func(n *node) { n.remove("usr/bin/containerd") },
			RuntimeUnit, "Failed to locate executable /usr/bin/containerd: No such file or directory"},
		"damaged index of the runtime": {disk.Static, func(n *node) { n.fill("var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", 32<<10) },
			RuntimeUnit, "open /var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db: invalid database"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, test.profile)
			test.edit(n)
			_, err := Read(n.root, n.machine)
			var failure *Failure
			if !errors.As(err, &failure) || failure.Unit != test.unit || !strings.Contains(failure.Text, test.text) {
				t.Errorf("got %v\nwant %s: ...%s", err, test.unit, test.text)
			}
			if err != nil && strings.Contains(err.Error(), n.root) {
				t.Errorf("the message names a path of the host: %v", err)
			}
		})
	}
}

// authorityOf is an authority that another disk has at the time of the machine.
func authorityOf(n *node) string {
	n.Helper()
	other := filepath.Join(n.TempDir(), "other")
	if _, err := disk.UsedNode(other, disk.Bootstrap, disk.TemplateValues{Now: n.machine.Now}); err != nil {
		n.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(other, "etc/kubernetes/pki/ca.crt"))
	if err != nil {
		n.Fatal(err)
	}
	return string(text)
}

// TestNodeName: flags that are not valid leave the host name.
func TestNodeName(t *testing.T) {
	n := newNode(t, disk.Static)
	for flag, want := range map[string]string{"": "pool000001", "--hostname-override=Other ": "other", "--hostname-override other ": "other"} {
		text, err := os.ReadFile(filepath.Join(n.root, flags))
		if err != nil {
			t.Fatal(err)
		}
		n.replace(flags, "--config=", flag+"--config=")
		if got := NodeName(n.root, "Pool000001"); got != want {
			t.Errorf("%q: %s, want %s", flag, got, want)
		}
		n.write(flags, string(text))
	}
	n.remove("etc/systemd/system/kubelet.service")
	if got := NodeName(n.root, "Pool000001"); got != "pool000001" {
		t.Errorf("without a unit: %s", got)
	}
}
