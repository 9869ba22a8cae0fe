package capture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// losses are the ways to lose a call. A crash is a new process without memory.
var losses = slices.Insert(memory.Losses(), 2, memory.Loss{Name: "throttled", Outcome: memory.Throttle(0)})

// lossesOfStatus also lose the status, as a backup without the status does.
var lossesOfStatus = []memory.Loss{
	{Name: "crash before its effect and status lost", Outcome: memory.CrashBefore(), Wipes: true},
	{Name: "crash after its effect and status lost", Outcome: memory.CrashAfter(), Wipes: true},
}

// crashesAfter are the ways that lose only an answer, with the process.
var crashesAfter = []memory.Loss{{Name: "crash after its effect", Outcome: memory.CrashAfter()}}

// isSkipped reports whether the short form skips a way at this moment. The short form takes one way at each, in turn; the full form
// takes all ways.
func isSkipped(short bool, at, way, ways int) bool { return short && at%ways != way }

// each chooses every step-th call, beginning with the call from.
func each(step, from int) func(calls []string) []int {
	return func(calls []string) (chosen []int) {
		for n := from; n < len(calls); n += step {
			chosen = append(chosen, n)
		}
		return chosen
	}
}

// until chooses the calls before the first call with the prefix.
func until(prefix string) func(calls []string) []int {
	return func(calls []string) []int { return each(1, 0)(calls[:firstCall(calls, prefix)]) }
}

// firstCall is the number of the first call with the prefix; -1 without one.
func firstCall(calls []string, prefix string) int {
	return slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, prefix) })
}

// donors is how the donor may have been before.
var donors = []struct {
	name string
	is   option
}{
	{"a donor in service", func(*testEnv) {}},
	{"a cordoned, protected donor", func(s *testEnv) { s.cordoned, s.protected = true, true }},
	{"a donor in a pool without scale-in", func(s *testEnv) { s.holdless = true }},
}

// inFull is a capture that makes all possible calls: a growing pool, a version to retire, and a budget that refuses
// once.
func inFull(t testing.TB, options ...option) *testEnv {
	s := newTestEnv(t, append(options, func(s *testEnv) { s.blocked = 1 })...)
	for _, version := range []string{"2026.03.01", "2026.03.02", "2026.03.03"} {
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version, Tags: ours()})
	}
	s.must(s.cloud.SetRecipe(t.Context(), s.changeTo("2026.03.03")))
	return s.decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Keep = 2 })
}

func (s *testEnv) changeTo(version string) cloud.RecipeChange {
	change, err := s.cloud.RecipeChange(context.Background(), cloud.ImageRef{Pool: s.pool, Version: version}, false)
	s.must(err)
	return change
}

// TestEverySingleCallLost loses each call of a capture to the cloud and to the API server in each way (short: in one), each
// third call with another donor. The capture still succeeds with one snapshot and one reboot.
func TestEverySingleCallLost(t *testing.T) { everySingleCallLost(t) }

// TestEverySingleCallLostWithRecipesApart is the same with recipes outside of the cloud, and with instances without a
// pool. Snapshots are taken at once, so that the donor returns before the copy is complete.
func TestEverySingleCallLostWithRecipesApart(t *testing.T) {
	everySingleCallLost(t, func(s *testEnv) { s.apart, s.instant = true, true })
}

func everySingleCallLost(t *testing.T, options ...option) {
	for i, donor := range donors {
		t.Run(donor.name, func(t *testing.T) {
			memory.Courses{Losses: losses, Least: 30, Choose: each(len(donors), i), Sparse: testing.Short(),
				Play: func(t *testing.T, schedule *memory.Schedule) {
					s := inFull(t, append(slices.Clone(options), donor.is)...)
					s.schedule = schedule
					s.succeeded(s.play())
					s.checkIntendedChanges()
				}}.LoseEach(t)
		})
	}
}

// wiped is a capture that loses its status, with what holds at its end.
type wiped struct {
	*testEnv
	play  func() *v1alpha1.Prototype
	check func(*v1alpha1.Prototype)
}

// TestStatusLostAtEveryCall loses the status with each call (short: with every third). The record is rebuilt from the Lease, or the
// capture ends: the donor is as before, and no version is half made.
func TestStatusLostAtEveryCall(t *testing.T) {
	choose := each(1, 0)
	if testing.Short() {
		choose = each(3, 0)
	}
	for name, begin := range map[string]func(*testing.T) wiped{
		"a donor that returns": func(t *testing.T) wiped {
			s := inFull(t)
			return wiped{s, func() *v1alpha1.Prototype { return s.play() }, func(*v1alpha1.Prototype) { s.gaveBack() }}
		},
		"a trial": func(t *testing.T) wiped {
			v := published(t)
			return wiped{v.testEnv, func() *v1alpha1.Prototype { return v.run() }, v.checkWiped}
		},
		"a donor that is copied": func(t *testing.T) wiped {
			c := byCopy(t)
			c.decide()
			return wiped{c.testEnv, func() *v1alpha1.Prototype { return c.course() }, func(*v1alpha1.Prototype) { c.swept() }}
		},
		"a pioneer": func(t *testing.T) wiped {
			s := newTestEnv(t, pioneering).decide(pioneer)
			return wiped{s, func() *v1alpha1.Prototype { return s.play() }, func(*v1alpha1.Prototype) { s.gaveBack() }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory.Courses{Losses: lossesOfStatus, Least: 20, Choose: choose, Sparse: true, Play: func(t *testing.T, schedule *memory.Schedule) {
				s := begin(t)
				s.schedule = schedule
				p := s.play()
				s.tick(time.Minute)
				if s.check(p); p == nil || !p.Status.Terminal() {
					t.Errorf("it has not ended: %s", verdict(p))
				}
			}}.LoseEach(t)
		})
	}
}

// checkWiped is nothingLeft of a trial whose status was lost.
func (v *trialEnv) checkWiped(p *v1alpha1.Prototype) {
	v.byHand = v.byHand || v.cloud.World().Pools[0].Recipe.Version == triedVersion && v.tagged(cloud.TagTrial, "Passed ")
	if len(v.cloud.World().Trials) == 0 { // Kubernetes deletes the pods of a node that is gone
		_ = v.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podspace, "probe-pool1-2026.03.14-trial-1")
	}
	v.nothingLeft(p)
}

// checkIntendedChanges holds what a fault must not multiply.
func (s *testEnv) checkIntendedChanges() {
	s.t.Helper()
	w := s.cloud.World()
	if boots := w.Instance(s.donor).Boots; boots != 2 {
		s.t.Errorf("the donor booted %d times, want 2", boots)
	}
	if capacity := w.Pools[0].Capacity; capacity != 2 {
		s.t.Errorf("the pool has %d nodes, want 2", capacity)
	}
	var versions []string
	for _, image := range w.Images {
		if image.State != cloud.Deleting {
			versions = append(versions, image.Version)
		}
	}
	if got := strings.Join(versions, " "); got != "2026.03.03 2026.03.14" {
		s.t.Errorf("versions: %s", got)
	}
	if got := strings.Join(slices.Sorted(slices.Values(s.prototype().Status.Retired)), " "); got != "2026.03.01 2026.03.02" {
		s.t.Errorf("retired versions: %s", got)
	}
}

// TestPairsOfFaults draws pairs of lost calls, and troubles of the world in between, from fixed seeds.
// Whatever happens, the capture ends, and the invariants hold.
func TestPairsOfFaults(t *testing.T) { drawn(t, pairOfFaults) }

// drawn plays schedules from fixed seeds. play returns how the capture of a seed ends.
func drawn(t *testing.T, play func(t *testing.T, seed uint64) *v1alpha1.Prototype) {
	schedules := faultSchedules(t, testing.Short())
	const shards = 4
	var mu sync.Mutex
	ends := map[string]int{}
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for seed := shard; seed < schedules; seed += shards {
					end := endOf(play(t, uint64(seed)))
					mu.Lock()
					ends[end]++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d schedules ended as %v", schedules, ends)
}

// endOf is how a capture has ended.
func endOf(p *v1alpha1.Prototype) string {
	switch {
	case p == nil:
		return "deleted"
	case p.Status.Failure != nil:
		return p.Status.Failure.Reason
	}
	return string(p.Status.Phase)
}

// faultSchedules is how many pairs are drawn.
func faultSchedules(t *testing.T, short bool) int {
	text := os.Getenv("KAMINO_FAULT_SCHEDULES")
	switch {
	case text == "" && short:
		return 40
	case text == "":
		return 300
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("KAMINO_FAULT_SCHEDULES=%s is not a number", text)
	}
	return n
}

// drawPair loses two of so many calls.
func drawPair(random *rand.Rand, calls int, losses []memory.Loss) *memory.Schedule {
	return memory.NewSchedule(map[int]memory.Loss{
		random.IntN(calls): losses[random.IntN(len(losses))],
		random.IntN(calls): losses[random.IntN(len(losses))],
	})
}

// failedPair ends the test of a seed that has failed, and shows its faults.
func (s *testEnv) failedPair(seed uint64, p *v1alpha1.Prototype, trouble string) {
	if s.t.Failed() {
		s.t.Fatalf("seed %d: %s\n%s\n%s\n%s", seed, verdict(p), strings.Join(s.schedule.Lost(), "\n"), trouble, s.lastCalls(60))
	}
}

func pairOfFaults(t *testing.T, seed uint64) *v1alpha1.Prototype {
	random := rand.New(rand.NewPCG(seed, 20260314))
	s := inFull(t, donors[random.IntN(len(donors))].is, func(s *testEnv) { s.instant = seed%3 == 0 })
	s.schedule = drawPair(random, 240, slices.Concat(losses, lossesOfStatus))
	trouble, when, struck := random.IntN(len(troubles)+4), random.IntN(30), ""
	p := s.play(func(pass int) {
		if pass == when && trouble < len(troubles) {
			struck = fmt.Sprintf("after pass %d: %s", pass, troubles[trouble].name)
			troubles[trouble].strike(s)
		}
	})
	s.tick(time.Minute) // a reboot that the world began is over
	s.gaveBack()
	s.failedPair(seed, p, struck)
	return p
}

// troubles are what the world may do on top of lost calls.
var troubles = []struct {
	name   string
	strike func(*testEnv)
}{
	{"the prototype is deleted", func(s *testEnv) {
		if p := s.prototype(); p != nil && !p.Status.Terminal() {
			s.must(s.clean.Delete(context.Background(), p))
		}
	}},
	{"a stranger starts the donor", func(s *testEnv) { s.cloud.StartByStranger(s.donor) }},
	{"the donor's instance is removed", func(s *testEnv) {
		s.cloud.RemoveInstance(s.donor)
		_ = s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName)
	}},
	{"the Node object is deleted", func(s *testEnv) {
		_ = s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName)
	}},
	{"the snapshot fails", func(s *testEnv) { s.cloud.FailSnapshots(1) }},
	{"the image fails", func(s *testEnv) { s.cloud.FailImages(1) }},
	{"the donor reboots", func(s *testEnv) { s.cloud.Reboot(s.donor) }},
	{"the version is quarantined", func(s *testEnv) {
		if s.cloud.World().Pools[0].Recipe.Version == "2026.03.14" {
			return // a version that a recipe names is rolled back, not only quarantined
		}
		_ = s.cloud.TagImage(context.Background(), cloud.ImageRef{Pool: s.pool, Version: "2026.03.14"}, map[string]string{cloud.TagQuarantined: "bad"})
	}},
	{"the generalize pod does not run", func(s *testEnv) { s.deaf = true }},
	{"the upgrade policy becomes automatic", func(s *testEnv) {
		if s.cloud.World().Pools[0].Recipe.Version == "2026.03.14" {
			return // a pool that has yet to grow waits until the policy is corrected
		}
		s.cloud.SetUpgrades(s.pool, true)
	}},
	{"the donor hangs at boot", func(s *testEnv) { s.hung = true }},
}
