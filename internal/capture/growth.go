package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// The growth of a pool by a pioneer, until the Prototype names the new node as its donor. Package plan decides by
// plan.GrowthFacts.

// PioneerNamesDonor is the reason of a refusal: with pioneer.node Grow, only Kamino writes the donor.
const PioneerNamesDonor = "PioneerNamesDonor"

// poolGrowth makes the passes of a capture without a donor.
type poolGrowth struct{ *Engine }

// lacksDonor reports whether the capture has no donor, or one that Kamino has not added although it adds the donor.
func (e poolGrowth) lacksDonor(ctx context.Context, w *pass) (bool, error) {
	if err := e.nameDonor(ctx, w); err != nil {
		return false, err
	}
	foreign, err := e.namesForeignDonor(ctx, w)
	return foreign || w.p.Spec.AwaitsDonor(), err
}

// namesForeignDonor reports whether another client named the donor although Kamino adds the donor. Kamino would remove that
// node. Only the record, or the Lease of a capture whose record is lost, names the donor that Kamino has added.
func (e poolGrowth) namesForeignDonor(ctx context.Context, seen *pass) (bool, error) {
	p, record := seen.p, seen.record
	if !p.Spec.AddsDonor() || p.Spec.AwaitsDonor() || record.Donor != nil || p.Status.Terminal() {
		return false, nil
	}
	w := seen.unseen(record)
	if err := readNamed(ctx, e.Engine, w); err != nil {
		return false, err
	}
	lease, err := donorReservation(e).ownLease(ctx, w)
	return lease == nil || lease.Replacement == nil || !lease.Replacement.Added, err
}

// nameDonor makes the recorded donor the donor of the Prototype: in the object as read, and in the API server while the
// Prototype names none.
func (e poolGrowth) nameDonor(ctx context.Context, w *pass) error {
	p, record := w.p, w.record
	if record.Donor == nil || !p.Spec.AddsDonor() || p.Spec.Donor == *record.Donor {
		return nil
	}
	before, awaits := p.DeepCopy(), p.Spec.AwaitsDonor()
	p.Spec.Donor, w.id = *record.Donor, cloud.InstanceID(record.Donor.ProviderID)
	if !awaits { // another client named a donor meanwhile
		return nil
	}
	if err := e.Engine.patch(ctx, p, before); err != nil {
		p.Spec.Donor = before.Spec.Donor
		return err
	}
	return nil
}

// observeGrowthAndAct makes a pass of a capture without a donor. Each pass has one action.
func (e poolGrowth) observeGrowthAndAct(ctx context.Context, w *pass) (Result, error) {
	p := w.p
	if w.record.Replacement == nil { // from the preflight to the record of the growth, as before a reservation
		e.reserving.Lock()
		defer e.reserving.Unlock()
	}
	facts, err := e.observeGrowth(ctx, w)
	decision := plan.NextGrowth(facts)
	if err != nil {
		return Result{}, err
	}
	report(w, decision, e.now())
	e.Log.V(1).Info("decided", "prototype", p.Name, "decision", decision.String())
	if decision.Do == plan.Wait {
		return Result{After: pollDelay(p, decision.Why, e.now())}, nil
	}
	eventRecorder(e).announce(w, decision)
	if err := e.actOnGrowth(ctx, w, decision.Do); err != nil {
		return Result{}, failures(e).failFinally(w, decision, err)
	}
	return Result{}, nil
}

// observeGrowth reads the pool and its new node. Before the growth is decided, the capture is admitted like any other.
func (e poolGrowth) observeGrowth(ctx context.Context, w *pass) (plan.GrowthFacts, error) {
	p := w.p
	w.pool = cloud.PoolID(p.Spec.PoolID)
	readDeparture(w)
	growth := w.removalRecord()
	facts := plan.GrowthFacts{Deleting: w.facts.Deleting, Failed: w.facts.Failed, Decided: growth.Target != 0, Unrecorded: recordLost(p)}
	var err error
	switch {
	case !p.Spec.AwaitsDonor():
		facts.Refused = true
		w.preflight.refusals = []cloud.Refusal{cloud.Refuse(PioneerNamesDonor, fmt.Sprintf("spec.donor names node %s, but Kamino adds the donor of a pioneer with node: Grow to the pool", p.Spec.Donor.NodeName),
			"create the Prototype without spec.donor")}
	case facts.Decided:
		err = replacements(e).readGrowth(ctx, w, &facts)
	case !facts.Deleting && !facts.Failed && !facts.Unrecorded:
		err = e.admitGrowth(ctx, w, &facts)
	}
	return facts, err
}

// admitGrowth judges the capture with a node that is like the new node.
func (e poolGrowth) admitGrowth(ctx context.Context, w *pass, facts *plan.GrowthFacts) error {
	m, err := e.observeCase(ctx, w.p)
	if err != nil {
		return err
	}
	w.preflight.refusals, w.preflight.imageLimitWarning, w.promotion.recipe = m.preflight.refusals, m.preflight.imageLimitWarning, m.promotion.recipe
	w.preflight.activeCaptures, w.preflight.kured, w.preflight.removals, w.preflight.awaitsReplacement = m.preflight.activeCaptures, m.preflight.kured, m.preflight.removals, m.preflight.awaitsReplacement
	facts.Refused, facts.Queued = m.facts.Refused, m.facts.Queued
	w.facts.Refused = m.facts.Refused
	return nil
}

// observeCase observes a capture that has not begun. If the pool has yet to grow by the donor, a node of the pool is
// observed in its place.
func (e poolGrowth) observeCase(ctx context.Context, p *v1alpha1.Prototype) (*pass, error) {
	if !p.Spec.AwaitsDonor() {
		return e.observeAsNew(ctx, p)
	}
	like, err := e.youngestNode(ctx, cloud.PoolID(p.Spec.PoolID))
	if err != nil {
		return nil, err
	}
	p = p.DeepCopy()
	if like == nil {
		w := fromPrototype(p, v1alpha1.Record{})
		w.preflight.refusals = []cloud.Refusal{cloud.Refuse(admission.NodeNotFound, fmt.Sprintf("pool %s has no Ready node, so Kamino cannot check the pool before the growth", p.Spec.Pool),
			"wait until a node of the pool is Ready")}
		w.facts.Refused = true
		return w, nil
	}
	p.Spec.Donor = v1alpha1.Donor{NodeName: like.Name, ProviderID: like.Spec.ProviderID}
	return e.observeAsNew(ctx, p)
}

// observeAsNew observes a capture without a record. With an error, the result is not nil if only the admission is incomplete.
func (e poolGrowth) observeAsNew(ctx context.Context, p *v1alpha1.Prototype) (*pass, error) {
	w := fromPrototype(p, v1alpha1.Record{})
	if err := e.look(ctx, w); err != nil {
		return nil, err
	}
	return w, e.lookPreflight(ctx, w)
}

// youngestNode returns the youngest Ready node of the pool; nil without such a node.
func (e poolGrowth) youngestNode(ctx context.Context, pool cloud.PoolID) (youngest *corev1.Node, err error) {
	err = membership.Each(ctx, e.Kube, e.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool == pool && nodestate.Ready(n) && (youngest == nil || youngest.CreationTimestamp.Before(&n.CreationTimestamp)) {
			youngest = n.DeepCopy()
		}
		return nil
	})
	return youngest, err
}

// readGrowth reads the size of the pool, and then the new Node or, without a Node at the end, the new instance.
func (d replacements) readGrowth(ctx context.Context, w *pass, facts *plan.GrowthFacts) error {
	growth := w.removalRecord()
	if err := d.readRemovedInstance(ctx, w, facts); err != nil || facts.Instance == plan.InstanceRemoved {
		return err
	}
	pool, err := d.Cloud.Pool(ctx, w.pool)
	if cloud.Is(err, cloud.NotFound) && (facts.Failed || facts.Deleting) {
		return confirmPoolGone(ctx, d.Engine, w) // with the pool, its instances are gone
	}
	if err != nil {
		return err
	}
	w.promotion.recipe, w.donor.capacity = pool, pool.Capacity
	facts.Grown = pool.Capacity >= growth.Target
	facts.Overdue = growth.DecidedAt != nil && d.now().Sub(growth.DecidedAt.Time) > w.p.Spec.Settings.Defaulted().OutOfService.ReadyTimeout.Duration
	if !facts.Grown {
		return nil
	}
	if w.donor.node, err = d.findNewNode(ctx, w, isUnreserved); err != nil {
		return err
	}
	facts.Registered = w.donor.node != nil
	if facts.Registered || growth.Instance != "" || !facts.Failed && !facts.Deleting {
		return nil
	}
	added, err := d.unregistered(ctx, w, growth.Unregistered)
	if err == nil && len(added) > 0 {
		w.id, facts.Instance = cloud.InstanceID(added[0]), plan.InstancePresent
	}
	return err
}

// readRemovedInstance reads whether the recorded removal of the new instance is complete.
func (d replacements) readRemovedInstance(ctx context.Context, w *pass, facts *plan.GrowthFacts) error {
	id := w.removalRecord().Instance
	if id == "" {
		return nil
	}
	facts.Instance = plan.InstanceRemoving
	_, err := d.Cloud.Instance(ctx, cloud.InstanceID(id))
	if !cloud.Is(err, cloud.NotFound) {
		return err
	}
	list, err := inPoolList(ctx, d.Cloud, w.pool, cloud.InstanceID(id))
	switch {
	case err != nil:
		return err
	case list == plan.ListMissing:
		if err := confirmPoolGone(ctx, d.Engine, w); err != nil {
			return err
		}
	case plan.DoubtOf(plan.Absence{List: list, Requested: true}) != plan.NoDoubt:
		return nil // the removal is requested again
	}
	facts.Instance = plan.InstanceRemoved
	return nil
}

// isUnreserved reports whether a new node can be the donor. The node need not be Ready.
func isUnreserved(n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && n.Annotations[v1alpha1.ReservationAnnotation] == ""
}

// unregistered returns the pool's instances without a Node, the youngest first, except the known instances.
func (d replacements) unregistered(ctx context.Context, w *pass, known []string) (ids []string, err error) {
	instances, err := d.Cloud.Instances(ctx, w.pool)
	if err != nil {
		return nil, err
	}
	has := func(id cloud.InstanceID) {
		instances = slices.DeleteFunc(instances, func(i cloud.Instance) bool { return d.Cloud.SameInstance(i.ID, id) })
	}
	for _, id := range known {
		has(cloud.InstanceID(id))
	}
	err = membership.Each(ctx, d.Kube, d.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool == w.pool {
			has(cloud.InstanceID(n.Spec.ProviderID))
		}
		return nil
	})
	slices.SortStableFunc(instances, func(a, b cloud.Instance) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, i := range instances {
		if i.ID != "" && !i.Removing {
			ids = append(ids, string(i.ID))
		}
	}
	return ids, err
}

func (e poolGrowth) actOnGrowth(ctx context.Context, w *pass, action plan.Action) error {
	switch action {
	case plan.Enlarge:
		if err := e.begin(ctx, w.p); err != nil {
			return err
		}
		return replacements(e).enlarge(ctx, w)
	case plan.Bind:
		return replacements(e).bind(ctx, w)
	case plan.Remove:
		return replacements(e).removeUnregistered(ctx, w)
	case plan.Refuse, plan.Fail, plan.Close:
		return nil // status only
	default:
		return errors.New("no such action: " + string(action))
	}
}

// bind records the new node as the donor, with its reservation, and then names it in the specification. The Lease, the
// reservation on the Node and the cordon follow at once, before the first pods. A later pass repeats a lost write.
func (d replacements) bind(ctx context.Context, w *pass) error {
	id := cloud.InstanceID(w.donor.node.Spec.ProviderID)
	instance, err := d.Cloud.Instance(ctx, id)
	if err != nil {
		return err
	}
	w.donor.instance = instance
	w.donor.instance.BuiltFrom = d.Cloud.BuiltFrom(w.pool, instance)
	replacement := w.removalRecord()
	replacement.Unregistered, replacement.Instance = nil, ""
	holder := v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: w.p.Name, UID: w.p.UID}
	reservation := node.NewReservation(holder, w.donor.node, "", metav1.NewTime(d.now()))
	reservation.Replacement = &replacement
	remember := w.remember(&reservation)
	err = d.record(ctx, w, func(r *v1alpha1.Record) {
		remember(r)
		r.Donor = &v1alpha1.Donor{NodeName: w.donor.node.Name, ProviderID: w.donor.node.Spec.ProviderID}
	})
	if err != nil {
		return err
	}
	if err := poolGrowth(d).nameDonor(ctx, w); err != nil {
		return err
	}
	reserved, err := d.reservations().Note(ctx, w.donor.node, reservation)
	if err != nil {
		return err
	}
	return node.Cordon(ctx, d.Kube, reserved)
}

// removeUnregistered removes the new instance, which has no Node. The record precedes the removal.
func (d replacements) removeUnregistered(ctx context.Context, w *pass) error {
	id := w.removalRecord().Instance
	if id == "" {
		return d.recordReplacement(ctx, w, func(to *v1alpha1.DonorReplacement) { to.Instance = string(w.id) })
	}
	_, err := d.Cloud.EnsureRemoved(ctx, cloud.InstanceID(id))
	return err
}
