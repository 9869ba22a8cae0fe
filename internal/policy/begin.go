package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	conflict "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/wording"
)

const (
	// preflightRetry is the time until Kamino repeats a preflight that the API server did not answer.
	preflightRetry = time.Minute
	// maxDonors limits the candidates per pass. Kamino tries the next candidate if the preflight refuses a node for a
	// reason of that node.
	maxDonors = 3
)

// begin starts the wanted capture of a pool, or writes the reason against the capture into the pool's status. The decision
// may be old, so begin reads the cloud, the other captures and the node again.
func (d *Decider) begin(ctx context.Context, w *observed, o *cachedOutcome) error {
	if d.Admit != nil && !d.Admit(o.Policy, o.Pool) {
		return nil
	}
	donor := o.Choice.Donor.Name // the donor of the refusal: the order of equal candidates depends on their pods
	if o.refused(donor, w.now) || d.atLimit(w, o) || d.stillDenied(ctx, w, o) {
		return ctx.Err()
	}
	if err := d.refresh(ctx, w, o); err != nil || !o.Wanted || d.atLimit(w, o) {
		return err
	}
	p, refusals, err := d.propose(ctx, w, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		o.preflightFailed(err, w.now)
		o.Wanted = false // until the next decision, so that not every pass asks the API server
		return nil
	case len(refusals) > 0:
		o.refuse(donor, w.now, refusals)
		return nil
	}
	return d.create(ctx, w, o, donor, p)
}

// preflightFailed reports that Kamino could not run the preflight.
func (o *PoolOutcome) preflightFailed(err error, now time.Time) {
	if cloudError := (*cloud.Error)(nil); errors.As(err, &cloudError) {
		o.unavailable(err, now)
		return
	}
	message := fmt.Sprintf("the preflight for a capture of pool %s failed: %s. Kamino tries again each minute", o.Pool.Name, err)
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyPreflightFailed, Message: message}
	// An API server recovers without help from an outage or an overload. A missing permission needs a person.
	o.trouble, o.err = &policyProblem{reason: v1alpha1.PolicyPreflightFailed, message: message, brief: !apierrors.IsForbidden(err)}, err
	o.sooner(now.Add(preflightRetry), now)
}

// atLimit reports whether the limit of concurrent captures is reached.
func (d *Decider) atLimit(w *observed, o *cachedOutcome) bool {
	limit := int(o.rules.spec.MaxConcurrent)
	if d.countHeld(w.all) < limit {
		return false
	}
	o.queued = true
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: Queued, Message: fmt.Sprintf(
		"node %s waits until another node is returned to service: policy %s allows %s at once (spec.maxConcurrent)",
		o.Choice.Donor.Name, o.Policy, wording.Count(limit, "capture"))}
	return true
}

// refresh decides again, with fresh answers of the cloud and of the API server. If a policy has changed meanwhile, the decision waits for
// a pass that has the change.
func (d *Decider) refresh(ctx context.Context, w *observed, o *cachedOutcome) error {
	if isOld, err := isOutdated(ctx, d, w); isOld || err != nil {
		if o.Wanted {
			o.Status.Decision = &v1alpha1.PoolDecision{Reason: Queued, Message: fmt.Sprintf(
				"node %s waits because a policy has changed, and the controller has not received the change yet", o.Choice.Donor.Name)}
		}
		o.queued, o.Wanted, o.rebuild = true, false, false
		return err
	}
	live := &v1alpha1.PrototypeList{}
	if err := d.Client.List(ctx, live); err != nil {
		return fmt.Errorf("list prototypes: %w", err)
	}
	w.all = live.Items
	d.held.count = d.countHeld(w.all)
	of, err := membership.OfPrototypes(ctx, d.Cloud, w.all)
	if err != nil {
		return fmt.Errorf("find the pools of the prototypes: %w", err)
	}
	mine := o.Pool.Its(w.all, of)
	lookCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	// judge finds the error in the look.
	if _, err := d.PoolCache.At(lookCtx, o.Pool.ID, freshMaxAge); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	fresh := d.decidePool(ctx, o.rules, o.Pool, mine, w.now)
	d.prefer(ctx, fresh, false, w.now)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fresh.trim()
	o.PoolOutcome = fresh
	return nil
}

// propose returns the Prototype of the best candidate that the preflight accepts. If the preflight refuses all candidates,
// propose returns the refusals of the best candidate.
func (d *Decider) propose(ctx context.Context, w *observed, o *cachedOutcome) (*v1alpha1.Prototype, []cloud.Refusal, error) {
	ctx = cloud.WithReadCache(ctx)
	var first []cloud.Refusal
	for i, candidate := range o.Choice.Candidates {
		if i == maxDonors {
			break
		}
		p, err := d.prototype(w, o.PoolOutcome, candidate.Node)
		if err != nil {
			return nil, []cloud.Refusal{cloud.Refuse(v1alpha1.PolicyTooManyFailures, err.Error(), "read why with `kubectl get prototypes`")}, nil
		}
		joins, err := d.join(ctx, o.PoolOutcome, p)
		if err != nil || len(joins.Refusals()) > 0 {
			return nil, joins.Refusals(), err
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

// prototype returns the Prototype for a capture of the node.
func (d *Decider) prototype(w *observed, o *PoolOutcome, name string) (*v1alpha1.Prototype, error) {
	nodes := d.Nodes.Of(o.Pool.ID)
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("node %s is gone", name)
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
	o.pioneer.into(p)
	return p, nil
}

// join sets the Prototype's profile to the profile that Kamino detects on the donor, unless the policy names a profile.
func (d *Decider) join(ctx context.Context, o *PoolOutcome, p *v1alpha1.Prototype) (bootstrapkind.Answer, error) {
	g := &p.Spec.Settings.Generalize
	if g.Profile != "" || d.Joins == nil {
		return bootstrapkind.Answer{Profile: p.Spec.Settings.Profile()}, nil
	}
	nodes := d.Nodes.Of(o.Pool.ID)
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.Donor.NodeName })
	if i < 0 {
		return bootstrapkind.Answer{}, fmt.Errorf("node %s is gone", p.Spec.Donor.NodeName)
	}
	answer, err := d.Joins(ctx, bootstrapkind.With(nodes[i], o.Look.Pool, o.Look.Images))
	g.Profile = answer.Profile
	return answer, err
}

// create writes the decision to the API server. The capture begins with that write.
func (d *Decider) create(ctx context.Context, w *observed, o *cachedOutcome, donor string, p *v1alpha1.Prototype) error {
	set := p.Status.PatchSet // the API server takes no status at the creation
	err := d.Client.Create(ctx, p)
	switch {
	case apierrors.IsAlreadyExists(err):
		o.queued = true // another client wrote this decision at the same time: the next pass reads that Prototype
		return nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		o.refuse(donor, w.now, []cloud.Refusal{cloud.Refuse(refusedByServer, fmt.Sprintf("the API server refuses Prototype %s: %s", p.Name, err),
			fmt.Sprintf("correct spec.settings of policy %s, or grant Kamino the permission", o.Policy))})
		return nil
	case err != nil:
		return fmt.Errorf("create prototype %s: %w", p.Name, err)
	}
	d.writePatchSet(ctx, p, set)
	w.all = append(w.all, *p)
	o.Wanted, o.refusal = false, refusal{}
	o.Status.Prototype, o.Status.Donor = p.Name, p.Spec.Donor.NodeName
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: Capturing, Message: fmt.Sprintf(
		"node %s is captured as version %s by prototype %s", p.Spec.Donor.NodeName, p.Spec.Version, p.Name)}
	d.Log.Info("decided", "policy", o.Policy, "pool", o.Pool.Name, "donor", p.Spec.Donor.NodeName, "prototype", p.Name, "why", o.Choice.Message)
	d.announce(w, o, p)
	return nil
}

// writePatchSet writes the set of pending patches into the status. Without the set, the capture asks a node for it.
func (d *Decider) writePatchSet(ctx context.Context, p *v1alpha1.Prototype, set string) {
	if set == "" {
		return
	}
	err := conflict.RetryOnConflict(conflict.DefaultRetry, func() error {
		before := p.DeepCopy()
		p.Status.PatchSet = set
		err := d.Client.Status().Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) { // the capture has begun meanwhile
			return cmp.Or(d.Client.Get(ctx, client.ObjectKeyFromObject(p), p), err)
		}
		return err
	})
	if err != nil {
		d.Log.Error(err, "the set of pending patches is not written", "prototype", p.Name)
	}
}

// announce records the decision as events of the Prototype and, if the cluster holds the policy, of the policy.
func (d *Decider) announce(w *observed, o *cachedOutcome, p *v1alpha1.Prototype) {
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
