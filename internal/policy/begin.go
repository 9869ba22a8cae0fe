package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/trialmode"
)

const (
	// unaskedLife is how long it stands that the API server did not answer a preflight.
	unaskedLife = time.Minute
	// maxDonors is how many candidates are tried where the preflight refuses a node for its own sake.
	maxDonors = 3
)

// begin has a capture begin that is wanted, or says in the pool's status why not. Everything is looked at once
// more, because what was decided on may be old: the cloud, the other captures, and by the preflight the node.
func (d *Decider) begin(ctx context.Context, w *observed, o *decided) error {
	if d.Admit != nil && !d.Admit(o.Policy, o.Pool) {
		return nil
	}
	donor := o.Choice.Donor.Name // whom the refusal is kept for: which of its equals is asked about depends on their pods
	if o.refused(donor, w.now) || d.wait(w, o) || d.stillDenied(ctx, w, o) {
		return ctx.Err()
	}
	if err := d.lookAgain(ctx, w, o); err != nil || !o.Wanted || d.wait(w, o) {
		return err
	}
	p, refusals, err := d.propose(ctx, w, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		o.unasked(err, w.now)
		o.Wanted = false // until it is decided anew: not every pass is to ask again
		return nil
	case len(refusals) > 0:
		o.refuse(donor, w.now, refusals)
		return nil
	}
	return d.create(ctx, w, o, donor, p)
}

// unasked reports that the preflight could not be made.
func (o *Outcome) unasked(err error, now time.Time) {
	if said := (*cloud.Error)(nil); errors.As(err, &said) {
		o.unavailable(err, now)
		return
	}
	message := fmt.Sprintf("what speaks for or against a capture of pool %s can't be looked at: %s. It is tried again each minute", o.Pool.Name, err)
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyPreflightFailed, Message: message}
	// An API server that is away or overrun will be back; a right that is missing will not come by itself.
	o.trouble, o.err = &trouble{v1alpha1.PolicyPreflightFailed, message, !apierrors.IsForbidden(err)}, err
	o.sooner(now.Add(unaskedLife), now)
}

// wait tells whether as many captures run as may.
func (d *Decider) wait(w *observed, o *decided) bool {
	limit := int(o.rules.spec.MaxConcurrent)
	holding, until := d.held(w.all, w.now)
	if holding < limit {
		return false
	}
	o.sooner(until, w.now)
	o.queued = true
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: Queued, Message: fmt.Sprintf(
		"node %s is to be captured once one of the captures that run has given its node back, or another node is in its place: policy %s allows %d at once (spec.maxConcurrent)",
		o.Choice.Donor.Name, o.Policy, limit)}
	return true
}

// lookAgain decides once more, on what cloud and API server say now.
func (d *Decider) lookAgain(ctx context.Context, w *observed, o *decided) error {
	live := &v1alpha1.PrototypeList{}
	if err := d.Client.List(ctx, live); err != nil {
		return fmt.Errorf("list prototypes: %w", err)
	}
	w.all = live.Items
	d.holding, _ = d.held(w.all, w.now)
	of, err := membership.OfPrototypes(ctx, d.Cloud, w.all)
	if err != nil {
		return fmt.Errorf("find the pools of the prototypes: %w", err)
	}
	mine := o.Pool.Its(w.all, of)
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	// An error is in the look that judge finds.
	if _, err := d.Looks.At(looking, o.Pool.ID, freshLook); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	again := d.judge(ctx, o.rules, o.Pool, mine, w.now)
	d.prefer(ctx, again, false, w.now)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	again.trim()
	o.Outcome = again
	return nil
}

// propose makes the Prototype of the best candidate that the preflight does not refuse. The refusals are those
// of the best one.
func (d *Decider) propose(ctx context.Context, w *observed, o *decided) (*v1alpha1.Prototype, []cloud.Refusal, error) {
	ctx = cloud.WithReadCache(ctx)
	var first []cloud.Refusal
	for i, candidate := range o.Choice.Candidates {
		if i == maxDonors {
			break
		}
		p, err := d.prototype(w, o.Outcome, candidate.Node)
		if err != nil {
			return nil, []cloud.Refusal{cloud.Refuse(v1alpha1.PolicyTooManyFailures, err.Error(), "see why the last one failed")}, nil
		}
		joins, err := d.join(ctx, o.Outcome, p)
		if err != nil || len(joins.Refusals()) > 0 {
			return nil, joins.Refusals(), err
		}
		if p.Spec.Settings.Trial.Mode, err = trialmode.Find(ctx, d.Cloud, o.Pool.ID, p.Spec.Version, p.Spec.Settings); err != nil {
			return nil, nil, err
		}
		if d.Preflight == nil {
			return p, nil, nil
		}
		refusals, err := d.Preflight(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		if len(refusals) == 0 {
			return p, nil, nil
		}
		if first == nil {
			first = refusals
		}
		if !admission.AnotherMayDo(refusals) {
			break
		}
	}
	return nil, first, nil
}

// prototype is the decision to capture a node of the pool.
func (d *Decider) prototype(w *observed, o *Outcome, name string) (*v1alpha1.Prototype, error) {
	nodes := d.Nodes.Of(o.Pool.ID)
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("node %s has just gone", name)
	}
	donor := v1alpha1.Donor{NodeName: name, ProviderID: nodes[i].Spec.ProviderID}
	p, err := o.Pool.Prototype(donor, imageversion.Of(w.now), o.Settings, w.all)
	if err != nil {
		return nil, err
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[v1alpha1.PolicyLabel] = v1alpha1.LabelValue(o.Policy)
	return p, nil
}

// join has the Prototype carry the profile by which its donor is seen to join, if the policy names none.
func (d *Decider) join(ctx context.Context, o *Outcome, p *v1alpha1.Prototype) (bootstrapkind.Answer, error) {
	g := &p.Spec.Settings.Generalize
	if g.Profile != "" || d.Joins == nil {
		return bootstrapkind.Answer{Profile: p.Spec.Settings.Profile()}, nil
	}
	nodes := d.Nodes.Of(o.Pool.ID)
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.Donor.NodeName })
	if i < 0 {
		return bootstrapkind.Answer{}, fmt.Errorf("node %s has just gone", p.Spec.Donor.NodeName)
	}
	answer, err := d.Joins(ctx, bootstrapkind.With(nodes[i], o.Look.Pool, o.Look.Images))
	g.Profile = answer.Profile
	return answer, err
}

// create writes the decision down: from here on the capture happens.
func (d *Decider) create(ctx context.Context, w *observed, o *decided, donor string, p *v1alpha1.Prototype) error {
	err := d.Client.Create(ctx, p)
	switch {
	case apierrors.IsAlreadyExists(err):
		o.queued = true // somebody else's decision of this moment: the next pass sees it
		return nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		o.refuse(donor, w.now, []cloud.Refusal{cloud.Refuse(notTaken, fmt.Sprintf("the API server does not take Prototype %s: %s", p.Name, err),
			fmt.Sprintf("correct spec.settings of policy %s, or the permissions", o.Policy))})
		return nil
	case err != nil:
		return fmt.Errorf("create prototype %s: %w", p.Name, err)
	}
	w.all = append(w.all, *p)
	o.Wanted, o.refusal = false, refusal{}
	o.Status.Prototype, o.Status.Donor = p.Name, p.Spec.Donor.NodeName
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: Capturing, Message: fmt.Sprintf(
		"node %s is captured as version %s by prototype %s", p.Spec.Donor.NodeName, p.Spec.Version, p.Name)}
	d.Log.Info("decided", "policy", o.Policy, "pool", o.Pool.Name, "donor", p.Spec.Donor.NodeName, "prototype", p.Name, "why", o.Choice.Message)
	d.announce(w, o, p)
	return nil
}

// announce records the decision as an event of the policy, if it is in the cluster, and of the Prototype.
func (d *Decider) announce(w *observed, o *decided, p *v1alpha1.Prototype) {
	if d.Recorder == nil {
		return
	}
	for i := range w.policies {
		switch policy := &w.policies[i]; {
		case policy.Name != o.Policy:
		case policy.UID == "":
			d.Recorder.Eventf(p, nil, corev1.EventTypeNormal, "Decided", "Decide", "policy %s: %s", policy.Name, o.Choice.Message)
		default:
			d.Recorder.Eventf(policy, p, corev1.EventTypeNormal, "Decided", "Decide", "pool %s: %s", o.Pool.Name, o.Status.Decision.Message)
			d.Recorder.Eventf(p, policy, corev1.EventTypeNormal, "Decided", "Decide", "policy %s: %s", policy.Name, o.Choice.Message)
		}
	}
}
