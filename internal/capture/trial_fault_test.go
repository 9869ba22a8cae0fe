package capture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// trialCourses are the possible courses of a trial, with the parts of their end that a lost call must not change.
var trialCourses = []struct {
	name    string
	prepare func(*trialEnv)
	reason  string // of the failure; none where the version is promoted
	begun   int    // attempts
	// from and to are the calls between which the course differs from earlier courses, and from a capture without a
	// trial.
	from, to string
}{
	{"passes", func(*trialEnv) {}, "", 1, "", "SetRecipe "},
	{"fails", func(v *trialEnv) { v.finds = func(_ int32, f *trial.Facts) { f.Twins = []string{"peer"} } }, "TrialFailed", 1, "TagImage ", ""},
	{"does not boot again", func(v *trialEnv) { v.hangs = true }, "TrialFailed", 1, "Restart ", ""},
	{"may not restart", func(v *trialEnv) { v.cloud.Forbid("Restart") }, "", 1, "Restart ", "SetRecipe "},
	{"unknown at first", func(v *trialEnv) {
		v.cloud.FailTrials(1, memory.TrialFailure{Trouble: "12 of 12 cores are used", LacksCapacity: true})
	}, "", 2, "EndTrial ", "EnsureTrial "},
	{"passes on two machine types", func(v *trialEnv) {
		v.onPrototype(func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.MachineTypes = []string{"xen.large"} })
	}, "", 2, "look at ", "TagImage "},
}

// tried checks that the course has its end, that no leftovers exist, and that each attempt had one instance.
func (v *trialEnv) tried(p *v1alpha1.Prototype, reason string, begun int) {
	v.t.Helper()
	switch {
	case p == nil, reason == "" && p.Status.Phase != v1alpha1.PhaseSucceeded, reason != "" && (p.Status.Failure == nil || p.Status.Failure.Reason != reason):
		v.t.Fatalf("it has another end: %s\n%s", verdict(p), v.lastCalls(40))
	}
	v.nothingLeft(p)
	w := v.cloud.World()
	for kind, want := range map[string]int{memory.EffectBeginTrial: begun, memory.EffectEndTrial: begun} {
		if got := w.Count(memory.ByCaller, kind, ""); got != want {
			v.t.Errorf("%s was done %d times, want %d", kind, got, want)
		}
	}
	v.restarted(p)
	if v.tagged(cloud.TagQuarantined, "trial: ") != (reason == "TrialFailed") {
		v.t.Errorf("tags: %+v", w.Images)
	}
}

// restarted checks that the instance of the last attempt restarted before its version passed, or that the status says why not. One lost
// answer costs at most one restart more.
func (v *trialEnv) restarted(p *v1alpha1.Prototype) {
	v.t.Helper()
	checked := trialChecks(p)[string(trial.Rebooted)]
	switch got := v.cloud.World().Count(memory.ByCaller, memory.EffectRestart, ""); {
	case got > 2:
		v.t.Errorf("the instance was restarted %d times", got)
	case strings.HasPrefix(checked, "Passed: ") && got == 0, strings.HasPrefix(checked, "Skipped: ") && got > 0:
		v.t.Errorf("the instance was restarted %d times: %s", got, checked)
	case p.Status.Phase == v1alpha1.PhaseSucceeded && !strings.HasPrefix(checked, "Passed: ") && !strings.HasPrefix(checked, "Skipped: "):
		v.t.Errorf("promoted after %q", checked)
	}
}

// distinctCalls chooses the calls of a range, with their passes, that differ from earlier calls. A node that is watched for long
// repeats its calls, so only one round is lost.
func distinctCalls(from, to string) func(calls []string) []int {
	return func(calls []string) (lost []int) {
		first, last := 0, len(calls)
		if from != "" {
			first = max(0, firstCall(calls, from)-8)
		}
		for n := first + 10; to != "" && n < len(calls); n++ {
			if strings.HasPrefix(calls[n], to) {
				last = n + 1
			}
		}
		seen := map[string]bool{}
		for n := first; n < last; n++ {
			near := strings.Join(calls[max(0, n-4):min(len(calls), n+2)], "|")
			if !seen[near] {
				lost = append(lost, n)
			}
			seen[near] = true
		}
		return lost
	}
}

// TestEverySingleCallLostOfATrial loses each call after a complete image in each way (short: in one) and course.
// Earlier calls are equal for every capture (plan.TestWhereATrialMakesNoDifference, TestTheCourseBeforeATrial).
func TestEverySingleCallLostOfATrial(t *testing.T) {
	for _, course := range trialCourses {
		t.Run(course.name, func(t *testing.T) {
			memory.Courses{Losses: losses, Least: 25, Choose: distinctCalls(course.from, course.to), Sparse: testing.Short(),
				Play: func(t *testing.T, schedule *memory.Schedule) {
					v := published(t)
					course.prepare(v)
					v.schedule = schedule
					v.tried(v.run(), course.reason, course.begun)
				}}.LoseEach(t)
		})
	}
}

// TestATrialIsDeletedInFlight deletes the Prototype after every pass of every course: it goes once nothing of the trial is left.
func TestATrialIsDeletedInFlight(t *testing.T) {
	for _, course := range trialCourses {
		trying := 0
		for at := 0; ; at++ {
			v := published(t)
			course.prepare(v)
			ended := false
			p := v.run(func(pass int) {
				if pass != at {
					return
				}
				if p := v.prototype(); p != nil {
					if ended = p.Status.Terminal(); p.Status.Phase == v1alpha1.PhaseRunningTrial {
						trying++
					}
					v.must(v.clean.Delete(t.Context(), p))
				}
			})
			v.byHand = v.cloud.World().Pools[0].Recipe.Version == triedVersion // it had been promoted
			if v.byHand && !v.tagged(cloud.TagTrial, "Passed ") {
				t.Error("it was promoted untried")
			}
			if !v.byHand {
				v.capacity = 2
			}
			if v.nothingLeft(p); t.Failed() {
				t.Fatalf("%s: deleted after pass %d: %s", course.name, at, verdict(p))
			}
			if ended || p != nil {
				break
			}
		}
		if trying < 8 {
			t.Errorf("%s: deleted in mid-trial %d times", course.name, trying)
		}
	}
}

// trialTroubles are what the world may do to a trial.
var trialTroubles = []struct {
	name   string
	strike func(*trialEnv)
}{
	{"the prototype is deleted", func(v *trialEnv) {
		if p := v.prototype(); p != nil && !p.Status.Terminal() {
			v.must(v.clean.Delete(context.Background(), p))
		}
	}},
	{"another client removes the trial's instance", func(v *trialEnv) {
		for _, t := range v.cloud.World().Trials {
			for _, id := range t.Instances {
				v.cloud.RemoveInstance(id)
				_ = v.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", nodeNameOf(id))
			}
		}
	}},
	{"an autoscaler grows the pool", func(v *trialEnv) { _ = v.cloud.Scale(v.pool, v.cloud.World().Pools[0].Capacity+1) }},
	{"an autoscaler shrinks the pool", func(v *trialEnv) { v.cloud.ScaleIn(v.pool) }},
	{"no look is possible any more", func(v *trialEnv) { v.dark = errDark }},
	{"the node has a twin", func(v *trialEnv) { v.finds = func(_ int32, f *trial.Facts) { f.Twins = []string{"peer"} } }},
	{"the version is quarantined", func(v *trialEnv) {
		if v.cloud.World().Pools[0].Recipe.Version == triedVersion {
			return
		}
		_ = v.cloud.TagImage(context.Background(), cloud.ImageRef{Pool: v.pool, Version: triedVersion}, map[string]string{cloud.TagQuarantined: "bad"})
	}},
	{"the verdict is removed", func(v *trialEnv) {
		if v.cloud.World().Pools[0].Recipe.Version == triedVersion {
			return
		}
		_ = v.cloud.TagImage(context.Background(), cloud.ImageRef{Pool: v.pool, Version: triedVersion}, map[string]string{cloud.TagTrial: ""})
	}},
	{"a person promotes the version", func(v *trialEnv) {
		if !v.tagged(cloud.TagQuarantined, "") {
			v.promoteByHand()
		}
	}},
	{"another client sets another image", func(v *trialEnv) {
		if v.cloud.World().Pools[0].Recipe.Version != triedVersion {
			v.cloud.ChangeRecipe(v.pool, "marketplace/other")
		}
	}},
	{"new nodes do not join", func(v *trialEnv) { v.lonely = true }},
	{"the upgrade policy becomes automatic for a while", func(v *trialEnv) { v.cloud.SetUpgrades(v.pool, true) }},
}

// TestPairsOfFaultsOfATrial draws pairs of lost calls, with a trouble in between, from fixed seeds. The capture ends
// without leftovers of the trial. The pool uses only a passed version, or a version that a person promoted.
func TestPairsOfFaultsOfATrial(t *testing.T) { drawn(t, pairOfTrial) }

func pairOfTrial(t *testing.T, seed uint64) *v1alpha1.Prototype {
	random := rand.New(rand.NewPCG(seed, 20260316))
	v := published(t)
	trialCourses[random.IntN(len(trialCourses))].prepare(v)
	v.schedule = drawPair(random, 120, losses)
	trouble, when, struck := random.IntN(len(trialTroubles)), random.IntN(18), ""
	p := v.run(func(pass int) {
		if pass == when {
			struck = fmt.Sprintf("after pass %d: %s", pass, trialTroubles[trouble].name)
			trialTroubles[trouble].strike(v)
		}
		if pass == when+20 {
			v.cloud.SetUpgrades(v.pool, false) // a person sees the awaited event
		}
	})
	recipe := v.cloud.World().Pools[0].Recipe
	v.byHand = v.byHand || recipe.Version == triedVersion && v.tagged(cloud.TagTrial, "Passed ")
	v.nothingLeft(p)
	v.failedPair(seed, p, struck)
	return p
}
