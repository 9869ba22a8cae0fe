package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

func TestBootstrapOfPlatformImage(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	node := w.node("pool000001")
	root := w.tree(s.ID)
	want := map[string]string{
		corev1.LabelHostname: "pool000001", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "agentpool": "pool",
		"kubernetes.azure.com/role": "agent", "kubernetes.azure.com/cluster": "sandbox", "storageprofile": "managed", "storagetier": "Premium_LRS",
		corev1.LabelTopologyZone: "westeurope-1", corev1.LabelTopologyRegion: "westeurope", corev1.LabelInstanceTypeStable: "Standard_D2s_v5",
	}
	if diff := cmp.Diff(want, node.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	info := node.Status.NodeInfo
	if node.Spec.ProviderID != s.ProviderID || info.SystemUUID != s.VMID || info.MachineID != disk.MachineID(root) || info.KernelVersion != disk.DefaultKernel {
		t.Errorf("node has provider ID %s and %+v", node.Spec.ProviderID, info)
	}
	if got := w.readFile(s.ID, "var/lib/cloud/instances/"+s.VMID+"/user-data.txt"); got != string(s.CustomData) {
		t.Errorf("user-data is %q", got)
	}
	if !disk.ExtensionDone(root, "Microsoft.Azure.Extensions.CustomScript") || disk.Hostname(root) != "pool000001" {
		t.Error("the extension did not run, or the host name was not set")
	}
	packages, err := disk.Packages(root)
	if err != nil || packages["moby-containerd"] == "" {
		t.Errorf("the bootstrap installed no container runtime: %v (%v)", packages, err)
	}
}

func TestPlatformImageWithoutBootstrap(t *testing.T) {
	w := newFleetEnv(t)
	s := spec(1)
	s.CustomData = []byte(emptyCloudConfig)
	w.launch(s, platformImage)
	w.eventually("the boot gets stuck", func() bool { return w.log.has("there is no kubelet with a credential") })
	if nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || len(nodes.Items) > 0 {
		t.Errorf("nodes are %v (%v)", nodes, err)
	}
	if w.fleet.Power(s.ID) != fleet.On || disk.MachineID(w.tree(s.ID)) == "" {
		t.Error("it did not even boot")
	}
}

func TestCloneOfGeneralizedDisk(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	if err := w.fleet.PowerOff(t.Context(), donor.ID, true); err != nil {
		t.Fatal(err)
	}
	w.generalize(w.tree(donor.ID))
	if err := w.copyFlushed("snapshot", donor.Disk); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.PowerOn(t.Context(), donor.ID); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", donor.ID)
	clone := w.clone("snapshot")
	w.ready("pool000002", clone.ID)
	for _, path := range []string{"etc/machine-id", "etc/hostname", "etc/ssh/ssh_host_ed25519_key", "var/lib/systemd/random-seed", "var/lib/dhcp/dhclient.eth0.leases"} {
		if w.readFile(donor.ID, path) == w.readFile(clone.ID, path) {
			t.Errorf("clone and donor share %s", path)
		}
	}
	for _, path := range []string{"var/lib/kubelet/kubeconfig", "etc/kubernetes/certs/client.key", "var/lib/dpkg/status"} {
		if w.readFile(donor.ID, path) != w.readFile(clone.ID, path) {
			t.Errorf("clone and donor differ in %s", path)
		}
	}
	if images := len(w.node("pool000002").Status.Images); images != len(disk.BaseImages) {
		t.Errorf("the clone came up with %d cached images", images)
	}
	if seen := w.fleet.Collisions(); len(seen) > 0 {
		t.Errorf("collisions: %v", seen)
	}
}

func TestCloneOfRawDiskCollides(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	clone := w.clone(donor.Disk)
	w.eventually("two collisions are seen", func() bool { return len(w.fleet.Collisions()) == 2 })
	got := map[string]string{}
	for _, c := range w.fleet.Collisions() {
		got[c.What] = c.Value
		if c.First != donor.ID || c.Second != clone.ID {
			t.Errorf("wrong machines: %v", c)
		}
	}
	want := map[string]string{"node name": "pool000001", "machine-id": disk.MachineID(w.tree(donor.ID))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("collisions (-want +got):\n%s", diff)
	}
	if node := w.node("pool000002"); node.Name != "" {
		t.Error("the clone has a node of its own")
	}
	events, err := w.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) == 0 || events.Items[0].Reason != "IdentityCollision" {
		t.Errorf("events are %v (%v)", events, err)
	}
	if err := w.fleet.Terminate(t.Context(), clone.ID); err != nil {
		t.Fatal(err)
	}
	if w.node("pool000001").Name == "" {
		t.Error("the clone's end took the donor's node away")
	}
}

func TestStaleSequenceNumberSuppressesAnExtension(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	if err := w.fleet.PowerOff(t.Context(), donor.ID, true); err != nil {
		t.Fatal(err)
	}
	root := w.tree(donor.ID)
	w.generalize(root)
	const log = "var/log/azure/Microsoft.Azure.Extensions.CustomScript/extension.log"
	runs := func(n int) int {
		t.Helper()
		s := spec(n)
		s.CustomData = []byte(emptyCloudConfig)
		w.launch(s, donor.Disk)
		w.ready(strings.ToLower(s.ComputerName), s.ID)
		return strings.Count(w.readFile(s.ID, log), "done")
	}
	if got := runs(2); got != 1 {
		t.Errorf("with a stale sequence number the extension ran: %d runs in the log, the donor's is 1", got)
	}
	if err := os.RemoveAll(filepath.Join(root, "var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-1.0.0")); err != nil {
		t.Fatal(err)
	}
	if got := runs(3); got != 2 {
		t.Errorf("without a sequence number the extension did not run: %d runs in the log", got)
	}
}

func TestBootstrapProfileJoins(t *testing.T) {
	w := newFleetEnv(t)
	s := spec(1)
	s.CustomData, s.Extensions = []byte(disk.CustomData(disk.Bootstrap)), nil
	w.launch(s, platformImage)
	w.ready("pool000001", s.ID)
	if profile, joined := disk.Joined(w.tree(s.ID)); !joined || profile != disk.Bootstrap {
		t.Errorf("joined as %q, %v", profile, joined)
	}
}

func TestCleanAndHardPowerOff(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	for _, hard := range []bool{false, true} {
		seed := w.readFile(s.ID, "var/lib/systemd/random-seed")
		if err := w.fleet.PowerOff(t.Context(), s.ID, hard); err != nil {
			t.Fatal(err)
		}
		if power := w.fleet.Power(s.ID); power != fleet.Off {
			t.Errorf("power is %s", power)
		}
		if saved := seed != w.readFile(s.ID, "var/lib/systemd/random-seed"); saved == hard {
			t.Errorf("hard %v: the seed was saved: %v", hard, saved)
		}
		w.eventually("the node is not Ready", func() bool { return readyOf(w.node("pool000001")) != corev1.ConditionTrue })
		for _, dir := range []string{"run", "proc"} {
			if entries, err := os.ReadDir(filepath.Join(w.tree(s.ID), dir)); err != nil || len(entries) > 0 {
				t.Errorf("%s outlived the power: %v (%v)", dir, entries, err)
			}
		}
		if err := w.fleet.PowerOn(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		w.ready("pool000001", s.ID)
	}
	if status, err := w.fleet.Machine(s.ID); err != nil || status.Boots != 3 {
		t.Errorf("after two power cycles: %+v (%v)", status, err)
	}
}

func TestCleanShutdownUndoesGeneralization(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	id := disk.MachineID(w.tree(s.ID))
	if err := os.Truncate(filepath.Join(w.tree(s.ID), "etc/machine-id"), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.PowerOff(t.Context(), s.ID, false); err != nil {
		t.Fatal(err)
	}
	if got := disk.MachineID(w.tree(s.ID)); got != id {
		t.Errorf("the shutdown left machine-id %q", got)
	}
}

// TestGeneralizePodPowersOff runs a pod like a capture: a program in the machine's tree that reads its boot, edits
// a file and turns the power off.
func TestGeneralizePodPowersOff(t *testing.T) {
	w := newFleetEnv(t)
	w.fleet.Close()
	program := filepath.Join(t.TempDir(), "kamino")
	text := `#!/bin/sh
test "$(cat "$2/proc/sys/kernel/random/boot_id")" = "$4" || exit 3
: > "$2/etc/generalized"
printf s > "$2/proc/sysrq-trigger"
printf o > "$2/proc/sysrq-trigger"
sleep 600
`
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	w.open(map[string]string{"kamino": program})
	s := w.donor()
	boot, err := w.fleet.Machine(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "generalize", Namespace: "kamino-system", UID: types.UID("g")},
		Spec: corev1.PodSpec{
			NodeName: "pool000001", RestartPolicy: corev1.RestartPolicyNever, HostNetwork: true,
			Containers: []corev1.Container{{
				Name: "generalize", Image: "kamino:dev", Args: []string{"--root", "/host", "--boot-id", boot.BootID},
				VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: "/host"}},
			}},
			Volumes: []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		},
	}
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the machine is off", func() bool { return w.fleet.Power(s.ID) == fleet.Off })
	if _, err := os.Stat(filepath.Join(w.tree(s.ID), "etc/generalized")); err != nil {
		t.Error(err)
	}
	w.eventually("its node is lost", func() bool { return readyOf(w.node("pool000001")) == corev1.ConditionUnknown })
	if err := w.fleet.PowerOff(t.Context(), s.ID, false); err != nil {
		t.Errorf("powering off what is off: %v", err)
	}
}

func TestPatchLikeKured(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	before, err := w.fleet.Machine(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.Patch(t.Context(), s.ID, PatchOptions{Kured: true}); err != nil {
		t.Fatal(err)
	}
	after, err := w.fleet.Machine(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if after.BootID == before.BootID || after.Packages["openssl"] != disk.NextVersion(before.Packages["openssl"]) {
		t.Errorf("boot %s, openssl %s", after.BootID, after.Packages["openssl"])
	}
	node := w.node("pool000001")
	if node.Status.NodeInfo.KernelVersion != "5.15.0-1072-azure" || node.Spec.Unschedulable {
		t.Errorf("kernel %s, cordoned %v", node.Status.NodeInfo.KernelVersion, node.Spec.Unschedulable)
	}
	if _, found := node.Annotations[kuredInProgress]; found || node.Annotations[kuredNeeded] == "" {
		t.Errorf("annotations are %v", node.Annotations)
	}
	needed, err := time.Parse(time.RFC3339, node.Annotations[kuredNeeded])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && !c.LastTransitionTime.Truncate(time.Second).After(needed) {
			t.Errorf("Ready since %s, and found to need a reboot at %s", c.LastTransitionTime.UTC(), needed)
		}
	}
	if _, err := os.Stat(filepath.Join(after.Disk, "run/reboot-required")); err == nil {
		t.Error("a reboot is still required")
	}
}

// TestTimesUseTheCalendar: a Node's status uses the calendar. The Lease does not, because Kubernetes compares the
// Lease with its own clock.
func TestTimesUseTheCalendar(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	w.calendar.Skip(48 * time.Hour)
	if err := w.fleet.Patch(t.Context(), s.ID, PatchOptions{Kured: true, NoReboot: true}); err != nil {
		t.Fatal(err)
	}
	w.calendar.Skip(6 * time.Hour)
	if err := w.fleet.Restart(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	node := w.ready("pool000001", s.ID)
	ahead := func(stamp time.Time) time.Duration { return time.Until(stamp).Round(time.Hour) }
	needed, err := time.Parse(time.RFC3339, node.Annotations[kuredNeeded])
	if err != nil || ahead(needed) != 48*time.Hour {
		t.Errorf("the reboot was found to be needed at %s (%v), want two days ahead", needed, err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && ahead(c.LastTransitionTime.Time) != 54*time.Hour {
			t.Errorf("the node is Ready since %s, want 54 hours ahead", c.LastTransitionTime)
		}
	}
	if log := w.readFile(s.ID, "var/log/apt/history.log"); !strings.Contains(log, needed.Format("2006-01-02T")) {
		t.Errorf("the patch is not in the log of its day:\n%s", log)
	}
	lease, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "pool000001", metav1.GetOptions{})
	if err != nil || ahead(lease.Spec.RenewTime.Time) != 0 {
		t.Errorf("the Lease is %v (%v), want one of the wall's time", lease, err)
	}
}

func TestRestartOfTheSandbox(t *testing.T) {
	w := newFleetEnv(t)
	on := w.donor()
	off := spec(2)
	w.launch(off, platformImage)
	w.ready("pool000002", off.ID)
	if err := w.fleet.PowerOff(t.Context(), off.ID, false); err != nil {
		t.Fatal(err)
	}
	id := w.readFile(on.ID, "etc/machine-id")
	w.fleet.Close()
	w.open(nil)
	w.ready("pool000001", on.ID)
	status, err := w.fleet.Machine(on.ID)
	if err != nil || status.Boots != 2 || status.Node != "pool000001" {
		t.Errorf("after the restart: %+v (%v)", status, err)
	}
	if w.readFile(on.ID, "etc/machine-id") != id {
		t.Error("the restart changed the machine's identity")
	}
	if power := w.fleet.Power(off.ID); power != fleet.Off {
		t.Errorf("the machine that was off is %s", power)
	}
}

func TestHangAndCrash(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	if err := w.fleet.Hang(s.ID); err != nil {
		t.Fatal(err)
	}
	w.eventually("the node is lost", func() bool { return readyOf(w.node("pool000001")) == corev1.ConditionUnknown })
	if w.fleet.Power(s.ID) != fleet.On {
		t.Error("a hung machine lost its power")
	}
	if err := w.fleet.Crash(s.ID); err != nil || w.fleet.Power(s.ID) != fleet.Off {
		t.Errorf("after a crash the power is %s (%v)", w.fleet.Power(s.ID), err)
	}
	if err := w.fleet.PowerOn(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	m, err := w.fleet.machine(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the system is up", func() bool { return m.now().units.Active(containerdUnit) })
	if err := w.fleet.Unhang(s.ID); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", s.ID)
}

// A copy during a deletion has the whole disk, or fails.
func TestCopySurvivesDiskDeletion(t *testing.T) {
	w := newFleetEnv(t)
	count := func(id fleet.DiskID) (files int) {
		err := filepath.WalkDir(w.fleet.DiskTree(id), func(string, fs.DirEntry, error) error { files++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	whole := -1
	for n := range 20 {
		from, to := fleet.DiskID(fmt.Sprintf("from-%d", n)), fleet.DiskID(fmt.Sprintf("to-%d", n))
		if err := w.fleet.CopyDisk(t.Context(), from, platformImage); err != nil {
			t.Fatal(err)
		}
		if whole < 0 {
			whole = count(from)
		}
		var copied, deleted error
		var both sync.WaitGroup
		both.Go(func() { copied = w.fleet.CopyDisk(t.Context(), to, from) })
		both.Go(func() { deleted = w.fleet.DeleteDisk(t.Context(), from) })
		both.Wait()
		if deleted != nil {
			t.Fatal(deleted)
		}
		if _, err := os.Stat(w.fleet.DiskTree(from)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the deleted disk is still there: %v", err)
		}
		if got := count(to); copied == nil && got != whole {
			t.Errorf("a copy has %d files, want %d", got, whole)
		}
	}
}

func TestTerminateKeepsTheDisk(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	root := w.tree(s.ID)
	if err := w.fleet.DeleteDisk(t.Context(), s.Disk); err == nil {
		t.Error("the disk of a running machine was deleted")
	}
	if err := w.fleet.CopyDisk(t.Context(), s.Disk, platformImage); err == nil {
		t.Error("the disk of a running machine was replaced")
	}
	for range 2 {
		if err := w.fleet.Terminate(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if w.node("pool000001").Name != "" {
		t.Error("the node is still there")
	}
	if _, err := os.Stat(root); err != nil {
		t.Error("the disk is gone")
	}
	if err := w.fleet.DeleteDisk(t.Context(), s.Disk); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("the disk is still there")
	}
	w.fleet.Close()
	w.open(nil)
	if list := w.fleet.Machines(); len(list) > 0 {
		t.Errorf("a terminated machine came back: %v", list)
	}
}

// TestKeepNodes: without a cloud controller, a Node outlives its machine and is not Ready.
func TestKeepNodes(t *testing.T) {
	w := newFleetEnv(t)
	w.fleet.Close()
	w.keepNodes = true
	w.open(nil)
	s := w.donor()
	if err := w.fleet.Terminate(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if list := w.fleet.Machines(); len(list) > 0 {
		t.Errorf("the machine is still there: %v", list)
	}
	w.eventually("the node that is left is not Ready", func() bool {
		n := w.node("pool000001")
		if n.Name == "" {
			t.Fatal("the node has gone")
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionUnknown
			}
		}
		return false
	})
}

func TestReimageBoots(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	old := w.readFile(s.ID, "etc/machine-id")
	again := s
	again.Disk = "fresh"
	if err := w.fleet.CopyDisk(t.Context(), again.Disk, platformImage); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.Reimage(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", s.ID)
	if status, err := w.fleet.Machine(s.ID); err != nil || status.Disk != w.fleet.DiskTree(again.Disk) || w.readFile(s.ID, "etc/machine-id") == old {
		t.Errorf("after the reimage: %+v (%v)", status, err)
	}
	if err := w.fleet.DeleteDisk(t.Context(), s.Disk); err != nil {
		t.Errorf("the old disk is still in use: %v", err)
	}
}

func TestLightMachines(t *testing.T) {
	w := newFleetEnv(t)
	const count = 100
	for n := range count {
		s := spec(n)
		s.Light, s.Disk = true, ""
		if err := w.fleet.Launch(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("all nodes are Ready", func() bool {
		nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(nodes.Items) == count
	})
	if entries, err := os.ReadDir(filepath.Join(w.dir, "disks")); err != nil || len(entries) > 0 {
		t.Errorf("light machines have disks: %v (%v)", entries, err)
	}
	if _, err := w.fleet.DiskPath(instance(0)); err == nil {
		t.Error("a light machine has a disk path")
	}
	if err := w.fleet.PowerOff(t.Context(), instance(0), false); err != nil || readyOf(w.node("pool000000")) != corev1.ConditionFalse {
		t.Errorf("a light machine that is off is Ready: %v", err)
	}
}
