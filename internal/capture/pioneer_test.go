package capture

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// patchLevels are the patch levels of the donor's disk before and after the patch.
var patchLevels = []string{patch.Level(nil), patch.Level([]patch.Installed{{Name: "openssl", Version: "2"}})}

// patchHost plays the pod and the host of a pioneer.
type patchHost struct {
	// report changes the report of a patch without trouble.
	report func(*patch.Report)
	// installs counts the runs of the unit, and served reports whether the donor served under the new boot.
	installs, checks int
	served           bool
	// level is the patch level of the disk.
	level string
	// unhealthy is the answer of Engine.Unhealthy.
	unhealthy string
}

// pioneering plays the host of a pioneer.
func pioneering(s *testEnv) {
	s.patches = &patchHost{level: patchLevels[0]}
	s.onRestart = func() {
		s.engine.Unhealthy = func(context.Context, string, []string) (string, error) { return s.patches.unhealthy, nil }
	}
}

// pioneer asks for a pioneer with a short soak.
func pioneer(p *v1alpha1.Prototype) {
	p.Spec.Pioneer = &v1alpha1.PioneerSettings{Soak: &metav1.Duration{Duration: 5 * time.Minute}}
}

// runPatch carries out the order of a patch or a reboot.
func (s *testEnv) runPatch() {
	h := s.patches
	if h == nil {
		return
	}
	n, _ := s.tracked("nodes", "", s.donorNode).(*corev1.Node)
	machine := s.cloud.World().Instance(s.donor)
	h.served = h.served || n != nil && machine.Boots == 2 && n.Status.NodeInfo.BootID == machine.BootID && !n.Spec.Unschedulable
	orders := &v1alpha1.NodeOrderList{}
	s.must(s.clean.List(context.Background(), orders, client.InNamespace(podspace)))
	for i := range orders.Items {
		if order := &orders.Items[i]; slices.Contains([]v1alpha1.OrderMethod{v1alpha1.OrderPatch, v1alpha1.OrderReboot, v1alpha1.OrderCheck}, order.Spec.Method) {
			s.carryOut(order, machine)
		}
	}
}

func (s *testEnv) carryOut(order *v1alpha1.NodeOrder, machine memory.InstanceView) {
	h := s.patches
	pod, _ := s.tracked("pods", order.Namespace, order.Name).(*corev1.Pod)
	if order.Spec.NodeName == "peer" {
		machine = s.cloud.World().Instance(s.peer)
	}
	if pod == nil || pod.Status.Phase != "" || machine.Power != cloud.PowerRunning || s.deaf {
		return
	}
	if order.Spec.Token != machine.BootID { // the pod died with its boot
		pod.Status.Phase = corev1.PodFailed
		s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
		return
	}
	if order.Spec.Method == v1alpha1.OrderReboot {
		s.cloud.Reboot(s.donor)
		return
	}
	if order.Status.Report != "" || s.tracked("secrets", order.Namespace, order.Name) == nil {
		return
	}
	report := &patch.Report{
		Method: patch.Patch, Token: order.Spec.Token, Manager: patch.APT, Before: patchLevels[0], After: patchLevels[1], Health: patch.Healthy,
		Installed: []patch.Change{{Name: "openssl", From: "1", To: "2"}}, Repositories: []patch.Repository{{ID: "main", Read: true}},
		Reboot: patch.RebootNeed{Need: patch.Needed},
	}
	report.Set = patch.Digest(report.Installed)
	if order.Spec.Method == v1alpha1.OrderCheck {
		report.Method, report.Pending, report.Installed, report.After = patch.Check, report.Installed, nil, report.Before
		h.checks++
	}
	if h.report != nil {
		h.report(report)
	}
	if report.Method == patch.Patch && h.level != report.After {
		h.installs++
	}
	if report.Method == patch.Patch {
		h.level = report.After
	}
	encoded, err := report.Encode()
	s.must(err)
	s.signReport(order, pod, v1alpha1.Report{Patch: encoded})
}

// leftOfPatch lists the objects of a patch that exist.
func (s *testEnv) leftOfPatch() (left []string) {
	orders := &v1alpha1.NodeOrderList{}
	s.must(s.clean.List(context.Background(), orders))
	for _, o := range orders.Items {
		left = append(left, o.Name)
	}
	list, err := s.objects.List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), podspace)
	s.must(err)
	for _, pod := range list.(*corev1.PodList).Items {
		left = append(left, pod.Name)
	}
	return left
}

func phasesOf(p *v1alpha1.Prototype) (phases []v1alpha1.Phase) {
	for _, step := range p.Status.Steps {
		phases = append(phases, step.Phase)
	}
	return phases
}

func TestAPioneer(t *testing.T) {
	s := newTestEnv(t, pioneering).decide(pioneer)
	var inService []string
	p := s.play(func(int) {
		p := s.prototype()
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDonorInService); c != nil {
			if message := string(c.Status) + " " + c.Reason; len(inService) == 0 || inService[len(inService)-1] != message {
				inService = append(inService, message)
			}
		}
	})
	s.succeeded(p)
	want := []v1alpha1.Phase{
		v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking,
		v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting,
		v1alpha1.PhaseStarting, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting}
	got := slices.DeleteFunc(phasesOf(p), func(p v1alpha1.Phase) bool { return p == v1alpha1.PhaseWaitingReady })
	if !slices.Equal(got, want) {
		t.Errorf("phases:\n got %v\nwant %v", got, want)
	}
	if got, want := strings.Join(inService, ", "), "True NotHeld, False Patching, False Rebooting, True Soaking, False Reserved, True NotHeld"; got != want {
		t.Errorf("DonorInService:\n got %s\nwant %s", got, want)
	}
	status := p.Status.Patch
	if status == nil || status.Result != "patched" || status.Level != patchLevels[1] || status.Installed != 1 || status.FinishedAt.IsZero() ||
		status.Failure != "" {
		t.Errorf("status.patch is %+v", status)
	}
	if m := s.cloud.World().Instance(s.donor); m.Boots != 3 || s.patches.installs != 1 || !s.patches.served {
		t.Errorf("%d boots, %d installs, served %t", m.Boots, s.patches.installs, s.patches.served)
	}
	n := s.tracked("nodes", "", donorName).(*corev1.Node)
	if n.Annotations[v1alpha1.PatchLevelAnnotation] != patchLevels[1] || n.Annotations[v1alpha1.PatchedAtAnnotation] == "" {
		t.Errorf("annotations %v", n.Annotations)
	}
	if away := p.Status.Donor.ReleasedAt.Sub(p.Status.Donor.ReservedAt.Time); away > 5*time.Minute {
		t.Errorf("the donor was away for %s, want the time of the capture alone", away)
	}
}

func TestHowAPioneerEnds(t *testing.T) {
	is := func(s *testEnv, phase v1alpha1.Phase) bool {
		return s.prototype() != nil && s.prototype().Status.Phase == phase
	}
	once := func(s *testEnv, phase v1alpha1.Phase, strike func()) func(int) {
		struck := false
		return func(int) {
			if !struck && is(s, phase) {
				struck = true
				strike()
			}
		}
	}
	remove := func(s *testEnv) { s.must(s.clean.Delete(t.Context(), s.prototype())) }
	failed, pending := v1alpha1.PatchFailedAnnotation, v1alpha1.RebootPendingAnnotation
	for _, c := range []struct {
		name    string
		stage   func(*testEnv)
		between func(*testEnv) func(int)
		reason  plan.Reason // empty: the Prototype is deleted
		words   string
		marks   []string
		blamed  bool
	}{
		{name: "nothing to install", stage: func(s *testEnv) {
			s.patches.report = func(r *patch.Report) {
				r.After, r.Installed, r.Reboot.Need = patchLevels[0], nil, patch.NotNeeded
			}
		}, reason: plan.NothingToPatch, words: "node donor has all patches"},
		{name: "a dead repository", stage: func(s *testEnv) {
			s.patches.report = func(r *patch.Report) {
				r.After, r.Installed, r.Failure = patchLevels[0], nil, &patch.Failure{Reason: patch.RepositoryNotRead, Message: "main is dead"}
			}
		}, reason: plan.DonorNotPatched, words: "installed no patches: main is dead"},
		{name: "a script failed", stage: func(s *testEnv) {
			s.patches.report = func(r *patch.Report) {
				r.Failed, r.Failure = []string{"grub"}, &patch.Failure{Reason: patch.InstallFailed, Message: "the script of grub failed"}
			}
		}, reason: plan.DonorNotPatched, words: "the patch of node donor failed: the script of grub failed", marks: []string{failed, pending}, blamed: true},
		{name: "the node does not come back", stage: func(s *testEnv) { s.hung = true }, reason: plan.DonorNotPatched, words: "not Ready under another boot within 15m0s",
			marks: []string{failed, pending}, blamed: true},
		{name: "a DaemonSet is not healthy before the patch", stage: func(s *testEnv) { s.patches.unhealthy = "DaemonSet x is not Ready" }, reason: plan.DonorNotPatched,
			words: "node donor was not patched, because the node was not healthy for 15m0s: DaemonSet x is not Ready. Repair the DaemonSet, or name the DaemonSet in settings.trial.ignoreDaemonSets"},
		{name: "a DaemonSet is not healthy", between: func(s *testEnv) func(int) {
			return once(s, v1alpha1.PhaseSoaking, func() { s.patches.unhealthy = "DaemonSet x is not Ready" })
		}, reason: plan.DonorNotPatched,
			words: "not healthy in service for 5m0s", marks: []string{failed}, blamed: true},
		{name: "another tool changes packages after the patch", between: func(s *testEnv) func(int) {
			return once(s, v1alpha1.PhaseSoaking, func() { s.patches.level = patch.Level([]patch.Installed{{Name: "openssl", Version: "3"}}) })
		}, reason: plan.PatchLevelChanged, words: "another tool changed packages"},
		{name: "a level that failed before", stage: func(s *testEnv) {
			other := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.13", UID: "other"}}
			other.Spec.Pool = "pool1"
			other.Status = v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed, Patch: &v1alpha1.PatchStatus{FailedLevel: patchLevels[1]}}
			s.must(s.clean.Create(t.Context(), other.DeepCopy()))
			s.must(s.clean.Status().Update(t.Context(), other))
		}, reason: plan.DonorNotPatched, words: "failed in an earlier capture of pool pool1", marks: []string{failed, pending}},
		{name: "a level that failed before, and whose Prototype is deleted", stage: func(s *testEnv) {
			policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "all"}}
			policy.Status.Pools = []v1alpha1.PoolStatus{{Name: "pool1", Patches: &v1alpha1.PatchesStatus{
				Failed: []v1alpha1.FailedPatches{{Set: "set", Level: patchLevels[1], Prototype: "pool1-2026.03.13"}},
			}}}
			s.must(s.clean.Create(t.Context(), policy.DeepCopy()))
			s.must(s.clean.Status().Update(t.Context(), policy))
		}, reason: plan.DonorNotPatched, words: "failed in an earlier capture of pool pool1", marks: []string{failed, pending}},
		{name: "deleted during the patch", between: func(s *testEnv) func(int) { return once(s, v1alpha1.PhasePatching, func() { remove(s) }) }},
		{name: "deleted during the reboot", between: func(s *testEnv) func(int) { return once(s, v1alpha1.PhaseRebooting, func() { remove(s) }) }, marks: []string{"any"}},
		{name: "deleted during the soak", between: func(s *testEnv) func(int) { return once(s, v1alpha1.PhaseSoaking, func() { remove(s) }) }, marks: []string{"any"}},
		{name: "the instance is removed during the reboot", between: func(s *testEnv) func(int) {
			return once(s, v1alpha1.PhaseRebooting, func() { s.cloud.RemoveInstance(s.donor) })
		}, reason: plan.DonorGone, words: "was removed during the capture", marks: []string{"any"}},
		{name: "another client stops the instance during the soak", between: func(s *testEnv) func(int) {
			return once(s, v1alpha1.PhaseSoaking, func() {
				_, err := s.cloud.EnsureStopped(t.Context(), s.donor)
				s.must(err)
			})
		}, reason: plan.DonorStopped, words: "another client stopped the instance", marks: []string{"any"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t, pioneering).decide(pioneer)
			if c.stage != nil {
				c.stage(s)
			}
			between := func(int) {}
			if c.between != nil {
				between = c.between(s)
			}
			p := s.play(between)
			if c.reason == "" {
				if p != nil {
					t.Fatalf("the prototype still exists: %s", verdict(p))
				}
				s.gaveBack()
			} else {
				if c.name == "the node does not come back" {
					s.hung = false
					s.tick(time.Minute)
				}
				s.failed(p, string(c.reason))
				if !strings.Contains(p.Status.Failure.Message, c.words) {
					t.Errorf("message %q, want %q", p.Status.Failure.Message, c.words)
				}
				if blamed := p.Status.Patch.FailedLevel == patchLevels[1]; blamed != c.blamed {
					t.Errorf("status.patch is %+v, want the level blamed: %t", p.Status.Patch, c.blamed)
				}
			}
			if left := s.leftOfPatch(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if n, _ := s.tracked("nodes", "", donorName).(*corev1.Node); n != nil && !slices.Contains(c.marks, "any") {
				for _, mark := range []string{failed, pending} {
					if _, found := n.Annotations[mark]; found != slices.Contains(c.marks, mark) {
						t.Errorf("annotation %s: %t", mark, found)
					}
				}
			}
		})
	}
}

// TestEveryCallOfAPatchLost loses each call between the reservation and the drain for the capture. The donor is patched
// once, reboots twice with the capture, and the capture succeeds.
func TestEveryCallOfAPatchLost(t *testing.T) {
	first, last := 0, 0 // of the course without a loss
	memory.Courses{Losses: losses, Least: 60, Sparse: testing.Short(),
		Choose: func(calls []string) []int { return each(1, first)(calls[:last]) },
		Play: func(t *testing.T, schedule *memory.Schedule) {
			s, whole := newTestEnv(t, pioneering), last == 0
			s.schedule = schedule
			s.decide(func(p *v1alpha1.Prototype) {
				p.Spec.Pioneer = &v1alpha1.PioneerSettings{Soak: &metav1.Duration{Duration: 20 * time.Second}}
			})
			s.succeeded(s.play(func(int) {
				switch phase := s.prototype().Status.Phase; {
				case whole && phase == v1alpha1.PhaseReserving:
					first = len(s.calls())
				case whole && phase == v1alpha1.PhaseDraining && last == 0:
					last = len(s.calls())
				}
			}))
			if m := s.cloud.World().Instance(s.donor); m.Boots != 3 || s.patches.installs != 1 || !s.patches.served {
				t.Errorf("%d boots, %d installs, served %t", m.Boots, s.patches.installs, s.patches.served)
			}
			if left := s.leftOfPatch(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}}.LoseEach(t)
}

// TestAPatchNeedsNoCloud: the patch goes on while the cloud does not answer.
func TestAPatchNeedsNoCloud(t *testing.T) {
	s := newTestEnv(t, pioneering).decide(pioneer)
	down := false
	s.lose = func(what string) memory.Outcome {
		if down && strings.Contains(what, "memory:") {
			return memory.FailBefore(cloud.Unavailable)
		}
		return memory.Pass()
	}
	soaked := false
	s.succeeded(s.play(func(int) {
		switch s.prototype().Status.Phase {
		case v1alpha1.PhasePatching:
			down = true
		case v1alpha1.PhaseSoaking:
			soaked, down = true, false
		default:
		}
	}))
	if !soaked {
		t.Error("the patch waited for the cloud")
	}
}
