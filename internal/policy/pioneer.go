package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	patchplan "github.com/kamino-dev/kamino/internal/patch/plan"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Reasons of a policy with spec.pioneer. v1alpha1.PolicyPatchesNotChecked and PolicyPatchesQuarantined are further reasons.
const (
	// CheckingPatches: a node of the pool checks for pending patches, or will check next.
	CheckingPatches = "CheckingPatches"
	// NoNodeToCheck: no Ready node of the pool has the current image.
	NoNodeToCheck = "NoNodeToCheck"
	// TooManyPioneers: spec.pioneer.maxPerWeek pioneers have begun in the last seven days.
	TooManyPioneers = "TooManyPioneers"
)

// pioneer is the decision whether a pool needs a patched donor.
type pioneer struct {
	settings v1alpha1.PolicyPioneerSettings
	// begins: a capture of a patched donor is due, for this set of patches. Without it, reason and message say why not.
	begins          bool
	set             string
	reason, message string
	// check is the due check; nil if no check is due.
	check *nodepatch.CheckTask
	// version of the nodes that are asked, and the nodes that can answer.
	version string
	nodes   []*corev1.Node
}

// rests reports whether the pool needs no patched donor now. A nil pioneer does not rest: the policy has no spec.pioneer.
func (p *pioneer) rests() bool { return p != nil && !p.begins }

// into makes the Prototype a pioneer, if a pioneer is due. The patches have the demanded age already.
func (p *pioneer) into(prototype *v1alpha1.Prototype) {
	if p == nil || !p.begins {
		return
	}
	settings := p.settings.PioneerSettings
	settings.MinAge = metav1.Duration{}
	prototype.Spec.Pioneer = &settings
	prototype.Status.PatchSet = p.set
}

// judgePioneer decides whether the pool needs a check or a pioneer. busy: a capture of the pool is running, or the state of
// the pool is unknown.
func (d *Decider) judgePioneer(o *PoolOutcome, r *rules, prototypes []v1alpha1.Prototype, busy bool, now time.Time) {
	if r.spec.Pioneer == nil || r.invalid != nil || r.spec.Suspend {
		return
	}
	known := d.checks.of(r.policy, o.Pool.ID)
	known.Failed = failedPatches(prototypes, o.Look.Images, known.Failed, r.retry)
	d.checks.keepFailed(r.policy, o.Pool.ID, known.Failed)
	o.Status.Patches = known.status()
	if o.Choice.Reason == selection.PoolRefused || o.Choice.Reason == selection.NoNodes {
		return
	}
	c := pioneerCase{
		pool: o.Pool.Name, policy: r.policy, settings: *r.spec.Pioneer, generation: r.generation, version: o.Look.Pool.Recipe.Version, known: known,
		canCheck: d.PatchChecks.Check != nil && r.uid != "", begun: begunPioneers(prototypes),
		busy: busy || len(o.replaced) > 0 || o.openRollback() != nil, changedAt: lastEnd(prototypes), now: now,
	}
	nodes := fitToCheck(d.Nodes.Of(o.Pool.ID), c.version, reserved(d))
	if c.node = nodeToCheck(nodes, d.checks.begun(r.policy, o.Pool.ID, c.version, r.generation)); c.node == "" {
		c.node = nodeToCheck(nodes, nil) // the second node is gone
		d.checks.end(r.policy, o.Pool.ID)
	}
	p, again := c.decide()
	p.nodes = nodes
	o.pioneer = &p
	o.sooner(again, now)
	if p.check != nil {
		p.check.Marked = markedNodes(d.Nodes.Of(o.Pool.ID))
		p.check.Holder, p.check.Pool = v1alpha1.Holder{Kind: v1alpha1.HolderPolicy, Name: r.policy, UID: r.uid}, string(o.Pool.ID)
	}
	if p.reason == v1alpha1.PolicyPatchesNotChecked || p.reason == v1alpha1.PolicyPatchesQuarantined {
		o.notPatched = &policyProblem{reason: p.reason, message: p.message}
	} else if known.Reason != "" && !p.begins {
		o.notPatched = &policyProblem{reason: v1alpha1.PolicyPatchesNotChecked, message: c.notChecked()} // until a check succeeds
	}
}

// pioneerCase holds the inputs of the decision about a patched donor.
type pioneerCase struct {
	pool, policy string
	settings     v1alpha1.PolicyPioneerSettings
	generation   int64
	// version in the recipe; empty for another image.
	version string
	// known is the last check. node will do the next check; empty without a fit node.
	known known
	node  string
	// canCheck: this process can run checks for the policy.
	canCheck, busy bool
	// changedAt is the end of the last capture of the pool.
	changedAt, now time.Time
	// begun has the times at which the pool's pioneers began.
	begun []time.Time
}

// decide returns the decision, and the time of the next decision without an event.
func (c pioneerCase) decide() (p pioneer, again time.Time) {
	p = pioneer{settings: c.settings, version: c.version}
	say := func(reason, format string, args ...any) { p.reason, p.message = reason, fmt.Sprintf(format, args...) }
	failed := map[string]bool{}
	for _, f := range c.known.Failed {
		failed[f.Set] = true
	}
	step, why, again := patchplan.PioneerFacts{
		Now: c.now, Every: c.settings.CheckEvery.Duration, MinAge: c.settings.MinAge.Duration, Busy: c.busy,
		Checked: c.known.check(c.version, c.generation), ChangedAt: c.changedAt, Failed: failed,
		Begun: c.begun, MaxPerWeek: int(c.settings.MaxPerWeek),
	}.Next()
	switch {
	case step == patchplan.BeginPioneer:
		p.begins, p.set = true, c.known.Set
	case step == patchplan.LookForPatches:
		p.reason, p.message = c.look()
		if p.reason == CheckingPatches {
			p.check = &nodepatch.CheckTask{Node: c.node, Patches: v1alpha1.OrderPatches{Patches: c.settings.Patches, Hold: c.settings.Hold}}
		}
	case why == patchplan.PoolBusy:
		say(CheckingPatches, "pool %s is checked for patches after the current capture, rebuild or rollback", c.pool)
	case why == patchplan.NotChecked:
		say(v1alpha1.PolicyPatchesNotChecked, "%s", c.notChecked())
	case why == patchplan.UpToDate:
		say(selection.UpToDate, "no patch is pending for pool %s, as node %s reported", c.pool, c.known.Node)
	case why == patchplan.TooYoung:
		say(schedule.TooSoon, "%s of pool %s must be older than %s (spec.pioneer.minAge)",
			pending(c.known.PendingPatches), c.pool, wording.Duration(c.settings.MinAge.Duration))
	case why == patchplan.TooManyPioneers:
		say(TooManyPioneers, "%s of pool %s must wait: %d pioneers have begun in the last seven days (spec.pioneer.maxPerWeek)",
			pending(c.known.PendingPatches), c.pool, c.settings.MaxPerWeek)
	case why == patchplan.PatchesQuarantined:
		say(v1alpha1.PolicyPatchesQuarantined, "%s", c.quarantined())
	}
	return p, again
}

// look says whether a due check can run.
func (c pioneerCase) look() (reason, message string) {
	switch {
	case !c.canCheck:
		return v1alpha1.PolicyPatchesNotChecked, fmt.Sprintf(
			"the pending patches of pool %s are unknown: only a controller or `kamino auto` checks nodes, for a policy in the cluster", c.pool)
	case c.node != "":
		return CheckingPatches, fmt.Sprintf("a node of pool %s checks for pending patches", c.pool)
	case c.version != "":
		return NoNodeToCheck, fmt.Sprintf("no Ready node of pool %s has the image of version %s, so no node can check for patches that the image lacks",
			c.pool, c.version)
	}
	return NoNodeToCheck, fmt.Sprintf("no node of pool %s is Ready and in service, so no node can check for patches", c.pool)
}

// notChecked is the sentence of a check without an answer.
func (c pioneerCase) notChecked() string {
	return fmt.Sprintf("the pending patches of pool %s are unknown: node %s could not check (%s): %s. Kamino tries again automatically",
		c.pool, c.known.Node, c.known.Reason, strings.TrimSuffix(c.known.Message, "."))
}

// quarantined is the sentence of patches that failed on a pioneer.
func (c pioneerCase) quarantined() string {
	for _, f := range c.known.Failed {
		if f.Set == c.known.Set {
			return fmt.Sprintf("%s of pool %s failed on the pioneer of prototype %s: %s. The pool keeps its image, and Kamino waits for other patches. "+
				"To try these patches again, delete prototype %s, then run `%s`",
				pending(c.known.PendingPatches), c.pool, f.Prototype, strings.TrimSuffix(f.Message, "."), f.Prototype, v1alpha1.RetryCommand(c.policy))
		}
	}
	return ""
}

// pending is a number of patches in words.
func pending(p v1alpha1.PendingPatches) string {
	if p.Packages == 1 {
		return "1 pending patch"
	}
	return fmt.Sprintf("%d pending patches", p.Packages)
}

// fitToCheck returns the Ready nodes in service with the image of the recipe, the youngest first.
func fitToCheck(nodes []*corev1.Node, version string, reserved func(*corev1.Node) bool) (fit []*corev1.Node) {
	for _, n := range nodes {
		switch {
		case !nodestate.Available(n), n.DeletionTimestamp != nil, reserved(n):
		case n.Labels[corev1.LabelOSStable] != "" && n.Labels[corev1.LabelOSStable] != string(corev1.Linux):
		case version != "" && n.Labels[v1alpha1.VersionLabel] != v1alpha1.VersionLabelValue(version):
		default:
			fit = append(fit, n)
		}
	}
	slices.SortFunc(fit, func(a, b *corev1.Node) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return fit
}

// nodeToCheck returns the node that answers next: the youngest fit node, and after its answer the oldest other one, so that no
// node alone decides what a pool lacks. Empty without such a node.
func nodeToCheck(fit []*corev1.Node, first *nodepatch.Checked) string {
	if first != nil {
		fit = slices.DeleteFunc(slices.Clone(fit), func(n *corev1.Node) bool { return n.Name == first.Node })
		slices.Reverse(fit)
	}
	if len(fit) == 0 {
		return ""
	}
	return fit[0].Name
}

// markedNodes are the nodes with the result of an earlier check.
func markedNodes(nodes []*corev1.Node) (names []string) {
	for _, n := range nodes {
		if _, marked := n.Annotations[v1alpha1.PatchesPendingAnnotation]; marked {
			names = append(names, n.Name)
		}
	}
	return names
}

// begunPioneers are the times at which the pool's pioneers began.
func begunPioneers(prototypes []v1alpha1.Prototype) (begun []time.Time) {
	for i := range prototypes {
		if prototypes[i].Spec.Pioneer != nil {
			begun = append(begun, prototypes[i].CreationTimestamp.Time)
		}
	}
	return begun
}

// lastEnd is the end of the pool's last capture; zero without a capture.
func lastEnd(prototypes []v1alpha1.Prototype) (last time.Time) {
	for i := range prototypes {
		if p := &prototypes[i]; p.Status.Terminal() {
			if at := schedule.EndedAt(p); at.After(last) {
				last = at
			}
		}
	}
	return last
}

// failedPatches returns the sets of patches that failed on pioneers of the pool, the newest first. before has earlier
// failures, also of deleted Prototypes. A retry by a person ends all earlier failures.
func failedPatches(prototypes []v1alpha1.Prototype, images []cloud.Image, before []v1alpha1.FailedPatches, retry string) []v1alpha1.FailedPatches {
	quarantined := map[string]bool{}
	for _, image := range images {
		if uid := image.Tags[cloud.TagUID]; uid != "" && image.Tags[cloud.TagQuarantined] != "" {
			quarantined[uid] = true
		}
	}
	all := slices.Clone(before)
	for i := range prototypes {
		p := &prototypes[i]
		set, message := nodepatch.FailedSet(p, quarantined[string(p.UID)])
		if set == "" || message == "" || slices.ContainsFunc(all, func(f v1alpha1.FailedPatches) bool { return f.Prototype == p.Name && f.Set == set }) {
			continue
		}
		f := v1alpha1.FailedPatches{Set: set, Prototype: p.Name, At: timestamp(schedule.EndedAt(p)), Message: message}
		if p.Status.Patch != nil {
			f.Level = cmp.Or(p.Status.Patch.FailedLevel, p.Status.Patch.Level)
		}
		all = append(all, f)
	}
	if at, err := time.Parse(time.RFC3339, retry); err == nil {
		all = slices.DeleteFunc(all, func(f v1alpha1.FailedPatches) bool { return endOf(f).Before(at) })
	}
	slices.SortFunc(all, func(a, b v1alpha1.FailedPatches) int {
		return cmp.Or(endOf(b).Compare(endOf(a)), cmp.Compare(a.Prototype, b.Prototype))
	})
	return all[:min(len(all), v1alpha1.MaxFailedPatches)]
}

func endOf(f v1alpha1.FailedPatches) time.Time {
	if f.At == nil {
		return time.Time{}
	}
	return f.At.Time
}
