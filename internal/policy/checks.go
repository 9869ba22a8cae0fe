package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	patchplan "github.com/kamino-dev/kamino/internal/patch/plan"
)

const (
	// checkPoll is the pause between two passes over a running check.
	checkPoll = 10 * time.Second
	// checkRetry is the pause after an error of the API server during a check.
	checkRetry = time.Minute
)

// known is the last check of a pool; the zero value is no check.
type known struct{ v1alpha1.PatchesStatus }

// status is the report for the policy's status; nil without a check and without failed patches.
func (k known) status() *v1alpha1.PatchesStatus {
	if k.CheckedAt.IsZero() && len(k.Failed) == 0 {
		return nil
	}
	return k.DeepCopy()
}

// check returns the last check for a decision; nil without a check, or if the check was about another image or an earlier
// spec of the policy.
func (k known) check(version string, generation int64) *patchplan.Check {
	if k.CheckedAt.IsZero() || k.Version != version || k.Generation != generation {
		return nil
	}
	return k.lastCheck()
}

// lastCheck returns the last check, of any image.
func (k known) lastCheck() *patchplan.Check {
	if k.CheckedAt.IsZero() {
		return nil
	}
	c := &patchplan.Check{At: k.CheckedAt.Time, Set: k.Set, Read: k.Reason == "", Pending: int(k.Packages)}
	if k.Since != nil {
		c.Since = k.Since.Time
	}
	return c
}

// next returns the status after a check. An incomplete check keeps the patches of the last complete check, with the reason.
func (k known) next(version string, generation int64, checked *nodepatch.Checked, now time.Time) known {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	c := k.lastCheck().Next(at.Time, checked.Report)
	next := known{v1alpha1.PatchesStatus{
		PendingPatches: nodepatch.Summary(checked.Report, at), Node: checked.Node, Version: version, Generation: generation,
		Since: timestamp(c.Since), Failed: k.Failed,
	}}
	if next.Reason != "" {
		reason, message := next.Reason, next.Message
		next.PendingPatches = k.PendingPatches
		next.CheckedAt, next.Reason, next.Message = at, reason, message
	}
	return next
}

// checks are the last checks of all pools. The policies' status keeps the checks over a restart; memory is newer than a
// cached policy. Safe for concurrent use.
type checks struct {
	mu   sync.Mutex
	last map[checkKey]known
	// first has the first answer, until another node of the pool has answered, too. After a restart, Kamino asks again.
	first map[checkKey]firstAnswer
	// swept are the checks at the last sweep; nil before the first sweep.
	swept []nodepatch.CheckTask
}

type checkKey struct {
	policy string
	pool   cloud.PoolID
}

// load reads the checks of policies from their status, unless memory has a check.
func (c *checks) load(policies []v1alpha1.PrototypePolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[checkKey]known{}
	}
	for i := range policies {
		for _, pool := range policies[i].Status.Pools {
			key := checkKey{policies[i].Name, cloud.PoolID(pool.ID)}
			if _, is := c.last[key]; !is && pool.Patches != nil {
				c.last[key] = known{*pool.Patches.DeepCopy()}
			}
		}
	}
}

func (c *checks) of(policy string, pool cloud.PoolID) known {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[checkKey{policy, pool}]
}

// keepFailed keeps failed patches, also after the deletion of their Prototypes.
func (c *checks) keepFailed(policy string, pool cloud.PoolID, failed []v1alpha1.FailedPatches) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[checkKey]known{}
	}
	k := c.last[checkKey{policy, pool}]
	k.Failed = failed
	c.last[checkKey{policy, pool}] = k
}

// firstAnswer is the answer of the first of two nodes, about an image and a spec of the policy.
type firstAnswer struct {
	version    string
	generation int64
	*nodepatch.Checked
}

// begun returns the first answer about the image and the spec; nil without one.
func (c *checks) begun(policy string, pool cloud.PoolID, version string, generation int64) *nodepatch.Checked {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.first[checkKey{policy, pool}]; first.version == version && first.generation == generation {
		return first.Checked
	}
	return nil
}

// begin keeps a first answer; end forgets the answer.
func (c *checks) begin(policy string, pool cloud.PoolID, first firstAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = map[checkKey]firstAnswer{}
	}
	c.first[checkKey{policy, pool}] = first
}

func (c *checks) end(policy string, pool cloud.PoolID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.first, checkKey{policy, pool})
}

func (c *checks) set(policy string, pool cloud.PoolID, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[checkKey{policy, pool}] = k
}

// checkPatches makes one pass over the due check of each pool, and removes checks that no policy wants any more.
func checkPatches(ctx context.Context, d *Decider, w *observed) {
	if d.PatchChecks.Check == nil {
		return
	}
	var wanted []nodepatch.CheckTask
	var due []*cachedOutcome
	for _, o := range d.pools {
		if o.pioneer != nil && o.pioneer.check != nil {
			due = append(due, o)
			wanted = append(wanted, nodepatch.CheckTask{Holder: o.pioneer.check.Holder, Pool: o.pioneer.check.Pool})
		}
	}
	slices.SortFunc(due, func(a, b *cachedOutcome) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	slices.SortFunc(wanted, func(a, b nodepatch.CheckTask) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Holder.UID, b.Holder.UID))
	})
	sweepChecks(ctx, d, wanted)
	for _, o := range due {
		checkPool(ctx, d, w, o)
	}
}

func sweepChecks(ctx context.Context, d *Decider, wanted []nodepatch.CheckTask) {
	same := func(a, b nodepatch.CheckTask) bool { return a.Holder.UID == b.Holder.UID && a.Pool == b.Pool }
	if d.PatchChecks.Sweep == nil || d.checks.swept != nil && slices.EqualFunc(d.checks.swept, wanted, same) {
		return
	}
	if err := d.PatchChecks.Sweep(ctx, wanted); err != nil {
		d.Log.Error(err, "cannot remove old checks for patches")
		return
	}
	d.checks.swept = append([]nodepatch.CheckTask{}, wanted...)
}

// checkPool makes one pass over the check of a pool. The result is decided on in the next pass.
func checkPool(ctx context.Context, d *Decider, w *observed, o *cachedOutcome) {
	p := o.pioneer
	checked, err := d.PatchChecks.Check(ctx, *p.check)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		d.Log.Error(err, "cannot check for patches", "pool", o.Pool.Name)
		o.notPatched = &policyProblem{reason: v1alpha1.PolicyPatchesNotChecked, message: fmt.Sprintf(
			"the pending patches of pool %s are unknown: the check failed: %s. Kamino tries again each minute", o.Pool.Name, err)}
		o.due = w.now.Add(checkRetry)
		return
	case checked == nil:
		o.due = w.now.Add(checkPoll)
		return
	}
	first := d.checks.begun(o.Policy, o.Pool.ID, p.version, o.rules.generation)
	if first == nil && nodeToCheck(p.nodes, checked) != "" {
		d.checks.begin(o.Policy, o.Pool.ID, firstAnswer{p.version, o.rules.generation, checked})
		o.due = time.Time{}
		return
	}
	d.checks.end(o.Policy, o.Pool.ID)
	checked = knowsMore(first, checked)
	next := d.checks.of(o.Policy, o.Pool.ID).next(p.version, o.rules.generation, checked, w.now)
	d.checks.set(o.Policy, o.Pool.ID, next)
	o.Status.Patches = next.status()
	o.due = time.Time{}
	if f := checked.Report.Failure; f != nil {
		d.Log.Info("a node could not check for patches", "pool", o.Pool.Name, "node", checked.Node, "why", f.Message)
		return
	}
	d.Log.Info("a node checked for patches", "pool", o.Pool.Name, "node", checked.Node, "patches", next.Packages, "security", next.Security)
}

// knowsMore returns the answer with more pending patches. Nodes of an image lack the same patches, so that the other node has
// patched itself, reads fewer repositories, or hides patches.
func knowsMore(first, second *nodepatch.Checked) *nodepatch.Checked {
	switch {
	case first == nil, !first.Report.Complete():
		return second
	case !second.Report.Complete(), second.Report.PendingCount() <= first.Report.PendingCount():
		return first
	}
	return second
}

// Patches are the pending patches of a pool, for metrics.
type Patches struct {
	Pool PoolRef
	// Known: a check has succeeded. Packages and Security are from the last such check.
	Known              bool
	Packages, Security int
	// Unchecked is why the last check had no answer; empty after an answer.
	Unchecked patch.Reason
	// Quarantined: the pending patches failed on a pioneer.
	Quarantined bool
}

func reportPatches(d *Decider) {
	if d.Observers.Patches == nil {
		return
	}
	var all []Patches
	for _, o := range d.pools {
		if o.rules.spec.Pioneer == nil {
			continue
		}
		p := Patches{Pool: o.Pool}
		if s := o.Status.Patches; s != nil {
			p.Known, p.Packages, p.Security, p.Unchecked = s.Set != "", int(s.Packages), int(s.Security), patch.Reason(s.Reason)
			p.Quarantined = slices.ContainsFunc(s.Failed, func(f v1alpha1.FailedPatches) bool { return f.Set == s.Set && s.Packages > 0 })
		}
		if o.notPatched != nil && o.notPatched.reason == v1alpha1.PolicyPatchesNotChecked && p.Unchecked == "" {
			p.Unchecked = patch.NodeFailed
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Patches) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	d.Observers.Patches(all)
}
