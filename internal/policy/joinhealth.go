package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
	"github.com/kamino-dev/kamino/internal/recipe"
)

const (
	// judgeInterval is the interval between two judgements while nodes of a pool are new.
	judgeInterval = time.Minute
	// pollInterval is the interval between two requests to the cloud meanwhile.
	pollInterval = 5 * time.Minute
	// idleInterval is the interval between two checks for new nodes, without a request.
	idleInterval = 10 * time.Minute
	// frozenMaxAge is the age up to which a look is valid for a pool whose rollback waits for an acknowledgement.
	frozenMaxAge = 20 * time.Minute
	// overdueInterval is the interval between two requests while a node is overdue: the remover of such nodes acts at about this
	// time.
	overdueInterval = 2 * time.Minute
	// stepInterval is the pause between two steps of a rollback.
	stepInterval = time.Second
)

// joinTracker tracks the joins of pools' nodes for a Decider, between the passes.
type joinTracker struct {
	*Decider
	// watches are the watched pools by ID, and observedSince is the time since which these pools are watched without a break.
	watches       map[cloud.PoolID]*watchedPool
	observedSince time.Time
	// unwatched are the other pools, with the time of the next look for an unfinished rollback.
	unwatched map[cloud.PoolID]time.Time
	// forbidAfter is when launches of quarantined versions may be forbidden again after an error, by pool.
	forbidAfter map[cloud.PoolID]time.Time
	// endedIntents is the time of the latest rollback whose record this process has deleted, by pool.
	endedIntents map[cloud.PoolID]time.Time
	// sampled is when the pods of a pool's nodes were last sampled.
	sampled time.Time
}

// watchedPool is a pool whose joining nodes Kamino tracks.
type watchedPool struct {
	pool PoolRef
	// version in the recipe; empty during a trial of the version, or if the version is not the pool's.
	version string
	look    PoolLook
	joins   []joinhealth.Join
	// list is the last list of instances; the instances are kept while nodes of the pool are new. asked is the time of the
	// last request for the pool's size.
	list  InstanceList
	asked time.Time
	// others counts the nodes of other images, and ready the Ready nodes of others. ownOthers and ownReady count this
	// pool's share.
	others, ready       int
	ownOthers, ownReady int
	cohort              cohort
	// without holds the Nodes with a kubelet check, by UID: true if no kubelet renews the Lease.
	without map[types.UID]bool
	// unlisted names the Nodes of other pools that Kamino could not verify; empty if there are none.
	unlisted string
	// fingerprint is a fingerprint of the pool's nodes and recipe at the last list.
	fingerprint string
	// observedSince is the time since which no other cause kept nodes from joining, as far as this process knows.
	observedSince time.Time
	due           time.Time
	// renews is true while the pool's warm pool is being renewed, and warmDue is the time of the next step.
	renews  bool
	warmDue time.Time
	verdict joinhealth.Verdict
	// acts: a step of a rollback ran, and another step may follow. stuck: a step failed, so that a person must know.
	acts, stuck bool
	err         error
}

// watchAll tracks the joining nodes of all pools, judges their versions, and takes the next step of a rollback.
func (d *joinTracker) watchAll(ctx context.Context, w *observed) {
	raw := d.Nodes.Sums(w.now)
	sums, unlisted := d.verifySums(ctx, raw, w.now)
	sums = d.withoutSuspects(sums, w.now)
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	rulesOf := map[cloud.PoolID]*rules{}
	for i := range w.policies {
		r := d.rules.rulesOf(&w.policies[i], w.now)
		for _, pool := range w.pools {
			if names := w.claims.byPool[pool]; len(names) != 1 || names[0] != r.policy {
				continue
			}
			rulesOf[pool.ID] = r
			t := d.watches[pool.ID]
			if t == nil {
				t = &watchedPool{pool: pool, observedSince: d.observedSince, joins: nodejoin.Before(joinHealthOf(&w.policies[i], pool))}
				d.watches[pool.ID] = t
			}
			slots <- struct{}{}
			wait.Go(func() {
				defer func() { <-slots }()
				d.watchOne(ctx, r, t, raw[pool.ID], sums, w)
			})
		}
	}
	wait.Wait()
	d.samplePods(ctx, w.now)
	for id, t := range d.watches {
		r := rulesOf[id]
		if r == nil {
			delete(d.watches, id)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		t.unlisted = unlisted
		d.compareCohorts(t, nodejoin.Limits(r.spec.Rollback), w.now)
		d.decideRollback(ctx, w, r, t)
		d.renewWarmPool(ctx, w, r, t)
	}
	d.finishAll(ctx, w)
	d.forbidLaunches(ctx, w)
}

// joinHealthOf is the join tracking of a pool in a policy's status.
func joinHealthOf(p *v1alpha1.PrototypePolicy, pool PoolRef) *v1alpha1.JoinHealthStatus {
	for i := range p.Status.Pools {
		if cloud.PoolID(p.Status.Pools[i].ID) == pool.ID {
			return p.Status.Pools[i].JoinHealth
		}
	}
	return nil
}

// watchOne looks at one pool if the pool is due or has changed.
func (d *joinTracker) watchOne(ctx context.Context, r *rules, t *watchedPool, sum nodecache.Summary, sums map[cloud.PoolID]nodecache.Summary, w *observed) {
	limits := nodejoin.Limits(r.spec.Rollback)
	t.look = d.PoolCache.Last(t.pool.ID)
	t.compare(sums)
	grows := d.Growth.isRecent(w.now) && w.now.Sub(t.asked) >= listInterval(limits)
	if t.due.After(w.now) && t.fingerprintOf(sum) == t.fingerprint && !grows {
		return
	}
	active := nodejoin.Young(t.joins, t.version, w.now, limits) || t.acts || w.now.Sub(sum.Youngest) < limits.Watch || t.lacksCohort(sum)
	if !active && !t.look.Known() {
		t.due = w.now.Add(idleInterval)
		return // the decision about captures sends the first request
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if grows {
		if err := d.checkGrowth(ctx, t, sum, w.now); err != nil {
			d.readFailed(t, err, w.now)
			return
		}
	}
	if err := d.readCloud(ctx, t, sum, active, limits, w.now); err != nil {
		d.readFailed(t, err, w.now)
		return
	}
	t.err, t.due, t.version = nil, w.now.Add(shorter(idleInterval, limits.Join)), current(t.look, w.prototypes[t.pool.ID])
	if t.list.Instances == nil {
		return
	}
	if err := d.judgeJoins(ctx, r, t, sums, w.now); err != nil {
		d.readFailed(t, err, w.now)
		return
	}
	if nodejoin.Young(t.joins, t.version, w.now, limits) {
		t.due = w.now.Add(shorter(judgeInterval, limits.Unready/2))
	} else {
		t.list.Instances = nil
	}
}

// judgeJoins judges the join of each node.
func (d *joinTracker) judgeJoins(ctx context.Context, r *rules, t *watchedPool, sums map[cloud.PoolID]nodecache.Summary, now time.Time) error {
	limits, nodes := nodejoin.Limits(r.spec.Rollback), d.Nodes.Of(t.pool.ID)
	seen := nodejoin.Observation{Now: now, Instances: t.list.Instances, Nodes: nodes, Images: t.look.Images, Same: d.Cloud.SameInstance,
		Reserved: reserved(d.Decider)}
	if err := d.askKubelets(ctx, t, nodes, limits, now); err != nil {
		return err
	}
	seen.WithoutKubelet = t.without
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return t.without[n.UID] })
	fresh := newNodes(nodes, now, limits)
	if d.NewNodes.UnhealthyDaemonSets != nil {
		var err error
		if seen.UnhealthyDaemonSets, err = d.NewNodes.UnhealthyDaemonSets(ctx, fresh, r.spec.Settings.Trial.IgnoreDaemonSets); err != nil {
			return err
		}
	}
	all := nodejoin.Nodes(seen)
	if err := d.compareNodes(ctx, t, all, fresh, r.spec.Settings.Trial.IgnoreDifferences); err != nil {
		return err
	}
	t.ownOthers, t.ownReady, t.cohort.nodes = 0, 0, map[[2]string]joinhealth.CohortNode{}
	arriving := map[string]bool{}
	for _, node := range nodes {
		arriving[node.Name] = nodestate.Arriving(node, now)
	}
	for _, n := range all {
		if n.Name != "" {
			t.cohort.nodes[[2]string{n.Name, n.UID}] = joinhealth.CohortNode{Version: n.Version, Zone: n.Zone, Running: n.Running}
		}
		if n.Version != t.version && n.Name != "" && n.ExcludedReason == "" && !arriving[n.Name] {
			t.ownOthers++
			if n.Ready {
				t.ownReady++
			}
		}
	}
	t.compare(sums)
	if t.unhealthy() {
		t.observedSince = now
	}
	t.joins = nodejoin.Keep(joinhealth.Judge(now, t.observedSince, all, t.joins, limits), all, t.version)
	return nil
}

// compareNodes notes how the new nodes of the version differ from the pool's Ready nodes of other images.
func (d *joinTracker) compareNodes(ctx context.Context, t *watchedPool, all []joinhealth.Node, fresh, ignore []string) error {
	if d.NewNodes.Differences == nil {
		return nil
	}
	var nodes, others []string
	for _, n := range all {
		switch {
		case n.Name == "" || !n.Ready || n.ExcludedReason != "":
		case n.Version != t.version:
			others = append(others, n.Name)
		case slices.Contains(fresh, n.Name):
			nodes = append(nodes, n.Name)
		}
	}
	found, err := d.NewNodes.Differences(ctx, t.pool.ID, nodes, others, ignore)
	for i := range all {
		all[i].Difference = found[all[i].Name]
	}
	return err
}

// shorter returns the pace, or a shorter pace if the wait is shorter.
func shorter(pace, wait time.Duration) time.Duration { return max(min(pace, wait), stepInterval) }

// readFailed schedules another look soon after an error. The time of the error counts against no node.
func (d *joinTracker) readFailed(t *watchedPool, err error, now time.Time) {
	if t.err == nil || t.err.Error() != err.Error() {
		d.Log.Info("join tracking of a pool failed", "pool", t.pool.Name, "why", err.Error())
	}
	t.err, t.observedSince = err, now
	t.due = now.Add(max(judgeInterval, cloud.RetryAfter(err)))
	if !cloud.Is(err, cloud.Throttled) && !cloud.Is(err, cloud.Unavailable) && cloud.KindOf(err) != "" {
		t.due = now.Add(idleInterval) // a missing permission takes longer
	}
}

// fingerprintOf is a fingerprint of the pool that changes when an instance or a node comes or goes.
func (t *watchedPool) fingerprintOf(sum nodecache.Summary) string {
	return fmt.Sprintf("%d %d %s %s", sum.Nodes, t.look.Pool.Capacity, t.look.Pool.Recipe.Image, sum.Youngest)
}

// current is the version in the recipe; empty during a trial of the version.
func current(look PoolLook, prototypes []v1alpha1.Prototype) string {
	version := look.Pool.Recipe.Version
	for i := range prototypes {
		if p := &prototypes[i]; p.Status.Phase == v1alpha1.PhaseRunningTrial && p.Spec.Version == version {
			return ""
		}
	}
	return version
}

// newNodes are the new Ready nodes to check for DaemonSets, the oldest node first. A DaemonSet that fails late in the
// watched time needs the time of a verdict after that.
func newNodes(nodes []*corev1.Node, now time.Time, limits joinhealth.Limits) []string {
	var fresh []*corev1.Node
	for _, node := range nodes {
		if now.Sub(node.CreationTimestamp.Time) <= limits.Watch+2*limits.Daemons && nodestate.Ready(node) {
			fresh = append(fresh, node)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	names := make([]string, len(fresh))
	for i, node := range fresh {
		names[i] = node.Name
	}
	return names
}

// facts are the inputs of the verdict.
func (d *joinTracker) facts(t *watchedPool, r *rules, now time.Time) joinhealth.Facts {
	h := history.Of(history.Facts{Pool: t.look.Pool, Images: t.look.Images})
	f := joinhealth.Facts{
		Now: now, Pool: t.pool.Name, Current: t.version, Prior: h.Prior, Since: history.Since(t.look.Images, t.version), Joins: t.joins,
		LastRollback: history.LastRollback(t.look.Images), Others: t.others, OthersReady: t.ready, Unlisted: t.unlisted,
		Cohorts: t.cohort.now,
		Off:     r.spec.Rollback.Mode == v1alpha1.RollbackOff || r.spec.Suspend || r.spec.DryRun,
	}
	for _, went := range h.AutoRollbacks {
		if went.Open && went.Acknowledged.IsZero() && f.Suspect == "" {
			f.Suspect = went.Version
		}
	}
	if !slices.ContainsFunc(t.joins, func(join joinhealth.Join) bool { return join.Outcome == joinhealth.Failed }) {
		return f // no failed join needs a comparison, and many pools have many joins
	}
	var neighbors []joinhealth.Neighbor
	for id, other := range d.watches {
		if id != t.pool.ID {
			neighbors = append(neighbors, joinhealth.Neighbor{Version: other.version, Joins: other.joins, IsOfDay: t.isOfDay(other)})
		}
	}
	f.Meet(neighbors)
	return f
}

// decideRollback judges a pool's version, and takes the next step.
func (d *joinTracker) decideRollback(ctx context.Context, w *observed, r *rules, t *watchedPool) {
	if t.err != nil || !t.look.Known() {
		return
	}
	f := d.facts(t, r, w.now)
	begun := unfinishedRollback(t.look)
	if begun == nil {
		d.endIntent(ctx, t.look)
	}
	t.verdict = decide(f, t)
	t.acts, t.stuck = false, false
	if begun == nil && (t.verdict.Do == joinhealth.Nothing || f.Off) {
		return
	}
	if begun == nil && t.verdict.Do == joinhealth.RollBack && d.refreshOthers(t, w.now) {
		t.due = w.now.Add(stepInterval)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	look, err := d.PoolCache.At(ctx, t.pool.ID, stepInterval)
	if err != nil {
		d.readFailed(t, err, w.now)
		return
	}
	if t.look = look; current(look, w.prototypes[t.pool.ID]) != t.version {
		t.due = w.now // another process was faster
		return
	}
	if begun = unfinishedRollback(look); begun == nil {
		if t.verdict = decide(d.facts(t, r, w.now), t); t.verdict.Do == joinhealth.Nothing {
			return
		}
		if old, err := oldEvidence(ctx, d.Decider, w); old != "" || err != nil {
			d.Log.Info("join health waits", "pool", t.pool.Name, "verdict", t.verdict.State, "old", old, "error", err)
			t.due = w.now.Add(judgeInterval)
			t.verdict.Message += ". Kamino waits, because the controller has not received the latest state of " + cmp.Or(old, "the cluster")
			return
		}
	}
	d.step(ctx, w, t, begun)
}

// refreshOthers requests a new look at all pools with old looks before a rollback: new nodes of these pools may show another
// cause. refreshOthers reports whether such pools exist.
func (d *joinTracker) refreshOthers(t *watchedPool, now time.Time) bool {
	asks := false
	for id, other := range d.watches {
		if id == t.pool.ID || other.err != nil || now.Sub(other.look.At) <= pollInterval {
			continue
		}
		d.PoolCache.Forget(id)
		other.due, asks = now, true
	}
	return asks
}

// decide returns the verdict about the pool's version. During a rollback, the verdict is the rollback.
func decide(f joinhealth.Facts, t *watchedPool) joinhealth.Verdict {
	if back := history.RollingBack(t.look.Pool, t.look.Images); back != nil {
		said := back.Refusal(t.pool.Name, t.look.Pool.Recipe)
		return joinhealth.Verdict{State: joinhealth.RollingBack, To: back.To, Message: said.What()}
	}
	return joinhealth.Decide(f)
}

// unfinishedRollback is a rollback without its final mark; nil if there is none.
func unfinishedRollback(look PoolLook) *history.AutoRollback {
	for _, r := range history.AutoRollbacks(look.Images) {
		if r.Unfinished() && (r.Version == look.Pool.Recipe.Version || r.To == look.Pool.Recipe.Version) {
			return &r
		}
	}
	return nil
}

// step takes the next step of the verdict. Each step reads first, so that a step with a lost answer does not run twice.
func (d *joinTracker) step(ctx context.Context, w *observed, t *watchedPool, begun *history.AutoRollback) {
	h := history.Of(history.Facts{Pool: t.look.Pool, Images: t.look.Images})
	var change *recipe.Change
	arrives := begun != nil && begun.To == t.look.Pool.Recipe.Version
	switch {
	case arrives:
		if err := d.PoolCache.Intents.end(ctx, t.pool.ID); err != nil {
			d.readFailed(t, err, w.now)
			return
		}
		change = recipe.OfMark(h.Arrive(*begun), d.Cloud, t.pool.ID)
	case begun != nil || t.verdict.Do == joinhealth.RollBack:
		back, refusals := h.RollBackAutomatically(t.verdict.To, t.verdict.Message, w.now)
		if len(refusals) > 0 {
			t.refused(refusals[0], w.now)
			return
		}
		change = recipe.OfRollback(back, d.Cloud, t.pool.ID)
		would, err := change.MayWrite(ctx)
		if err != nil {
			d.readFailed(t, err, w.now)
			return
		}
		if len(would.Refusals) > 0 {
			t.refused(would.Refusals[0], w.now)
			return
		}
		if begun == nil {
			if err := d.PoolCache.Intents.begin(ctx, t.pool.ID, back); err != nil {
				d.readFailed(t, err, w.now)
				return
			}
		}
	case t.verdict.Do == joinhealth.ConfirmBad:
		change = recipe.OfMark(h.ConfirmBad(t.verdict.To, t.verdict.Message), d.Cloud, t.pool.ID)
	default:
		change = recipe.OfMark(h.ClearSuspect(t.verdict.To), d.Cloud, t.pool.ID)
	}
	result, err := change.Pass(ctx)
	d.PoolCache.Forget(t.pool.ID)
	t.acts, t.due = true, w.now.Add(stepInterval)
	if err != nil {
		t.due = w.now.Add(judgeInterval)
		if t.acts = false; !errors.Is(err, recipe.ErrElsewhere) {
			t.verdict.Message += ". Kamino could not apply this change: " + err.Error()
			t.stuck = true
		}
		return
	}
	if known := d.pools[t.pool.ID]; known != nil {
		known.due = w.now // the recipe and the versions have changed
	}
	d.Log.Info("join health", "pool", t.pool.Name, "version", t.version, "did", result.Did.String(), "verdict", t.verdict.State, "why", t.verdict.Message)
	d.announce(w, t, begun, arrives && result.Did.Do == recipe.Tag)
}

// refused reports why Kamino cannot roll back the pool.
func (t *watchedPool) refused(refusal cloud.Refusal, now time.Time) {
	t.verdict.Message += "; Kamino cannot roll back: " + refusal.Message
	t.due, t.stuck = now.Add(idleInterval), true
}

// announce records the step as an event and in the metrics.
func (d *joinTracker) announce(w *observed, t *watchedPool, begun *history.AutoRollback, arrived bool) {
	reason, message := string(t.verdict.State), t.verdict.Message
	switch {
	case arrived:
		reason, message = RolledBack, fmt.Sprintf("pool %s rolled back from version %s to %s: %s", t.pool.Name, begun.Version, begun.To, begun.Why)
		if d.Observers.Rollback != nil {
			d.Observers.Rollback(t.pool)
		}
	case t.verdict.Do != joinhealth.ConfirmBad && t.verdict.Do != joinhealth.ClearSuspect:
		return
	}
	if d.Recorder == nil {
		return
	}
	for i := range w.policies {
		p := &w.policies[i]
		if names := w.claims.byPool[t.pool]; len(names) == 1 && p.Name == names[0] && p.UID != "" {
			d.Recorder.Eventf(p, nil, corev1.EventTypeWarning, reason, "RollBack", "%s", message)
		}
	}
}
