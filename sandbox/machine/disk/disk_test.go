package disk

import (
	"bytes"
	"crypto/tls"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func livedIn(t *testing.T, profile Profile) (string, TemplateValues) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "disk")
	facts, err := UsedNode(root, profile, TemplateValues{Hostname: "vmss000001"})
	if err != nil {
		t.Fatal(err)
	}
	return root, facts
}

// files returns the mode of each path of a tree, with the target of a link.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(root, path)
		text := info.Mode().String()
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text = "-> " + target
		}
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(content)
		}
		out[relative] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestUsedNodeIsComplete: a used disk has each file that must not survive into a clone.
func TestUsedNodeIsComplete(t *testing.T) {
	all := []string{
		"etc/machine-id", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed", "boot/efi/loader/random-seed",
		"var/lib/systemd/credential.secret", "etc/hostname", "etc/machine-info", "etc/ssh/ssh_host_*_key",
		"etc/ssh/ssh_host_*_key.pub", "home/*/.ssh/authorized_keys", "root/.ssh/authorized_keys",
		"etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/subuid-", "etc/subgid-",
		"etc/udev/rules.d/70-persistent-net.rules", "etc/netplan/50-cloud-init.yaml", "etc/systemd/network/10-cloud-init-*.network",
		"etc/NetworkManager/system-connections/*", "var/lib/NetworkManager/secret_key", "var/lib/NetworkManager/*.lease",
		"var/lib/dhcp/*", "var/lib/dhclient/*", "var/lib/dhcpcd/*", "var/lib/cloud/data/*", "var/lib/cloud/instance",
		"var/lib/cloud/instances/*/user-data.txt", "var/lib/cloud/instances/*/sem/*", "var/lib/cloud/sem/*", "var/lib/cloud/seed/*",
		"etc/cloud/cloud-init.disabled", "etc/secret-userdata.txt", "etc/sudoers.d/90-cloud-init-users", "var/lib/waagent/ovf-env.xml",
		"var/lib/waagent/GoalState.*.xml", "var/lib/waagent/*.crt", "var/lib/waagent/*.prv", "var/lib/waagent/*/mrseq",
		"var/lib/waagent/history/*", "var/lib/waagent/events/*", "var/lib/waagent/published_hostname", "var/lib/waagent/WALinuxAgent-2.*",
		"etc/iscsi/initiatorname.iscsi", "etc/nvme/hostid", "etc/nvme/hostnqn", "etc/lvm/devices/system.devices",
		"etc/krb5.keytab", "var/lib/sss/*/*", "etc/pki/consumer/*", "var/lib/ubuntu-advantage/private/*",
		"var/lib/amazon/ssm/Vault/Store/*", "etc/opt/microsoft/mdatp/*", "opt/datadog-agent/run/*", "var/lib/teleport/host_uuid",
		"var/lib/tailscale/tailscaled.state", "opt/consul/node-id", "swapfile", "var/log/journal/*/system.journal",
		"var/log/syslog*", "var/log/ancestry.log", "root/.bash_history", "home/*/.bash_history", "tmp/*", "var/tmp/*",
		"var/crash/*", "var/spool/*/*", "var/mail/*", "root/.kube/*", "root/.docker/*", "root/.aws/*", "root/.azure/*", "root/.netrc",
		"var/lib/systemd/timers/*", "var/lib/kubelet/pods/*", "var/lib/kubelet/cpu_manager_state",
		"var/lib/kubelet/memory_manager_state", "var/lib/kubelet/dra_manager_state", "var/lib/kubelet/device-plugins/*",
		"var/lib/kubelet/config.json", "var/lib/kubelet/image_manager/pulled/*", "var/lib/cni/networks/*/*", "var/lib/cni/results/*",
		"var/lib/cni/cache/*", "var/lib/calico/nodename", "etc/cni/net.d/calico-kubeconfig",
		"var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*", "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/*",
	}
	byProfile := map[Profile][]string{
		Static: {
			"etc/kubernetes/certs/kubeletserver.*", "etc/kubernetes/certs/client.*", "var/lib/kubelet/kubeconfig",
			"etc/kubernetes/azure.json", "etc/kubernetes/certs/ca.crt",
		},
		Bootstrap: {
			"var/lib/kubelet/pki/*", "etc/kubernetes/kubelet.conf", "etc/kubernetes/bootstrap-kubelet.conf", "etc/kubernetes/pki/ca.crt",
			"var/lib/kubelet/config.yaml", "var/lib/kubelet/kubeadm-flags.env", "var/lib/kubelet/instance-config.yaml",
		},
	}
	for profile, more := range byProfile {
		root, facts := livedIn(t, profile)
		for _, pattern := range slices.Concat(all, more) {
			if found, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(found) == 0 {
				t.Errorf("%s: nothing at %s", profile, pattern)
			}
		}
		if fstab := readLine(filepath.Join(root, "etc/fstab")); !strings.Contains(fstab, "swap") || !strings.Contains(fstab, "/mnt") {
			t.Errorf("%s: fstab has no swap and no temporary disk:\n%s", profile, fstab)
		}
		if hosts := readLine(filepath.Join(root, "etc/hosts")); !strings.Contains(hosts, facts.Hostname) {
			t.Errorf("%s: the node's own name is not in hosts:\n%s", profile, hosts)
		}
		if got, joined := Joined(root); !joined || got != profile {
			t.Errorf("joined by %q, %v; want %s", got, joined, profile)
		}
	}
}

func TestUsedNodeIsSmall(t *testing.T) {
	root, _ := livedIn(t, Static)
	size, count := 0, 0
	for _, text := range files(t, root) {
		size, count = size+len(text), count+1
	}
	if count > 440 || size > 256<<10 {
		t.Errorf("%d files, %d bytes: a copy must be quick", count, size)
	}
}

func TestGenericHasNoIdentity(t *testing.T) {
	root := t.TempDir()
	if err := Generic(root, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	if id, name := MachineID(root), Hostname(root); id != "" || name != "" {
		t.Errorf("a platform image has machine-id %q, host name %q", id, name)
	}
	if found, _ := filepath.Glob(filepath.Join(root, "etc/ssh/ssh_host_*")); len(found) > 0 {
		t.Errorf("a platform image has host keys: %v", found)
	}
	if _, joined := Joined(root); joined || Installed(root) {
		t.Error("a platform image is a node already")
	}
	if diff := cmp.Diff(files(t, root), generic(t)); diff != "" {
		t.Errorf("two platform images differ:\n%s", diff)
	}
}

func generic(t *testing.T) map[string]string {
	t.Helper()
	root := t.TempDir()
	if err := Generic(root, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	return files(t, root)
}

func TestFirstBootKeepsIdentity(t *testing.T) {
	root := t.TempDir()
	if err := Generic(root, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	if err := FirstBoot(root, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	first := files(t, root)
	if id := MachineID(root); len(id) != 32 {
		t.Fatalf("machine-id is %q", id)
	}
	if err := FirstBoot(root, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, files(t, root)); diff != "" {
		t.Errorf("a second boot changed the identity:\n%s", diff)
	}
	for _, text := range []string{"", "uninitialized\n"} {
		before := MachineID(root)
		if err := WriteFile(filepath.Join(root, "etc/machine-id"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := FirstBoot(root, TemplateValues{}); err != nil {
			t.Fatal(err)
		}
		if now := MachineID(root); now == "" || now == before {
			t.Errorf("after %q in machine-id, the next boot has %q, before %q", text, now, before)
		}
	}
}

func TestKeysAreReal(t *testing.T) {
	root, _ := livedIn(t, Static)
	read := func(path string) []byte {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, kind := range []string{"ecdsa", "ed25519"} {
		private, err := ssh.ParsePrivateKey(read("etc/ssh/ssh_host_" + kind + "_key"))
		if err != nil {
			t.Fatal(err)
		}
		public, _, _, _, err := ssh.ParseAuthorizedKey(read("etc/ssh/ssh_host_" + kind + "_key.pub"))
		if err != nil || !bytes.Equal(private.PublicKey().Marshal(), public.Marshal()) {
			t.Errorf("%s: the public key is not that of the private key (%v)", kind, err)
		}
	}
	for _, name := range []string{"client", "kubeletserver"} {
		if _, err := tls.X509KeyPair(read("etc/kubernetes/certs/"+name+".crt"), read("etc/kubernetes/certs/"+name+".key")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCopyIsCompleteAndIndependent(t *testing.T) {
	root, _ := livedIn(t, Static)
	for path, text := range map[string]string{"run/lock/x": "", "proc/sys/kernel/random/boot_id": "x"} {
		if err := WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := files(t, root)
	for path := range want {
		if strings.HasPrefix(path, "run/") || strings.HasPrefix(path, "proc/") {
			delete(want, path)
		}
	}
	dst := filepath.Join(t.TempDir(), "copy")
	for range 2 { // The second copy replaces the first.
		if err := Copy(dst, root); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, files(t, dst)); diff != "" {
			t.Fatalf("copy differs (-want +got):\n%s", diff)
		}
	}
	if err := Append(filepath.Join(dst, "var/log/syslog"), "more\n", 0o644); err != nil {
		t.Fatal(err)
	}
	if original := files(t, root)["var/log/syslog"]; original != want["var/log/syslog"] {
		t.Error("a write to the copy changed the original")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dst), ".copy-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestCopyOfMissingDiskFails(t *testing.T) {
	root, _ := livedIn(t, Static)
	want := files(t, root)
	if err := Copy(root, filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("copying a disk that does not exist succeeded")
	}
	if diff := cmp.Diff(want, files(t, root)); diff != "" {
		t.Errorf("the destination changed:\n%s", diff)
	}
}

func TestSweepRemovesInterruptedCopies(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".copy-123/new/etc", "a-disk/etc"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, ".copy-123")) || !exists(filepath.Join(dir, "a-disk/etc")) {
		t.Error("sweep removed the wrong things")
	}
}

func TestPackages(t *testing.T) {
	root := t.TempDir()
	if err := Generic(root, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	if err := SetPackages(root, map[string]string{"openssl": "3.0.2-0ubuntu1.16", "jq": "1.6"}); err != nil {
		t.Fatal(err)
	}
	got, err := Packages(root)
	if err != nil || got["openssl"] != "3.0.2-0ubuntu1.16" || got["jq"] != "1.6" || got["libc6"] != "2.35-0ubuntu3.8" {
		t.Errorf("packages are %v (%v)", got, err)
	}
}

func TestNextVersions(t *testing.T) {
	for version, want := range map[string]string{
		"3.0.2-0ubuntu1.15": "3.0.2-0ubuntu1.16", "1.7.25-ubuntu22.04u1": "1.7.25-ubuntu22.04u2", "5.15.0.1071.80": "5.15.0.1071.81", "none": "none+1",
	} {
		if got := NextVersion(version); got != want {
			t.Errorf("NextVersion(%s) = %s, want %s", version, got, want)
		}
	}
	if got := NextKernel("5.15.0-1071-azure"); got != "5.15.0-1072-azure" {
		t.Errorf("NextKernel = %s", got)
	}
}

func TestEmptyImageIsNotCached(t *testing.T) {
	root, _ := livedIn(t, Static)
	image := Images(root)[0]
	if !HasImage(root, image) {
		t.Fatal("the base image is not cached")
	}
	blob := filepath.Join(root, containerdBlob, strings.TrimPrefix(string(recordedImages(root)[0].value), "sha256:"))
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if HasImage(root, image) {
		t.Error("an image whose content has no length counts as cached")
	}
}

func TestPodRemoval(t *testing.T) {
	root, _ := livedIn(t, Static)
	before := files(t, root)
	pod := PodRecord{UID: randomUUID(), Namespace: "default", Name: "web-1", IP: "10.244.0.9"}
	if err := AddPod(root, pod); err != nil {
		t.Fatal(err)
	}
	if !HasPod(root, pod.UID) {
		t.Error("the pod is not known")
	}
	if err := RemovePod(root, pod); err != nil {
		t.Fatal(err)
	}
	for path := range files(t, root) {
		if _, known := before[path]; !known && !strings.HasPrefix(path, "var/log/") {
			t.Errorf("left behind: %s", path)
		}
	}
}

func TestRuntimeCollectsLayersOfUnknownPods(t *testing.T) {
	root, _ := livedIn(t, Static)
	kept := PodRecord{UID: randomUUID(), Namespace: "default", Name: "kept"}
	lost := PodRecord{UID: randomUUID(), Namespace: "default", Name: "lost"}
	for _, pod := range []PodRecord{kept, lost} {
		if err := AddPod(root, pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(root, containerdCRI, "sandboxes", lost.UID)); err != nil {
		t.Fatal(err)
	}
	if err := CollectGarbage(root); err != nil {
		t.Fatal(err)
	}
	if !exists(snapshotDir(root, writable(kept.UID))) || exists(snapshotDir(root, writable(lost.UID))) {
		t.Error("the wrong layers are gone")
	}
	if !HasImage(root, BaseImages[0]) {
		t.Error("an image is gone")
	}
}

func TestOrders(t *testing.T) {
	for name, test := range map[string]struct {
		customData string
		want       Orders
	}{
		"nothing":            {"", Orders{}},
		"empty cloud-config": {"#cloud-config\n{}\n", Orders{}},
		"comment only":       {"#cloud-config\n", Orders{}},
		"script":             {"#!/bin/bash\n/opt/provision.sh", Orders{Bootstrap: true, Profile: Static, Commands: "#!/bin/bash\n/opt/provision.sh"}},
		"kubeadm":            {"#cloud-config\nruncmd:\n- [sh, -c, kubeadm join x]\n", Orders{Bootstrap: true, Profile: Bootstrap, Commands: "[sh -c kubeadm join x]\n"}},
		"files": {"#cloud-config\nwrite_files:\n- {path: /etc/a, permissions: '0600', content: b}\n", Orders{
			Files: []OrderedFile{{Path: "/etc/a", Content: "b", Mode: 0o600}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadOrders(test.customData)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ReadOrders("#cloud-config\n\t- nonsense: ["); err == nil {
		t.Error("a cloud-config that is no YAML was accepted")
	}
}

// TestCustomDataPerPool: nodes have the credential of their static recipe, and each recipe has a different
// credential.
func TestCustomDataPerPool(t *testing.T) {
	text := CustomData(Static)
	if text == CustomData(Static) {
		t.Error("two recipes have the same secrets")
	}
	orders, err := ReadOrders(text)
	if err != nil || len(orders.Files) != 3 || !orders.Bootstrap || orders.Profile != Static {
		t.Fatalf("orders are %d files, bootstrap %v, %s (%v)", len(orders.Files), orders.Bootstrap, orders.Profile, err)
	}
	root := t.TempDir()
	if err := orders.WriteFiles(root); err != nil {
		t.Fatal(err)
	}
	if err := Join(root, Static, TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	if got := readLine(filepath.Join(root, "etc/kubernetes/certs/client.key")); got != strings.TrimSpace(orders.Files[2].Content) {
		t.Error("the node's credential is not the recipe's")
	}
	if orders, err := ReadOrders(CustomData(Bootstrap)); err != nil || orders.Profile != Bootstrap {
		t.Errorf("a bootstrap recipe reads as %v (%v)", orders, err)
	}
}

func TestCloudInitSeesNewInstances(t *testing.T) {
	root, facts := livedIn(t, Static)
	if err := os.Remove(filepath.Join(root, "etc/cloud/cloud-init.disabled")); err != nil {
		t.Fatal(err)
	}
	if IsNewInstance(root, facts.VMID) {
		t.Error("the donor's own reboot is a new instance")
	}
	if !IsNewInstance(root, randomUUID()) {
		t.Error("another VM is no new instance")
	}
	if err := os.RemoveAll(filepath.Join(root, "var/lib/cloud/instances")); err != nil {
		t.Fatal(err)
	}
	if !IsNewInstance(root, facts.VMID) {
		t.Error("a cleaned disk is no new instance")
	}
	if err := WriteFile(filepath.Join(root, "etc/cloud/cloud-init.disabled"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if IsNewInstance(root, randomUUID()) {
		t.Error("cloud-init runs although it is disabled")
	}
}

// TestEC2Disk: cloud files of the disk are from EC2, and all other files are as on other clouds.
func TestEC2Disk(t *testing.T) {
	root := filepath.Join(t.TempDir(), "disk")
	facts := TemplateValues{Platform: PlatformOf("ec2:canonical:ubuntu-jammy-22.04-amd64:20241002"), VMID: "i-0123456789abcdef0", Hostname: "ip-10-1-2-3"}
	if _, err := UsedNode(root, Bootstrap, facts); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"etc/waagent.conf", "var/lib/waagent/*.xml", "home/azureuser", "var/lib/cni/networks/azure", "var/log/azure/cluster-provision.log"} {
		if found, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(found) > 0 {
			t.Errorf("there is something of Azure's: %v, %v", found, err)
		}
	}
	for _, path := range []string{
		"etc/cloud/cloud.cfg.d/90-ec2.cfg", "home/ubuntu/.ssh/authorized_keys", "var/lib/cloud/instances/i-0123456789abcdef0/user-data.txt",
		"etc/cni/net.d/10-cluster.conflist", "var/lib/cni/networks/cluster/10.244.0.7", "var/log/aws/cluster-provision.log",
	} {
		if !Exists(root, path) {
			t.Errorf("there is no /%s", path)
		}
	}
	if seed := readLine(filepath.Join(root, "var/lib/cloud/instances/i-0123456789abcdef0/datasource")); seed != "DataSourceEc2: DataSourceEc2Local" {
		t.Errorf("cloud-init's datasource is %q", seed)
	}
	packages, err := Packages(root)
	if err != nil || packages["linux-image-aws"] == "" || packages["linux-image-azure"] != "" || packages["walinuxagent"] != "" || packages["ec2-instance-connect"] == "" {
		t.Errorf("its packages are %v: %v", packages, err)
	}
	if kernel := Kernel(root); KernelPackage(root) != "linux-image-aws" || kernel != "5.15.0-1071-aws" {
		t.Errorf("it boots %s, of %s", kernel, KernelPackage(root))
	}
	if profile, joined := Joined(root); !joined || profile != Bootstrap {
		t.Errorf("joined by %q: %t", profile, joined)
	}
	if PlatformOf("Canonical:0001-com-ubuntu-server-jammy:22_04-lts-gen2:22.04.202410020") != OnAzure {
		t.Error("an image of Azure's is another platform's")
	}
}

// TestCopyKeepsHoles: the copy of a file with holes has the same content, and takes no more space.
func TestCopyKeepsHoles(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	file := filepath.Join(src, "big")
	if err := WriteFile(file, []byte("start"), 0o644); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	if err := os.Truncate(file, size/2); err != nil {
		t.Fatal(err)
	}
	if err := Append(file, "middle", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	if err := Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dst, "big"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs (%v)", err)
	}
	info, err := os.Stat(filepath.Join(dst, "big"))
	if err != nil {
		t.Fatal(err)
	}
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; taken > 1<<20 {
		t.Errorf("the copy takes %d bytes", taken)
	}
}
