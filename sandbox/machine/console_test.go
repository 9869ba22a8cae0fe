package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// edit changes a file on a machine's disk.
func (w *fleetEnv) edit(id, path, old, now string) {
	w.Helper()
	text := w.readFile(id, path)
	if !strings.Contains(text, old) {
		w.Fatalf("%s has no %q:\n%s", path, old, text)
	}
	if err := disk.WriteFile(filepath.Join(w.tree(id), path), []byte(strings.ReplaceAll(text, old, now)), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *fleetEnv) restart(id string) {
	w.Helper()
	if err := w.fleet.Restart(w.Context(), id); err != nil {
		w.Fatal(err)
	}
}

// comparableNode holds what a clone must share with its donor.
func comparableNode(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.ObjectMeta = metav1.ObjectMeta{Labels: node.Labels}
	delete(node.Labels, corev1.LabelHostname)
	node.Spec.ProviderID = ""
	node.Status.Addresses = nil
	node.Status.NodeInfo.MachineID, node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.BootID = "", "", ""
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime, node.Status.Conditions[i].LastTransitionTime = metav1.Time{}, metav1.Time{}
	}
	return node
}

// TestEditsOfADonorReachTheClone: donor and clone are equal before, and the clone shows the edits of the donor's disk.
func TestEditsOfADonorReachTheClone(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	if err := w.fleet.PowerOff(t.Context(), donor.ID, true); err != nil {
		t.Fatal(err)
	}
	w.generalize(w.tree(donor.ID))
	if err := w.copyFlushed("healthy", donor.Disk); err != nil {
		t.Fatal(err)
	}
	w.edit(donor.ID, "var/lib/kubelet/config.yaml", "maxPods: 110", "maxPods: 8")
	w.edit(donor.ID, "etc/default/kubelet", "KUBELET_NODE_LABELS=", "KUBELET_NODE_LABELS=tier=gold,")
	if err := w.copyFlushed("edited", donor.Disk); err != nil {
		t.Fatal(err)
	}
	w.launch(spec(3), platformImage)
	other := w.ready("pool000003", spec(3).ID)
	healthy := w.clone("healthy")
	if diff := cmp.Diff(comparableNode(other), comparableNode(w.ready("pool000002", healthy.ID))); diff != "" {
		t.Errorf("a healthy clone differs (-old +clone):\n%s", diff)
	}
	if err := w.fleet.Terminate(t.Context(), healthy.ID); err != nil {
		t.Fatal(err)
	}
	edited := w.ready("pool000002", w.clone("edited").ID)
	if pods := edited.Status.Allocatable.Pods().Value(); pods != 8 || edited.Labels["tier"] != "gold" {
		t.Errorf("the clone has %d pods and labels %v", pods, edited.Labels)
	}
}

// TestNodeOfEditedDisk: what the API server sees of a node whose disk was edited before its boot.
func TestNodeOfEditedDisk(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	root := w.tree(s.ID)
	w.edit(s.ID, "etc/default/kubelet", "--cloud-provider=external", "--register-with-taints=a=b:NoSchedule")
	if err := os.Symlink("/dev/null", filepath.Join(root, "etc/systemd/system/systemd-timesyncd.service")); err != nil {
		t.Fatal(err)
	}
	epoch := filepath.Join(root, "usr/lib/clock-epoch")
	if err := disk.WriteFile(epoch, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	if err := os.Chtimes(epoch, tomorrow, tomorrow); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "var/log/kern.log"), 28<<30); err != nil {
		t.Fatal(err)
	}
	if err := w.client.CoreV1().Nodes().Delete(t.Context(), "pool000001", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.restart(s.ID)
	node := w.ready("pool000001", s.ID)
	if node.Spec.ProviderID != "" || node.Labels[corev1.LabelTopologyZone] != "" || len(node.Spec.Taints) != 1 {
		t.Errorf("provider ID %q, labels %v, taints %v", node.Spec.ProviderID, node.Labels, node.Spec.Taints)
	}
	pressure := false
	for _, c := range node.Status.Conditions {
		pressure = pressure || c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
	}
	if !pressure {
		t.Errorf("there is no disk pressure: %v", node.Status.Conditions)
	}
	w.eventually("the Lease is a day ahead", func() bool {
		lease, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "pool000001", metav1.GetOptions{})
		return err == nil && time.Until(lease.Spec.RenewTime.Time).Round(time.Hour) == 24*time.Hour
	})
}

// TestConsole: the console shows why a program did not start, for each boot.
func TestConsole(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	on := func(text string) bool { return strings.Contains(w.fleet.Console(s.ID), text) }
	for _, line := range []string{
		"kernel: Linux version 5.15.0-1071-azure\r\n", "[  OK  ] Started containerd.service - containerd container runtime.\r\n",
		"[  OK  ] Started kubelet.service - kubelet: The Kubernetes Node Agent.\r\n",
	} {
		w.eventually("the console has "+line, func() bool { return on(line) })
	}
	for _, test := range []struct{ path, old, new, line string }{
		{"etc/default/kubelet", "--config=", "--max-podz=8 --config=", "kubelet: command failed: failed to parse kubelet flag: unknown flag: --max-podz\r\n[FAILED] Failed to start kubelet.service"},
		{"etc/containerd/config.toml", "version = 2", "version = [2", "containerd: containerd: failed to load TOML: /etc/containerd/config.toml: "},
		{"var/lib/kubelet/kubeconfig", disk.Server, "10.7.7.7", `kubelet: Unable to register node with API server: Post "https://10.7.7.7:443/api/v1/nodes": dial tcp: i/o timeout`},
		{"etc/kubernetes/certs/ca.crt", "CERTIFICATE", "NOTHING", "kubelet: failed to run Kubelet: unable to load root certificates"},
	} {
		w.edit(s.ID, test.path, test.old, test.new)
		w.restart(s.ID)
		w.eventually("the console has "+test.line, func() bool { return on(test.line) })
		w.edit(s.ID, test.path, test.new, test.old)
	}
	// The next boot is healthy again.
	w.restart(s.ID)
	w.ready("pool000001", s.ID)
	if console := w.fleet.Console(s.ID); strings.Contains(console, w.dir) {
		t.Errorf("the console names a path of the host:\n%s", console)
	}
	if err := w.fleet.Terminate(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "consoles", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
