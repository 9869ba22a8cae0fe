package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/nodejoin"
	"github.com/kamino-dev/kamino/internal/selection"
)

// parallel is how many pools are decided about at once. A decision waits for the cloud and for nothing else.
const parallel = 16

// retry is after how long a pass that did not get through is made again.
const retry = 30 * time.Second

// Decider makes policies' decisions. One process at a time does, the one that holds the Lease.
type Decider struct {
	// Read gives policies and Prototypes. It may be a cache: before a Prototype is written, Client is asked.
	Read client.Reader
	// Client reads and writes the API server itself.
	Client client.Client
	Cloud  cloud.Provider
	Nodes  *nodecache.Nodes
	Looks  *Looks
	// Policies are decided for in place of those of the cluster, if it is not nil. Those without a UID exist
	// nowhere, and no status of theirs is written.
	Policies []v1alpha1.PrototypePolicy
	// Admit, if set, tells whether a capture of the pool may begin under the policy.
	Admit func(policy string, pool Pool) bool
	// Preflight looks for every reason against a capture: capture.Engine.Refusals. A capture that it refuses is
	// not written down. Nil asks nobody.
	Preflight func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error)
	// Joins tells how the nodes of a pool join whose settings name no profile: membership.Joins. Nil finds no profile, and a
	// capture then has the one that stands for none.
	Joins func(ctx context.Context, facts bootstrapkind.Facts) (bootstrapkind.Answer, error)
	// Permissions, if set, lists what the credential may do for a pool: cloud.PermissionChecker's.
	Permissions func(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error)
	// DisruptionCost, if set, tells what taking a node would cost others: capture.Engine's. Of candidates that the rules find alike
	// the one with the least is taken.
	DisruptionCost func(ctx context.Context, node string, drain v1alpha1.DrainSettings, leaves bool) (selection.DisruptionCost, error)
	// Rebuild, if set, takes the next node of a pool's oldest image; who carries it on is another's matter. Nil rebuilds none.
	Rebuild func(ctx context.Context, r Rebuild) (Taken, error)
	// Leased lists the reservations that Leases confirm, by the UID of their Node. A reservation that is on a Node alone keeps no
	// pool and no other node from anything. Nil believes the Nodes.
	Leased func(ctx context.Context) (map[types.UID]v1alpha1.Reservation, error)
	// UnhealthyDaemonSets, if set, tells which of a pool's new nodes lack a DaemonSet that is healthy elsewhere: newcomer.Lacks.
	UnhealthyDaemonSets func(ctx context.Context, nodes, ignore []string) (map[string]nodejoin.UnhealthyDaemonSet, error)
	// WithoutKubelet, if set, reports for which Nodes no kubelet renews a Lease: node.Kubelets.Without.
	WithoutKubelet func(ctx context.Context, nodes []*corev1.Node, all func() []*corev1.Node) (map[types.UID]bool, error)
	// ObservedSince is since when the nodes have been read without a break, which is not before a controller's start; zero if nobody
	// knows of a break. Time before it is held against no node.
	ObservedSince time.Time
	// WentBack, if set, is told of each pool that went back from a version by itself, and Probation after each pass of all
	// pools whose nodes are watched.
	WentBack  func(Pool)
	Probation func([]Probation)
	// Growth is told when pods wait for nodes. Without that it is the half-hourly look at a pool that tells of its growth.
	Growth Growth
	// OwnNode is the node that this process runs on; empty if it runs on none.
	OwnNode string
	// Now is the clock. time.Now if nil.
	Now func() time.Time
	// Recorder of events, which must take notes of any length; none are recorded if nil.
	Recorder events.EventRecorder
	// Observe, if set, is told of each pool's choice, and Gone of each pool that has no policy any more.
	Observe func(Pool, selection.Choice)
	Gone    func(Pool)
	// Stalled, if set, is told after each pass how many policies are stalled, by reason.
	Stalled func(byReason map[string]int)
	// Degraded, if set, is told after each pass which pools' captures are wanted and refused, by the pool's name and
	// the reason.
	Degraded func(byPoolAndReason map[[2]string]int)
	Log      logr.Logger

	rules compiled
	// profiles that were found, by the pool's ID.
	profiles sync.Map

	mu    sync.Mutex // one pass at a time
	pools map[cloud.PoolID]*decided
	said  map[string][]trouble
	most  atomic.Int32
	// holding is how many nodes of the cluster are held, as of the last look, and leased what Leased told then.
	holding int
	leased  map[types.UID]v1alpha1.Reservation
	// probes watch how nodes join.
	probes *prober
}

// decided is the last outcome for a pool, and what it was decided on.
type decided struct {
	*Outcome
	rules *rules
	// inputs tells one state of the pool's Prototypes from another.
	inputs  string
	refusal refusal
	// rebuildAt is when the next node may be looked for that is to be rebuilt.
	rebuildAt time.Time
}

// observed is what a pass works from.
type observed struct {
	now        time.Time
	policies   []v1alpha1.PrototypePolicy
	prototypes map[cloud.PoolID][]v1alpha1.Prototype
	all        []v1alpha1.Prototype
	pools      []Pool
	claims     claims
	unplaced   error             // why the pools of nodes that have come are not known
	stalled    map[string]int    // policies by reason
	degraded   map[[2]string]int // pools by their name and the reason
	took       int               // nodes that were taken in this pass to be rebuilt
	// sums of the pools' nodes, for a plan
	sums map[cloud.PoolID]nodecache.Sum
}

// Pass decides about every pool that has news, or is due, writes Prototypes and statuses, and says after how
// long to come back though nothing happens. Its error is of the API server's; what goes wrong with one pool or
// policy is in that policy's status.
func (d *Decider) Pass(ctx context.Context) (after time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, err := d.look(ctx)
	if err != nil {
		return retry, err
	}
	d.said = w.claims.troubles
	d.forget(w)
	d.judgeAll(ctx, w, d.due(w))
	probe(ctx, d, w)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	trouble := []error{w.unplaced}
	for _, o := range wantedOf(d.pools) {
		trouble = append(trouble, d.begin(ctx, w, o))
	}
	for _, o := range crowdedOf(d.pools) {
		trouble = append(trouble, d.beginRebuild(ctx, w, o))
	}
	for i := range w.policies {
		trouble = append(trouble, d.report(ctx, w, &w.policies[i]))
	}
	if d.Stalled != nil {
		d.Stalled(w.stalled)
	}
	if d.Degraded != nil {
		d.Degraded(w.degraded)
	}
	d.probes.tell()
	if err := errors.Join(trouble...); err != nil {
		return retry, err
	}
	return d.next(), nil
}

// probe looks at the nodes that are joining.
func probe(ctx context.Context, d *Decider, w *observed) {
	if d.probes == nil {
		d.probes = &prober{Decider: d, watches: map[cloud.PoolID]*watched{}, calm: d.ObservedSince}
	}
	d.probes.watchAll(ctx, w)
	d.probes.report()
}

// MaxConcurrent is how many captures the policies allow at once, at the last pass: the largest number that one
// of them that is not suspended gives.
func (d *Decider) MaxConcurrent() int { return int(d.most.Load()) }

// look reads what there is. The cloud is not asked here.
func (d *Decider) look(ctx context.Context) (*observed, error) {
	w := &observed{now: d.now(), policies: slices.Clone(d.Policies), stalled: map[string]int{}, degraded: map[[2]string]int{}}
	if d.Policies == nil {
		policies := &v1alpha1.PrototypePolicyList{}
		if err := d.Read.List(ctx, policies); err != nil {
			return nil, fmt.Errorf("list prototypepolicies: %w", err)
		}
		w.policies = policies.Items
	}
	slices.SortFunc(w.policies, func(a, b v1alpha1.PrototypePolicy) int { return cmp.Compare(a.Name, b.Name) })
	if err := d.gather(ctx, w); err != nil {
		return nil, err
	}
	most := int32(0)
	for i := range w.policies {
		if p := &w.policies[i]; p.DeletionTimestamp == nil && !p.Spec.Suspend {
			most = max(most, p.Spec.Defaulted().MaxConcurrent)
		}
	}
	d.most.Store(most)
	return w, nil
}

// gather reads the Prototypes, and brings policies, pools and Prototypes together.
func (d *Decider) gather(ctx context.Context, w *observed) error {
	prototypes := &v1alpha1.PrototypeList{}
	if err := d.Read.List(ctx, prototypes); err != nil {
		return fmt.Errorf("list prototypes: %w", err)
	}
	w.all, w.prototypes = prototypes.Items, map[cloud.PoolID][]v1alpha1.Prototype{}
	w.unplaced = d.Nodes.Place(ctx)
	for _, id := range d.Nodes.Pools() {
		w.pools = append(w.pools, Pool{id, d.Cloud.PoolName(id)})
	}
	if d.Leased != nil && len(d.Nodes.Reserved()) > 0 {
		leased, err := d.Leased(ctx)
		if err != nil {
			return err
		}
		d.leased = leased
	}
	d.holding, _ = d.held(w.all, w.now)
	w.claims = claim(w.policies, w.pools, func(p Pool) []*corev1.Node { return d.Nodes.Of(p.ID) })
	of, err := membership.OfPrototypes(ctx, d.Cloud, w.all)
	if err != nil {
		return fmt.Errorf("find the pools of the prototypes: %w", err)
	}
	for i := range w.all {
		if id := of[i].Pool; id != "" {
			w.prototypes[id] = append(w.prototypes[id], w.all[i])
		}
	}
	return nil
}

// forget drops pools that no single policy is for.
func (d *Decider) forget(w *observed) {
	for id, o := range d.pools {
		if len(w.claims.byPool[o.Pool]) == 1 {
			continue
		}
		delete(d.pools, id)
		if d.Gone != nil {
			d.Gone(o.Pool)
		}
	}
	alive := map[cloud.PoolID]bool{}
	for _, pool := range w.pools {
		alive[pool.ID] = true
	}
	d.Looks.Keep(func(id cloud.PoolID) bool { return alive[id] })
}

// due lists the pools that must be decided about now, with the rules of their policies.
func (d *Decider) due(w *observed) map[Pool]*rules {
	news := map[cloud.PoolID]bool{}
	for _, id := range d.Nodes.News() {
		news[id] = true
	}
	byName := d.rulesByName(w)
	due := map[Pool]*rules{}
	for pool, names := range w.claims.byPool {
		if len(names) != 1 {
			continue
		}
		r, known := byName[names[0]], d.pools[pool.ID]
		inputs := inputsOf(w.prototypes[pool.ID])
		if known != nil && (known.inputs != inputs || known.rules.retry != r.retry) {
			// A capture, or somebody who deletes one, may have changed the recipe and the versions; who has it
			// tried again has changed something too.
			d.Looks.Forget(pool.ID)
		}
		if known == nil || known.rules != r || known.inputs != inputs || known.queued || news[pool.ID] || !known.due.After(w.now) {
			due[pool] = r
		}
	}
	return due
}

// rulesByName are the rules of all policies. It logs each unreadable policy once.
func (d *Decider) rulesByName(w *observed) map[string]*rules {
	byName := map[string]*rules{}
	for i := range w.policies {
		r := d.rules.of(&w.policies[i], w.now)
		byName[r.policy] = r
		if r.invalid != nil && r.invalid.reason == v1alpha1.PolicyUnreadable && !r.logged {
			r.logged = true
			d.Log.Info("a policy cannot be read", "policy", r.policy, "why", r.invalid.message)
		}
	}
	return byName
}

// inputsOf tells one state of a pool's Prototypes from another, as far as a decision depends on it.
func inputsOf(prototypes []v1alpha1.Prototype) string {
	states := make([]string, 0, len(prototypes))
	for i := range prototypes {
		states = append(states, ended(&prototypes[i]))
	}
	slices.Sort(states)
	return strings.Join(states, " ")
}

// judgeAll decides about the pools, several at once, and keeps the outcomes.
func (d *Decider) judgeAll(ctx context.Context, w *observed, due map[Pool]*rules) {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, parallel)
	)
	if d.pools == nil {
		d.pools = map[cloud.PoolID]*decided{}
	}
	var unknown []cloud.PoolID
	for _, id := range idsOf(due) {
		if !d.Looks.Last(id).Known() {
			unknown = append(unknown, id)
		}
	}
	ctx = d.Looks.Prefetch(ctx, unknown)
	for pool, r := range due {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			o := d.judge(ctx, r, pool, w.prototypes[pool.ID], w.now)
			if ctx.Err() != nil {
				return
			}
			if d.Observe != nil {
				d.Observe(pool, o.Choice)
			}
			o.trim()
			mu.Lock()
			defer mu.Unlock()
			kept := &decided{Outcome: o, rules: r, inputs: inputsOf(w.prototypes[pool.ID])}
			if before := d.pools[pool.ID]; before != nil && before.rules == r {
				kept.refusal = before.refusal
				kept.stillUnrebuilt(before, w.now)
			}
			d.pools[pool.ID] = kept
		})
	}
	wait.Wait()
}

// idsOf lists the IDs of pools.
func idsOf[T any](of map[Pool]T) []cloud.PoolID {
	ids := make([]cloud.PoolID, 0, len(of))
	for pool := range of {
		ids = append(ids, pool.ID)
	}
	slices.Sort(ids)
	return ids
}

// wantedOf lists the pools that should be captured, the one with the oldest image first: it waits longest.
func wantedOf(pools map[cloud.PoolID]*decided) []*decided {
	var wanted []*decided
	for _, o := range pools {
		if o.Wanted {
			wanted = append(wanted, o)
		}
	}
	slices.SortFunc(wanted, func(a, b *decided) int {
		return cmp.Or(builtAt(a.Look).Compare(builtAt(b.Look)), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return wanted
}

// next is after how long the first pool is due.
func (d *Decider) next() time.Duration {
	after, now := reconsider, d.now()
	for _, o := range d.pools {
		after = min(after, o.due.Sub(now))
	}
	for _, t := range d.probes.watches {
		after = min(after, t.due.Sub(now))
	}
	for _, due := range d.probes.unwatched {
		after = min(after, due.Sub(now))
	}
	return max(after, time.Second)
}

func (d *Decider) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}
