package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// gaveBack checks invariants 1, 5 and 6: the donor is unchanged, no leftovers exist, and no other node was touched.
func (s *testEnv) gaveBack() {
	s.t.Helper()
	w := s.cloud.World()
	if n, _ := s.tracked("nodes", "", donorName).(*corev1.Node); n != nil && w.Instance(s.donor).ID != "" {
		want := s.node(donorName, s.donor)
		if s.patches != nil { // a pioneer keeps its patch level
			for _, mark := range []string{v1alpha1.PatchedAtAnnotation, v1alpha1.PatchLevelAnnotation, v1alpha1.PatchFailedAnnotation, v1alpha1.RebootPendingAnnotation} {
				delete(n.Annotations, mark)
			}
		}
		if n.UID == want.UID {
			if diff := cmp.Diff(want.Annotations, n.Annotations); diff != "" {
				s.t.Errorf("annotations of the donor (-before +after):\n%s", diff)
			}
		}
		if n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			s.t.Error("the donor is still reserved")
		}
		recreated := n.UID != want.UID // made after the end of the hold
		if n.Spec.Unschedulable != s.cordoned && (n.Spec.Unschedulable || !recreated) {
			s.t.Errorf("the donor is cordoned: %t, before: %t", n.Spec.Unschedulable, s.cordoned)
		}
	}
	if m := w.Instance(s.donor); m.ID != "" {
		if m.Power != cloud.PowerRunning {
			s.t.Errorf("the donor is %s", m.Power)
		}
		if m.ScaleInProtected != s.protected {
			s.t.Errorf("the donor is protected from scale-in: %t, before: %t", m.ScaleInProtected, s.protected)
		}
	}
	for _, m := range w.Instances {
		if m.ID != s.donor && m.BuiltFrom == "" && m.Boots != 1 {
			s.t.Errorf("%s was rebooted", m.ID)
		}
	}
	for _, snapshot := range w.Snapshots {
		if snapshot.State != cloud.Deleting {
			s.t.Errorf("snapshot %s is left behind", snapshot.Name)
		}
	}
	if p := s.prototype(); p != nil {
		record, _ := v1alpha1.RecordOf(p)
		if record.Reservation != nil || len(p.Finalizers) > 0 {
			s.t.Errorf("the prototype still holds: %+v %v", record, p.Finalizers)
		}
	}
	if s.tracked("pods", podspace, s.podName()) != nil {
		s.t.Error("the generalize pod is left behind")
	}
	if s.order() != nil {
		s.t.Error("the order is left behind")
	}
	if s.tracked("secrets", podspace, s.podName()) != nil {
		s.t.Error("the order's key is left behind")
	}
	if n, _ := s.tracked("nodes", "", donorName).(*corev1.Node); n != nil && w.Instance(s.donor).ID == "" && s.donorNode == donorName {
		s.keptLease(n) // the instance is gone, and the Node is left
	}
	if names := s.leases(); len(names) > 0 {
		s.t.Errorf("leases are left behind: %v", names)
	}
}

func (s *testEnv) succeeded(p *v1alpha1.Prototype) {
	s.t.Helper()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		s.t.Fatalf("the capture did not succeed: %s\n%s", verdict(p), s.lastCalls(40))
	}
	s.gaveBack()
	w := s.cloud.World()
	if got := w.Pools[0].Recipe; got.Version != p.Spec.Version || got.Latest || len(got.Bootstrap) != 0 {
		s.t.Errorf("the recipe is %+v", got)
	}
	if got := w.Count(memory.ByCaller, memory.EffectSnapshot, ""); got != 1 {
		s.t.Errorf("%d snapshots were made", got)
	}
	if s.tracked("secrets", ourspace, p.Name+"-recipe") == nil {
		s.t.Error("what the recipe lost was not saved")
	}
}

func verdict(p *v1alpha1.Prototype) string {
	if p == nil {
		return "the prototype is gone"
	}
	record, _ := json.Marshal(p.Status.Record)
	return fmt.Sprintf("phase %s, failure %+v, record %s", p.Status.Phase, p.Status.Failure, record)
}

// shown is the reason in the status for a cause of a failure.
func shown(cause string) string { return string(plan.Reason(cause).Public()) }

func (s *testEnv) failed(p *v1alpha1.Prototype, reason string) {
	s.t.Helper()
	if p == nil || p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Reason != shown(reason) {
		s.t.Fatalf("the capture did not fail for %s: %s", reason, verdict(p))
	}
	if !meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionReady) ||
		!meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionStalled) {
		s.t.Errorf("conditions: %+v", p.Status.Conditions)
	}
	s.gaveBack()
	if got := s.cloud.World().Pools[0].Recipe.Version; got != "" {
		s.t.Errorf("the recipe points at %s", got)
	}
}

func TestFailures(t *testing.T) {
	minutes := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }
	for _, c := range []struct {
		name    string
		reason  string
		says    string
		prepare func(*testEnv)
		change  func(*v1alpha1.Prototype)
		between func(*testEnv, int)
	}{
		{name: "a budget blocks the drain", reason: "DrainTimeout", says: "default/app-0: The disruption budget app",
			prepare: func(s *testEnv) { s.blocked = 1 << 20 },
			change:  func(p *v1alpha1.Prototype) { p.Spec.Settings.Drain.Timeout = minutes(2) }},
		{name: "a notice ends the drain", reason: "DrainTimeout", says: "about to be removed (taint aws-node-termination-handler/spot-itn)",
			prepare: func(s *testEnv) { s.blocked = 1 << 20 }, between: func(s *testEnv, _ int) {
				s.onNode(func(n *corev1.Node) {
					if n.Spec.Unschedulable && nodestate.Leaving(n) == "" {
						n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule})
					}
				})
			}},
		{name: "the pod never reports", reason: "DeadlineExceeded", says: "deadline of 5m",
			prepare: func(s *testEnv) { s.deaf = true },
			change:  func(p *v1alpha1.Prototype) { p.Spec.Settings.OutOfService.Deadline = minutes(5) }},
		{name: "the pod cannot start", reason: "GeneralizeFailed", says: "ImagePullBackOff",
			prepare: func(s *testEnv) { s.deaf = true }, between: func(s *testEnv, _ int) { s.pullFails() }},
		{name: "the donor does not come back", reason: "DonorNotReady", says: "did not become Ready",
			prepare: func(s *testEnv) { s.hung = true },
			change: func(p *v1alpha1.Prototype) {
				p.Spec.Settings.OutOfService = v1alpha1.OutOfServiceSettings{Deadline: minutes(5), ReadyTimeout: minutes(5)}
			}},
		{name: "the snapshot fails", reason: "SnapshotFailed", says: "snapshot", prepare: func(s *testEnv) { s.cloud.FailSnapshots(1) }},
		{name: "the image fails", reason: "ImageFailed", says: "could not create version", prepare: func(s *testEnv) { s.cloud.FailImages(1) }},
		{name: "no permission for the snapshot", reason: CloudRefused, says: "ensure snapshot",
			prepare: func(s *testEnv) {
				s.lose = func(what string) memory.Outcome {
					if strings.HasPrefix(what, "EnsureSnapshot") {
						return memory.FailBefore(cloud.Denied)
					}
					return memory.Pass()
				}
			}},
		{name: "the instance is removed while it is drained", reason: "DonorGone", says: "was removed",
			prepare: func(s *testEnv) { s.blocked = 6 },
			between: func(s *testEnv, pass int) {
				if pass == 4 {
					s.cloud.RemoveInstance(s.donor)
					s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName))
				}
			}},
		{name: "the Node is deleted while its instance runs", reason: "DonorGone", says: "but its instance runs. Find the client",
			prepare: func(s *testEnv) { s.blocked = 6 },
			between: func(s *testEnv, pass int) {
				if pass == 4 {
					s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName))
				}
			}},
		{name: "the Node is deleted before its instance is off", reason: "DonorGone", says: "stopped or removed, and the Node was deleted",
			prepare: func(s *testEnv) { s.blocked = 6 },
			between: func(s *testEnv, pass int) {
				if pass == 4 {
					s.cloud.StopByStranger(s.donor)
					s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName))
				}
			}},
		{name: "another client removes the reservation", reason: "ReservationLost", says: "annotation",
			prepare: func(s *testEnv) { s.blocked = 9 },
			between: func(s *testEnv, pass int) {
				if n, _ := s.tracked("nodes", "", donorName).(*corev1.Node); pass == 4 && n != nil {
					delete(n.Annotations, v1alpha1.ReservationAnnotation)
					s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t)
			if c.prepare != nil {
				c.prepare(s)
			}
			if c.change == nil {
				c.change = func(*v1alpha1.Prototype) {}
			}
			s.decide(c.change)
			p := s.play(func(pass int) {
				if c.between != nil {
					c.between(s, pass)
				}
			})
			s.failed(p, c.reason)
			if !strings.Contains(p.Status.Failure.Message, c.says) {
				t.Errorf("the message does not say %q: %s", c.says, p.Status.Failure.Message)
			}
		})
	}
}

func (s *testEnv) pullFails() {
	pod, _ := s.tracked("pods", podspace, s.podName()).(*corev1.Pod)
	if pod == nil {
		return
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, podspace))
}

// TestRefusalsChangeNothing: each fact that the engine reads for a refusal, with the world untouched afterwards. Package admission
// tests the decisions.
func TestRefusalsChangeNothing(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		prepare      func(*testEnv)
		change       func(*v1alpha1.Prototype)
	}{
		{"no such node", admission.NodeNotFound, nil, func(p *v1alpha1.Prototype) { p.Spec.Donor.NodeName = "nobody" }},
		{"another instance by that name", admission.NodeNotFound, nil, func(p *v1alpha1.Prototype) { p.Spec.Donor.ProviderID = string("memory:///pools/pool1/instances/9") }},
		{"another pool", admission.NotInPool, nil, func(p *v1alpha1.Prototype) { p.Spec.Pool = "pool2" }},
		{"the ID of another pool", admission.NotInPool, nil, func(p *v1alpha1.Prototype) { p.Spec.PoolID = "memory:///pools/pool2" }},
		{"the pool's ID in another case", admission.NotInPool, nil, func(p *v1alpha1.Prototype) { p.Spec.PoolID = strings.ToUpper(p.Spec.PoolID) }},
		{"not in a pool", admission.NotInPool, nil, func(p *v1alpha1.Prototype) { p.Spec.Donor.ProviderID, p.Spec.PoolID = "gce://x/y", "" }},
		{"an instance of another cloud", admission.NodeNotFound, nil, func(p *v1alpha1.Prototype) { p.Spec.Donor.ProviderID = "gce://x/y" }},
		{"yesterday's version", admission.VersionOutOfOrder, nil, func(p *v1alpha1.Prototype) { p.Spec.Version = "2026.03.01" }},
		{"not installed", admission.NotInstalled, func(s *testEnv) {
			s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), podspace, v1alpha1.GeneralizeServiceAccount))
		}, nil},
		{"an unmanaged pod", admission.UnmanagedPods, func(s *testEnv) {
			pod := appPod("lonely")
			pod.OwnerReferences = nil
			s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("pods"), pod, "default"))
		}, nil},
		{"the only Ready node", "OnlyReadyNode", func(s *testEnv) {
			s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "peer"))
		}, nil},
		{"a pool of the wrong kind", "NodesWouldBeReplaced", func(s *testEnv) {
			s.cloud.RefusePool(s.pool, cloud.Refusal{Reason: "NodesWouldBeReplaced", Message: "pool1 rolls out automatically"})
		}, nil},
		{"captured today", "VersionExists", func(s *testEnv) { s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.14"}) }, nil},
		{"another capture of the pool", admission.CaptureInFlight, func(s *testEnv) {
			s.decide(func(p *v1alpha1.Prototype) {
				p.Name, p.Spec.Version = "pool1-2026.03.13", "2026.03.13"
				p.CreationTimestamp.Time = noon.Add(-time.Hour)
			})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t)
			if c.prepare != nil {
				c.prepare(s)
			}
			if c.change == nil {
				c.change = func(*v1alpha1.Prototype) {}
			}
			before := s.cloud.World()
			s.decide(c.change)
			p := s.play()
			if p.Status.Failure == nil || p.Status.Failure.Reason != c.reason {
				t.Fatalf("refused for %+v, want %s", p.Status.Failure, c.reason)
			}
			s.gaveBack()
			after := s.cloud.World()
			if diff := cmp.Diff(before.Effects, after.Effects); diff != "" {
				t.Errorf("a refusal changed the cloud:\n%s", diff)
			}
		})
	}
}

// TestDeletedInFlight deletes the Prototype before each call of a capture (short: of every third): the donor comes back, nothing stays.
func TestDeletedInFlight(t *testing.T) {
	whole := newTestEnv(t).decide()
	whole.succeeded(whole.play())
	for at, before := range whole.calls() {
		if isSkipped(testing.Short(), at, 0, 3) {
			continue
		}
		s := newTestEnv(t).decide()
		s.lose = func(string) memory.Outcome {
			if len(s.calls()) == at+1 {
				s.must(s.clean.Delete(t.Context(), s.prototype()))
			}
			return memory.Pass()
		}
		if p := s.play(); p != nil {
			t.Fatalf("deleted before call %d (%s), it stays: %s", at, before, verdict(p))
		}
		s.gaveBack()
		if t.Failed() {
			t.Fatalf("deleted before call %d (%s)", at, before)
		}
	}
}

// TestPreviewChangesNothing shows what would be done.
func TestPreviewChangesNothing(t *testing.T) {
	s := newTestEnv(t).decide()
	before := s.cloud.World()
	p := s.prototype()
	preview, err := s.engine.Preview(t.Context(), p, nil)
	s.must(err)
	if len(preview.Refusals) != 0 || len(preview.Evicts) != 3 || preview.Change == nil || len(preview.Change.Removes) != 2 {
		t.Errorf("preview: %+v", preview)
	}
	if diff := cmp.Diff(before, s.cloud.World()); diff != "" {
		t.Errorf("a preview changed the cloud:\n%s", diff)
	}
	if len(s.prototype().Finalizers) > 0 {
		t.Error("a preview changed the prototype")
	}
}

// TestBlockedEvictionsInAPreview: a budget that allows no eviction is known before the donor is taken out of service. A
// capture with force ignores budgets.
func TestBlockedEvictionsInAPreview(t *testing.T) {
	for _, force := range []bool{false, true} {
		s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Drain.Force = force })
		s.blocked = 1
		preview, err := s.engine.Preview(t.Context(), s.prototype(), nil)
		s.must(err)
		if force {
			if len(preview.Refusals) != 0 {
				t.Errorf("with force: %+v", preview.Refusals)
			}
			continue
		}
		if r := preview.Refusals; len(r) != 1 || r[0].Reason != admission.EvictionBlocked || !strings.Contains(r[0].Message, "needs 3 healthy pods") {
			t.Errorf("got %+v", r)
		}
		s.blocked = 1
		found, err := s.engine.Case(t.Context(), s.prototype(), nil)
		s.must(err)
		if r := found.Judge().Refusals; len(r) != 1 || r[0].Reason != admission.EvictionBlocked {
			t.Errorf("doctor: %+v", r)
		}
	}
}

// TestADonorThatPowersItselfOff: Kamino waits for a donor that powers itself off, because a cloud takes minutes. A
// donor that stays on is stopped.
func TestADonorThatPowersItselfOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // since the proof; zero: never
		stops bool
	}{{"in a moment", 15 * time.Second, false}, {"never", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			s.lingering = true
			var proven time.Time
			off := false
			p := s.play(func(int) {
				proof := s.prototype().Status.Proof
				if proof == nil {
					return
				}
				proven = proof.At.Time
				if !off && c.after > 0 && s.clock.Now().Sub(proven) >= c.after {
					off = s.cloud.GuestPowerOff(s.donor)
				}
			})
			s.succeeded(p)
			orders := slices.DeleteFunc(s.calls(), func(call string) bool { return !strings.HasPrefix(call, "EnsureStopped ") })
			if got := len(orders) > 0; got != c.stops || len(orders) > 1 {
				t.Errorf("the cloud was asked to stop it %d times", len(orders))
			}
			if proven.IsZero() {
				t.Error("no proof was seen")
			}
		})
	}
}
