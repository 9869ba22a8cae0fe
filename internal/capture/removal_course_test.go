package capture

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestFailuresOfADeparture: an untouched donor is returned, and the grown pool keeps its new node. A touched donor is
// removed. The message names the outcome.
func TestFailuresOfADeparture(t *testing.T) {
	const stays, goes, filled = "Pool pool1 has grown by one node for the capture", "Node donor cannot join again, so its instance is removed", "gets a replacement"
	for _, c := range []struct {
		name, reason string
		says         []string
		behind       bool // the place is filled behind the donor
		donor        option
		prepare      func(*removalEnv)
		between      func(*removalEnv, int)
		size         int64
	}{
		{name: "new nodes do not join", reason: "NewNodeNotReady", says: []string{"was not Ready within 15m0s", "was not drained", stays}, size: 3,
			prepare: func(d *removalEnv) { d.lonely = true }},
		{name: "the pool cannot grow", reason: CloudRefused, says: []string{"more than the pool's maximum size of 2"}, size: 2,
			between: func(d *removalEnv, pass int) {
				if pass == 1 { // the preflight has seen room
					d.cloud.SetMaxSize(d.pool, 2)
				}
			}},
		{name: "growing would change nodes that run", reason: CloudRefused, says: []string{"upgrade policy"}, size: 2,
			between: func(d *removalEnv, pass int) { d.cloud.SetUpgrades(d.pool, pass > 0 && pass < 12) }},
		{name: "a budget blocks the drain", reason: "DrainTimeout", says: []string{"was not drained within 15m0s", stays}, size: 3,
			prepare: func(d *removalEnv) { d.blocked = 1 << 20 }},
		{name: "a budget blocks the drain of a cordoned donor", reason: "DrainTimeout", says: []string{"was not drained within 15m0s", stays}, size: 3,
			donor: donors[1].is, prepare: func(d *removalEnv) { d.blocked = 1 << 20 }},
		{name: "the pod cannot start", reason: "GeneralizeFailed", says: []string{"ImagePullBackOff", goes, "has already grown by one node"}, size: 2,
			prepare: func(d *removalEnv) { d.deaf = true }, between: func(d *removalEnv, _ int) {
				if d.touched {
					d.pullFails()
				}
			}},
		{name: "the same before its replacement", reason: "GeneralizeFailed", says: []string{goes, filled}, size: 2, behind: true,
			prepare: func(d *removalEnv) { d.deaf = true }, between: func(d *removalEnv, _ int) {
				if d.touched {
					d.pullFails()
				}
			}},
		{name: "the snapshot fails", reason: "SnapshotFailed", says: []string{goes}, size: 2, prepare: func(d *removalEnv) { d.cloud.FailSnapshots(1) }},
		{name: "the pod never reports", reason: "DeadlineExceeded", says: []string{"deadline of 30m0s", goes}, size: 2, prepare: func(d *removalEnv) { d.deaf = true }},
		{name: "a person deletes the instance", reason: "DonorGone", says: []string{"was removed during the capture"}, size: 2,
			between: func(d *removalEnv, _ int) {
				if d.prototype().Status.Phase == v1alpha1.PhaseGeneralizing && d.cloud.World().Instance(d.donor).ID != "" {
					d.strike(func(s *testEnv) { s.cloud.RemoveInstance(s.donor) })
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.donor == nil {
				c.donor = donors[0].is
			}
			d := departInFull(t, !c.behind, c.donor)
			if c.prepare != nil {
				c.prepare(d)
			}
			p := d.run(func(pass int) {
				if c.between != nil {
					c.between(d, pass)
				}
			})
			if d.checkEnd(p); p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != shown(c.reason) {
				t.Fatalf("it did not fail for %s: %s", c.reason, verdict(p))
			}
			for _, words := range c.says {
				if !strings.Contains(p.Status.Failure.Message, words) {
					t.Errorf("it does not say %q: %s", words, p.Status.Failure.Message)
				}
			}
			if strings.Contains(p.Status.Failure.Message, "returned") {
				t.Errorf("it speaks of a return: %s", p.Status.Failure.Message)
			}
			if size := d.cloud.World().Pools[0].Capacity; size != c.size {
				t.Errorf("the pool's wanted size is %d nodes, want %d", size, c.size)
			}
		})
	}
}

// TestDeniedCarryOver: labels that Kamino may not write refuse the capture, or end the capture before the drain if the
// permission is lost later.
func TestDeniedCarryOver(t *testing.T) {
	denied := apierrors.NewForbidden(corev1.Resource("nodes"), "donor", errors.New("ValidatingAdmissionPolicy kamino-node-labels: no labels"))
	for name, later := range map[string]bool{"before": false, "after the growth": true} {
		t.Run(name, func(t *testing.T) {
			d := departInFull(t, true)
			size := int64(2)
			if d.mayTry = denied; later {
				d.mayTry, d.mayMark, size = nil, denied, 3
			}
			p := d.run(func(int) {
				if n, _ := d.tracked("nodes", "", donorName).(*corev1.Node); n == nil || n.Spec.Unschedulable {
					t.Error("the donor is cordoned")
				}
			})
			d.checkEnd(p)
			if f := p.Status.Failure; f == nil || f.Reason != admission.NotAllowed || !strings.Contains(f.Message, "no labels") ||
				!strings.Contains(f.Message, "admission.carryOver") {
				t.Errorf("it is not refused: %s", verdict(p))
			}
			if got := d.cloud.World().Pools[0].Capacity; got != size {
				t.Errorf("the pool has %d nodes, want %d", got, size)
			}
		})
	}
}

// TestDonorRemovalIsReported in events, phases and progress, and the donor serves until it is taken.
func TestDonorRemovalIsReported(t *testing.T) {
	d := departInFull(t, true)
	recorder := events.NewFakeRecorder(200)
	shown, progress := "", map[string]bool{}
	served := false
	d.play(func(int) {
		d.engine.Recorder = recorder
		p := d.prototype()
		progress[string(p.Status.Phase)+": "+p.Status.Progress] = true
		if p.Status.Phase == v1alpha1.PhaseGrowing {
			served = served || p.Status.Donor == nil
			if n, _ := d.tracked("nodes", "", donorName).(*corev1.Node); n.Spec.Unschedulable {
				t.Error("the donor is cordoned while its replacement is awaited")
			}
		}
		for len(recorder.Events) > 0 {
			shown += <-recorder.Events + "\n"
		}
	})
	for _, want := range []string{"Growing: pool pool1 grows by one", "Growing: waiting for the replacement of node donor, which still serves",
		"Removing: the instance is being removed", "Removing: the instance is removed; the Node object is deleted"} {
		if !progress[want] {
			t.Errorf("no progress %q: %v", want, progress)
		}
	}
	for _, want := range []string{"Normal Reserved node donor is reserved for version 2026.03.14 of pool pool1; the node serves until",
		"Normal Growing pool pool1 grows by one node, the replacement of node donor",
		"Normal Removing the instance of node donor is removed from pool pool1", "Normal Removed node donor does not return"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no event %q:\n%s", want, shown)
		}
	}
	if !served || strings.Contains(shown, "Released") || strings.Contains(shown, "InstanceGone") {
		t.Errorf("the donor served: %t; events:\n%s", served, shown)
	}
}

// TestDeadlineStartsWithReservation: a replacement that takes longer than the deadline costs the donor no service.
func TestDeadlineStartsWithReservation(t *testing.T) {
	d := departInFull(t, true, func(s *testEnv) { s.lonely = true })
	d.onPrototype(func(p *v1alpha1.Prototype) {
		p.Spec.Settings.OutOfService.Deadline = metav1.Duration{Duration: 3 * time.Minute}
	})
	p := d.run(func(int) { d.lonely = d.clock.Now().Sub(noon) < 10*time.Minute })
	d.departed(p)
	if at := p.Status.Donor.ReservedAt.Sub(noon); at < 10*time.Minute {
		t.Errorf("the donor is reported away from %s on", at)
	}
}

// TestAnAutoscalerAtAnyMoment shrinks or grows the pool after each pass (short: one of both). The capture continues or
// explains its end. The pool grows at most once for a donor, and is never left smaller.
func TestAnAutoscalerAtAnyMoment(t *testing.T) {
	short := testing.Short()
	for i, name := range []string{"shrinks", "grows"} {
		scale := []func(*testEnv){func(s *testEnv) { s.cloud.ScaleIn(s.pool) }, func(s *testEnv) { s.scale(1) }}[i]
		for _, growFirst := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for at := 0; ; at++ {
					if isSkipped(short, at, i, 2) {
						continue
					}
					d := departInFull(t, growFirst)
					last := -1
					p := d.run(func(pass int) {
						if last = pass; pass == at {
							d.strike(scale)
						}
					})
					if d.checkEnd(p); t.Failed() {
						t.Fatalf("%s after pass %d: %s", name, at, verdict(p))
					}
					if last < at {
						return
					}
				}
			})
		}
	}
}

// TestTheNodeOfAnotherInstanceStays: during the removal of the donor's instance, another instance joins by the donor's
// name.
func TestTheNodeOfAnotherInstanceStays(t *testing.T) {
	for _, late := range []bool{false, true} { // in the very moment of the deletion
		d := departInFull(t, true)
		replaced := false
		replace := func() {
			replaced = true
			other := d.cloud.AddInstance(d.pool, "99")
			d.grown++
			_ = d.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName)
			n := d.node(donorName, other)
			n.UID = "another"
			d.must(d.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
		}
		d.lose = func(what string) memory.Outcome {
			if late && !replaced && what == "delete nodes/" {
				replace()
			}
			return memory.Pass()
		}
		p := d.play(func(int) {
			if !late && !replaced && d.cloud.World().Instance(d.donor).ID == "" {
				replace()
			}
		})
		if n, _ := d.tracked("nodes", "", donorName).(*corev1.Node); n == nil || n.UID != "another" {
			t.Errorf("late %t: the other instance's Node is %+v", late, n)
		}
		if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || !replaced {
			t.Errorf("late %t: %s", late, verdict(p))
		}
	}
}

// TestAnOrphanThatLeaves: the Prototype of a touched donor vanishes without its finalizer. A sweep removes the donor
// and fills its place, and loses each call in each way (short: in one).
func TestAnOrphanThatLeaves(t *testing.T) {
	for growFirst, ways := range map[bool][]memory.Loss{true: memory.Losses()[2:], false: losses} {
		t.Run(fmt.Sprintf("grow first %t", growFirst), func(t *testing.T) {
			memory.Courses{Losses: ways, Least: 20, Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
				d := orphaned(t, growFirst)
				d.schedule = schedule
				for range 60 {
					n, _ := d.tracked("nodes", "", donorName).(*corev1.Node)
					if n == nil {
						break
					}
					r, err := v1alpha1.ReservationOf(n.Annotations)
					d.must(err)
					memory.RunUntilCrash(func() { _, _ = d.engine.Orphan(t.Context(), donorName, r.Holder) })
					d.tick(8 * time.Second)
					d.watch()
				}
				d.schedule = memory.NewSchedule(nil)
				d.sweep()
				d.checkEnd(nil)
			}}.LoseEach(t)
		})
	}
}

// orphaned is a touched donor with a copy, and without its Prototype.
func orphaned(t *testing.T, growFirst bool) *removalEnv {
	d := departInFull(t, growFirst)
	for pass := 0; ; pass++ {
		if pass == 60 {
			t.Fatalf("the donor is not copied: %s", verdict(d.prototype()))
		}
		_, err := d.engine.Pass(t.Context(), d.name)
		d.must(err)
		d.tick(4 * time.Second)
		d.watch()
		if n, _ := d.tracked("nodes", "", donorName).(*corev1.Node); d.touched && len(d.cloud.World().Snapshots) > 0 && n != nil {
			if r, err := v1alpha1.ReservationOf(n.Annotations); err == nil && r != nil && r.GeneralizeBootID != "" {
				break
			}
		}
	}
	d.onPrototype(func(p *v1alpha1.Prototype) { p.Finalizers = nil })
	if p := d.prototype(); p != nil {
		d.must(d.clean.Delete(t.Context(), p))
	}
	return d
}

// TestReplacementNode: a node of the pool that was made since, takes pods, and is not the donor.
func TestReplacementNode(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Node){
		"it does":   nil,
		"cordoned":  func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"not Ready": func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse },
		"not initialized": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized"}}
		},
		"made before":         func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour)) },
		"of another pool":     func(n *corev1.Node) { n.Spec.ProviderID = "memory:///pools/pool2/instances/7" },
		"of no pool":          func(n *corev1.Node) { n.Spec.ProviderID = "" },
		"being deleted":       func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} },
		"of the pool's peer":  func(n *corev1.Node) { n.Name = "peer" },
		"of the donor itself": func(n *corev1.Node) { n.Name = donorName },
	} {
		s := newTestEnv(t)
		p := &v1alpha1.Prototype{}
		p.Spec.Donor.NodeName = donorName
		after := metav1.NewTime(noon)
		w := &pass{p: p, pool: s.pool, record: v1alpha1.Record{Replacement: &v1alpha1.DonorReplacement{NewestNodeAt: &after}}}
		n := s.node("fresh", s.cloud.AddInstance(s.pool, "7"))
		n.CreationTimestamp = metav1.NewTime(noon.Add(time.Minute))
		if spoil != nil {
			spoil(n)
		}
		if n.Name == "fresh" {
			s.must(s.objects.Add(n))
		}
		found, err := s.engine.rooms().leaving.findNewNode(t.Context(), w, acceptsPods)
		s.must(err)
		if (found != nil) != (spoil == nil) || found != nil && found.Name != "fresh" {
			t.Errorf("%s: %v takes the donor's place", name, found)
		}
	}
}
