package attention

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// trialFailed, nothingToPatch, superseded and quarantined are reasons of failures. The last three are no trouble: the
// pool is up to date, or a person wanted it.
const (
	trialFailed    = "TrialFailed"
	nothingToPatch = "NothingToPatch"
	superseded     = "Superseded"
	quarantined    = "Quarantined"
)

// captures says which captures need a person: running captures, and the last capture of a pool.
func (l *list) captures() {
	newest := map[string]*v1alpha1.Prototype{}
	for i := range l.facts.Prototypes {
		p := &l.facts.Prototypes[i]
		l.unreadable(p)
		if !p.Status.Terminal() {
			l.running(p)
		}
		if before := newest[p.Spec.Pool]; before == nil || younger(p, before) {
			newest[p.Spec.Pool] = p
		}
	}
	for _, p := range newest {
		if p.Status.Terminal() {
			l.failed(p)
		}
	}
}

func younger(a, b *v1alpha1.Prototype) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) > 0
}

// unreadable says that Kamino skips an object with fields that cannot be decoded.
func (l *list) unreadable(p *v1alpha1.Prototype) {
	message := p.Unreadable.Of("Prototype", p.Name)
	if message == "" {
		return
	}
	i := Item{Kind: CaptureWaits, Reason: v1alpha1.PolicyUnreadable, Subject: "prototype " + p.Name, Pool: p.Spec.Pool,
		Cause: message + "; Kamino skips the object and processes all others", Next: waits, Command: "kamino cancel " + p.Name}
	if p.Status.Terminal() {
		i.Command = "kubectl delete prototype " + p.Name
	}
	l.add(i, p.Spec.Pool, i.Reason)
}

// running says what a running capture needs.
func (l *list) running(p *v1alpha1.Prototype) {
	pool, phase, now := p.Spec.Pool, p.Status.Phase, l.facts.Now
	item := Item{Subject: "prototype " + p.Name, Pool: pool, Since: phaseSince(p), Command: "kamino describe " + p.Name}
	l.failed(p)
	l.stalled(p, item)
	if phase == v1alpha1.PhaseAwaitingPromotion && !p.Status.HeldBack() {
		l.awaitsPromotion(p, item)
	}
	if back := BackInService(p); isHeld(p) && !back.Latest.IsZero() && now.After(back.Latest) {
		l.add(Item{Kind: DonorHeldLong, Subject: "node " + p.Spec.Donor.NodeName, Pool: pool, Since: p.Status.Donor.ReservedAt.Time,
			Cause: fmt.Sprintf("node %s had to be back at %s at the latest", p.Spec.Donor.NodeName, When(back.Latest, now)),
			Next:  "Kamino tries to return the node in each pass", Command: "kamino cancel " + p.Name}, pool)
	}
}

// stalled says why a running capture waits for a person.
func (l *list) stalled(p *v1alpha1.Prototype, item Item) {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || p.Status.Failure != nil {
		return
	}
	item.Kind, item.Reason, item.Cause, item.Since = CaptureWaits, c.Reason, c.Message, c.LastTransitionTime.Time
	item.Next = "the capture continues automatically once the cause is gone"
	if back := BackInService(p); isHeld(p) && !back.Latest.IsZero() {
		item.Next, item.NextAt = item.Next+"; "+back.Text(l.facts.Now), back.Latest
	}
	names := []string{p.Spec.Pool, c.Reason}
	switch cloud.Kind(c.Reason) {
	case cloud.Denied, cloud.Unauthenticated:
		item.Kind, item.Command, names = NotAllowed, "kamino doctor "+p.Spec.Pool, names[1:]
	case cloud.Unavailable:
		item.Kind, names = CloudUnavailable, names[:1]
	case cloud.Throttled:
		item.Kind, names = Throttled, nil
	default:
	}
	l.add(item, names...)
}

// awaitsPromotion says that a version waits for a person, or for the tool that owns the recipe.
func (l *list) awaitsPromotion(p *v1alpha1.Prototype, item Item) {
	item.Kind = AwaitingPromotion
	item.Cause = fmt.Sprintf("version %s is complete", p.Spec.Version)
	item.Command = fmt.Sprintf("kamino promote %s %s", p.Spec.Pool, p.Spec.Version)
	if over := p.Status.HandsOver(); over != "" {
		item.Cause, item.Command = fmt.Sprintf("version %s is handed over: %s", p.Spec.Version, over), "kamino describe "+p.Name
	}
	item.Next = "the capture ends without a promotion; you can still promote the version afterwards"
	if !item.Since.IsZero() {
		item.NextAt = item.Since.Add(p.Spec.Settings.Defaulted().Promotion.Timeout.Duration)
	}
	l.add(item, p.Spec.Pool)
}

// failed says that a capture has failed, and whether another capture follows.
func (l *list) failed(p *v1alpha1.Prototype) {
	f := p.Status.Failure
	if f == nil || slices.Contains([]string{nothingToPatch, superseded, quarantined}, f.Reason) {
		return
	}
	item := Item{Kind: CaptureFailed, Reason: f.Reason, Subject: "prototype " + p.Name, Pool: p.Spec.Pool, Since: EndedAt(p), Cause: f.Message,
		Next: "nothing, until you capture again", Command: "kamino describe " + p.Name}
	names := []string{p.Spec.Pool, f.Reason}
	if f.Reason == trialFailed {
		item.Kind, names = TrialFailed, names[:1]
	}
	switch {
	case isHeld(p):
		back := BackInService(p)
		item.Next, item.NextAt = back.Text(l.facts.Now), back.Latest
	case !p.Status.Terminal():
		item.Next = "Kamino cleans up"
	default:
		if policy, at := tries(l.facts.Policies, p.Spec.Pool); policy != "" {
			item.Next, item.NextAt = fmt.Sprintf("policy %s tries again", policy), at
		}
	}
	l.add(item, names...)
}

// tries is the policy that will capture a node of the pool again, and the earliest time; empty without such a policy.
func tries(policies []v1alpha1.PrototypePolicy, pool string) (policy string, at time.Time) {
	for i := range policies {
		p := &policies[i]
		for _, s := range p.Status.Pools {
			if s.Name != pool || p.Spec.Suspend || p.Spec.DryRun || s.Decision != nil && frozen(s.Decision.Reason) {
				continue
			}
			if s.NextRun != nil {
				at = s.NextRun.Time
			}
			return p.Name, at
		}
	}
	return "", at
}

// phaseSince is the start of the present phase; zero if unknown.
func phaseSince(p *v1alpha1.Prototype) time.Time {
	if n := len(p.Status.Steps); n > 0 && p.Status.Steps[n-1].Phase == p.Status.Phase {
		return p.Status.Steps[n-1].StartedAt.Time
	}
	return time.Time{}
}

// EndedAt is when a capture ended: the last change of condition Ready, or else the end of the last step.
func EndedAt(p *v1alpha1.Prototype) time.Time {
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if n := len(p.Status.Steps); n > 0 && p.Status.Steps[n-1].FinishedAt != nil {
		return p.Status.Steps[n-1].FinishedAt.Time
	}
	return p.CreationTimestamp.Time
}
