// Package week plays a week of a cluster without people, on its own clock: policies decide and the engine captures. kured
// patches and reboots nodes, pools grow and shrink, and donors vanish. The cloud and the API server fail and throttle, and
// the test kills the controller often. The package holds only tests, of internal/policy together with internal/capture.
package week

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	days   = 7
	badDay = 4 // the day whose patch is bad
	pools  = 3
	// atOnce is the policy's limit of captures.
	atOnce = 2
)

// seeds is the number of weeks per test, each with its own seed; KAMINO_WEEKS sets another number.
func seeds(t *testing.T, short bool) int {
	n := 20
	if short {
		n = 1
	}
	if text := os.Getenv("KAMINO_WEEKS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("KAMINO_WEEKS=%s is not a number", text)
		}
	}
	t.Logf("%d schedules", n)
	return n
}

// TestSevenDays plays the week with several seeds.
func TestSevenDays(t *testing.T) {
	for seed := range seeds(t, testing.Short()) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			w := newWeekEnv(t, uint64(seed))
			for day := 1; day <= days; day++ {
				w.today(day)
			}
			w.quiet()
			w.checkCluster()
			t.Logf("%d killings, %d calls lost of %d, %d donors gone in mid-capture, captures ended as %v",
				w.killed, w.lost, w.called, w.vanished, w.ends())
		})
	}
}

// today plays one day. A patch appears at 06:00, nodes install the patch until 08:00 and reboot until 14:00. On the
// bad day, an operator rolls back and suspends the policy until the next patch is installed.
func (w *weekEnv) today(day int) {
	w.at(day, 6, 0)
	w.released = day
	w.injectTrialFaults(day)
	w.stagePatches()
	for hour := 8; hour < 14; hour++ {
		for _, minute := range []int{0, 30} {
			w.at(day, hour, minute)
			w.rebootOneOfEachPool(hour == 13)
		}
		if hour%3 == 0 {
			w.scale()
		}
	}
	if day == badDay+1 {
		w.suspend(false)
	}
	if day == 2 || day == 6 {
		w.vanishNext = true
	}
	w.at(day, 20, 0)
	if day == badDay && w.recorded == nil { // a machine without a Node can delay the version of the day
		w.goBack()
	}
	w.scale()
	w.at(day, 23, 55)
}

// at runs the world until this time.
func (w *weekEnv) at(day, hour, minute int) {
	until := start.Add(time.Duration(day-1)*24*time.Hour + time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	for w.clock.Now().Before(until) {
		w.turn(until.Sub(w.clock.Now()))
	}
}

// quiet finishes all running work in a world without troubles.
func (w *weekEnv) quiet() {
	w.isQuiet, w.vanishNext = true, false
	w.suspend(true)
	for range 2000 {
		if w.active() == 0 && len(w.cloud.World().Snapshots) == 0 {
			w.turn(time.Minute)
			return
		}
		w.turn(time.Minute)
	}
	w.t.Fatalf("captures do not end: %+v", w.ends())
}

// checkCluster checks the cluster on the eighth day as a platform engineer would.
func (w *weekEnv) checkCluster() {
	t, seen := w.t, w.cloud.World()
	if len(seen.Snapshots) > 0 {
		t.Errorf("snapshots are left behind: %+v", seen.Snapshots)
	}
	for _, m := range seen.Instances {
		if m.ScaleInProtected {
			t.Errorf("%s is left protected", m.ID)
		}
		if m.Power != cloud.PowerRunning {
			t.Errorf("%s is left %s", m.ID, m.Power)
		}
	}
	for _, n := range w.allNodes() {
		if n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] != "" || n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] != "" {
			t.Errorf("node %s is left cordoned %t with %v", n.Name, n.Spec.Unschedulable, n.Annotations)
		}
	}
	if left := w.podsOf(v1alpha1.DefaultGeneralizeNamespace); len(left) > 0 {
		t.Errorf("%d generalize pods are left behind", len(left))
	}
	for _, id := range w.pools {
		w.judgePool(id, seen)
	}
	w.judgeTrials()
	if w.killed == 0 || w.lost == 0 || w.vanished == 0 {
		t.Errorf("a week without troubles shows nothing: %d killings, %d calls lost, %d donors gone", w.killed, w.lost, w.vanished)
	}
}

func (w *weekEnv) judgePool(id cloud.PoolID, seen memory.World) {
	t := w.t
	usable := 0
	for i := len(seen.Images) - 1; i >= 0; i-- { // newest first
		switch v := seen.Images[i]; {
		case v.Pool != id:
		case v.Quarantined:
			if w.levels[levelKey(id, v.Version)] != badDay && !w.wasFoundOut(id, v.Version) {
				t.Errorf("version %s of %s is quarantined and has patch %d", v.Version, id, w.levels[levelKey(id, v.Version)])
			}
		default:
			if usable++; usable > 3 && !w.inUse[id][v.Version] {
				t.Errorf("%s keeps version %s, which is the %d. and which no node ran when the last capture retired versions", id, v.Version, usable)
			}
		}
	}
	if usable < 2 {
		t.Errorf("%s keeps %d usable versions, want 2 at least", id, usable)
	}
	before := len(w.cloud.InstanceIDs(id))
	w.grow(id, 1)
	for range 20 {
		w.turn(time.Minute)
	}
	for _, m := range w.cloud.World().Instances {
		if m.Pool != id || before > 0 && m.ID != w.newest(id) {
			continue
		}
		if level := w.levels[levelKey(id, m.BuiltFrom)]; level != days {
			t.Errorf("the newest node of %s is built from %q with patch %d, want the newest one, %d (captures: %v)", id, m.BuiltFrom, level, days, w.ends())
		}
	}
}

// turn is one step of the world and of the controller.
func (w *weekEnv) turn(most time.Duration) {
	var active int
	crashed := memory.RunUntilCrash(func() { active = w.control() })
	if crashed || !w.isQuiet && w.random.IntN(400) == 0 {
		w.kill()
	}
	w.hold()
	if w.recorded != nil {
		w.recorded()
	}
	step := 5 * time.Minute
	switch {
	case active > w.trying():
		step = 10 * time.Second
	case active > 0:
		step = time.Minute // a trial is mostly waiting
	}
	w.clock.Advance(min(step, max(most, time.Second)))
	w.cloud.Settle()
	w.runPods()
	w.runKubelets()
}

// control is one round of the controller: a decision, and a pass for each capture.
func (w *weekEnv) control() (active int) {
	ctx := w.t.Context()
	if now := w.clock.Now(); !now.Before(w.nextDecision) || w.isChanged {
		w.isChanged = false
		after, err := w.decider.Pass(ctx)
		if err != nil {
			after = time.Minute
		}
		w.nextDecision = now.Add(min(after, 10*time.Minute))
	}
	for _, p := range w.prototypes() {
		if p.Status.Terminal() && len(p.Finalizers) == 0 {
			continue
		}
		active++
		if w.nextIsBad && p.Status.Phase == v1alpha1.PhasePublishing {
			w.foundOut[p.Name], w.nextIsBad = true, false
		}
		if _, err := w.engine.Pass(ctx, p.Name); err == nil {
			w.isChanged = true
		}
		w.noteUse(p.Name)
		w.vanish(p.Name)
	}
	return active
}

// noteUse records the versions of nodes when a capture retires versions. The capture keeps these versions. Versions
// that become unused later belong to the next capture.
func (w *weekEnv) noteUse(name string) {
	p := w.prototype(name)
	if p == nil || p.Status.Phase != v1alpha1.PhasePromoting && p.Status.Phase != v1alpha1.PhaseRetiring && p.Status.Phase != v1alpha1.PhaseSucceeded {
		return
	}
	id := w.poolOf(p)
	if w.retiring[id] != name {
		w.retiring[id], w.inUse[id] = name, map[string]bool{}
	}
	for _, m := range w.cloud.World().Instances {
		if m.Pool == id {
			w.inUse[id][m.BuiltFrom] = true
		}
	}
}

// hold checks the invariants of every moment.
func (w *weekEnv) hold() {
	if broken := w.cloud.World().Broken(); len(broken) > 0 {
		w.t.Fatalf("%s: %v", w.clock.Now(), broken)
	}
	holds, byPool := 0, map[string]int{}
	for _, n := range w.allNodes() {
		if n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			holds++
			byPool[w.machines[n.Name].pool]++
		}
	}
	if holds > atOnce {
		w.t.Fatalf("%s: %d nodes are held at once, more than %d", w.clock.Now(), holds, atOnce)
	}
	for pool, n := range byPool {
		if n > 1 {
			w.t.Fatalf("%s: %d nodes of %s are held at once", w.clock.Now(), n, pool)
		}
	}
}

// vanish removes a reserved donor, once per request.
func (w *weekEnv) vanish(name string) {
	p := w.prototype(name)
	if !w.vanishNext || p == nil || p.Status.Phase != v1alpha1.PhaseDraining && p.Status.Phase != v1alpha1.PhaseWaitingReady {
		return
	}
	w.vanishNext = false
	w.vanished++
	w.donorsGone[w.poolOf(p)]++
	w.remove(p.Spec.Donor.NodeName)
}

func (w *weekEnv) ends() map[string]int {
	ends := map[string]int{}
	for _, p := range w.prototypes() {
		end := string(p.Status.Phase)
		if p.Status.Failure != nil {
			end = fmt.Sprintf("%s (%s)", end, p.Status.Failure.Reason)
		}
		ends[end]++
	}
	return ends
}

func ready(n *corev1.Node) *corev1.NodeCondition { return &n.Status.Conditions[0] }
