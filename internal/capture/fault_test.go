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

// loss is a way to lose one call. A crash is a new process without memory, and may come with the loss of the status.
type loss struct {
	name    string
	outcome memory.Outcome
	wipe    bool
}

var losses = []loss{
	{"error before its effect", memory.FailBefore(cloud.Unavailable), false},
	{"error after its effect", memory.FailAfter(cloud.Unavailable), false},
	{"throttled", memory.Throttle(0), false},
	{"crash before its effect", memory.CrashBefore(), false},
	{"crash after its effect", memory.CrashAfter(), false},
}

// lossesOfStatus also lose the status, as a backup without the status does.
var lossesOfStatus = []loss{
	{"crash before its effect and status lost", memory.CrashBefore(), true},
	{"crash after its effect and status lost", memory.CrashAfter(), true},
}

var allLosses = slices.Concat(losses, lossesOfStatus)

// isSkipped reports whether the short form skips a way at this call or pass. The short form takes one way at each, in
// turn; the full form takes all ways.
func isSkipped(short bool, at, way, ways int) bool { return short && at%ways != way }

// donors is how the donor may have been before.
var donors = []option{
	func(*testEnv) {},
	func(s *testEnv) { s.cordoned, s.protected = true, true },
	func(s *testEnv) { s.holdless = true },
}

// inFull is a capture that makes all possible calls: a growing pool, a version to retire, and a budget that refuses
// once.
func inFull(t testing.TB, options ...option) *testEnv {
	s := newTestEnv(t, append(options, func(s *testEnv) { s.blocked = 1 })...)
	for _, version := range []string{"2026.03.01", "2026.03.02", "2026.03.03"} {
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version, Tags: ours()})
	}
	s.must(s.cloud.SetRecipe(t.Context(), s.changeTo("2026.03.03")))
	return s.decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Recipe.NewNodes, p.Spec.Settings.Keep = 1, 2 })
}

func (s *testEnv) changeTo(version string) cloud.RecipeChange {
	change, err := s.cloud.RecipeChange(context.Background(), cloud.ImageRef{Pool: s.pool, Version: version}, false)
	s.must(err)
	return change
}

// TestEverySingleCallLost loses each call of a capture to the cloud and to the API server in each way (short: in one).
// The capture still succeeds with one snapshot and one reboot.
func TestEverySingleCallLost(t *testing.T) { everySingleCallLost(t, testing.Short()) }

// TestEverySingleCallLostWithRecipesApart is the same with recipes outside of the cloud, and with instances without a
// pool. Snapshots are taken at once, so that the donor returns before the copy is complete.
func TestEverySingleCallLostWithRecipesApart(t *testing.T) {
	everySingleCallLost(t, testing.Short(), func(s *testEnv) { s.apart, s.instant = true, true })
}

func everySingleCallLost(t *testing.T, short bool, options ...option) {
	whole := inFull(t, options...)
	whole.succeeded(whole.play())
	whole.checkIntendedChanges()
	calls := len(whole.calls)
	for i, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			t.Parallel()
			for n := range calls {
				if isSkipped(short, n+len(options), i, len(losses)) {
					continue
				}
				s := inFull(t, append(slices.Clone(options), donors[(n+i)%len(donors)])...)
				s.wipeStatus = loss.wipe
				lost := ""
				s.lose = func(i int, what string) memory.Outcome {
					if i != n {
						return memory.Pass()
					}
					lost = what
					return loss.outcome
				}
				p := s.play()
				s.succeeded(p)
				s.checkIntendedChanges()
				if t.Failed() {
					t.Fatalf("call %d (%s) lost: %s", n, lost, loss.name)
				}
			}
		})
	}
	t.Logf("%d calls", calls)
}

// TestStatusLostAtEveryCall loses the status with each call. The record is rebuilt from the Lease, or the capture ends: the
// donor is as before, or removed where it does not return, no version is half made, and the pool grew at most once.
func TestStatusLostAtEveryCall(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) (*testEnv, func() *v1alpha1.Prototype, func(*v1alpha1.Prototype)){
		"a donor that returns": func(t *testing.T) (*testEnv, func() *v1alpha1.Prototype, func(*v1alpha1.Prototype)) {
			s := inFull(t)
			return s, func() *v1alpha1.Prototype { return s.play() }, func(*v1alpha1.Prototype) { s.gaveBack() }
		},
		"a donor that leaves": func(t *testing.T) (*testEnv, func() *v1alpha1.Prototype, func(*v1alpha1.Prototype)) {
			d := departInFull(t, false)
			return d.testEnv, func() *v1alpha1.Prototype { return d.run() }, d.checkEnd
		},
		"a donor that leaves after a growth": func(t *testing.T) (*testEnv, func() *v1alpha1.Prototype, func(*v1alpha1.Prototype)) {
			d := departInFull(t, true)
			return d.testEnv, func() *v1alpha1.Prototype { return d.run() }, d.checkEnd
		},
		"a trial": func(t *testing.T) (*testEnv, func() *v1alpha1.Prototype, func(*v1alpha1.Prototype)) {
			v := published(t)
			trialCourses[0].prepare(v)
			return v.testEnv, func() *v1alpha1.Prototype { return v.run() }, func(p *v1alpha1.Prototype) {
				v.byHand = v.byHand || v.cloud.World().Pools[0].Recipe.Version == triedVersion && v.tagged(cloud.TagTrial, "Passed ")
				if len(v.cloud.World().Trials) == 0 { // Kubernetes deletes the pods of a node that is gone
					_ = v.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podspace, "probe-pool1-2026.03.14-trial-1")
				}
				v.nothingLeft(p)
			}
		},
		"a pioneer": func(t *testing.T) (*testEnv, func() *v1alpha1.Prototype, func(*v1alpha1.Prototype)) {
			s := growing(t)
			return s, func() *v1alpha1.Prototype { return s.play(s.usePioneer) }, func(*v1alpha1.Prototype) {
				if size := s.cloud.World().Pools[0].Capacity; size > 3 {
					s.t.Errorf("the pool has %d nodes, want 3 at most", size)
				}
				if names := s.leases(); len(names) > 0 {
					s.t.Errorf("leases are left: %v", names)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, play, _ := begin(t)
			play()
			calls := len(s.calls)
			for n := range calls {
				loss := lossesOfStatus[n%len(lossesOfStatus)]
				if testing.Short() && n%3 != 0 {
					continue
				}
				s, play, check := begin(t)
				s.wipeStatus = loss.wipe
				lost := ""
				s.lose = func(i int, what string) memory.Outcome {
					if i != n {
						return memory.Pass()
					}
					lost = what
					return loss.outcome
				}
				p := play()
				s.tick(time.Minute)
				check(p)
				if p == nil || !p.Status.Terminal() {
					t.Errorf("it has not ended: %s", verdict(p))
				}
				if t.Failed() {
					t.Fatalf("call %d (%s) lost: %s\n%s\n%s", n, lost, loss.name, verdict(p), strings.Join(s.calls[n:min(len(s.calls), n+60)], "\n"))
				}
			}
			t.Logf("%d calls", calls)
		})
	}
}

// checkIntendedChanges holds what a fault must not multiply.
func (s *testEnv) checkIntendedChanges() {
	s.t.Helper()
	w := s.cloud.World()
	if boots := w.Instance(s.donor).Boots; boots != 2 {
		s.t.Errorf("the donor booted %d times, want 2", boots)
	}
	if capacity := w.Pools[0].Capacity; capacity != 3 {
		s.t.Errorf("the pool has %d nodes, want 3", capacity)
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
func TestPairsOfFaults(t *testing.T) {
	schedules := faultSchedules(t, testing.Short())
	const shards = 4
	var mu sync.Mutex
	ends := map[string]int{}
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for seed := shard; seed < schedules; seed += shards {
					end := pairOfFaults(t, uint64(seed))
					mu.Lock()
					ends[end]++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d schedules ended as %v", schedules, ends)
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

func pairOfFaults(t *testing.T, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 20260314))
	s := inFull(t, donors[random.IntN(len(donors))], func(s *testEnv) { s.instant = seed%3 == 0 })
	var script []string
	faults := map[int]int{random.IntN(240): random.IntN(len(allLosses)), random.IntN(240): random.IntN(len(allLosses))}
	s.lose = func(n int, what string) memory.Outcome {
		i, lost := faults[n]
		if !lost {
			return memory.Pass()
		}
		script = append(script, fmt.Sprintf("call %d (%s): %s", n, what, allLosses[i].name))
		s.wipeStatus = allLosses[i].wipe
		return allLosses[i].outcome
	}
	trouble, when := random.IntN(len(troubles)+4), random.IntN(30)
	p := s.play(func(pass int) {
		if pass == when && trouble < len(troubles) {
			script = append(script, fmt.Sprintf("after pass %d: %s", pass, troubles[trouble].name))
			troubles[trouble].strike(s)
		}
	})
	s.tick(time.Minute) // a reboot that the world began is over
	s.gaveBack()
	if t.Failed() {
		t.Fatalf("seed %d: %s\n%s", seed, verdict(p), strings.Join(script, "\n"))
	}
	if p == nil {
		return "deleted"
	}
	if p.Status.Failure != nil {
		return p.Status.Failure.Reason
	}
	return string(p.Status.Phase)
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
