package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/imagecount"
	"github.com/kamino-dev/kamino/internal/selection"
)

// maxTroubles is how many of a policy's troubles its condition names before it counts the rest.
const maxTroubles = 5

// report writes the policy's status if it says anything else than the one that is there.
func (d *Decider) report(ctx context.Context, w *observed, p *v1alpha1.PrototypePolicy) error {
	if p.DeletionTimestamp != nil || p.UID == "" {
		return nil
	}
	after := p.DeepCopy()
	mine := d.outcomesOf(p.Name)
	troubles := d.troublesOf(w, p, mine)
	if len(troubles) > 0 {
		w.stalled[troubles[0].reason]++
	}
	var degraded []trouble
	for _, o := range mine {
		if t := o.degraded(); t != nil {
			degraded = append(degraded, *t)
			w.degraded[[2]string{o.Pool.Name, t.reason}]++
		}
		if o.unrebuilt != nil {
			degraded = append(degraded, *o.unrebuilt)
		}
		if o.unjoined != nil {
			degraded = append(degraded, *o.unjoined)
		}
		if o.crowded != nil && o.Status.Decision.Reason != imagecount.TooManyImages { // which says the same
			degraded = append(degraded, *o.crowded)
		}
	}
	after.Status = statusOf(p, mine, troubles, degraded, metav1.NewTime(w.now))
	if equality.Semantic.DeepEqual(p.Status, after.Status) {
		return nil
	}
	if err := d.Client.Status().Patch(ctx, after, client.MergeFrom(p)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of prototypepolicy %s: %w", p.Name, err)
	}
	d.announceTrouble(p, after)
	return nil
}

// announceTrouble records an event when something begins to be in the way of a policy's work, and when nothing is
// any more.
func (d *Decider) announceTrouble(before, after *v1alpha1.PrototypePolicy) {
	if d.Recorder == nil {
		return
	}
	wasTroubled, isTroubled := false, false
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionDegraded} {
		was := meta.FindStatusCondition(before.Status.Conditions, kind)
		is := meta.FindStatusCondition(after.Status.Conditions, kind)
		had := was != nil && was.Status == metav1.ConditionTrue
		has := is.Status == metav1.ConditionTrue
		wasTroubled, isTroubled = wasTroubled || had, isTroubled || has
		if has && (!had || was.Reason != is.Reason) {
			d.Recorder.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, "Decide", "%s", is.Message)
		}
	}
	if wasTroubled && !isTroubled {
		d.Recorder.Eventf(after, nil, corev1.EventTypeNormal, "Recovered", "Decide", "policy %s can do its work again", after.Name)
	}
}

// outcomesOf lists what was decided under the policy, by the pools' names.
func (d *Decider) outcomesOf(policy string) []*decided {
	var mine []*decided
	for _, o := range d.pools {
		if o.Policy == policy {
			mine = append(mine, o)
		}
	}
	slices.SortFunc(mine, func(a, b *decided) int {
		return cmp.Or(cmp.Compare(a.Pool.Name, b.Pool.Name), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return mine
}

// troublesOf lists what keeps the policy from its work, what concerns it as a whole first.
func (d *Decider) troublesOf(w *observed, p *v1alpha1.PrototypePolicy, mine []*decided) []trouble {
	var all []trouble
	if invalid := d.rules.of(p, w.now).invalid; invalid != nil {
		all = append(all, *invalid)
	}
	all = append(all, w.claims.troubles[p.Name]...)
	for _, o := range mine {
		if o.trouble != nil && !o.trouble.brief {
			all = append(all, *o.trouble)
		}
	}
	return all
}

// statusOf makes the report. Times of conditions change only with their status.
func statusOf(p *v1alpha1.PrototypePolicy, mine []*decided, troubles, degraded []trouble, now metav1.Time) v1alpha1.PrototypePolicyStatus {
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
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: p.Generation, LastTransitionTime: now}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
	reason, message := wellbeing(p, len(mine), capturing)
	// whether tells of the troubles under a condition that is True, or False, while there are some.
	whether := func(kind string, is bool, in []trouble) {
		if len(in) > 0 {
			set(kind, is, in[0].reason, said(in))
		} else {
			set(kind, !is, reason, message)
		}
	}
	whether(v1alpha1.ConditionReady, false, slices.Concat(troubles, degraded))
	whether(v1alpha1.ConditionStalled, true, troubles)
	whether(v1alpha1.ConditionDegraded, true, degraded)
	if capturing > 0 {
		set(v1alpha1.ConditionReconciling, true, v1alpha1.PolicyCapturing, fmt.Sprintf("a capture runs in %d of its pools", capturing))
	} else {
		set(v1alpha1.ConditionReconciling, false, reason, message)
	}
	return status
}

// wellbeing says what a policy does that nothing is in the way of.
func wellbeing(p *v1alpha1.PrototypePolicy, pools, capturing int) (reason, message string) {
	switch {
	case p.Spec.Suspend:
		return v1alpha1.PolicySuspended, "spec.suspend is set: nothing is decided until it is false"
	case p.Spec.DryRun:
		return v1alpha1.PolicyDryRun, "spec.dryRun is set: decisions are in status.pools, and nothing is captured"
	case capturing > 0:
		return v1alpha1.PolicyCapturing, fmt.Sprintf("a capture runs in %d of %d pools", capturing, pools)
	case pools == 1:
		return v1alpha1.PolicyWatching, "1 pool is watched; what was decided about it is in status.pools"
	default:
		return v1alpha1.PolicyWatching, fmt.Sprintf("%d pools are watched; what was decided about each is in status.pools", pools)
	}
}

// said joins troubles to one message.
func said(troubles []trouble) string {
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

// Refused counts the refusals of a choice by reason: a node counts for each reason that it is refused for.
func Refused(choice selection.Choice) map[string]int {
	counts := map[string]int{}
	for _, v := range choice.Verdicts {
		for _, r := range v.Refusals {
			counts[r.Reason]++
		}
	}
	return counts
}
