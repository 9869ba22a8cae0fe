package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// refusalLife is how long a first refused preflight stands, which costs a dozen reads. It doubles with each
	// further one of the same donor, up to the longest.
	refusalLife    = 10 * time.Minute
	maxRefusalLife = 4 * time.Hour
	// deniedLife is for one that only missing permissions speak against: whether they came is one request.
	deniedLife = 20 * time.Minute
)

// notTaken: the API server does not take the Prototype.
const notTaken = "Refused"

// refusal is why the engine's preflight refused a capture, so that it is not tried with every pass. The zero
// value is none.
type refusal struct {
	decision *v1alpha1.PoolDecision
	donor    string
	at       time.Time
	life     time.Duration
	// denied tells that nothing but missing permissions spoke against it.
	denied bool
}

// until is how long the refusal stands, if this is the donor now. What spoke against one need not speak against
// another for long.
func (r refusal) until(donor string) time.Time {
	if donor != r.donor && !r.denied {
		return r.at.Add(min(r.life, refusalLife))
	}
	return r.at.Add(r.life)
}

// again is the life of a refusal that follows this one. One that comes a long time after it begins anew.
func (r refusal) again(donor string, now time.Time) time.Duration {
	if r.life == 0 || donor != r.donor || now.Sub(r.until(donor)) > maxRefusalLife {
		return refusalLife
	}
	return min(2*r.life, maxRefusalLife)
}

// refuse keeps why a capture that was wanted does not begin.
func (o *decided) refuse(donor string, now time.Time, refusals []cloud.Refusal) {
	r := refusal{
		decision: &v1alpha1.PoolDecision{Reason: refusals[0].Reason, Message: sentences(refusals), Remedy: refusals[0].Remedy},
		donor:    donor, at: now, life: o.refusal.again(donor, now), denied: true,
	}
	for _, refused := range refusals {
		r.denied = r.denied && refused.Reason == cloud.PermissionMissing
	}
	o.refusal = r
	o.refused(donor, now)
}

// refused tells whether a refusal stands that need not be asked about again yet, and reports it.
func (o *decided) refused(donor string, now time.Time) bool {
	if o.refusal.decision == nil {
		return false
	}
	until := o.refusal.until(donor)
	if !until.After(now) {
		return false
	}
	o.Status.Decision, o.Status.NextRun = o.refusal.decision, stamp(until)
	o.sooner(until, now)
	return true
}

// stillDenied looks, in one request, whether the permissions are there that alone spoke against a capture: those that every
// capture needs, and those for one purpose, such as a trial, that the refusal names. While they are not, no whole preflight is
// made. Where nobody can tell, the preflight itself will.
func (d *Decider) stillDenied(ctx context.Context, w *observed, o *decided) bool {
	if !o.refusal.denied || d.Permissions == nil {
		return false
	}
	permissions, err := d.Permissions(ctx, o.Pool.ID)
	if err != nil {
		return false
	}
	for _, p := range permissions {
		if !p.Allowed && (p.For == "" || strings.Contains(o.refusal.decision.Message, p.Action)) {
			o.refusal.at, o.refusal.life = w.now, deniedLife
			return o.refused(o.Choice.Donor.Name, w.now)
		}
	}
	return false
}

// degraded is the trouble of a pool whose capture is wanted and refused; nil if there is none. It lasts until a
// preflight has passed, also while the schedule is closed meanwhile, and its words don't change with the time.
func (o *decided) degraded() *trouble {
	r := o.refusal.decision
	if r == nil || o.Choice.Donor == nil || o.trouble != nil || o.rules.spec.Suspend || o.rules.spec.DryRun {
		return nil
	}
	return &trouble{reason: r.Reason, message: fmt.Sprintf("pool %s is not captured: %s. It is tried again by itself (status.pools[].nextRun), "+
		"and at once after `kubectl annotate --overwrite prototypepolicy %s %s=$(date +%%s)`", o.Pool.Name, r.Message, o.Policy, v1alpha1.RetryAnnotation)}
}

// sentences joins the refusals' messages.
func sentences(refusals []cloud.Refusal) string {
	texts := make([]string, len(refusals))
	for i, r := range refusals {
		texts[i] = r.Message
	}
	return strings.Join(texts, "; ")
}
