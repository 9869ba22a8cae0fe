package week

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// pioneers is a world of a policy with pioneers. The world itself plays the nodes and the captures: a release is a number,
// and a node of level n has all releases up to n.
type pioneers struct {
	*testing.T
	random  *rand.Rand
	clock   *memory.Clock
	cloud   *memory.Cloud
	nodes   *nodecache.Nodes
	api     client.Client
	decider *policy.Decider
	pools   []cloud.PoolID

	release  int
	bad      map[int]bool
	deadFrom time.Time // the mirrors are dead since then; zero if they answer
	quiet    bool      // no further release, and no mirror dies
	images   map[cloud.PoolID]int
	running  map[string]int       // passes over a check
	patching map[string]int       // the level of a pioneer, by its Prototype
	begun    map[string]time.Time // the begin of a pioneer, by its Prototype
	booted   map[string]int       // nodes that booted a level, by pool and level

	killed, lost, checks, failed, captured int
}

const pioneerStep = 10 * time.Minute

func newPioneers(t *testing.T, seed uint64) *pioneers {
	w := &pioneers{
		T: t, random: rand.New(rand.NewPCG(seed, 41)), clock: memory.NewClock(start), bad: map[int]bool{}, images: map[cloud.PoolID]int{},
		running: map[string]int{}, patching: map[string]int{}, begun: map[string]time.Time{}, booted: map[string]int{},
	}
	w.cloud = memory.New(memory.Config{Now: w.clock.Now, NoCopy: true})
	w.nodes = nodecache.NewNodes(w.cloud)
	server := inmemory.New(w.clock.Now)
	w.api = server.Client(w.disturbed)
	p := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: v1alpha1.PrototypePolicySpec{
		MaxConcurrent: pools, Failures: v1alpha1.FailureSettings{Limit: 100},
		Pioneer: &v1alpha1.PolicyPioneerSettings{},
	}}
	w.must(server.Client(nil).Create(t.Context(), p))
	for i := range pools {
		id := w.cloud.AddPool(memory.PoolSpec{Name: fmt.Sprintf("pool%d", i), Capacity: 4, MaxSize: 30})
		w.pools = append(w.pools, id)
		for n := range 4 {
			w.cloud.AddInstance(id, strconv.Itoa(n))
		}
		w.label(id, "")
	}
	w.restart()
	return w
}

func (w *pioneers) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// restart is a new process without memory.
func (w *pioneers) restart() {
	w.decider = &policy.Decider{
		Read: w.api, Client: w.api, Cloud: w.cloud, Nodes: w.nodes, PoolCache: policy.NewPoolCache(w.cloud, w.clock.Now), Now: w.clock.Now,
		Log: logr.Discard(), PatchChecks: policy.PatchChecks{Check: w.check},
	}
}

// disturbed loses a status of the policy now and then, before or after its effect.
func (w *pioneers) disturbed(call inmemory.Call, effect func() error) error {
	if !call.Status || call.Kind != "PrototypePolicy" || w.random.IntN(20) > 0 {
		return effect()
	}
	w.lost++
	if w.random.IntN(2) == 0 {
		if err := effect(); err != nil {
			return err
		}
	}
	return errors.New("lost")
}

// label replaces the nodes of a pool by nodes of the version.
func (w *pioneers) label(id cloud.PoolID, version string) {
	for _, instance := range w.cloud.World().Instances {
		if instance.Pool != id {
			continue
		}
		w.nodes.Set(w.nodeOf(instance.ID, version))
	}
}

// nodeOf is a Ready node of the version.
func (w *pioneers) nodeOf(id cloud.InstanceID, version string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(id), Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	if version != "" {
		node.Labels[v1alpha1.VersionLabel] = v1alpha1.VersionLabelValue(version)
	}
	node.Spec.ProviderID = string(id)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(w.clock.Now().Add(-2 * time.Hour))}}
	return node
}

// check plays the check of a node: some passes, then a report.
func (w *pioneers) check(_ context.Context, t nodepatch.CheckTask) (*nodepatch.Checked, error) {
	w.running[t.Pool]++
	switch {
	case w.random.IntN(30) == 0:
		return nil, errors.New("lost")
	case w.running[t.Pool] < 2:
		return nil, nil
	}
	w.running[t.Pool] = 0
	w.checks++
	r := &patch.Report{Method: patch.Check, Health: patch.Healthy, Repositories: []patch.Repository{{ID: "main", Read: w.deadFrom.IsZero()}}}
	for i := w.images[cloud.PoolID(t.Pool)] + 1; i <= w.release && w.deadFrom.IsZero(); i++ {
		r.Pending = append(r.Pending, patch.Change{Name: "package", To: strconv.Itoa(i)})
	}
	return &nodepatch.Checked{Node: t.Node, Report: r}, nil
}

// capture plays the pioneers: patch and reboot after an hour, end after three hours.
func (w *pioneers) capture() {
	list := &v1alpha1.PrototypeList{}
	w.must(w.api.List(w.Context(), list))
	for i := range list.Items {
		p := &list.Items[i]
		pool, now := cloud.PoolID(p.Spec.PoolID), w.clock.Now()
		switch begun, known := w.begun[p.Name]; {
		case p.Status.Terminal():
			if now.Sub(begun) > 48*time.Hour && w.random.IntN(200) == 0 {
				w.must(w.api.Delete(w.Context(), p)) // a person tidies up
			}
		case !known:
			if p.Spec.Pioneer == nil || p.Status.PatchSet == "" {
				w.Fatalf("prototype %s is no pioneer", p.Name)
			}
			w.begun[p.Name], w.patching[p.Name] = now, w.release
			if w.failedLevels()[fmt.Sprint(pool, " ", w.release)] {
				w.endAs(p, "LevelQuarantined", w.release) // a patch appeared after the check; the engine does not boot the level
				continue
			}
			w.boot(pool, w.release)
		case now.Sub(begun) >= 3*time.Hour:
			w.end(p, pool, w.patching[p.Name])
		}
	}
}

// boot counts the nodes of a pool that boot a level.
func (w *pioneers) boot(pool cloud.PoolID, level int) {
	if level <= w.images[pool] {
		w.Errorf("a pioneer of pool %s begins without a pending patch", pool)
	}
	w.booted[fmt.Sprint(pool, " ", level)]++
}

// end ends a pioneer: a bad level fails, and a good level becomes the image.
func (w *pioneers) end(p *v1alpha1.Prototype, pool cloud.PoolID, level int) {
	if w.bad[level] {
		w.failed++
		w.endAs(p, "RebootTimeout", level)
		return
	}
	w.endAs(p, "", level)
	w.captured++
	w.cloud.AddVersion(pool, memory.VersionSpec{Version: p.Spec.Version, CreatedAt: w.clock.Now(),
		Tags: map[string]string{cloud.TagBuiltAt: w.clock.Now().Format(cloud.BuiltAtLayout)}})
	w.cloud.ChangeRecipe(pool, string(pool)+"/versions/"+p.Spec.Version)
	w.images[pool] = level
	w.label(pool, p.Spec.Version)
}

// endAs writes the end of a pioneer; failure is empty for a success.
func (w *pioneers) endAs(p *v1alpha1.Prototype, failure string, level int) {
	p.Status.Phase, p.Status.Patch = v1alpha1.PhaseSucceeded, &v1alpha1.PatchStatus{Level: strconv.Itoa(level), Failure: failure}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.NewTime(w.clock.Now())}
	if failure != "" {
		p.Status.Phase, p.Status.Failure = v1alpha1.PhaseFailed, &v1alpha1.Failure{Reason: "DonorNotPatched", Message: "the node did not come back"}
		ready.Status = metav1.ConditionFalse
	}
	if failure == "RebootTimeout" {
		p.Status.Patch.FailedLevel = strconv.Itoa(level)
	}
	meta.SetStatusCondition(&p.Status.Conditions, ready)
	w.must(w.api.Status().Update(w.Context(), p))
}

// failedLevels are the failed levels by pool, as the engine finds them: in Prototypes and in the status of the policy.
func (w *pioneers) failedLevels() map[string]bool {
	failed := map[string]bool{}
	list := &v1alpha1.PrototypeList{}
	w.must(w.api.List(w.Context(), list))
	for _, p := range list.Items {
		if p.Status.Patch != nil && p.Status.Patch.FailedLevel != "" {
			failed[p.Spec.PoolID+" "+p.Status.Patch.FailedLevel] = true
		}
	}
	policy := &v1alpha1.PrototypePolicy{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: policyName}, policy))
	for _, pool := range policy.Status.Pools {
		if pool.Patches != nil {
			for _, f := range pool.Patches.Failed {
				failed[pool.ID+" "+f.Level] = true
			}
		}
	}
	return failed
}

// turn plays ten minutes: releases, dead mirrors, kills and decisions.
func (w *pioneers) turn() {
	w.clock.Advance(pioneerStep)
	if !w.quiet && w.random.IntN(200) == 0 {
		w.release++
		w.bad[w.release] = w.random.IntN(3) == 0
	}
	switch {
	case !w.deadFrom.IsZero() && w.clock.Now().Sub(w.deadFrom) > 12*time.Hour:
		w.deadFrom = time.Time{}
	case !w.quiet && w.deadFrom.IsZero() && w.random.IntN(500) == 0:
		w.deadFrom = w.clock.Now()
	}
	w.capture()
	if w.random.IntN(40) == 0 {
		w.killed++
		w.restart()
	}
	_, _ = w.decider.Pass(w.Context()) // an error is a lost call: the next pass goes on
}

// TestFourWeeksOfPioneers: at most one node of a pool boots a bad level, no image has a bad level, and good patches arrive.
func TestFourWeeksOfPioneers(t *testing.T) {
	for seed := range seeds(t, testing.Short()) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			w := newPioneers(t, uint64(seed))
			for range 28 * 24 * time.Hour / pioneerStep {
				w.turn()
			}
			w.release++ // a last good release
			w.deadFrom, w.quiet = time.Time{}, true
			// The pioneers of seven days can be used up (spec.pioneer.maxPerWeek).
			for range 9 * 24 * time.Hour / pioneerStep {
				w.turn()
			}
			for key, n := range w.booted {
				if n > 1 {
					t.Errorf("%d nodes booted %s", n, key)
				}
			}
			for i, pool := range w.pools {
				if w.images[pool] != w.release {
					t.Errorf("pool %s has level %d of %d", pool, w.images[pool], w.release)
				}
				if size := w.cloud.World().Pools[i].Capacity; size != 4 || len(w.nodes.Of(pool)) != 4 {
					t.Errorf("pool %s ends with %d places and %d nodes, want 4", pool, size, len(w.nodes.Of(pool)))
				}
			}
			if w.failed == 0 || w.captured == 0 || w.lost == 0 || w.killed == 0 {
				t.Errorf("the weeks were too quiet: %+v", w)
			}
			t.Logf("%d releases, %d checks, %d captures, %d failed pioneers, %d kills, %d lost statuses",
				w.release, w.checks, w.captured, w.failed, w.killed, w.lost)
		})
	}
}
