package capture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestNoDonorIsReservedWhileKuredReboots: the capture waits, names the node, and continues automatically.
func TestNoDonorIsReservedWhileKuredReboots(t *testing.T) {
	s := newTestEnv(t).decide()
	s.engine.Kured = kured.Default
	sets := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	held := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kured", Annotations: map[string]string{
		"weave.works/kured-node-lock": fmt.Sprintf(`{"nodeID":"peer","created":%q,"TTL":0}`, noon.Format(time.RFC3339)),
	}}}
	s.must(s.objects.Create(sets, held, "kube-system"))
	waited := 0
	s.succeeded(s.play(func(int) {
		p := s.prototype()
		if p.Status.Phase == v1alpha1.PhasePending {
			waited++
			if !strings.Contains(p.Status.Progress, "kured holds its lock for node peer") {
				t.Errorf("it says %q", p.Status.Progress)
			}
			if stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil {
				t.Errorf("it is stalled: %+v", stalled)
			}
			if p.Status.Donor != nil || s.generalizePod() != nil {
				t.Error("the donor is taken, or looked at")
			}
		}
		if waited == 3 {
			free := held.DeepCopy()
			free.Annotations = nil
			s.must(s.objects.Update(sets, free, "kube-system"))
		}
	}))
	if waited < 3 {
		t.Errorf("it waited for %d passes", waited)
	}
}

// TestALockOfANodeThatDoesNotExist: the capture is Stalled with the command that releases the lock, and goes on after the release.
func TestALockOfANodeThatDoesNotExist(t *testing.T) {
	s := newTestEnv(t).decide()
	s.engine.Kured = kured.Default
	sets := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	held := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "kube-system",
			Name:        "kured",
			Annotations: map[string]string{"weave.works/kured-node-lock": `{"nodeID":"gone"}`},
		},
	}
	s.must(s.objects.Create(sets, held, "kube-system"))
	waited := 0
	s.succeeded(s.play(func(int) {
		p := s.prototype()
		if p.Status.Phase != v1alpha1.PhasePending {
			return
		}
		stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
		if stalled == nil || stalled.Reason != KuredLockStale || !strings.Contains(stalled.Message, "annotate daemonset kured weave.works/kured-node-lock-") {
			t.Errorf("the condition is %+v", stalled)
		}
		if waited++; waited == 3 {
			free := held.DeepCopy()
			free.Annotations = nil
			s.must(s.objects.Update(sets, free, "kube-system"))
		}
	}))
	if waited < 3 {
		t.Errorf("it waited for %d passes", waited)
	}
}

// TestUnreadableKuredLockIsAnnounced: an unreadable lock blocks no capture, and causes an event.
func TestUnreadableKuredLockIsAnnounced(t *testing.T) {
	s := newTestEnv(t).decide()
	s.engine.Kured = kured.Default
	s.must(s.objects.Create(appsv1.SchemeGroupVersion.WithResource("daemonsets"), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "kured", Annotations: map[string]string{"weave.works/kured-node-lock": "{"},
	}}, "kube-system"))
	var events recordedEvents
	s.engine.Recorder = &events
	s.succeeded(s.play())
	shown := 0
	for _, event := range events {
		if strings.Contains(event, KuredLockUnknown) {
			shown++
		}
	}
	if shown != 2 { // on the Prototype and on its Node
		t.Errorf("it was reported %d times: %q", shown, events)
	}
}

// TestKuredReservesNodeDuringReservation: kured takes a node between our reservation and the cordon. No pod is evicted until
// the other node is back.
func TestKuredReservesNodeDuringReservation(t *testing.T) {
	for moment, protects := range map[string]bool{"create leases/": false, "ProtectFromScaleIn ": true} {
		t.Run(moment, func(t *testing.T) { kuredReservesNode(t, moment, protects) })
	}
}

// kuredReservesNode before the call. The donor is protected by then, or it is not.
func kuredReservesNode(t *testing.T, moment string, protects bool) {
	s := newTestEnv(t).decide()
	s.engine.Kured = kured.Default
	sets := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	free := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kured"}}
	s.must(s.objects.Create(sets, free, "kube-system"))
	waited, gone := 0, false
	s.lose = func(what string) memory.Outcome {
		if waited == 0 && strings.HasPrefix(what, moment) {
			held := free.DeepCopy()
			held.Annotations = map[string]string{
				"weave.works/kured-node-lock": fmt.Sprintf(`{"nodeID":"peer","created":%q,"TTL":0}`, noon.Format(time.RFC3339)),
			}
			s.must(s.objects.Update(sets, held, "kube-system"))
			waited++
		}
		return memory.Pass()
	}
	s.succeeded(s.play(func(int) {
		if p := s.prototype(); waited > 0 && !gone {
			if waited++; waited <= 4 {
				return // the inspection's pod is deleted, and the next pass waits
			}
			if p.Status.Phase != v1alpha1.PhaseReserving || !strings.Contains(p.Status.Progress, "kured holds its lock for node peer") {
				t.Errorf("in phase %s it says %q", p.Status.Phase, p.Status.Progress)
			}
			hold, err := s.cloud.Protection(t.Context(), s.donor)
			if cordoned := s.tracked("nodes", "", donorName).(*corev1.Node).Spec.Unschedulable; err != nil || hold.Protected != protects || cordoned {
				t.Errorf("the donor is taken: %+v, %v, cordoned: %t", hold, err, cordoned)
			}
			if gone = waited > 6; gone {
				s.must(s.objects.Update(sets, free, "kube-system"))
			}
		}
	}))
	if !gone {
		t.Error("it did not wait")
	}
}
