package capture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// copiedPioneer is an environment before a pioneer by copy.
func copiedPioneer(t testing.TB, change ...func(*v1alpha1.Prototype)) *copyEnv {
	t.Helper()
	c := byCopy(t, append([]func(*v1alpha1.Prototype){pioneer}, change...)...)
	sleeps := c.onRestart
	pioneering(c.testEnv)
	watches := c.onRestart
	c.onRestart = func() { sleeps(); watches() }
	c.restart()
	return c
}

// voyage plays the capture. From the end of the patch on, nothing may touch the donor.
func (c *copyEnv) voyage(between ...func(pass int)) *v1alpha1.Prototype {
	c.t.Helper()
	return c.play(append(between, func(pass int) {
		c.runPods()
		p := c.prototype()
		if p == nil || p.Status.Record == nil || p.Status.Record.Copy == nil || p.Status.Record.Copy.Workshop.Name == "" {
			return
		}
		n, machine := c.tracked("nodes", "", donorName).(*corev1.Node), c.cloud.World().Instance(c.donor)
		if n.Spec.Unschedulable || machine.Power != cloud.PowerRunning || machine.Generalized || machine.Boots != 2 || machine.ScaleInProtected {
			c.t.Fatalf("after pass %d, in phase %s, the donor is %+v, cordoned: %t", pass, p.Status.Phase, machine, n.Spec.Unschedulable)
		}
		if c.patches.level != patchLevels[1] || !c.patches.served {
			c.t.Fatalf("after pass %d the workshop begins before the patched donor has served", pass)
		}
	})...)
}

// pioneered checks a success: the donor serves with its patches, and the version has them.
func (c *copyEnv) pioneered(p *v1alpha1.Prototype) {
	c.t.Helper()
	c.copied(p)
	n := c.tracked("nodes", "", donorName).(*corev1.Node)
	if n.Annotations[v1alpha1.PatchLevelAnnotation] != patchLevels[1] || n.Spec.Unschedulable || n.Annotations[v1alpha1.RebootPendingAnnotation] != "" {
		c.t.Errorf("the donor's Node: %v, cordoned: %t", n.Annotations, n.Spec.Unschedulable)
	}
	if m := c.cloud.World().Instance(c.donor); m.Boots != 2 || c.patches.installs != 1 || !c.patches.served {
		c.t.Errorf("%d boots, %d installs, served %t", m.Boots, c.patches.installs, c.patches.served)
	}
	images := c.cloud.World().Images
	if got := images[len(images)-1].Tags[cloud.TagPatchLevel]; got != patchLevels[1] {
		c.t.Errorf("the version has patch level %q, want %q", got, patchLevels[1])
	}
	if left := c.leftOfPatch(); len(left) > 0 {
		c.t.Errorf("left behind: %v", left)
	}
}

// TestAPioneerByCopy: the donor is drained for its patch alone, and then copied while it serves.
func TestAPioneerByCopy(t *testing.T) {
	c := copiedPioneer(t)
	c.decide()
	var inService []string
	isQuiet, inspected := false, false
	p := c.voyage(func(int) {
		p := c.prototype()
		if s := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDonorInService); s != nil {
			if now := string(s.Status) + " " + s.Reason; len(inService) == 0 || inService[len(inService)-1] != now {
				inService = append(inService, now)
			}
		}
		pod, order := c.generalizePod(), c.order()
		switch {
		case pod == nil:
		case pod.Labels["app.kubernetes.io/component"] == inspectionContainer:
			inspected = true
			if args := pod.Spec.Containers[0].Args; !slices.Contains(args, "--copied") || !slices.Contains(args, "--patched-by-kamino") || slices.Contains(args, "--quiet-nodes") {
				t.Errorf("the inspection has the arguments %q", args)
			}
		case order != nil && order.Spec.Method == v1alpha1.OrderCopy:
			isQuiet = isQuiet || slices.Contains(pod.Spec.Containers[0].Args, "--quiet-nodes")
		}
	})
	c.pioneered(p)
	if !isQuiet || !inspected {
		t.Errorf("the image is quiet: %t, inspected: %t", isQuiet, inspected)
	}
	want := []v1alpha1.Phase{
		v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking,
		v1alpha1.PhaseStartingWorkshop, v1alpha1.PhaseQuiescing, v1alpha1.PhaseCopying, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseSnapshotting,
		v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting,
	}
	if diff := cmp.Diff(want, slices.Compact(phasesOf(p))); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	const said = "True NotHeld, False Patching, False Rebooting, True Soaking, True Copied, True NotHeld"
	if got := strings.Join(inService, ", "); got != said {
		t.Errorf("DonorInService:\n got %s\nwant %s", got, said)
	}
}

// TestHowACopiedPioneerEnds: whatever happens, the donor serves at the end, and nothing is published.
func TestHowACopiedPioneerEnds(t *testing.T) {
	failed, pending := v1alpha1.PatchFailedAnnotation, v1alpha1.RebootPendingAnnotation
	stop := func(c *copyEnv) {
		_, err := c.cloud.EnsureStopped(t.Context(), c.donor)
		c.must(err)
	}
	for name, of := range map[string]struct {
		stage  func(*copyEnv)
		at     v1alpha1.Phase
		strike func(*copyEnv)
		reason plan.Reason // empty: the Prototype is deleted
		words  string
		marks  []string
		off    bool
	}{
		"nothing to install": {stage: func(c *copyEnv) {
			c.patches.report = func(r *patch.Report) {
				r.After, r.Installed, r.Reboot.Need = patchLevels[0], nil, patch.NotNeeded
			}
		}, reason: plan.NothingToPatch, words: "node donor has all patches"},
		"a script failed": {stage: func(c *copyEnv) {
			c.patches.report = func(r *patch.Report) {
				r.Failed, r.Failure = []string{"grub"}, &patch.Failure{Reason: patch.InstallFailed, Message: "the script of grub failed"}
			}
		}, reason: plan.DonorNotPatched, words: "the script of grub failed", marks: []string{failed, pending}},
		"unhealthy in the soak": {at: v1alpha1.PhaseSoaking, strike: func(c *copyEnv) { c.patches.unhealthy = "DaemonSet x is not Ready" },
			reason: plan.DonorNotPatched, words: "not healthy in service for 5m0s", marks: []string{failed}},
		"another tool changes packages": {at: v1alpha1.PhaseSoaking, strike: func(c *copyEnv) {
			c.patches.level = patch.Level([]patch.Installed{{Name: "openssl", Version: "3"}})
		}, reason: plan.PatchLevelChanged, words: "another tool changed packages"},
		"no copy is usable":        {stage: func(c *copyEnv) { c.torn = 9 }, reason: plan.CopyUnusable, words: "curl"},
		"a busy donor":             {stage: func(c *copyEnv) { c.busy = true }, reason: plan.DonorBusy, words: "The node is patched, and serves"},
		"deleted during the patch": {at: v1alpha1.PhasePatching, strike: func(c *copyEnv) { c.must(c.clean.Delete(t.Context(), c.prototype())) }},
		"deleted during the soak":  {at: v1alpha1.PhaseSoaking, strike: func(c *copyEnv) { c.must(c.clean.Delete(t.Context(), c.prototype())) }},
		"stopped during the soak": {at: v1alpha1.PhaseSoaking, strike: stop, reason: plan.DonorStopped, words: "start the instance",
			marks: []string{pending}, off: true},
		"removed during the reboot": {at: v1alpha1.PhaseRebooting, strike: func(c *copyEnv) { c.cloud.RemoveInstance(c.donor) },
			reason: plan.DonorGone, words: "was removed during the capture"},
	} {
		t.Run(name, func(t *testing.T) {
			c := copiedPioneer(t)
			if of.stage != nil {
				of.stage(c)
			}
			c.decide()
			struck := of.at == ""
			p := c.play(func(int) {
				c.runPods()
				if p := c.prototype(); !struck && p != nil && p.Status.Phase == of.at {
					struck = true
					of.strike(c)
				}
			})
			if !struck {
				t.Fatalf("the capture was never in phase %s", of.at)
			}
			if starts := c.cloud.World().Count(memory.ByCaller, memory.EffectStart, ""); starts > 0 {
				t.Errorf("the donor was started %d times", starts)
			}
			if of.off {
				if m := c.cloud.World().Instance(c.donor); m.Power != cloud.PowerStopped {
					t.Errorf("the donor is %s", m.Power)
				}
				_, err := c.cloud.EnsureStarted(t.Context(), c.donor)
				c.must(err)
				c.tick(time.Minute)
			}
			if of.reason != "" {
				c.gaveUp(p, of.reason, of.words)
			} else {
				c.emptied()
				c.nothingPublished()
			}
			if left := c.leftOfPatch(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			n, _ := c.tracked("nodes", "", donorName).(*corev1.Node)
			for _, mark := range []string{failed, pending} {
				if n == nil {
					break // with its instance
				}
				if _, found := n.Annotations[mark]; found != slices.Contains(of.marks, mark) {
					t.Errorf("annotation %s: %t", mark, found)
				}
			}
		})
	}
}

// TestEveryCallOfACopiedPioneerLost loses each call. The donor is patched and rebooted once, and one version is published.
func TestEveryCallOfACopiedPioneerLost(t *testing.T) {
	memory.Courses{Losses: losses, Least: 60, Choose: each(1, 0), Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
		c := copiedPioneer(t, func(p *v1alpha1.Prototype) { p.Spec.Pioneer.Soak = &metav1.Duration{Duration: 20 * time.Second} })
		c.schedule = schedule
		c.decide()
		c.pioneered(c.voyage())
	}}.LoseEach(t)
}

// TestACopiedPioneerWaitsForKured: kured takes another node between the reservation and the drain. The donor serves until that
// node is back.
func TestACopiedPioneerWaitsForKured(t *testing.T) {
	c := copiedPioneer(t, func(p *v1alpha1.Prototype) { p.Spec.Pioneer.OtherRebooters = v1alpha1.OtherRebootersAllow })
	c.decide()
	c.engine.Kured = kured.Default
	sets := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	free := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kured"}}
	c.must(c.objects.Create(sets, free, "kube-system"))
	taken, waited := false, 0
	c.lose = func(call string) memory.Outcome {
		if !taken && strings.HasPrefix(call, "create leases/") {
			taken = true
			held := free.DeepCopy()
			held.Annotations = map[string]string{"weave.works/kured-node-lock": `{"nodeID":"peer","created":"` + noon.Format(time.RFC3339) + `","TTL":0}`}
			c.must(c.objects.Update(sets, held, "kube-system"))
		}
		return memory.Pass()
	}
	p := c.voyage(func(int) {
		if !taken || waited == 20 {
			return
		}
		if n := c.tracked("nodes", "", donorName).(*corev1.Node); n.Spec.Unschedulable || c.patches.installs > 0 {
			t.Fatalf("the donor is taken in phase %s while kured reboots another node", c.prototype().Status.Phase)
		}
		if waited++; waited == 20 {
			c.must(c.objects.Update(sets, free, "kube-system"))
		}
	})
	if waited < 20 {
		t.Errorf("it waited for %d passes", waited)
	}
	c.pioneered(p)
}

// TestTheTimeOfACopiedPioneer begins with the end of the patch: neither the deadline nor the end in the tags counts the soak.
func TestTheTimeOfACopiedPioneer(t *testing.T) {
	const soak = copyEnd + time.Hour
	c := copiedPioneer(t, func(p *v1alpha1.Prototype) { p.Spec.Pioneer.Soak = &metav1.Duration{Duration: soak} })
	c.decide()
	checked, slept := false, false
	p := c.voyage(func(int) {
		if s := c.prototype().Status.Patch; !slept && s != nil && !s.HealthySince.IsZero() {
			slept = true
			c.clock.Advance(soak)
		}
		for _, snapshot := range c.cloud.World().Snapshots {
			end, err := time.Parse(time.RFC3339, snapshot.Tags[cloud.TagEndsAt])
			if err != nil {
				continue
			}
			checked = true
			if left := end.Sub(c.clock.Now()); left < copyLimit || left > copyEnd {
				t.Fatalf("snapshot %s ends in %s", snapshot.Name, left)
			}
		}
	})
	if !checked {
		t.Error("no snapshot has an end")
	}
	c.pioneered(p)
}

// TestAUsersCordonOfACopiedPioneer stays: since the patch, the node serves on its own.
func TestAUsersCordonOfACopiedPioneer(t *testing.T) {
	c := copiedPioneer(t)
	c.decide()
	cordoned := false
	p := c.play(func(int) {
		c.runPods()
		if p := c.prototype(); !cordoned && p.Status.Phase == v1alpha1.PhaseGeneralizing {
			cordoned = true
			c.onNode(func(n *corev1.Node) { n.Spec.Unschedulable = true })
		}
	})
	if !cordoned || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	if n := c.tracked("nodes", "", donorName).(*corev1.Node); !n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
		t.Errorf("the donor's Node: %v, cordoned: %t", n.Annotations, n.Spec.Unschedulable)
	}
}

// TestACopiedPioneerWithoutItsPrototype: after a forced deletion, the Lease restores the drained node, and no protection of a user goes.
func TestACopiedPioneerWithoutItsPrototype(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhasePatching, v1alpha1.PhaseSoaking, v1alpha1.PhaseCopying} {
		t.Run(string(phase), func(t *testing.T) {
			c := copiedPioneer(t)
			c.decide()
			for range 300 {
				if n := c.tracked("nodes", "", donorName).(*corev1.Node); c.prototype().Status.Phase == phase && (phase != v1alpha1.PhasePatching || n.Spec.Unschedulable) {
					break
				}
				result, err := c.engine.Pass(t.Context(), c.name)
				c.must(err)
				c.tick(max(result.After, 4*time.Second))
				c.runPods()
			}
			p := c.prototype()
			if p.Status.Phase != phase {
				t.Fatalf("the capture was never in phase %s: %s", phase, verdict(p))
			}
			c.must(c.cloud.ProtectFromScaleIn(t.Context(), c.donor, cloud.TokenUnprotected))
			c.protected = true
			p.Finalizers = nil
			c.must(c.clean.Update(t.Context(), p))
			c.must(c.clean.Delete(t.Context(), p))
			for range 10 {
				_, _ = c.engine.Orphan(t.Context(), donorName, holderOf(p))
				c.tick(time.Minute)
			}
			c.swept()
		})
	}
}
