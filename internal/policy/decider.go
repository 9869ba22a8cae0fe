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
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/selection"
)

// parallel is the number of pools with concurrent decisions. A decision waits for the cloud only.
const parallel = 16

// retry is the pause before Kamino repeats a failed pass.
const retry = 30 * time.Second

// Decider decides for policies. Only the process that holds the Lease runs a Decider.
type Decider struct {
	// Read reads policies and Prototypes. Read may be a cache: before Kamino writes a Prototype, Client reads the API
	// server.
	Read client.Reader
	// Client reads and writes the API server without a cache.
	Client    client.Client
	Cloud     Cloud
	Nodes     *nodecache.Nodes
	PoolCache *PoolCache
	// Policies, if not nil, replace the policies of the cluster. A policy without a UID is not in the cluster, and Kamino
	// writes no status for that policy.
	Policies []v1alpha1.PrototypePolicy
	// Admit, if set, reports whether a capture of the pool may begin under the policy.
	Admit func(policy string, pool PoolRef) bool
	// Preflight returns all reasons against a capture: capture.Engine.Refusals. Kamino creates no Prototype for a refused
	// capture. Nil skips the preflight.
	Preflight func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error)
	// Joins detects how nodes join, for a pool without a profile in the settings: membership.Joins. Nil detects no profile,
	// and a capture then uses the profile for pools without a profile.
	Joins func(ctx context.Context, facts bootstrapkind.Facts) (bootstrapkind.Answer, error)
	// Permissions, if set, lists the permissions of the credential for a pool: Cloud.Permissions.
	Permissions func(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error)
	// Evictions, if set, returns the number of evictions that the drain of a node needs: capture.Engine.Evictions. Of
	// candidates that the rules rank equal, Kamino captures the candidate with the fewest.
	Evictions func(ctx context.Context, node string, drain v1alpha1.DrainSettings) (int, error)
	// PatchChecks ask nodes for their pending patches.
	PatchChecks PatchChecks
	// Rebuild, if set, reserves the next node of a pool's oldest image. Package rebuild carries on. Nil rebuilds no node.
	Rebuild func(ctx context.Context, r rebuild.Request) (rebuild.RequestResult, error)
	// Leased lists the reservations that Leases confirm, by the UID of the Node. A reservation without a Lease blocks
	// neither its pool nor other nodes. Nil trusts the annotations of Nodes.
	Leased   func(ctx context.Context) (map[types.UID]v1alpha1.Reservation, error)
	NewNodes NewNodes
	// Growth records pods that wait for nodes. Without such pods, the look at the pool every half hour shows the growth of
	// a pool.
	Growth Growth
	// OwnNode is the node of this process; empty outside a cluster.
	OwnNode string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Recorder records events with notes of any length; nil records no events.
	Recorder  events.EventRecorder
	Observers Observers
	Log       logr.Logger

	rules ruleCache
	// profiles are the detected profiles as poolProfile, by the ID of the pool.
	profiles sync.Map

	mu            sync.Mutex // one pass at a time
	pools         map[cloud.PoolID]*cachedOutcome
	poolTroubles  map[string][]policyProblem
	maxConcurrent atomic.Int32
	held          heldNodes
	// probes track how nodes join.
	probes *joinTracker
	checks checks
}

// heldNodes are the reserved nodes of the cluster at the last look: their number, and the answer of Decider.Leased.
type heldNodes struct {
	count  int
	leased map[types.UID]v1alpha1.Reservation
}

// PatchChecks are the checks of nodes for pending patches, as nodepatch.Patcher makes them.
type PatchChecks struct {
	// Check makes one pass over the check of a pool. Nil: no node checks, and Kamino begins no pioneer.
	Check func(ctx context.Context, t nodepatch.CheckTask) (*nodepatch.Checked, error)
	// Sweep, if set, removes the checks of all other pools.
	Sweep func(ctx context.Context, wanted []nodepatch.CheckTask) error
}

// NewNodes are questions about the nodes that are joining. A question that is nil finds nothing.
type NewNodes struct {
	// UnhealthyDaemonSets returns new nodes of a pool without a Pod of a DaemonSet that is healthy on other nodes.
	UnhealthyDaemonSets func(ctx context.Context, nodes, ignore []string) (map[string]nodejoin.UnhealthyDaemonSet, error)
	// Differences returns how new Ready nodes of a pool differ from the others, by name: nodejoin.Peers. ignore has
	// accepted differences. Kamino asks once a minute while nodes are new.
	Differences func(ctx context.Context, pool cloud.PoolID, nodes, others, ignore []string) (map[string]string, error)
	// WithoutKubelet reports the Nodes whose Lease no kubelet renews: node.Kubelets.Without.
	WithoutKubelet func(ctx context.Context, nodes []*corev1.Node, all func() []*corev1.Node) (map[types.UID]bool, error)
	// Workloads returns the workloads with a pod on the nodes, and whether the pod runs well, by name of the node: nodejoin.Workloads.
	Workloads func(ctx context.Context, nodes []string) (map[string]map[string]bool, error)
	// ObservedSince is the time since which a process has read the nodes without a break, at the earliest the start of the
	// controller. Zero: no break is known. Earlier time does not count against a node.
	ObservedSince time.Time
}

// Observers receive what passes decide, for metrics and notices. An observer may be nil.
type Observers struct {
	// Attention receives what newly needs a person.
	Attention func(news []attention.Item)
	// Choice receives the choice for each pool. Gone receives each pool that has no policy any more.
	Choice func(PoolRef, selection.Choice)
	Gone   func(PoolRef)
	// Rollback receives each pool that Kamino rolled back automatically.
	Rollback func(PoolRef)
	// JoinHealth receives the join tracking of all watched pools, and Patches the pending patches of all pools, after each pass.
	JoinHealth func([]JoinHealth)
	Patches    func([]Patches)
	// Status receives each written change of a policy's status.
	Status func(before, after *v1alpha1.PrototypePolicy)
	// Stalled receives each reason for which a policy waits for a user, after each pass.
	Stalled func(map[Stall]bool)
	// Degraded receives the pools with a wanted and refused capture after each pass, by the pool's name and the reason.
	Degraded func(byPoolAndReason map[[2]string]int)
}

// Stall is a reason for which a policy waits for a user. Pool is empty if the reason concerns the whole policy.
type Stall struct{ Policy, Pool, Reason string }

// cachedOutcome is the last outcome for a pool, with the inputs of the decision.
type cachedOutcome struct {
	*PoolOutcome
	rules *rules
	// inputs is a fingerprint of the pool's Prototypes.
	inputs  string
	refusal refusal
	// rebuildAt is the time at which Kamino looks for the next node to rebuild.
	rebuildAt time.Time
}

// observed holds the inputs of a pass.
type observed struct {
	now        time.Time
	policies   []v1alpha1.PrototypePolicy
	prototypes map[cloud.PoolID][]v1alpha1.Prototype
	all        []v1alpha1.Prototype
	pools      []PoolRef
	claims     poolClaims
	unplaced   error // why the pools of new nodes are unknown
	stalled    map[Stall]bool
	degraded   map[[2]string]int // pools by their name and the reason
	took       int               // nodes that this pass reserved for a rebuild
	// sums are the counts of nodes per pool, for a plan.
	sums map[cloud.PoolID]nodecache.Summary
}

// Pass decides about each pool that changed or is due, writes Prototypes and statuses, and returns the time until the next
// pass. Errors are of the API server: errors of a pool or policy are in the policy's status.
func (d *Decider) Pass(ctx context.Context) (after time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, err := d.observe(ctx)
	if err != nil {
		return retry, err
	}
	d.poolTroubles = w.claims.troubles
	d.dropUnclaimed(w)
	d.judgeAll(ctx, w, d.due(w))
	checkPatches(ctx, d, w)
	probe(ctx, d, w)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	trouble := []error{w.unplaced}
	if d.Policies == nil {
		trouble = append(trouble, keepCandidates(ctx, d.Client, d.Nodes.All(), d.pools, w.now))
	}
	for _, o := range wantedOf(d.pools) {
		trouble = append(trouble, d.begin(ctx, w, o))
	}
	for _, o := range rebuildsOf(d.pools) {
		trouble = append(trouble, d.beginRebuild(ctx, w, o))
	}
	for i := range w.policies {
		trouble = append(trouble, d.report(ctx, w, &w.policies[i]))
	}
	trouble = append(trouble, reportInUse(ctx, d, w))
	if d.Observers.Stalled != nil {
		d.Observers.Stalled(w.stalled)
	}
	if d.Observers.Degraded != nil {
		d.Observers.Degraded(w.degraded)
	}
	d.probes.reportJoins()
	reportPatches(d)
	if err := errors.Join(trouble...); err != nil {
		return retry, err
	}
	return d.next(), nil
}

// probe tracks the nodes that are joining.
func probe(ctx context.Context, d *Decider, w *observed) {
	if d.probes == nil {
		d.probes = &joinTracker{Decider: d, watches: map[cloud.PoolID]*watchedPool{}, observedSince: d.NewNodes.ObservedSince}
	}
	d.probes.watchAll(ctx, w)
	d.probes.report()
}

// MaxConcurrent is the largest spec.maxConcurrent of all policies that are not suspended, at the last pass.
func (d *Decider) MaxConcurrent() int { return int(d.maxConcurrent.Load()) }

// observe reads the inputs of a pass from the API server and the node cache. observe does not call the cloud.
func (d *Decider) observe(ctx context.Context) (*observed, error) {
	w := &observed{now: d.now(), policies: slices.Clone(d.Policies), stalled: map[Stall]bool{}, degraded: map[[2]string]int{}}
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
	largest := int32(0)
	for i := range w.policies {
		if p := &w.policies[i]; p.DeletionTimestamp == nil && !p.Spec.Suspend {
			largest = max(largest, p.Spec.Defaulted().MaxConcurrent)
		}
	}
	d.maxConcurrent.Store(largest)
	return w, nil
}

// gather reads the Prototypes, and matches policies, pools and Prototypes.
func (d *Decider) gather(ctx context.Context, w *observed) error {
	prototypes := &v1alpha1.PrototypeList{}
	if err := d.Read.List(ctx, prototypes); err != nil {
		return fmt.Errorf("list prototypes: %w", err)
	}
	w.all, w.prototypes = prototypes.Items, map[cloud.PoolID][]v1alpha1.Prototype{}
	w.unplaced = d.Nodes.Place(ctx)
	for _, id := range d.Nodes.Pools() {
		w.pools = append(w.pools, PoolRef{id, d.Cloud.PoolName(id)})
	}
	if d.Leased != nil && len(d.Nodes.Reserved()) > 0 {
		leased, err := d.Leased(ctx)
		if err != nil {
			return err
		}
		d.held.leased = leased
	}
	d.held.count = d.countHeld(w.all)
	w.claims = claim(w.policies, w.pools, func(p PoolRef) []*corev1.Node { return d.Nodes.Of(p.ID) })
	d.checks.load(w.policies)
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

// dropUnclaimed drops pools without exactly one policy.
func (d *Decider) dropUnclaimed(w *observed) {
	for id, o := range d.pools {
		if len(w.claims.byPool[o.Pool]) == 1 {
			continue
		}
		delete(d.pools, id)
		if d.Observers.Gone != nil {
			d.Observers.Gone(o.Pool)
		}
	}
	alive := map[cloud.PoolID]bool{}
	for _, pool := range w.pools {
		alive[pool.ID] = true
	}
	d.PoolCache.Keep(func(id cloud.PoolID) bool { return alive[id] })
}

// due returns the pools that need a decision now, with the rules of their policies.
func (d *Decider) due(w *observed) map[PoolRef]*rules {
	changed := map[cloud.PoolID]bool{}
	for _, id := range d.Nodes.News() {
		changed[id] = true
	}
	byName := d.rulesByName(w)
	due := map[PoolRef]*rules{}
	for pool, names := range w.claims.byPool {
		if len(names) != 1 {
			continue
		}
		r, known := byName[names[0]], d.pools[pool.ID]
		inputs := inputsOf(w.prototypes[pool.ID])
		if known != nil && (known.inputs != inputs || known.rules.retry != r.retry) {
			// A capture, or a person who deletes a capture, may have changed the recipe and the versions. A person who asks
			// for a retry has changed something too.
			d.PoolCache.Forget(pool.ID)
		}
		if known == nil || known.rules != r || known.inputs != inputs || known.queued || changed[pool.ID] || !known.due.After(w.now) {
			due[pool] = r
		}
	}
	return due
}

// rulesByName returns the rules of all policies. rulesByName logs each unreadable policy once.
func (d *Decider) rulesByName(w *observed) map[string]*rules {
	byName := map[string]*rules{}
	for i := range w.policies {
		r := d.rules.rulesOf(&w.policies[i], w.now)
		byName[r.policy] = r
		if r.invalid != nil && r.invalid.reason == v1alpha1.PolicyUnreadable && !r.logged {
			r.logged = true
			d.Log.Info("a policy cannot be read", "policy", r.policy, "why", r.invalid.message)
		}
	}
	return byName
}

// inputsOf returns a fingerprint of a pool's Prototypes, as far as a decision depends on the Prototypes.
func inputsOf(prototypes []v1alpha1.Prototype) string {
	states := make([]string, 0, len(prototypes))
	for i := range prototypes {
		states = append(states, ended(&prototypes[i]))
	}
	slices.Sort(states)
	return strings.Join(states, " ")
}

// judgeAll decides about several pools concurrently, and keeps the outcomes.
func (d *Decider) judgeAll(ctx context.Context, w *observed, due map[PoolRef]*rules) {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, parallel)
	)
	if d.pools == nil {
		d.pools = map[cloud.PoolID]*cachedOutcome{}
	}
	var unknown []cloud.PoolID
	for _, id := range idsOf(due) {
		if !d.PoolCache.Last(id).Known() {
			unknown = append(unknown, id)
		}
	}
	ctx = d.PoolCache.Prefetch(ctx, unknown)
	for pool, r := range due {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			o := d.decidePool(ctx, r, pool, w.prototypes[pool.ID], w.now)
			if ctx.Err() != nil {
				return
			}
			if d.Observers.Choice != nil {
				d.Observers.Choice(pool, o.Choice)
			}
			o.trim()
			mu.Lock()
			defer mu.Unlock()
			kept := &cachedOutcome{PoolOutcome: o, rules: r, inputs: inputsOf(w.prototypes[pool.ID])}
			if before := d.pools[pool.ID]; before != nil && before.rules == r {
				kept.refusal = before.refusal.unlessBegun(w.prototypes[pool.ID])
				kept.keepRebuildWait(before, w.now)
			}
			d.pools[pool.ID] = kept
		})
	}
	wait.Wait()
}

// idsOf lists the IDs of pools.
func idsOf[T any](of map[PoolRef]T) []cloud.PoolID {
	ids := make([]cloud.PoolID, 0, len(of))
	for pool := range of {
		ids = append(ids, pool.ID)
	}
	slices.Sort(ids)
	return ids
}

// wantedOf returns the pools that need a capture, sorted by the age of their images, the oldest image first.
func wantedOf(pools map[cloud.PoolID]*cachedOutcome) []*cachedOutcome {
	var wanted []*cachedOutcome
	for _, o := range pools {
		if o.Wanted {
			wanted = append(wanted, o)
		}
	}
	slices.SortFunc(wanted, func(a, b *cachedOutcome) int {
		return cmp.Or(builtAt(a.Look).Compare(builtAt(b.Look)), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return wanted
}

// next returns the time until the first pool is due.
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
