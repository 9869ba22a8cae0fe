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
	// refusalTTL is the lifetime of a first refused preflight. A preflight costs a dozen reads. The lifetime doubles with
	// each further refusal of the same donor, up to maxRefusalTTL.
	refusalTTL    = 10 * time.Minute
	maxRefusalTTL = 4 * time.Hour
	// deniedTTL applies if only permissions are missing: one request checks the permissions.
	deniedTTL = 20 * time.Minute
)

// refusedByServer: the API server refuses the Prototype.
const refusedByServer = "Refused"

// refusal is the result of a refused preflight, so that not each pass repeats the preflight. The zero value is no refusal.
type refusal struct {
	decision *v1alpha1.PoolDecision
	donor    string
	at       time.Time
	life     time.Duration
	// denied reports that only permissions are missing.
	denied bool
}

// until is the end of the refusal for this donor. A reason against another donor is valid for a shorter time.
func (r refusal) until(donor string) time.Time {
	if donor != r.donor && !r.denied {
		return r.at.Add(min(r.life, refusalTTL))
	}
	return r.at.Add(r.life)
}

// unlessBegun is the refusal, or the zero value if a capture of the pool has reserved its donor since: its preflight passed.
func (r refusal) unlessBegun(captures []v1alpha1.Prototype) refusal {
	for i := range captures {
		if d := captures[i].Status.Donor; d != nil && d.ReservedAt != nil && d.ReservedAt.After(r.at) {
			return refusal{}
		}
	}
	return r
}

// again is the lifetime of the next refusal. After a long pause, the lifetime begins at refusalTTL.
func (r refusal) again(donor string, now time.Time) time.Duration {
	if r.life == 0 || donor != r.donor || now.Sub(r.until(donor)) > maxRefusalTTL {
		return refusalTTL
	}
	return min(2*r.life, maxRefusalTTL)
}

// refuse records why a wanted capture does not begin.
func (o *cachedOutcome) refuse(donor string, now time.Time, refusals []cloud.Refusal) {
	r := refusal{
		decision: &v1alpha1.PoolDecision{Reason: refusals[0].Reason, Message: joinMessages(refusals), Remedy: refusals[0].Remedy},
		donor:    donor, at: now, life: o.refusal.again(donor, now), denied: true,
	}
	for _, refused := range refusals {
		r.denied = r.denied && refused.Reason == cloud.PermissionMissing
	}
	o.refusal = r
	o.refused(donor, now)
}

// refused reports whether a refusal is still valid, and writes the refusal into the status.
func (o *cachedOutcome) refused(donor string, now time.Time) bool {
	if o.refusal.decision == nil {
		return false
	}
	until := o.refusal.until(donor)
	if !until.After(now) {
		return false
	}
	o.Status.Decision, o.Status.NextRun = o.refusal.decision, timestamp(until)
	o.sooner(until, now)
	return true
}

// stillDenied checks the missing permissions of a refusal with one request: of each capture, and of the purpose in the refusal.
// Until the permissions exist, Kamino repeats no preflight. Without an answer, the preflight decides.
func (d *Decider) stillDenied(ctx context.Context, w *observed, o *cachedOutcome) bool {
	if !o.refusal.denied || d.Permissions == nil {
		return false
	}
	permissions, err := d.Permissions(ctx, o.Pool.ID)
	if err != nil {
		return false
	}
	for _, p := range permissions {
		if !p.Allowed && (p.For == "" || strings.Contains(o.refusal.decision.Message, p.Action)) {
			o.refusal.at, o.refusal.life = w.now, deniedTTL
			return o.refused(o.Choice.Donor.Name, w.now)
		}
	}
	return false
}

// degraded is the trouble of a pool with a wanted and refused capture; nil if there is none. The trouble lasts until a
// preflight passes, also outside the schedule. The message does not change with the time.
func (o *cachedOutcome) degraded() *policyProblem {
	r := o.refusal.decision
	if r == nil || o.Choice.Donor == nil || o.trouble != nil || o.rules.spec.Suspend || o.rules.spec.DryRun {
		return nil
	}
	return &policyProblem{reason: r.Reason, message: fmt.Sprintf("pool %s is not captured: %s. Kamino tries again at status.pools[].nextRun, "+
		"or at once after `%s`", o.Pool.Name, r.Message, v1alpha1.RetryCommand(o.Policy))}
}

// joinMessages joins the messages of the refusals.
func joinMessages(refusals []cloud.Refusal) string {
	texts := make([]string, len(refusals))
	for i, r := range refusals {
		texts[i] = r.Message
	}
	return strings.Join(texts, "; ")
}
