package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// soaked is a user's pod on the added node during its soak.
const soaked = "soaked"

// growing is an environment whose pool grows by a pioneer. Pods move to the new node whenever the node takes pods.
func growing(t testing.TB, options ...option) *testEnv {
	return newTestEnv(t, append(options, pioneering)...).decide(func(p *v1alpha1.Prototype) {
		p.Spec.Donor = v1alpha1.Donor{}
		p.Spec.Pioneer = &v1alpha1.PioneerSettings{Node: v1alpha1.PioneerGrow, Soak: &metav1.Duration{Duration: 20 * time.Second}}
	})
}

// added is the Node by which the pool has grown; nil without the Node.
func (s *testEnv) added() *corev1.Node {
	n, _ := s.tracked("nodes", "", s.donorNode).(*corev1.Node)
	if s.donorNode == donorName {
		return nil
	}
	return n
}

// usePioneer is the scheduler: a pod begins on the new node as soon as the node takes pods.
func (s *testEnv) usePioneer(int) {
	n := s.added()
	if n == nil || n.Spec.Unschedulable || n.Status.Conditions[0].Status != corev1.ConditionTrue || s.tracked("pods", "default", soaked) != nil {
		return
	}
	pod := appPod(soaked)
	pod.Spec.NodeName = n.Name
	s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
}

// checkFormerPool checks that the pool is as before, that no other node was touched, and that nothing is left behind.
func (s *testEnv) checkFormerPool(growths int) {
	s.t.Helper()
	w := s.cloud.World()
	if size, has := w.Pools[0].Capacity, len(s.cloud.InstanceIDs(s.pool)); size != 2 || has != 2 {
		s.t.Errorf("the pool's size is %d with %d instances, want 2", size, has)
	}
	for kind, want := range map[string]int{memory.EffectSetCapacity: growths, memory.EffectRemoveInstance: growths, memory.EffectStart: 0} {
		if got := w.Count(memory.ByCaller, kind, ""); got != want {
			s.t.Errorf("%s was done %d times, want %d", kind, got, want)
		}
	}
	for name, id := range map[string]cloud.InstanceID{donorName: s.first, "peer": s.peer} {
		n, _ := s.tracked("nodes", "", name).(*corev1.Node)
		if want := s.node(name, id); n == nil || s.text(n.Annotations) != s.text(want.Annotations) || n.Spec.Unschedulable || w.Instance(id).ScaleInProtected ||
			w.Instance(id).Boots != 1 {
			s.t.Errorf("node %s was touched: %+v", name, n)
		}
	}
	if n := s.added(); n != nil {
		s.t.Errorf("node %s is left behind", n.Name)
	}
	for i := range 3 {
		if s.tracked("pods", "default", fmt.Sprintf("app-%d", i)) == nil {
			s.t.Error("a pod of another node was evicted")
		}
	}
	if left := s.leftOfPatch(); len(left) > 0 {
		s.t.Errorf("left behind: %v", left)
	}
	if leases, err := s.engine.reservations().All(context.Background()); err != nil || len(leases) > 0 {
		s.t.Errorf("leases %v, %v", leases, err)
	}
}

// TestAnAddedPioneer: the pool grows by a node, which is patched without an eviction, soaked with pods, captured and removed.
func TestAnAddedPioneer(t *testing.T) {
	s := growing(t)
	evicted, seen, calls := map[v1alpha1.Phase]bool{}, false, 0
	p := s.play(s.usePioneer, func(int) {
		p, n := s.prototype(), s.added()
		for ; calls < len(s.calls()); calls++ {
			if s.calls()[calls] == "create pods/eviction" {
				evicted[p.Status.Phase] = true
			}
		}
		if n != nil && !seen {
			seen = true
			if n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] != "true" || n.Annotations[v1alpha1.DoNotDisruptAnnotation] != "true" ||
				!n.Spec.Unschedulable {
				t.Errorf("the new node is cordoned: %t, with annotations %v", n.Spec.Unschedulable, n.Annotations)
			}
		}
		if p != nil && p.Status.Phase == v1alpha1.PhasePatching && !s.cloud.World().Instance(s.donor).ScaleInProtected {
			t.Error("a node in its patch is not protected from scale-in")
		}
	})
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	want := []v1alpha1.Phase{v1alpha1.PhaseGrowing, v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking,
		v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseRemoving, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting}
	if got := phasesOf(p); !slices.Equal(got, want) {
		t.Errorf("phases:\n got %v\nwant %v", got, want)
	}
	if !seen || !s.patches.served || s.patches.installs != 1 || len(evicted) != 1 || !evicted[v1alpha1.PhaseDraining] {
		t.Errorf("seen %t, served %t, %d installs, evictions in %v, want only in Draining", seen, s.patches.served, s.patches.installs, evicted)
	}
	s.checkFormerPool(1)
	if tag := s.cloud.World().Images[0].Tags[cloud.TagBuiltFrom]; tag != s.donorNode {
		t.Errorf("the image is built from %s, want %s", tag, s.donorNode)
	}
}

func TestHowAnAddedPioneerEnds(t *testing.T) {
	at := func(phase v1alpha1.Phase, strike func(*testEnv)) func(*testEnv) func(int) {
		return func(s *testEnv) func(int) {
			struck := false
			return func(int) {
				if p := s.prototype(); !struck && p != nil && p.Status.Phase == phase {
					struck = true
					strike(s)
				}
			}
		}
	}
	remove := func(s *testEnv) { s.must(s.clean.Delete(t.Context(), s.prototype())) }
	later := func(delay int, strike func(*testEnv)) func(*testEnv) func(int) {
		return func(s *testEnv) func(int) {
			return func(pass int) {
				if pass == delay {
					strike(s)
				}
			}
		}
	}
	for _, c := range []struct {
		name    string
		stage   func(*testEnv)
		between func(*testEnv) func(int)
		reason  string // empty: the Prototype is deleted
		words   string
		growths int
	}{
		{name: "nothing to install", stage: func(s *testEnv) {
			s.patches.report = func(r *patch.Report) {
				r.After, r.Installed, r.Reboot.Need = patchLevels[0], nil, patch.NotNeeded
			}
		}, reason: string(plan.NothingToPatch), words: "has all patches, so no new image is needed. Node node-2 is drained and removed, so that pool pool1 has its former size", growths: 1},
		{name: "the disk cannot be captured", stage: func(s *testEnv) {
			s.finds = ended(3, "kamino: refused, nothing was changed: apt-daily-upgrade.timer installs patches")
		}, reason: string(plan.DiskCheckFailed), words: "node node-2 cannot be captured: refused, nothing was changed: apt-daily-upgrade.timer", growths: 1},
		{name: "a script failed", stage: func(s *testEnv) {
			s.patches.report = func(r *patch.Report) {
				r.Failed, r.Failure = []string{"grub"}, &patch.Failure{Reason: patch.InstallFailed, Message: "the script of grub failed"}
			}
		}, reason: string(plan.DonorNotPatched), words: "correct the cause, then run `kamino capture --pool pool1 --pioneer=Grow`", growths: 1},
		{name: "the node does not come back", stage: func(s *testEnv) { s.hung = true }, reason: string(plan.DonorNotPatched), words: "not Ready under another boot", growths: 1},
		{name: "the node is not healthy in its soak", between: at(v1alpha1.PhaseSoaking, func(s *testEnv) { s.patches.unhealthy = "DaemonSet x is not Ready" }), reason: string(plan.DonorNotPatched), words: "not healthy in service", growths: 1},
		{name: "the node is not healthy before its patch", stage: func(s *testEnv) { s.patches.unhealthy = "DaemonSet x is not Ready" }, reason: string(plan.DonorNotPatched), words: "was not patched", growths: 1},
		{name: "the new node does not register", stage: func(s *testEnv) { s.lonely = true }, reason: string(plan.AddedNodeNotJoined), words: "no new node registered within 15m0s", growths: 1},
		{name: "the instance is stopped in its soak", between: at(v1alpha1.PhaseSoaking, func(s *testEnv) {
			_, err := s.cloud.EnsureStopped(t.Context(), s.donor)
			s.must(err)
		}), reason: string(plan.DonorStopped), words: "another client stopped the instance", growths: 1},
		{name: "the instance is stopped in its patch", between: at(v1alpha1.PhaseRebooting, func(s *testEnv) {
			_, err := s.cloud.EnsureStopped(t.Context(), s.donor)
			s.must(err)
			s.hung = true
		}), reason: string(plan.DonorStopped), words: "node-2", growths: 1},
		{name: "another tool changes packages after the patch", between: at(v1alpha1.PhaseSoaking, func(s *testEnv) {
			s.patches.level = patch.Level([]patch.Installed{{Name: "openssl", Version: "3"}})
		}), reason: string(plan.PatchLevelChanged), words: "another tool changed packages", growths: 1},
		{name: "the pool has its maximum size", stage: func(s *testEnv) { s.cloud.SetMaxSize(s.pool, 2) }, reason: cloud.PoolAtMaximum, words: "raise the maximum"},
		{name: "the pool has no Ready node", stage: func(s *testEnv) {
			for _, name := range []string{donorName, "peer"} {
				n := s.tracked("nodes", "", name).(*corev1.Node)
				n.Status.Conditions[0].Status = corev1.ConditionUnknown
				s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
			}
			s.donorNode = "none" // no kubelet of the donor speaks
		}, reason: "NodeNotFound", words: "pool pool1 has no Ready node"},
		{name: "deleted at once", between: later(0, remove)},
		{name: "deleted before the instance registers", between: later(2, remove), growths: 1},
		{name: "deleted in the growth, and the node does not register", stage: func(s *testEnv) { s.lonely = true }, between: later(10, remove), growths: 1},
		{name: "deleted in the patch", between: at(v1alpha1.PhasePatching, remove), growths: 1},
		{name: "deleted in the reboot", between: at(v1alpha1.PhaseRebooting, remove), growths: 1},
		{name: "deleted in the soak", between: at(v1alpha1.PhaseSoaking, remove), growths: 1},
		{name: "deleted in the generalization", between: at(v1alpha1.PhaseGeneralizing, remove), growths: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := growing(t)
			if c.stage != nil {
				c.stage(s)
			}
			between := func(int) {}
			if c.between != nil {
				between = c.between(s)
			}
			p := s.play(between, s.usePioneer)
			if c.reason == string(plan.DiskCheckFailed) && s.patches.installs > 0 {
				t.Error("the node was patched before its disk was inspected")
			}
			if c.reason == "" {
				if p != nil {
					t.Fatalf("the prototype still exists: %s", verdict(p))
				}
			} else if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != shown(c.reason) ||
				!strings.Contains(p.Status.Failure.Message, c.words) {
				t.Fatalf("%s\nwant %s: %s", verdict(p), c.reason, c.words)
			}
			if c.name != "the pool has no Ready node" {
				s.checkFormerPool(c.growths)
			}
		})
	}
}

// TestAGrowthHasAPlace: from the record of the growth on, the capture has one of the places of maxConcurrent.
func TestAGrowthHasAPlace(t *testing.T) {
	grows := func(change func(*v1alpha1.Prototype, *v1alpha1.Record)) []v1alpha1.Prototype {
		p, record := v1alpha1.Prototype{}, v1alpha1.Record{Replacement: &v1alpha1.DonorReplacement{Target: 3, Added: true}}
		p.Spec.Pool, p.Spec.Pioneer = "pool1", &v1alpha1.PioneerSettings{Node: v1alpha1.PioneerGrow}
		change(&p, &record)
		record.UID = p.UID
		p.Status.Record = &record
		return []v1alpha1.Prototype{p}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Prototype, *v1alpha1.Record)
		want   int
	}{
		"the growth is recorded":     {func(*v1alpha1.Prototype, *v1alpha1.Record) {}, 1},
		"the growth is not recorded": {func(_ *v1alpha1.Prototype, r *v1alpha1.Record) { r.Replacement = nil }, 0},
		"no node registered":         {func(p *v1alpha1.Prototype, _ *v1alpha1.Record) { p.Status.Phase = v1alpha1.PhaseFailed }, 0},
		"the donor is reserved": {func(p *v1alpha1.Prototype, r *v1alpha1.Record) {
			p.Spec.Donor.NodeName, r.Reservation = "node-2", &v1alpha1.Reservation{}
		}, 1},
		"the donor is removed": {func(p *v1alpha1.Prototype, _ *v1alpha1.Record) { p.Spec.Donor.NodeName = "node-2" }, 0},
	} {
		held := holding(grows(test.change))
		if len(held) != test.want {
			t.Errorf("%s: %d captures hold a place, want %d", name, len(held), test.want)
		}
		if name == "the growth is recorded" &&
			!strings.Contains(turnProgress(&pass{preflight: admissionObjects{activeCaptures: held}}), "whose pool pool1 grows by a node") {
			t.Errorf("progress: %s", turnProgress(&pass{preflight: admissionObjects{activeCaptures: held}}))
		}
	}
}

// TestANamedDonorIsNotRemoved: only Kamino names the donor of a pool that grows.
func TestANamedDonorIsNotRemoved(t *testing.T) {
	s := newTestEnv(t, pioneering).decide(func(p *v1alpha1.Prototype) {
		p.Spec.Pioneer = &v1alpha1.PioneerSettings{Node: v1alpha1.PioneerGrow}
	})
	p := s.play()
	s.failed(p, admission.SettingUnsupported)
	s.donorNode = donorName
	s.checkFormerPool(0)
}

// TestEveryCallOfAnAddedPioneerLost loses each call of a success and of a failure, in each way (short: in one). The pool grows
// once, the node is patched once, and the pool has its former size at the end.
func TestEveryCallOfAnAddedPioneerLost(t *testing.T) {
	for name, stage := range map[string]func(*testEnv){
		"success": func(*testEnv) {},
		"failure": func(s *testEnv) {
			s.patches.report = func(r *patch.Report) {
				r.After, r.Installed, r.Reboot.Need = patchLevels[0], nil, patch.NotNeeded
			}
		},
		"no node": func(s *testEnv) {
			s.lonely = true
			s.onPrototype(func(p *v1alpha1.Prototype) {
				p.Spec.Settings.OutOfService.ReadyTimeout = metav1.Duration{Duration: time.Minute}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory.Courses{Losses: losses, Least: 60, Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
				s := growing(t)
				stage(s)
				s.schedule = schedule
				p := s.play(s.usePioneer)
				if p == nil || (p.Status.Phase == v1alpha1.PhaseSucceeded) != (name == "success") {
					t.Fatal(verdict(p))
				}
				s.schedule = memory.NewSchedule(nil)
				s.checkFormerPool(1)
			}}.LoseEach(t)
		})
	}
}

// TestAnAutoscalerDuringAGrowth: another client may remove the new instance, or grow the pool, before the node registers.
func TestAnAutoscalerDuringAGrowth(t *testing.T) {
	for name, strike := range map[string]func(*testEnv){
		"removes the new instance": func(s *testEnv) { s.cloud.ScaleIn(s.pool) },
		"grows the pool":           func(s *testEnv) { s.scale(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := growing(t)
			want := int64(2)
			p := s.play(s.usePioneer, func(pass int) {
				if pass == 2 {
					before := s.cloud.World().Pools[0].Capacity
					strike(s)
					if after := s.cloud.World().Pools[0].Capacity; after > before {
						want += after - before
					}
				}
			})
			if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
				t.Fatal(verdict(p))
			}
			if got := s.cloud.World().Pools[0].Capacity; got != want {
				t.Errorf("the pool's size is %d, want %d", got, want)
			}
		})
	}
}

// TestAnOrphanOfAnAddedPioneer: the Prototype vanishes without its finalizer during the soak. A sweep drains and removes the
// node.
func TestAnOrphanOfAnAddedPioneer(t *testing.T) {
	s := growing(t)
	for pass := 0; s.prototype().Status.Phase != v1alpha1.PhaseSoaking || s.tracked("pods", "default", soaked) == nil; pass++ {
		if pass == 60 {
			t.Fatal(verdict(s.prototype()))
		}
		_, err := s.engine.Pass(t.Context(), s.name)
		s.must(err)
		s.tick(2 * time.Second)
		s.usePioneer(pass)
	}
	s.onPrototype(func(p *v1alpha1.Prototype) { p.Finalizers = nil })
	s.must(s.clean.Delete(t.Context(), s.prototype()))
	for range 60 {
		n := s.added()
		if n == nil {
			break
		}
		r, err := v1alpha1.ReservationOf(n.Annotations)
		s.must(err)
		_, err = s.engine.Orphan(t.Context(), n.Name, r.Holder)
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		s.tick(8 * time.Second)
	}
	if s.tracked("pods", "default", soaked) != nil {
		t.Error("the pod of the removed node was not evicted")
	}
	for _, o := range s.leftOfPatch() { // the API server removes the objects that the Prototype owned
		t.Logf("owned: %s", o)
	}
	if size := s.cloud.World().Pools[0].Capacity; size != 2 {
		t.Errorf("the pool's size is %d, want 2", size)
	}
}
