package capture

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// observe looks at the capture, and judges its admission if it has not begun.
func (r rooms) observe(ctx context.Context, w *pass) error {
	if err := r.look(ctx, w); err != nil {
		return err
	}
	return r.lookPreflight(ctx, w)
}

// look reads the objects of the capture, in an order in which each read knows what the reads before it found. The record
// precedes each effect, so what the record excludes is not read.
func (r rooms) look(ctx context.Context, w *pass) error {
	for _, look := range []effect{
		r.donors.lookNode, r.donors.lookPool, r.leaving.readReplacement, r.donors.lookInstance, r.leaving.readUnfilledPlace, r.orders.readProof,
		r.images.lookArtifacts, r.copying.look, r.pods.lookPod, r.orders.lookReport, r.copying.lookMoment,
		r.trialReader.lookTrial, r.trialReader.lookGate, r.promotion.lookRecipe, r.trialReader.judgeAttempt,
		r.pods.lookLeftPod, r.orders.lookLeftOrder, r.donors.lookKuredAgain, r.trialReader.findLostTrial,
	} {
		if err := look(ctx, w); err != nil {
			return err
		}
		if w.pool == "" && w.noPoolReason != "" {
			break
		}
	}
	return nil
}

// lookGrowth reads the pool and its new node. Before the growth is decided, the capture is admitted like any other.
func (r rooms) lookGrowth(ctx context.Context, w *pass) error {
	f := &w.facts
	w.pool = cloud.PoolID(w.p.Spec.PoolID)
	readDeparture(w)
	f.Unrecorded = recordLost(w.p)
	f.Growth = plan.GrowthFacts{Awaited: true, Decided: w.removalRecord().Target != 0}
	switch {
	case !w.p.Spec.AwaitsDonor():
		f.Refused = true
		w.preflight.refusals = []cloud.Refusal{
			cloud.Refuse(admission.SettingUnsupported,
				fmt.Sprintf("spec.donor names node %s, but Kamino adds the donor of a pioneer with node: Grow to the pool", w.p.Spec.Donor.NodeName),
				"create the Prototype without spec.donor"),
		}
	case f.Growth.Decided:
		return r.leaving.readGrowth(ctx, w)
	case !f.Deleting && !f.Failed && !f.Unrecorded:
		return r.admitGrowth(ctx, w)
	}
	return nil
}

// admitGrowth judges the capture with a node that is like the new node.
func (r rooms) admitGrowth(ctx context.Context, w *pass) error {
	m, err := r.observeCase(ctx, w.p)
	if err != nil {
		return err
	}
	w.preflight, w.promotion.recipe = m.preflight, m.promotion.recipe
	w.facts.Refused, w.facts.Queued = m.facts.Refused, m.facts.Queued
	return nil
}

// observeCase observes a capture that has not begun. If the pool has yet to grow by the donor, a node of the pool is
// observed in its place.
func (r rooms) observeCase(ctx context.Context, p *v1alpha1.Prototype) (*pass, error) {
	if !p.Spec.AwaitsDonor() {
		return r.observeAsNew(ctx, p)
	}
	like, err := youngestNode(ctx, r.preflight.kube, r.preflight.cloud, cloud.PoolID(p.Spec.PoolID), nodestate.Ready)
	if err != nil {
		return nil, err
	}
	p = p.DeepCopy()
	if like == nil {
		w := fromPrototype(p, v1alpha1.Record{})
		w.preflight.refusals = []cloud.Refusal{
			cloud.Refuse(admission.NodeNotFound, fmt.Sprintf("pool %s has no Ready node, so Kamino cannot check the pool before the growth", p.Spec.Pool),
				"wait until a node of the pool is Ready"),
		}
		w.facts.Refused = true
		return w, nil
	}
	p.Spec.Donor = v1alpha1.Donor{NodeName: like.Name, ProviderID: like.Spec.ProviderID}
	return r.observeAsNew(ctx, p)
}

// observeAsNew observes a capture without a record. With an error, the result is not nil if only the admission is incomplete.
func (r rooms) observeAsNew(ctx context.Context, p *v1alpha1.Prototype) (*pass, error) {
	w := fromPrototype(p, v1alpha1.Record{})
	if err := r.look(ctx, w); err != nil {
		return nil, err
	}
	return w, r.lookPreflight(ctx, w)
}

// youngestNode returns the youngest node of the pool that fits; nil without such a node.
func youngestNode(
	ctx context.Context, kube kubernetes.Interface, finder membership.Registry, pool cloud.PoolID, fits func(*corev1.Node) bool,
) (youngest *corev1.Node, err error) {
	err = membership.Each(ctx, kube, finder, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool == pool && fits(n) && (youngest == nil || youngest.CreationTimestamp.Before(&n.CreationTimestamp)) {
			youngest = n.DeepCopy()
		}
		return nil
	})
	return youngest, err
}

// lookPreflight checks the admission of a capture that has not begun. A known obstacle refuses the capture, even if
// other facts are unreadable.
func (r rooms) lookPreflight(ctx context.Context, w *pass) error {
	if w.hasBegun() && w.pool != "" {
		return nil
	}
	c := r.preflight.gather(ctx, w)
	verdict := c.Judge()
	w.preflight.admission, w.preflight.refusals = c, verdict.Refusals
	w.preflight.admissionErr, w.preflight.imageLimitWarning = verdict.Trouble(), c.ImageLimitWarning()
	w.facts.Queued, _ = c.Queued.Get()
	w.facts.Refused = len(verdict.Refusals) > 0
	return verdict.Err()
}
