package week

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	decide "github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/sandbox/region"
)

// seedVariable names a different seed.
const seedVariable = "KAMINO_WEEK_SEED"

func TestDaysOnAzure(t *testing.T) { playDays(t) }

func TestDaysOnAWS(t *testing.T) { playDays(t) }

func TestDaysOfMachineDeployments(t *testing.T) { playDays(t) }

// playDays plays the week of this process.
func playDays(t *testing.T) {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	w := newWeek(t, seed)
	w.skipTo(1, 6)
	w.trouble.stop(false)
	w.startControllers()
	for day := 1; day <= w.days; day++ {
		w.day(day)
	}
	w.finish()
	w.assertEnd()
}

// day plays one day. In the morning pools shrink, and nodes are patched and rebooted. In the evening the policy's
// window opens, and the controller captures. The pools grow after the change of their recipes.
func (w *week) day(day int) {
	w.Helper()
	began := time.Now()
	if day > 1 {
		w.moveOn(day, 6)
	}
	w.pooler.shrink(w)
	if day == w.inPlaceFrom {
		w.applyPolicy(day)
	}
	w.patch(day)
	w.moveOn(day, 18)
	busy := w.pools[w.trouble.draw(len(w.pools))]
	grown := make(chan error, 1)
	if at, planned := w.removals[day]; planned {
		w.removal.at(at)
		grown <- nil
	} else {
		go func() { grown <- w.pooler.grow(w.Context(), busy) }() // during the capture
	}
	w.addFaults()
	w.trouble.night()
	w.captured(day)
	w.must(<-grown)
	recipes := w.recipes()
	w.grow(recipes, day)
	if day == w.badDay {
		w.goBack(day)
	}
	w.settle()
	w.Logf("%s: day %d is over, which took %.1f s; versions %v",
		now().Format(time.DateTime), day, time.Since(began).Seconds(), slices.Sorted(maps.Values(recipes)))
}

// moveOn skips hours: the controller is killed, and the next controller starts at a later time.
func (w *week) moveOn(day, hour int) {
	w.Helper()
	w.kill("as the time moves on", func() { w.skipTo(day, hour); w.forget() })
}

const (
	// pause is a little longer than a policy caches reads from a cloud that does not respond.
	pause = 11 * time.Minute
	// pauses limits the pauses of an evening.
	pauses = 15
)

// captured waits until every pool's recipe names the day's version. While the policy waits after a failure or a
// missing response, captured puts the calendar forward.
func (w *week) captured(day int) {
	w.Helper()
	waits := 0
	w.eventually(fmt.Sprintf("every pool has a version of day %d", day), func() (bool, string) {
		all := w.prototypes()
		w.assertAlways(all)
		if slices.ContainsFunc(all, func(p v1alpha1.Prototype) bool { return !ended(&p) }) {
			return false, "captures are in progress"
		}
		recipes := w.recipes()
		missing := slices.DeleteFunc(slices.Clone(w.pools), func(pool string) bool { return recipes[pool] == w.dayName(day) })
		if len(missing) == 0 {
			return true, ""
		}
		wait, decisions := w.waiting(missing)
		if wait > 0 {
			if waits++; waits > pauses {
				w.Fatalf("the policy does not stop waiting: %v", decisions)
			}
			w.Logf("%s: the policy waits: %v", now().Format(time.DateTime), decisions)
			w.kill("while it waits", func() { w.skip(wait); w.forget() })
		}
		return false, fmt.Sprintf("nothing happens to %v: %v", missing, decisions)
	})
}

// begins are the decisions that lead to immediate work of the controller.
var begins = []string{admission.CaptureInFlight, decide.Capturing, decide.Queued, selection.DonorChosen}

// waiting returns how long the policy will wait for all of the pools; zero if the policy works on a pool, or has
// not decided yet.
func (w *week) waiting(missing []string) (wait time.Duration, decisions []string) {
	w.Helper()
	status := w.policy().Status
	for _, pool := range missing {
		group := w.group(pool)
		at := slices.IndexFunc(status.Pools, func(p v1alpha1.PoolStatus) bool { return p.Name == group })
		if at < 0 || status.Pools[at].Decision == nil || slices.Contains(begins, status.Pools[at].Decision.Reason) {
			return 0, decisions
		}
		p := status.Pools[at]
		decisions = append(decisions, pool+": "+p.Decision.Message)
		wait = max(wait, pause)
		if p.NextRun != nil {
			wait = max(wait, p.NextRun.Sub(now())+time.Minute)
		}
	}
	return wait, decisions
}

// assertAlways asserts invariants: at most as many reserved nodes as the policy allows, one per pool, and only
// nodes that kured has rebooted.
func (w *week) assertAlways(all []v1alpha1.Prototype) {
	w.Helper()
	nodes, err := sandbox.Kube().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	byPool := w.leased()
	for _, n := range nodes.Items {
		if pool := w.poolOf(n.Name); n.Annotations[v1alpha1.ReservationAnnotation] != "" && !slices.Contains(byPool[pool], n.Name) {
			byPool[pool] = append(byPool[pool], n.Name)
		}
	}
	for _, held := range byPool {
		if len(held) > 1 || len(byPool) > atOnce {
			w.Fatalf("%s: nodes %v are reserved at the same time", now().Format(time.DateTime), byPool)
		}
	}
	for _, p := range all {
		if p.Spec.Version == imageversion.Of(now()) && !w.fit[p.Spec.Donor.NodeName] {
			w.Fatalf("%s took node %s, but kured has rebooted %v", p.Name, p.Spec.Donor.NodeName, slices.Sorted(maps.Keys(w.fit)))
		}
	}
	w.pooler.assertAlways(w, nodes.Items, all)
}

// leased returns the nodes with a Lease of a capture, by pool. A donor whose disk is copied has only the Lease.
func (w *week) leased() map[string][]string {
	w.Helper()
	leases, err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	byPool := map[string][]string{}
	for _, lease := range leases.Items {
		if name := lease.Annotations[v1alpha1.ReservedNodeAnnotation]; name != "" {
			byPool[w.poolOf(name)] = append(byPool[w.poolOf(name)], name)
		}
	}
	return byPool
}

// rollbackTries is how often the operator repeats a command.
const rollbackTries = 10

// goBack is an operator on the evening of the bad day. The operator rolls every pool back, and new nodes are good
// again. The command also gets the night's trouble, and is repeated until success.
func (w *week) goBack(day int) {
	w.Helper()
	each(w, w.pools, func(_ context.Context, pool string) error {
		output := &strings.Builder{}
		for range rollbackTries {
			output.Reset()
			if w.start(output, "rollback", w.group(pool), "--reason", "it is bad").ExitCode() == 0 {
				return nil
			}
		}
		return fmt.Errorf("%s is not rolled back: %s", pool, output)
	})
	recipes := w.recipes()
	for _, pool := range w.pools {
		if recipes[pool] != w.dayName(day-1) {
			w.Errorf("after the rollback the recipe of %s names %q, want %s", pool, recipes[pool], w.dayName(day-1))
		}
		versions, err := sandbox.Versions(w.Context(), pool)
		w.must(err)
		if !slices.ContainsFunc(versions, func(v region.Version) bool {
			return v.Name == w.dayName(day) && v.Tags[cloud.TagQuarantined] != ""
		}) {
			w.Errorf("after the rollback version %s of %s is not quarantined", w.dayName(day), pool)
		}
	}
	w.grow(recipes, day-1)
}

// settle returns when no capture is in progress any more.
func (w *week) settle() {
	w.Helper()
	w.eventually("every capture has ended", func() (bool, string) {
		for _, p := range w.prototypes() {
			if !ended(&p) {
				return false, p.Name + " is " + string(p.Status.Phase)
			}
		}
		return true, ""
	})
}
