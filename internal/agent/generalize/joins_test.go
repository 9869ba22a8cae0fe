package generalize

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/rules"
)

// machine has the values that a cloud assigns to exactly one instance.
type machine struct{ id, mac, card, address, name string }

var donorOnEC2 = machine{"i-0a1b2c3d4e5f60718", "0e:f7:72:74:2d:43", "eni-0d15ea5e0ff1ce000", "10.4.17.23", "ip-10-4-17-23.eu-west-1.compute.internal"}

// each returns all values of the machine.
func (m machine) each() []string { return []string{m.id, m.mac, m.card, m.address, m.name} }

// joinMethod is a way to join, with the files that its programs leave on a disk.
type joinMethod struct {
	profile v1alpha1.Profile
	// writes returns the files of a join at a boot, for a machine and a new key.
	writes func(m machine, key string) map[string]string
	// stays has the files of the image, and files of the join that are equal on all nodes.
	stays map[string]string
	// rules lists the rules for the files of the join that no other rule removes.
	rules []string
}

const mountUnit = "[Mount]\nWhat=UUID=5d1c3c6a-90a4-4a4e-9a24-4f3a7a4f0e11\nWhere=/mnt/k8s-disks/0\nType=xfs\n[Install]\nWantedBy=multi-user.target\n"

// joinMethods lists the ways besides kubeadm in which nodes join with an own credential. The rules of
// profile/nodeadm.yaml and profile/kops.yaml cite the sources.
var joinMethods = map[string]joinMethod{
	"EKS, nodeadm": {
		profile: v1alpha1.ProfileEKS,
		rules:   []string{"nodeadm-network", "nodeadm-interfaces", "nodeadm-kubelet", "kubelet-kubeconfig", "nodeadm-local-disks"},
		writes: func(m machine, key string) map[string]string {
			return map[string]string{
				"etc/systemd/network/80-ec2.network.d/10-eks_primary_eni_only.conf":   "[Match]\nPermanentMACAddress=" + m.mac + "\n",
				"etc/systemd/network/70-" + m.card + ".network":                       "[Match]\nPermanentMACAddress=" + m.mac + "\n[Network]\nAddress=" + m.address + "/20\n",
				"etc/eks/nodeadm/udev-net-manager/" + m.id + "/ens5":                  "io.systemd.Network",
				"etc/eks/nodeadm/udev-net-manager/" + m.id + "/ens6":                  "cni",
				"etc/eks/kubelet/environment":                                         "NODEADM_KUBELET_ARGS=--node-ip=" + m.address + " --cloud-provider=external --hostname-override=" + m.name + " --config=/etc/kubernetes/kubelet/config.json --kubeconfig=/var/lib/kubelet/kubeconfig",
				"etc/kubernetes/kubelet/config.json":                                  `{"kind":"KubeletConfiguration","providerID":"aws:///eu-west-1a/` + m.id + `","serverTLSBootstrap":true}`,
				"etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf":                `{"kind":"KubeletConfiguration","maxPods":58}`,
				"etc/kubernetes/pki/ca.crt":                                           "public\n",
				"var/lib/kubelet/kubeconfig":                                          "clusters: [{name: kubernetes, cluster: {server: https://x.eks.example}}]\nusers: [{name: kubelet, user: {exec: {command: aws}}}]\n",
				"var/lib/kubelet/pki/kubelet-server-2026-11-21-06-00-00.pem":          key,
				"var/lib/kubelet/pki/kubelet-server-current.pem":                      "-> kubelet-server-2026-11-21-06-00-00.pem",
				"var/lib/cloud/instances/" + m.id + "/user-data.txt":                  "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
				"var/lib/cni/results/aws-cni-" + m.id:                                 "{}",
				".aws/mdadm.conf":                                                     "ARRAY /dev/md/kubernetes metadata=1.2 UUID=5d1c3c6a:90a44a4e:9a244f3a:7a4f0e11\n",
				`etc/systemd/system/mnt-k8s\x2ddisks-0.mount`:                         mountUnit,
				`etc/systemd/system/multi-user.target.wants/mnt-k8s\x2ddisks-0.mount`: `-> /etc/systemd/system/mnt-k8s\x2ddisks-0.mount`,
			}
		},
		stays: map[string]string{
			"usr/bin/nodeadm": "\x7fELF", "usr/bin/kubelet": "\x7fELF",
			"etc/systemd/system/nodeadm-config.service":                               "[Service]\nExecStart=/usr/bin/nodeadm init --skip run\n",
			"etc/systemd/system/nodeadm-run.service":                                  "[Service]\nExecStart=/usr/bin/nodeadm init --skip config\n",
			"etc/systemd/system/multi-user.target.wants/nodeadm-run.service":          "-> ../nodeadm-run.service",
			"etc/systemd/system/kubelet.service":                                      "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\n",
			"etc/systemd/system/setup-local-disks.service.d/00-strategy.conf":         "[Service]\nEnvironment=LOCAL_DISK_STRATEGY=raid0",
			"etc/systemd/networkd.conf.d/80-release.conf":                             "[Network]\nManageForeignRoutes=no\n",
			"etc/systemd/network/80-ec2.network":                                      "[Match]\nDriver=ena\n[Network]\nDHCP=yes\n",
			"etc/eks/image-credential-provider/config.json":                           `{"kind":"CredentialProviderConfig"}`,
			"etc/eks/nodeadm.d/site.yaml":                                             "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
			"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/cached": "layer",
		},
	},
	"kOps": {
		profile: v1alpha1.ProfileBootstrap,
		rules:   []string{"kops-serving-key", "kops-credentials", "kops-kubelet", "kops-configuration", "kubelet-kubeconfig"},
		writes: func(m machine, key string) map[string]string {
			config := "users: [{name: kubelet, user: {client-key-data: " + base64Text(key) + "}}]\n"
			return map[string]string{
				"opt/kops/conf/kube_env.yaml":                                           "ClusterName: c.example\nInstanceGroupName: nodes-eu-west-1a\n",
				"etc/sysconfig/kops-configuration":                                      "AWS_REGION=eu-west-1\n",
				"usr/lib/systemd/system/kops-configuration.service":                     "[Service]\nExecStart=/opt/kops/bin/nodeup --conf=/opt/kops/conf/kube_env.yaml --v=8\n",
				"etc/systemd/system/multi-user.target.wants/kops-configuration.service": "-> /lib/systemd/system/kops-configuration.service",
				"srv/kubernetes/kubelet-server.key":                                     key,
				"srv/kubernetes/kubelet-server.crt":                                     "certificate for " + m.id + ", " + m.name + " and " + m.address + "\n",
				"srv/kubernetes/ca.crt":                                                 "public\n",
				"var/lib/kubelet/kubeconfig":                                            config,
				"var/lib/kubelet/kubelet.conf":                                          "kind: KubeletConfiguration\nproviderID: aws:///eu-west-1a/" + m.id + "\n",
				"etc/sysconfig/kubelet":                                                 `DAEMON_ARGS="--node-ip=` + m.address + ` --config=/var/lib/kubelet/kubelet.conf"` + "\n",
				"var/lib/kube-proxy/kubeconfig":                                         config,
				"var/lib/kube-router/kubeconfig":                                        config,
				"etc/kubernetes/pki/cilium/etcd-client-cilium.crt":                      "certificate\n",
				"etc/kubernetes/pki/cilium/etcd-client-cilium.key":                      key,
				"etc/kubernetes/manifests/kube-proxy.manifest":                          "kind: Pod\n",
				"var/lib/cloud/instances/" + m.id + "/sem/config_scripts_user":          "",
				"var/lib/cloud/instances/" + m.id + "/scripts/part-001":                 "#!/bin/bash\n# installs nodeup\n",
			}
		},
		stays: map[string]string{
			"opt/kops/bin/nodeup": "\x7fELF", "usr/local/bin/kubelet": "\x7fELF",
			"var/cache/nodeup/sha256:0a0b_kubelet":                                    "\x7fELF",
			"var/cache/nodeup/extracted/sha256:0c0d_cni-plugins/bridge":               "\x7fELF",
			"lib/systemd/system/kubelet.service":                                      "[Service]\nEnvironmentFile=/etc/sysconfig/kubelet\n",
			"var/lib/kubelet/credential-provider.conf":                                "kind: CredentialProviderConfig\n",
			"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/cached": "layer",
		},
	},
	"k3s": rancherAgent("k3s"), "RKE2": rancherAgent("rke2"),
}

// rancherAgent is the join of an agent of k3s or RKE2. Source: k3s-io/k3s, pkg/agent/config; rancher/rke2, pkg/podtemplate.
func rancherAgent(of string) joinMethod {
	at := "var/lib/rancher/" + of + "/agent/"
	return joinMethod{
		profile: v1alpha1.ProfileBootstrap,
		rules:   []string{"rancher-credentials", "rancher-pods", "rancher-token"},
		writes: func(m machine, key string) map[string]string {
			return map[string]string{
				at + "client-kubelet.crt": "certificate for system:node:" + m.name + "\n", at + "client-kubelet.key": key,
				at + "serving-kubelet.crt": "certificate for " + m.name + " and " + m.address + "\n", at + "serving-kubelet.key": key,
				at + "client-kube-proxy.crt": "certificate\n", at + "client-kube-proxy.key": key,
				at + "client-" + of + "-controller.crt": "certificate\n", at + "client-" + of + "-controller.key": key,
				at + "pod-manifests/kube-proxy.yaml":                    "spec: {containers: [{args: [--hostname-override=" + m.name + "]}]}\n",
				at + "logs/kubelet.log":                                 "node " + m.name + "\n",
				at + "containerd/containerd.log":                        "host " + m.name + "\n",
				"etc/rancher/node/password":                             "0123456789abcdef0123456789abcdef\n",
				"var/lib/calico/nodename":                               m.name,
				"var/log/pods/kube-system_canal-x_1/canal/0.log":        "started on " + m.address + "\n",
				"var/lib/kubelet/pods/u/etc-hosts":                      m.address + " a\n",
				"etc/rancher/" + of + "/config.yaml":                    "server: https://10.0.0.5:9345\ntoken: K10" + base64Text(key)[:40] + "::server:x\nnode-ip: " + m.address + "\n",
				"etc/systemd/system/k3s-agent.service.env":              "K3S_TOKEN='" + base64Text(key)[:40] + "'\n",
				"var/lib/cloud/instances/" + m.id + "/cloud-config.txt": "write_files:\n- path: /etc/rancher/" + of + "/config.yaml\n  content: token\n",
			}
		},
		stays: map[string]string{
			at + "client-ca.crt": "public\n", at + "server-ca.crt": "public\n",
			at + "kubelet.kubeconfig":                                              "users: [{user: {client-key: /" + at + "client-kubelet.key}}]\n",
			at + "etc/" + of + "-agent-load-balancer.json":                         `{"ServerURL":"https://10.0.0.5:6443"}`,
			at + "etc/containerd/config.toml":                                      "version = 3\n",
			at + "images/" + of + "-images.txt":                                    "docker.io/rancher/mirrored-pause:3.6\n",
			at + "images/" + of + "-airgap-images-amd64.tar.zst":                   "layers",
			at + "images/.cache.json":                                              "{}",
			"etc/rancher/" + of + "/config.yaml.d/10-labels.yaml":                  "node-label: [pool=workers]\ntoken-file: /run/token\n",
			at + "containerd/io.containerd.content.v1.content/blobs/sha256/cached": "layer",
			"usr/local/bin/" + of:                                                  "\x7fELF",
			"etc/systemd/system/" + of + "-agent.service":                          "[Service]\nExecStart=/usr/local/bin/" + of + " agent\n[Install]\nWantedBy=multi-user.target\n",
			"etc/systemd/system/multi-user.target.wants/" + of + "-agent.service":  "-> ../" + of + "-agent.service",
		},
	}
}

// eachJoin runs a test for every way to join, on a disk of the donor.
func eachJoin(t *testing.T, run func(t *testing.T, j joinMethod, written map[string]string, dir string)) {
	for name, j := range joinMethods {
		t.Run(name, func(t *testing.T) {
			written := j.writes(donorOnEC2, pemKey(t))
			run(t, j, written, plant(t, node, written, j.stays))
		})
	}
}

// TestJoins: the files of the donor's join are removed, the files for the next join stay, and the disk has no value of
// the machine.
func TestJoins(t *testing.T) {
	eachJoin(t, func(t *testing.T, j joinMethod, written map[string]string, dir string) {
		m, err := run(t, dir, runner(load(t, j.profile)))
		must(t, err)
		if _, err := m.Proof(runner(load(t, j.profile)).Now()); err != nil {
			t.Error(err)
		}
		for name := range written {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("/%s is there: %v", name, err)
			}
		}
		for name, content := range j.stays {
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				t.Errorf("/%s is gone", name)
			} else if !strings.HasPrefix(content, "-> ") && readFile(t, dir, name) != content {
				t.Errorf("/%s was changed", name)
			}
		}
		if found := mentions(t, dir, donorOnEC2); len(found) > 0 {
			t.Errorf("the disk names the donor: %q", found)
		}
	})
}

// TestJoinsAgain: a boot of the donor or of a clone writes the same files again. The second generation is as clean as
// the first. Values that all nodes share are no identity.
func TestJoinsAgain(t *testing.T) {
	clone := machine{"i-0ffffffffffffffff", "0e:aa:aa:aa:aa:aa", "eni-0c10ee00000000000", "10.4.99.98", "ip-10-4-99-98.eu-west-1.compute.internal"}
	eachJoin(t, func(t *testing.T, j joinMethod, written map[string]string, dir string) {
		_, err := run(t, dir, runner(load(t, j.profile)))
		must(t, err)
		again := j.writes(clone, pemKey(t))
		for name, content := range again {
			writeFile(t, dir, name, content)
		}
		writeFile(t, dir, "etc/machine-id", "fedcba9876543210fedcba9876543210\n")
		if found := mentions(t, dir, donorOnEC2); len(found) > 0 {
			t.Errorf("the clone names the donor: %q", found)
		}
		_, err = run(t, dir, runner(load(t, j.profile)))
		must(t, err)
		for _, m := range []machine{donorOnEC2, clone} {
			if found := mentions(t, dir, m); len(found) > 0 {
				t.Errorf("the second generation names %s: %q", m.id, found)
			}
		}
	})
}

// TestJoinsWithoutARule skips one rule of a way to join: the files stay and the check reports the rule.
func TestJoinsWithoutARule(t *testing.T) {
	eachJoin(t, func(t *testing.T, j joinMethod, written map[string]string, _ string) {
		p := load(t, j.profile)
		for _, id := range j.rules {
			r := runner(p)
			// kops-credentials removes all of /srv/kubernetes, including the serving key.
			r.skip = func(rule *rules.Rule) bool {
				return rule.ID == id || id == "kops-serving-key" && rule.ID == "kops-credentials"
			}
			_, err := run(t, plant(t, node, written, j.stays), r)
			if whys := unmetOf(t, err).Error(); !strings.Contains(whys, id+": ") {
				t.Errorf("without rule %s: %s", id, whys)
			}
		}
	})
}

// TestDetectJoins: files of nodeadm and kOps identify their nodes. A profile that would keep these files is
// refused.
func TestDetectJoins(t *testing.T) {
	eachJoin(t, func(t *testing.T, j joinMethod, _ map[string]string, dir string) {
		got, found, err := Detect(open(t, dir))
		if err != nil || got != j.profile || len(found) == 0 {
			t.Errorf("got %s (%v), %v; want %s", got, found, err, j.profile)
		}
		must(t, Agree(open(t, dir), j.profile))
		if why := refusedOf(t, Agree(open(t, dir), v1alpha1.ProfileStatic)).Error(); !strings.Contains(why, "pass --profile "+string(j.profile)) {
			t.Errorf("static: %s", why)
		}
	})
}

// TestBootstrapOnEKS: with profile bootstrap, a donor of EKS is removed, and the disk is as clean.
func TestBootstrapOnEKS(t *testing.T) {
	j := joinMethods["EKS, nodeadm"]
	dir := plant(t, node, j.writes(donorOnEC2, pemKey(t)), j.stays)
	must(t, Agree(open(t, dir), v1alpha1.ProfileBootstrap))
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileBootstrap)))
	must(t, err)
	if found := mentions(t, dir, donorOnEC2); len(found) > 0 {
		t.Errorf("the disk names the donor: %q", found)
	}
}

// TestAmbiguousProfile: a node of EKS with an own credential does not return. A node with files of AKS Engine, too, is
// in doubt.
func TestAmbiguousProfile(t *testing.T) {
	const nodeadm = "etc/eks/kubelet/environment"
	dir := plant(t, node, map[string]string{nodeadm: "NODEADM_KUBELET_ARGS=\n", "var/lib/kubelet/bootstrap-kubeconfig": "users: []\n"})
	got, _, err := Detect(open(t, dir))
	if err != nil || got != v1alpha1.ProfileBootstrap {
		t.Errorf("got %s, %v", got, err)
	}
	if why := refusedOf(t, Agree(open(t, dir), v1alpha1.ProfileEKS)).Error(); !strings.Contains(why, "bootstrap-kubeconfig speaks for profile bootstrap") {
		t.Errorf("eks: %s", why)
	}
	dir = plant(t, node, map[string]string{nodeadm: "NODEADM_KUBELET_ARGS=\n", "etc/kubernetes/certs/client.key": pemKey(t)})
	if _, _, err := Detect(open(t, dir)); !strings.Contains(refusedOf(t, err).Error(), "in doubt") {
		t.Errorf("got %v", err)
	}
}

// TestEKSNeedsNodeadm: a donor that returns needs nodeadm, so a disk without nodeadm is refused. After a run, the
// manifest is the evidence.
func TestEKSNeedsNodeadm(t *testing.T) {
	dir := plant(t, node)
	if why := refusedOf(t, Agree(open(t, dir), v1alpha1.ProfileEKS)).Error(); !strings.Contains(why, "nodeadm") {
		t.Errorf("refused for %s", why)
	}
	j := joinMethods["EKS, nodeadm"]
	dir = plant(t, node, j.writes(donorOnEC2, pemKey(t)), j.stays)
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileEKS)))
	must(t, err)
	must(t, Agree(open(t, dir), v1alpha1.ProfileEKS))
}

// mentions returns the places with a value of a machine: a name, a link's target or a file. Kamino's own records are
// excluded.
func mentions(t *testing.T, dir string, m machine) (where []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || strings.HasPrefix(rel, "var/lib/kamino") {
			return err
		}
		text := rel
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += target
		case d.Type().IsRegular():
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += string(content)
		}
		for _, value := range m.each() {
			if strings.Contains(text, value) {
				where = append(where, rel+": "+value)
			}
		}
		return nil
	}))
	return where
}
