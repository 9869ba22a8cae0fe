package capture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	{"unknown at first", func(v *trialEnv) {
		v.cloud.FailTrials(1, memory.TrialFailure{Trouble: "12 of 12 cores are used", LacksCapacity: true})
	}, "", 2, "EndTrial ", "EnsureTrial "},
}

// tried checks that the course has its end, that no leftovers exist, and that each attempt had one instance.
func (v *trialEnv) tried(p *v1alpha1.Prototype, reason string, begun int) {
	v.t.Helper()
	switch {
	case p == nil, reason == "" && p.Status.Phase != v1alpha1.PhaseSucceeded, reason != "" && (p.Status.Failure == nil || p.Status.Failure.Reason != reason):
		v.t.Fatalf("it has another end: %s\n%s", verdict(p), strings.Join(v.calls[max(0, len(v.calls)-40):], "\n"))
	}
	v.nothingLeft(p)
	w := v.cloud.World()
	for kind, want := range map[string]int{memory.EffectBeginTrial: begun, memory.EffectEndTrial: begun} {
		if got := w.Count(memory.ByCaller, kind, ""); got != want {
			v.t.Errorf("%s was done %d times, want %d", kind, got, want)
		}
	}
	if v.tagged(cloud.TagQuarantined, "trial: ") != (reason == "TrialFailed") {
		v.t.Errorf("tags: %+v", w.Images)
	}
}

// distinctCalls are the calls of a range, with their passes, that differ from earlier calls. A node that is watched for long
// repeats its calls, so only one round is lost.
func distinctCalls(calls []string, from, to string) (lost []int) {
	first, last := 0, len(calls)
	if from != "" {
		first = max(0, slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, from) })-8)
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

// TestEverySingleCallLostOfATrial loses each call after a complete image in each way (short: in one) and course.
// Earlier calls are equal for every capture (plan.TestWhereATrialMakesNoDifference, TestTheCourseBeforeATrial).
func TestEverySingleCallLostOfATrial(t *testing.T) {
	short := testing.Short()
	var schedules atomic.Int64
	t.Run("courses", func(t *testing.T) {
		for _, course := range trialCourses {
			t.Run(course.name, func(t *testing.T) {
				t.Parallel()
				whole := published(t)
				course.prepare(whole)
				whole.tried(whole.run(), course.reason, course.begun)
				calls := distinctCalls(whole.calls, course.from, course.to)
				if len(calls) < 25 {
					t.Fatalf("the course is %d calls of %v", len(calls), whole.calls)
				}
				for i, loss := range losses {
					for _, n := range calls {
						if isSkipped(short, n, i, len(losses)) {
							continue
						}
						schedules.Add(1)
						v := published(t)
						course.prepare(v)
						v.wipeStatus = loss.wipe
						lost := ""
						v.lose = func(i int, what string) memory.Outcome {
							if i != n {
								return memory.Pass()
							}
							lost = what
							return loss.outcome
						}
						v.tried(v.run(), course.reason, course.begun)
						if t.Failed() {
							t.Fatalf("call %d (%s) lost: %s\n%s", n, lost, losses[i].name, strings.Join(v.calls[n:min(len(v.calls), n+60)], "\n"))
						}
					}
				}
			})
		}
	})
	t.Logf("%d schedules", schedules.Load())
}

// TestTheCourseBeforeATrial: before the complete image, a capture with a trial makes the same calls as without, except
// for the trial's preflight. Its record then equals the result of published.
func TestTheCourseBeforeATrial(t *testing.T) {
	until := func(calls []string) []string {
		calls = slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return strings.HasPrefix(call, "PreflightTrial ") })
		return calls[:slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, "DeleteSnapshot ") })]
	}
	with, without := trying(t), trying(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.Mode = v1alpha1.TrialOff })
	var record v1alpha1.Record
	with.run(func(int) {
		if p := with.prototype(); p != nil && p.Status.Phase != v1alpha1.PhaseRunningTrial && record.Trial == nil {
			r, err := v1alpha1.RecordOf(p)
			with.must(err)
			record = r
		}
	})
	without.play()
	if got, want := until(with.calls), until(without.calls); !slices.Equal(got, want) {
		t.Errorf("with a trial:\n%v\nwithout:\n%v", got, want)
	}
	made, err := v1alpha1.RecordOf(published(t).prototype())
	if with.must(err); made.GeneralizeBootID == "" || record.GeneralizeBootID == "" || (made.Order == nil) != (record.Order == nil) ||
		made.Reservation != nil ||
		record.Reservation != nil {
		t.Errorf("the record is %+v, and is made as %+v", record, made)
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
	{"an autoscaler grows the pool", func(v *trialEnv) { v.scale(1) }},
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
func TestPairsOfFaultsOfATrial(t *testing.T) {
	schedules := faultSchedules(t, testing.Short())
	const shards = 4
	var mu sync.Mutex
	ends := map[string]int{}
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for seed := shard; seed < schedules; seed += shards {
					end := pairOfTrial(t, uint64(seed))
					mu.Lock()
					ends[end]++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d schedules ended as %v", schedules, ends)
}

func pairOfTrial(t *testing.T, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 20260316))
	v := published(t)
	trialCourses[random.IntN(len(trialCourses))].prepare(v)
	var script []string
	faults := map[int]int{random.IntN(120): random.IntN(len(losses)), random.IntN(120): random.IntN(len(losses))}
	v.lose = func(n int, what string) memory.Outcome {
		i, lost := faults[n]
		if !lost {
			return memory.Pass()
		}
		script = append(script, fmt.Sprintf("call %d (%s): %s", n, what, losses[i].name))
		v.wipeStatus = losses[i].wipe
		return losses[i].outcome
	}
	trouble, when := random.IntN(len(trialTroubles)), random.IntN(18)
	p := v.run(func(pass int) {
		if pass == when {
			script = append(script, fmt.Sprintf("after pass %d: %s", pass, trialTroubles[trouble].name))
			trialTroubles[trouble].strike(v)
		}
		if pass == when+20 {
			v.cloud.SetUpgrades(v.pool, false) // a person sees the awaited event
		}
	})
	recipe := v.cloud.World().Pools[0].Recipe
	passed := recipe.Version == triedVersion && v.tagged(cloud.TagTrial, "Passed ")
	v.byHand = v.byHand || passed
	v.nothingLeft(p)
	if t.Failed() {
		t.Fatalf("seed %d: %s\n%s\n%s", seed, verdict(p), strings.Join(script, "\n"), strings.Join(v.calls[max(0, len(v.calls)-60):], "\n"))
	}
	switch {
	case p == nil:
		return "deleted"
	case p.Status.Failure != nil:
		return p.Status.Failure.Reason
	}
	return string(p.Status.Phase)
}
