package trialnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
)

// boots sets the boot of a node, with a Ready condition of the time before or of this boot.
func (w *testEnv) boots(name, boot string, ready bool, stamp time.Time) {
	w.Helper()
	node := w.get(name)
	node.Status.NodeInfo.BootID = boot
	if _, err := w.kube.CoreV1().Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.ready(name, ready, stamp)
}

// TestASecondBoot: the pods measure again in the second boot, restarts of DaemonSets count from zero, and the node is no other machine. Another boot
// without a recorded restart is none.
func TestASecondBoot(t *testing.T) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.node("w-1", true)
	w.observeUntil("the first pod", func(trial.Facts) bool { return w.part(onDisk) != nil })
	w.becomes(onDisk, ended(0, "{}"))
	w.observeUntil("the peer", func(trial.Facts) bool { return w.part(peer) != nil })
	w.becomes(peer, running("10.0.0.1"))
	w.observeUntil("the measuring pods", func(trial.Facts) bool { return w.part(measuring) != nil && w.part(control) != nil })
	w.becomes(measuring, reported("sha256:a"))
	w.becomes(control, reported(""))
	f := w.observeUntil("the report", func(f trial.Facts) bool { return f.Digest != "" })
	if f.Reboot.Boot != "b-t-0" || f.Reboot.Booted || !f.Reboot.Back.IsZero() {
		t.Errorf("before the restart: %+v", f.Reboot)
	}
	measured := w.part(measuring).UID

	w.subject.Restart = &v1alpha1.TrialReboot{Boot: "b-t-0"}
	if f = w.at(time.Minute).observeUntil("the old boot", nil); f.Reboot.Booted || w.part(measuring).UID != measured {
		t.Errorf("in the first boot: %+v", f.Reboot)
	}
	w.boots("t-0", "again", false, noon)
	f = w.at(2*time.Minute).observeUntil("the new boot", func(f trial.Facts) bool { return f.Reboot.Booted })
	if !f.Reboot.Back.IsZero() || f.Ready || !f.Changed.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("in the second boot: %+v", f)
	}
	w.boots("t-0", "again", true, noon)
	f = w.at(3*time.Minute).observeUntil("the Ready node", func(f trial.Facts) bool { return f.Ready })
	if !f.Reboot.Back.Equal(noon.Add(3*time.Minute)) || !f.Changed.Equal(f.Reboot.Back) {
		t.Errorf("back: %+v", f)
	}
	w.observeUntil("another measuring pod", func(trial.Facts) bool { pod := w.part(measuring); return pod != nil && pod.UID != measured })
	if f = w.observeUntil("the old report is gone", nil); f.Digest != "" {
		t.Errorf("the digest of the first boot is %s", f.Digest)
	}

	// The instance is gone, and its Node still reports Ready: it is the trial's, and waits.
	w.subject.Instances = nil
	if !w.clean() || !w.get("t-0").Spec.Unschedulable {
		t.Error("the node of the second boot was returned to service")
	}
}

// TestRestartsCountInEachBoot: a boot restarts the containers of each DaemonSet once.
func TestRestartsCountInEachBoot(t *testing.T) {
	k := &trialRecord{Boot: "one", DaemonSets: map[string]v1alpha1.TrialDaemonSet{"kube-system/cni": {WasReady: true, Restarts: 2}},
		FirstReady: metav1.NewTime(noon), Since: metav1.NewTime(noon), Ready: true}
	node := &corev1.Node{}
	for _, boot := range []string{"one", "two", "three"} {
		node.Status.NodeInfo.BootID = boot
		observe(k, node, metav1.NewTime(noon.Add(time.Hour)), &v1alpha1.TrialReboot{Boot: "one"})
		if second := k.SecondBoot; (second == nil) != (boot == "one") || second != nil && second.ID != "two" {
			t.Errorf("in boot %s the second boot is %+v", boot, second)
		}
		if k.DaemonSets["kube-system/cni"].WasReady != (boot == "one") {
			t.Errorf("in boot %s the restarts count as %+v", boot, k.DaemonSets)
		}
	}
	skipped := &trialRecord{Boot: "one"}
	observe(skipped, node, metav1.NewTime(noon), &v1alpha1.TrialReboot{Boot: "one", Skipped: "denied"})
	observe(skipped, node, metav1.NewTime(noon), nil)
	if skipped.SecondBoot != nil {
		t.Error("a boot that no one ordered is a second boot")
	}
}
