package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
)

// maxTroubles limits the troubles that a condition names.
const maxTroubles = 5

// report writes the policy's status if the status has changed.
func (d *Decider) report(ctx context.Context, w *observed, p *v1alpha1.PrototypePolicy) error {
	if p.DeletionTimestamp != nil || p.UID == "" {
		return nil
	}
	after := p.DeepCopy()
	mine := outcomesOf(p.Name, d.pools)
	troubles := d.troublesOf(w, p, mine)
	for _, t := range troubles {
		w.stalled[Stall{Policy: p.Name, Pool: t.pool, Reason: t.reason}] = true
	}
	var degraded []policyProblem
	for _, o := range mine {
		if t := o.degraded(); t != nil {
			degraded = append(degraded, *t)
			w.degraded[[2]string{o.Pool.Name, t.reason}]++
		}
		if o.notRebuilt != nil {
			degraded = append(degraded, *o.notRebuilt)
		}
		if o.notJoining != nil {
			degraded = append(degraded, *o.notJoining)
		}
		if o.notPatched != nil {
			degraded = append(degraded, *o.notPatched)
		}
		if o.manyImages != nil && o.Status.Decision.Reason != imagecount.TooManyImages { // such a decision has the same message
			degraded = append(degraded, *o.manyImages)
		}
	}
	after.Status = statusOf(p, mine, troubles, degraded, metav1.NewTime(w.now))
	if equality.Semantic.DeepEqual(p.Status, after.Status) {
		return nil
	}
	if err := d.Client.Status().Patch(ctx, after, client.MergeFrom(p)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of prototypepolicy %s: %w", p.Name, err)
	}
	d.announceTrouble(p, after, mine, w.now)
	if d.Observers.Status != nil {
		d.Observers.Status(p, after)
	}
	return nil
}

// announceTrouble records an event for each thing that newly needs a person, and when a policy's last trouble ends.
func (d *Decider) announceTrouble(before, after *v1alpha1.PrototypePolicy, mine []*cachedOutcome, now time.Time) {
	pools := make([]attention.Pool, len(mine))
	for i, o := range mine { // without what the cloud says about versions: the status has that
		pools[i] = attention.Pool{Name: o.Pool.Name, Prior: history.Of(history.Facts{Pool: o.Look.Pool, Images: o.Look.Images}).Prior}
	}
	news := attention.News(before, after, pools, now)
	if d.Observers.Attention != nil {
		d.Observers.Attention(news)
	}
	if d.Recorder == nil {
		return
	}
	for _, i := range news {
		if i.Severity != attention.Info {
			d.Recorder.Eventf(after, nil, corev1.EventTypeWarning, cmp.Or(i.Reason, string(i.Kind)), "Decide", "%s", i.Sentence())
		}
	}
	if isTroubled(before) && !isTroubled(after) {
		d.Recorder.Eventf(after, nil, corev1.EventTypeNormal, "Recovered", "Decide", "policy %s works again", after.Name)
	}
}

// isTroubled reports whether a policy is stalled or degraded.
func isTroubled(p *v1alpha1.PrototypePolicy) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionStalled) ||
		meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDegraded)
}

// outcomesOf lists the outcomes under the policy, by the pools' names.
func outcomesOf(policy string, pools map[cloud.PoolID]*cachedOutcome) []*cachedOutcome {
	var mine []*cachedOutcome
	for _, o := range pools {
		if o.Policy == policy {
			mine = append(mine, o)
		}
	}
	slices.SortFunc(mine, func(a, b *cachedOutcome) int {
		return cmp.Or(cmp.Compare(a.Pool.Name, b.Pool.Name), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return mine
}

// troublesOf lists the troubles of the policy, troubles of the whole policy first.
func (d *Decider) troublesOf(w *observed, p *v1alpha1.PrototypePolicy, mine []*cachedOutcome) []policyProblem {
	var all []policyProblem
	if invalid := d.rules.rulesOf(p, w.now).invalid; invalid != nil {
		all = append(all, *invalid)
	}
	all = append(all, w.claims.troubles[p.Name]...)
	for _, o := range mine {
		if o.trouble != nil && !o.trouble.brief {
			ofPool := *o.trouble
			ofPool.pool = o.Pool.Name
			all = append(all, ofPool)
		}
	}
	return all
}

// statusOf returns the status. Times of conditions change only with the condition's status.
func statusOf(p *v1alpha1.PrototypePolicy, mine []*cachedOutcome, troubles, degraded []policyProblem, now metav1.Time) v1alpha1.PrototypePolicyStatus {
	status := v1alpha1.PrototypePolicyStatus{
		ObservedGeneration: p.Generation, Conditions: slices.Clone(p.Status.Conditions), PoolCount: int32(len(mine)),
	}
	capturing := 0
	for _, o := range mine {
		status.Pools = append(status.Pools, o.Status)
		if o.Status.NextRun != nil && (status.NextRun == nil || o.Status.NextRun.Before(status.NextRun)) {
			status.NextRun = o.Status.NextRun
		}
		if o.Status.Prototype != "" {
			capturing++
		}
	}
	set := func(kind string, is bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: p.Generation,
			LastTransitionTime: now}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
	reason, message := idleCondition(p, len(mine), capturing)
	// setTroubles sets a condition from the troubles, or from the policy's well-being without troubles.
	setTroubles := func(kind string, is bool, in []policyProblem) {
		if len(in) > 0 {
			set(kind, is, in[0].reason, joinTroubles(in))
		} else {
			set(kind, !is, reason, message)
		}
	}
	setTroubles(v1alpha1.ConditionReady, false, slices.Concat(troubles, degraded))
	setTroubles(v1alpha1.ConditionStalled, true, troubles)
	setTroubles(v1alpha1.ConditionDegraded, true, degraded)
	if capturing > 0 {
		set(v1alpha1.ConditionReconciling, true, v1alpha1.PolicyCapturing, "a capture runs in "+wording.Count(capturing, "pool"))
	} else {
		set(v1alpha1.ConditionReconciling, false, reason, message)
	}
	return status
}

// idleCondition returns the reason and message of a policy without troubles.
func idleCondition(p *v1alpha1.PrototypePolicy, pools, capturing int) (reason, message string) {
	switch {
	case p.Spec.Suspend:
		return v1alpha1.PolicySuspended, "spec.suspend is true: Kamino decides nothing until you set spec.suspend to false"
	case p.Spec.DryRun:
		return v1alpha1.PolicyDryRun, "spec.dryRun is true: status.pools shows the decisions, and Kamino captures nothing"
	case capturing > 0:
		return v1alpha1.PolicyCapturing, fmt.Sprintf("a capture runs in %d of %d pools", capturing, pools)
	case pools == 1:
		return v1alpha1.PolicyWatching, "Kamino watches 1 pool; status.pools shows the decision"
	default:
		return v1alpha1.PolicyWatching, fmt.Sprintf("Kamino watches %d pools; status.pools shows the decisions", pools)
	}
}

// joinTroubles joins troubles to one message.
func joinTroubles(troubles []policyProblem) string {
	texts := make([]string, 0, maxTroubles)
	for i, t := range troubles {
		if i == maxTroubles {
			texts = append(texts, fmt.Sprintf("and %d more, see status.pools", len(troubles)-maxTroubles))
			break
		}
		texts = append(texts, t.message)
	}
	return strings.Join(texts, "; ")
}

// Refused counts the refusals of a choice by reason; a node with several reasons counts for each reason.
func Refused(choice selection.Choice) map[string]int {
	counts := map[string]int{}
	for _, v := range choice.Verdicts {
		for _, r := range v.Refusals {
			counts[r.Reason]++
		}
	}
	return counts
}
