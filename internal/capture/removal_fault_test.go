package capture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// removalEnv is a stage with a donor that does not return, and with the facts to judge its end.
type removalEnv struct {
	*testEnv
	growFirst bool
	// touched: the Lease names the boot of an order, which precedes the pod. shrunk and grown is by how many nodes others have changed the pool.
	touched       bool
	shrunk, grown int64
	// size that the pool had after the last pass.
	size int64
}

// departInFull is inFull with a donor that does not return.
func departInFull(t testing.TB, growFirst bool, options ...option) *removalEnv {
	s := inFull(t, append(options, func(s *testEnv) {
		s.settings = removedDonor(growFirst)
		if growFirst {
			s.settings = func(p *v1alpha1.Prototype) {
				removedDonor(true)(p)
				p.Spec.Settings.Donor.CarryOver = v1alpha1.CarryOver{Labels: []string{"team", "absent"}, Taints: []string{"dedicated"}}
			}
		}
	})...)
	n := s.tracked("nodes", "", donorName).(*corev1.Node)
	n.Labels["team"] = "blue"
	n.Spec.Taints = append(n.Spec.Taints, dedicated)
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	return &removalEnv{testEnv: s, growFirst: growFirst, size: 2}
}

// dedicated is a taint of the donor that the replacement gets.
var dedicated = corev1.Taint{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}

// checkReplacement checks that a replacement has the labels and taints that are carried over before the donor is cordoned.
func (d *removalEnv) checkReplacement(record v1alpha1.Record) {
	d.t.Helper()
	donor, _ := d.tracked("nodes", "", donorName).(*corev1.Node)
	if !d.growFirst || record.Replacement == nil || record.Replacement.Node == "" || donor == nil || !donor.Spec.Unschedulable {
		return
	}
	n, _ := d.tracked("nodes", "", record.Replacement.Node).(*corev1.Node)
	if n != nil && (n.Labels["team"] != "blue" || !slices.Contains(n.Spec.Taints, dedicated)) {
		d.t.Errorf("the donor is cordoned before replacement %s has its labels and taints: %v, %v", n.Name, n.Labels, n.Spec.Taints)
	}
}

// watch checks after each pass that the pool is not smaller than intended, except for the replaced node without
// GrowFirst.
func (d *removalEnv) watch() {
	d.t.Helper()
	if p := d.prototype(); p != nil {
		record, err := v1alpha1.RecordOf(p)
		if err == nil {
			d.checkReplacement(record)
		}
	}
	for _, name := range d.leases() {
		lease, err := d.objects.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), ourspace, name)
		d.must(err)
		reservation, err := v1alpha1.ReservationOf(lease.(metav1.Object).GetAnnotations())
		d.touched = d.touched || err == nil && reservation != nil && reservation.GeneralizeBootID != ""
	}
	least := 2 - d.shrunk
	if !d.growFirst {
		least--
	}
	if d.size = d.cloud.World().Pools[0].Capacity; d.size < least {
		d.t.Errorf("the pool's wanted size is %d nodes, want at least %d", d.size, least)
	}
}

// strike changes the world, and counts the changes of the pool's size.
func (d *removalEnv) strike(do func(*testEnv)) {
	before := d.cloud.World().Pools[0].Capacity
	do(d.testEnv)
	if change := d.cloud.World().Pools[0].Capacity - before; change < 0 {
		d.shrunk -= change
	} else {
		d.grown += change
	}
}

// run plays the capture to its end.
func (d *removalEnv) run(between ...func(pass int)) *v1alpha1.Prototype {
	d.t.Helper()
	return d.play(append([]func(int){func(int) { d.watch() }}, between...)...)
}

// checkEnd checks every end. A touched donor is gone with its Node, and was never started. An untouched donor is
// unchanged, and its pool may have one node more.
func (d *removalEnv) checkEnd(p *v1alpha1.Prototype) {
	d.t.Helper()
	d.gaveBack()
	w := d.cloud.World()
	removed, there := w.Count(memory.ByCaller, memory.EffectRemoveInstance, string(d.donor)), w.Instance(d.donor).ID != ""
	switch {
	case d.touched && there:
		d.t.Error("a donor that was touched is there")
	case removed > 1, removed == 1 && !d.touched:
		d.t.Errorf("it was removed %d times; touched: %t", removed, d.touched)
	case removed == 1 && w.Count(memory.ByCaller, memory.EffectStart, string(d.donor)) > 0:
		d.t.Error("it was removed, and returned to service")
	}
	if n := d.tracked("nodes", "", donorName); d.touched && n != nil {
		d.t.Error("the Node of a donor that was touched is there")
	}
	succeeded, promoted := p != nil && p.Status.Phase == v1alpha1.PhaseSucceeded, w.Pools[0].Recipe.Version == "2026.03.14"
	least, most := 2-d.shrunk, 2+d.grown
	if succeeded {
		least++
	}
	if promoted {
		most++ // settings.recipe.newNodes
	}
	if d.growFirst && !d.touched {
		most++
	}
	if size := w.Pools[0].Capacity; size < least || size > most {
		d.t.Errorf("the pool's wanted size is %d nodes, want from %d to %d (touched %t, promoted %t)", size, least, most, d.touched, promoted)
	}
}

// course chooses the calls in which leaving donors differ: with GrowFirst from the reservation to the order, and always
// from the snapshot to the publication; of these every step-th. Other decisions are equal (plan.TestEqualDecisionsForBothDonors),
// and TestEverySingleCallLost loses those calls.
func course(growFirst bool, step, from int) func(calls []string) []int {
	return func(calls []string) []int {
		copied, published := firstCall(calls, "EnsureSnapshot "), firstCall(calls, "EnsureImage ")
		reserved := firstCall(calls, "create leases/") // dry runs of the preflight create no Lease
		ordered := reserved + firstCall(calls[reserved:], "create nodeorder")
		return slices.DeleteFunc(each(step, from)(calls), func(n int) bool {
			ahead := growFirst && n >= reserved && n <= ordered
			return !ahead && (n < copied || n > published)
		})
	}
}

// TestEverySingleCallLostOfADeparture loses each call for a leaving donor in each way (short: in one), each sixth call with another
// donor and cluster. The capture still succeeds with one snapshot, one growth and one removal.
func TestEverySingleCallLostOfADeparture(t *testing.T) {
	for _, growFirst := range []bool{true, false} {
		for i := range 2 * len(donors) {
			donor, tidy := donors[i%len(donors)], i%2 == 0
			t.Run(fmt.Sprintf("%s, grow first %t, tidy %t", donor.name, growFirst, tidy), func(t *testing.T) {
				memory.Courses{Losses: losses, Least: 10, Choose: course(growFirst, 2*len(donors), i), Sparse: testing.Short(),
					Play: func(t *testing.T, schedule *memory.Schedule) {
						d := departInFull(t, growFirst, donor.is, func(s *testEnv) { s.tidy = tidy })
						d.schedule = schedule
						d.departed(d.run())
					}}.LoseEach(t)
			})
		}
	}
}

// departed holds what a fault must neither prevent nor multiply.
func (d *removalEnv) departed(p *v1alpha1.Prototype) {
	d.t.Helper()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		d.t.Fatalf("the capture did not succeed: %s\n%s", verdict(p), d.lastCalls(40))
	}
	d.checkEnd(p)
	w := d.cloud.World()
	for kind, want := range map[string]int{memory.EffectSnapshot: 1, memory.EffectRemoveInstance: 1, memory.EffectSetCapacity: 2, memory.EffectStart: 0, memory.EffectImage: 1} {
		if got := w.Count(memory.ByCaller, kind, ""); got != want {
			d.t.Errorf("%s was done %d times, want %d", kind, got, want)
		}
	}
	if got := w.Pools[0].Recipe; got.Version != p.Spec.Version || len(got.Bootstrap) != 2 {
		d.t.Errorf("the recipe is %+v", got)
	}
}

// departureTroubles are further troubles for leaving donors and their pools.
var departureTroubles = []struct {
	name   string
	strike func(*testEnv)
}{
	{"an autoscaler shrinks the pool", func(s *testEnv) { s.cloud.ScaleIn(s.pool) }},
	{"an autoscaler grows the pool", func(s *testEnv) { s.scale(1) }},
	{"an autoscaler grows the pool by two", func(s *testEnv) { s.scale(2) }},
	{"new nodes do not join", func(s *testEnv) { s.lonely = true }},
	{"the pool is at its maximum", func(s *testEnv) { s.cloud.SetMaxSize(s.pool, s.cloud.World().Pools[0].Capacity) }},
	{"the cluster deletes Nodes whose instance is gone", func(s *testEnv) { s.tidy = true }},
}

// scale is an autoscaler that grows the pool.
func (s *testEnv) scale(by int64) {
	size := s.cloud.World().Pools[0].Capacity
	_ = s.cloud.SetCapacity(context.Background(), s.pool, size, size+by)
}

// TestPairsOfFaultsOfADeparture draws pairs of lost calls, and a trouble of the world in between, from fixed seeds. Whatever
// happens, the capture ends, and the invariants hold.
func TestPairsOfFaultsOfADeparture(t *testing.T) { drawn(t, pairOfDeparture) }

func pairOfDeparture(t *testing.T, seed uint64) *v1alpha1.Prototype {
	random := rand.New(rand.NewPCG(seed, 20260315))
	d := departInFull(t, random.IntN(3) > 0, donors[random.IntN(len(donors))].is, func(s *testEnv) { s.tidy = random.IntN(2) == 0 })
	d.schedule = drawPair(random, 260, slices.Concat(losses, lossesOfStatus))
	all := slices.Concat(troubles, departureTroubles)
	trouble, when, struck := random.IntN(len(all)+4), random.IntN(34), ""
	p := d.run(func(pass int) {
		if pass == when && trouble < len(all) {
			struck = fmt.Sprintf("after pass %d: %s", pass, all[trouble].name)
			d.strike(all[trouble].strike)
		}
		if pass == when+40 {
			d.cloud.SetMaxSize(d.pool, 10) // a person sees the awaited event
			d.cloud.SetUpgrades(d.pool, false)
		}
	})
	d.tick(time.Minute) // a reboot that the world began is over
	d.checkEnd(p)
	d.failedPair(seed, p, struck)
	return p
}

// TestADepartureIsDeletedInFlight deletes the Prototype after every pass: an untouched donor is returned, a touched
// donor is removed.
func TestADepartureIsDeletedInFlight(t *testing.T) {
	for _, growFirst := range []bool{true, false} {
		touched := map[bool]int{}
		for at := 0; ; at++ {
			d := departInFull(t, growFirst)
			ended := false
			p := d.run(func(pass int) {
				if pass != at {
					return
				}
				if p := d.prototype(); p != nil {
					ended = p.Status.Terminal()
					d.must(d.clean.Delete(t.Context(), p))
				}
			})
			if d.checkEnd(p); t.Failed() {
				t.Fatalf("deleted after pass %d: %s", at, verdict(p))
			}
			if ended || p != nil {
				break
			}
			touched[d.touched]++
		}
		if touched[false] < 3 || touched[true] < 10 {
			t.Errorf("deleted before and behind the order: %v", touched)
		}
	}
}

// TestATamperingWithADeparture tampers after each pass in each way (short: in one). A sweep then removes a touched
// donor, and returns an untouched donor.
func TestATamperingWithADeparture(t *testing.T) {
	short := testing.Short()
	for i, tampering := range tamperings {
		for _, growFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, grow first %t", tampering.name, growFirst), func(t *testing.T) {
				t.Parallel()
				for at := 0; ; at++ {
					if isSkipped(short, at, i, len(tamperings)) {
						continue
					}
					d := departInFull(t, growFirst, donors[at%len(donors)].is)
					last := -1
					p := d.run(func(pass int) {
						if last = pass; pass == at {
							d.strike(tampering.strike)
						}
					})
					if last < at {
						if at < 10 {
							t.Fatalf("only %d moments were tried", at)
						}
						return
					}
					d.sweep()
					d.tick(time.Minute)
					d.checkEnd(p)
					if p != nil && !p.Status.Terminal() {
						t.Errorf("it has not ended: %s", verdict(p))
					}
					if t.Failed() {
						n, _ := d.tracked("nodes", "", donorName).(*corev1.Node)
						t.Fatalf("struck after pass %d: %s\n%+v\n%s", at, verdict(p), n, d.lastCalls(60))
					}
				}
			})
		}
	}
}

// TestAnInstanceThatALockKeeps: the capture waits with the donor and says why, and goes on once the lock is gone.
func TestAnInstanceThatALockKeeps(t *testing.T) {
	for _, fails := range []bool{false, true} {
		d := departInFull(t, true, func(s *testEnv) { s.deaf = fails })
		shown := false
		denied := 0
		d.lose = func(what string) memory.Outcome {
			if strings.HasPrefix(what, "EnsureRemoved ") && denied < 8 {
				denied++
				return memory.FailBefore(cloud.Denied)
			}
			return memory.Pass()
		}
		p := d.run(func(int) {
			if p := d.prototype(); denied > 0 && denied < 8 {
				shown = shown || stalledFor(p, string(cloud.Denied))
			}
		})
		if d.checkEnd(p); !shown || denied != 8 {
			t.Errorf("failed %t: denied %d times, reported: %t; %s", fails, denied, shown, verdict(p))
		}
	}
}

// stalledFor reports whether condition Stalled has the reason.
func stalledFor(p *v1alpha1.Prototype, reason string) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
}
