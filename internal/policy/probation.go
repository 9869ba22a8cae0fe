package policy

import (
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
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/nodejoin"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/rollback"
	"github.com/kamino-dev/kamino/internal/rollback/plan"
)

const (
	// judgePace is how often nodes are judged anew while something may be said of them.
	judgePace = time.Minute
	// censusPace is how often their cloud is asked about them meanwhile.
	censusPace = 5 * time.Minute
	// sleepPace is how often it is seen, without asking anybody, whether a pool got something new.
	sleepPace = 10 * time.Minute
	// frozenLife is how old what is known of a pool may be that waits for a person to acknowledge that it went back.
	frozenLife = 20 * time.Minute
	// latePace is how often it is asked while a node is late: who removes such nodes does so about now.
	latePace = 2 * time.Minute
	// actPace is the pause between two steps of going back.
	actPace = time.Second
)

// prober watches pools' nodes for a decider, between its passes.
type prober struct {
	*Decider
	// pools by their ID, and calm is since when they are watched without a break.
	watches map[cloud.PoolID]*watched
	calm    time.Time
	// unwatched are the other pools, with the time of the next look for a rollback that was begun.
	unwatched map[cloud.PoolID]time.Time
	// listed are the instances of pools whose Nodes were not to be believed, as the cloud listed them last.
	listed map[cloud.PoolID]listing
}

// watched is a pool whose nodes are watched as they join.
type watched struct {
	pool Pool
	// version that the recipe names, unless it is being tried; empty if it is none of the pool's own.
	version string
	look    Look
	joins   []joinhealth.Join
	// nodes and instances of the last census, while something may be said of them.
	instances []cloud.Instance
	listed    time.Time
	// census is when the instances were last listed, and asked when the pool was last asked whether it grows.
	census, asked time.Time
	// others are the nodes of other images, and ready those of them that are Ready; own are those of this pool among them.
	others, ready       int
	ownOthers, ownReady int
	// without are the Nodes that a kubelet was looked for, by UID: true if none renews a Lease.
	without map[types.UID]bool
	// unlisted is why some Nodes of other pools had to be believed; empty if none had.
	unlisted string
	// sign tells one state of the pool's nodes and recipe from another, as of the last census.
	sign string
	// calm is since when nobody was kept from joining by something else, as far as this process has seen.
	calm    time.Time
	due     time.Time
	verdict joinhealth.Verdict
	// acts: a step of going back was taken, and another one may follow. stuck: one could not be taken, so that a person must know.
	acts, stuck bool
	err         error
}

// watchAll looks at the pools whose nodes are joining, decides about their versions, and takes the next step of what follows.
func (d *prober) watchAll(ctx context.Context, w *observed) {
	census, able := cloud.As[cloud.InstanceLister](d.Cloud)
	if !able {
		return
	}
	raw := d.sums(w.now)
	sums, unlisted := d.believe(ctx, census, raw, w.now)
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	rulesOf := map[cloud.PoolID]*rules{}
	for i := range w.policies {
		r := d.rules.of(&w.policies[i], w.now)
		for _, pool := range w.pools {
			if names := w.claims.byPool[pool]; len(names) != 1 || names[0] != r.policy {
				continue
			}
			rulesOf[pool.ID] = r
			t := d.watches[pool.ID]
			if t == nil {
				t = &watched{pool: pool, calm: d.calm, joins: nodejoin.Before(probationOf(&w.policies[i], pool))}
				d.watches[pool.ID] = t
			}
			slots <- struct{}{}
			wait.Go(func() {
				defer func() { <-slots }()
				d.watchOne(ctx, census, r, t, raw[pool.ID], sums, w)
			})
		}
	}
	wait.Wait()
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
		d.conclude(ctx, w, r, t)
	}
	d.finishAll(ctx, w)
}

// sums count the nodes of all pools.
func (d *prober) sums(now time.Time) map[cloud.PoolID]nodecache.Sum {
	sums := map[cloud.PoolID]nodecache.Sum{}
	for _, id := range d.Nodes.Pools() {
		sums[id] = d.Nodes.Sum(id, now)
	}
	return sums
}

// probationOf is what a policy's report remembers of a pool.
func probationOf(p *v1alpha1.PrototypePolicy, pool Pool) *v1alpha1.ProbationStatus {
	for i := range p.Status.Pools {
		if cloud.PoolID(p.Status.Pools[i].ID) == pool.ID {
			return p.Status.Pools[i].Probation
		}
	}
	return nil
}

// watchOne looks at one pool, if it is due or has news.
func (d *prober) watchOne(ctx context.Context, census cloud.InstanceLister, r *rules, t *watched, sum nodecache.Sum, sums map[cloud.PoolID]nodecache.Sum, w *observed) {
	limits := nodejoin.Limits(r.spec.Rollback)
	t.look = d.Looks.Last(t.pool.ID)
	t.compare(sums)
	grows := d.Growth.lately(w.now) && w.now.Sub(t.asked) >= listingPace(limits)
	if t.due.After(w.now) && t.signOf(sum) == t.sign && !grows {
		return
	}
	active := nodejoin.Young(t.joins, t.version, w.now, limits) || t.acts || w.now.Sub(sum.Youngest) < limits.Watch
	if !active && !t.look.Known() {
		t.due = w.now.Add(sleepPace)
		return // whoever decides about captures asks first
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if grows {
		if err := d.askGrowth(ctx, t, sum, w.now); err != nil {
			d.unread(t, err, w.now)
			return
		}
	}
	if err := d.read(ctx, census, t, sum, active, limits, w.now); err != nil {
		d.unread(t, err, w.now)
		return
	}
	t.err, t.due, t.version = nil, w.now.Add(within(sleepPace, limits.Join)), current(t.look, w.prototypes[t.pool.ID])
	if t.listed.IsZero() {
		return
	}
	if err := d.judgeJoins(ctx, r, t, sums, w.now); err != nil {
		d.unread(t, err, w.now)
		return
	}
	if nodejoin.Young(t.joins, t.version, w.now, limits) {
		t.due = w.now.Add(within(judgePace, limits.Unready/2))
	} else {
		t.instances, t.listed = nil, time.Time{}
	}
}

// judgeJoins says of each node what became of it.
func (d *prober) judgeJoins(ctx context.Context, r *rules, t *watched, sums map[cloud.PoolID]nodecache.Sum, now time.Time) error {
	limits, nodes := nodejoin.Limits(r.spec.Rollback), d.Nodes.Of(t.pool.ID)
	seen := nodejoin.Observation{Now: now, Instances: t.instances, Nodes: nodes, Images: t.look.Images, Same: d.Cloud.SameInstance, Reserved: reserved(d.Decider)}
	if err := d.askKubelets(ctx, t, nodes, limits, now); err != nil {
		return err
	}
	seen.WithoutKubelet = t.without
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return t.without[n.UID] })
	if d.UnhealthyDaemonSets != nil {
		var err error
		if seen.UnhealthyDaemonSets, err = d.UnhealthyDaemonSets(ctx, young(nodes, now, limits), r.spec.Rollback.IgnoreDaemonSets); err != nil {
			return err
		}
	}
	all := nodejoin.Nodes(seen)
	t.ownOthers, t.ownReady = 0, 0
	arriving := map[string]bool{}
	for _, node := range nodes {
		arriving[node.Name] = nodestate.Arriving(node, now)
	}
	for _, n := range all {
		if n.Version != t.version && n.Name != "" && n.ExcludedReason == "" && !arriving[n.Name] {
			t.ownOthers++
			if n.Ready {
				t.ownReady++
			}
		}
	}
	t.compare(sums)
	if t.unwell() {
		t.calm = now
	}
	t.joins = nodejoin.Keep(joinhealth.Judge(now, t.calm, all, t.joins, limits), all, t.version)
	return nil
}

// within is a pace, or a quicker one where what is waited for takes less.
func within(pace, wait time.Duration) time.Duration { return max(min(pace, wait), actPace) }

// unread has a pool looked at again soon, because something could not be. That time is held against nobody.
func (d *prober) unread(t *watched, err error, now time.Time) {
	if t.err == nil || t.err.Error() != err.Error() {
		d.Log.Info("the nodes of a pool can't be watched as they join", "pool", t.pool.Name, "why", err.Error())
	}
	t.err, t.calm = err, now
	t.due = now.Add(max(judgePace, cloud.RetryAfter(err)))
	if !cloud.Is(err, cloud.Throttled) && !cloud.Is(err, cloud.Unavailable) && cloud.KindOf(err) != "" {
		t.due = now.Add(sleepPace) // a permission that is missing does not come so soon
	}
}

// signOf tells one state of the pool from another, as far as it says that an instance or a node has come or gone.
func (t *watched) signOf(sum nodecache.Sum) string {
	return fmt.Sprintf("%d %d %s %s", sum.Nodes, t.look.Pool.Capacity, t.look.Pool.Recipe.Image, sum.Youngest)
}

// current is the version that the recipe names; none while that is only being tried.
func current(look Look, prototypes []v1alpha1.Prototype) string {
	version := look.Pool.Recipe.Version
	for i := range prototypes {
		if p := &prototypes[i]; p.Status.Phase == v1alpha1.PhaseTrying && p.Spec.Version == version {
			return ""
		}
	}
	return version
}

// young are the nodes that DaemonSets are looked at on, those that came first at the front.
func young(nodes []*corev1.Node, now time.Time, limits joinhealth.Limits) []string {
	var fresh []*corev1.Node
	for _, node := range nodes {
		if now.Sub(node.CreationTimestamp.Time) <= limits.Watch && nodestate.Ready(node) {
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

// compare counts the nodes that were built from other images than the pool's version, of this pool and of all others. Those that have
// only just come are not among them: whether such nodes join is what is asked, and in a small cluster a few of them would be taken
// for an outage of all.
func (t *watched) compare(sums map[cloud.PoolID]nodecache.Sum) {
	t.others, t.ready = t.ownOthers, t.ownReady
	for id, sum := range sums {
		if id != t.pool.ID {
			t.others, t.ready = t.others+sum.Nodes-sum.Arriving, t.ready+sum.Ready
		}
	}
}

// unwell reports whether too few of the other nodes are Ready.
func (t *watched) unwell() bool { return t.others > 0 && t.ready*100 < t.others*joinhealth.Healthy }

// facts are what is decided on.
func (d *prober) facts(t *watched, r *rules, now time.Time) joinhealth.Facts {
	h := history.Of(history.Facts{Pool: t.look.Pool, Images: t.look.Images})
	f := joinhealth.Facts{
		Now: now, Pool: t.pool.Name, Current: t.version, Prior: h.Prior, Since: history.Since(t.look.Images, t.version), Joins: t.joins,
		WentBack: history.LastReturn(t.look.Images), Others: t.others, OthersReady: t.ready, Unlisted: t.unlisted,
		Off: r.spec.Rollback.Mode == v1alpha1.RollbackOff || r.spec.Suspend || r.spec.DryRun,
	}
	for _, went := range h.Returns {
		if went.Open && went.Acknowledged.IsZero() && f.Suspect == "" {
			f.Suspect = went.Version
		}
	}
	if !slices.ContainsFunc(t.joins, func(join joinhealth.Join) bool { return join.Outcome == joinhealth.Failed }) {
		return f // nothing is to be excused, and of many pools the others' joins are many
	}
	for id, other := range d.watches {
		if id != t.pool.ID {
			f.Elsewhere = append(f.Elsewhere, other.joins...)
		}
	}
	return f
}

// conclude decides about a pool's version, and takes the next step of what follows.
func (d *prober) conclude(ctx context.Context, w *observed, r *rules, t *watched) {
	if t.err != nil || !t.look.Known() {
		return
	}
	f := d.facts(t, r, w.now)
	begun := unfinished(t.look)
	t.verdict = decide(f, t)
	t.acts, t.stuck = false, false
	if begun == nil && (t.verdict.Do == joinhealth.Nothing || f.Off) {
		return
	}
	if begun == nil && t.verdict.Do == joinhealth.GoBack && d.askElsewhere(t, w.now) {
		t.due = w.now.Add(actPace)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	look, err := d.Looks.At(ctx, t.pool.ID, actPace)
	if err != nil {
		d.unread(t, err, w.now)
		return
	}
	if t.look = look; current(look, w.prototypes[t.pool.ID]) != t.version {
		t.due = w.now // somebody was faster
		return
	}
	if begun = unfinished(look); begun == nil {
		if t.verdict = decide(d.facts(t, r, w.now), t); t.verdict.Do == joinhealth.Nothing {
			return
		}
	}
	d.step(ctx, w, t, begun)
}

// askElsewhere has all other pools looked at anew before one goes back, where what is known of them is old: they may have got
// nodes that nobody has heard of yet, and which tell whether something else is the cause. It tells whether there are any.
func (d *prober) askElsewhere(t *watched, now time.Time) bool {
	asks := false
	for id, other := range d.watches {
		if id == t.pool.ID || other.err != nil || now.Sub(other.look.At) <= censusPace {
			continue
		}
		d.Looks.Forget(id)
		other.due, asks = now, true
	}
	return asks
}

// decide about the pool's version. While the pool is on its way back from it, that is decided already.
func decide(f joinhealth.Facts, t *watched) joinhealth.Verdict {
	if back := history.RollingBack(t.look.Pool, t.look.Images); back != nil {
		said := back.Says(t.pool.Name, t.look.Pool.Recipe)
		return joinhealth.Verdict{State: joinhealth.RollingBack, To: back.To, Message: said.What()}
	}
	return joinhealth.Decide(f)
}

// unfinished is a return that was begun and is not written to its end; nil if there is none.
func unfinished(look Look) *history.Return {
	for _, r := range history.Returns(look.Images) {
		if r.Unfinished() && (r.Version == look.Pool.Recipe.Version || r.To == look.Pool.Recipe.Version) {
			return &r
		}
	}
	return nil
}

// step takes the next one towards what was decided. Each looks first, so that one whose answer was lost is not taken twice.
func (d *prober) step(ctx context.Context, w *observed, t *watched, begun *history.Return) {
	h := history.Of(history.Facts{Pool: t.look.Pool, Images: t.look.Images})
	var change *rollback.Change
	arrives := begun != nil && begun.To == t.look.Pool.Recipe.Version
	switch {
	case arrives:
		change = rollback.OfMark(h.Arrive(*begun), d.Cloud, t.pool.ID)
	case begun != nil || t.verdict.Do == joinhealth.GoBack:
		back, refusals := h.GoBack(t.verdict.To, t.verdict.Message, w.now)
		if len(refusals) > 0 {
			t.refused(refusals[0], w.now)
			return
		}
		would, err := d.Cloud.RecipeChange(ctx, cloud.ImageRef{Pool: t.pool.ID, Version: back.To}, false)
		if err != nil {
			d.unread(t, err, w.now)
			return
		}
		if len(would.Refusals) > 0 {
			t.refused(would.Refusals[0], w.now)
			return
		}
		change = rollback.Of(back, d.Cloud, t.pool.ID)
	case t.verdict.Do == joinhealth.ConfirmBad:
		change = rollback.OfMark(h.ConfirmBad(t.verdict.To, t.verdict.Message), d.Cloud, t.pool.ID)
	default:
		change = rollback.OfMark(h.ClearSuspect(t.verdict.To), d.Cloud, t.pool.ID)
	}
	result, err := change.Pass(ctx)
	d.Looks.Forget(t.pool.ID)
	t.acts, t.due = true, w.now.Add(actPace)
	if err != nil {
		t.due = w.now.Add(judgePace)
		if t.acts = false; !errors.Is(err, rollback.ErrElsewhere) {
			t.verdict.Message += ". That could not be written: " + err.Error()
			t.stuck = true
		}
		return
	}
	if known := d.pools[t.pool.ID]; known != nil {
		known.due = w.now // the recipe and the versions have changed
	}
	d.Log.Info("probation", "pool", t.pool.Name, "version", t.version, "did", result.Did, "verdict", t.verdict.State, "why", t.verdict.Message)
	d.announce(w, t, begun, arrives && result.Did == plan.Tag)
}

// refused reports why the pool can't go back.
func (t *watched) refused(refusal cloud.Refusal, now time.Time) {
	t.verdict.Message += "; it can't go back: " + refusal.Message
	t.due, t.stuck = now.Add(sleepPace), true
}

// announce tells of what was done.
func (d *prober) announce(w *observed, t *watched, begun *history.Return, arrived bool) {
	reason, said := string(t.verdict.State), t.verdict.Message
	switch {
	case arrived:
		reason, said = WentBack, fmt.Sprintf("pool %s went back from version %s to %s: %s", t.pool.Name, begun.Version, begun.To, begun.Why)
		if d.WentBack != nil {
			d.WentBack(t.pool)
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
			d.Recorder.Eventf(p, nil, corev1.EventTypeWarning, reason, "GoBack", "%s", said)
		}
	}
}
