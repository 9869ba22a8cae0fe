package capture

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// The growth of a pool by a pioneer, until the Prototype names the new node as its donor. Package plan decides by
// plan.GrowthFacts.

// lacksDonor reports whether the capture has no donor, or one that Kamino has not added although it adds the donor.
func (d leaving) lacksDonor(ctx context.Context, w *pass) (bool, error) {
	if err := d.nameDonor(ctx, w); err != nil {
		return false, err
	}
	foreign, err := d.namesForeignDonor(ctx, w)
	return foreign || w.p.Spec.AwaitsDonor(), err
}

// namesForeignDonor reports whether another client named the donor although Kamino adds the donor. Kamino would remove that
// node. Only the record, or the Lease of a capture whose record is lost, names the donor that Kamino has added.
func (d leaving) namesForeignDonor(ctx context.Context, seen *pass) (bool, error) {
	p, record := seen.p, seen.record
	if !p.Spec.AddsDonor() || p.Spec.AwaitsDonor() || record.Donor != nil || p.Status.Terminal() {
		return false, nil
	}
	w := seen.unseen(record)
	if err := d.donors.readNamed(ctx, w); err != nil {
		return false, err
	}
	lease, err := d.locks.ownLease(ctx, w)
	return lease == nil || lease.Replacement == nil || !lease.Replacement.Added, err
}

// nameDonor makes the recorded donor the donor of the Prototype: in the object as read, and in the API server while the
// Prototype names none.
func (d leaving) nameDonor(ctx context.Context, w *pass) error {
	p, record := w.p, w.record
	if record.Donor == nil || !p.Spec.AddsDonor() || p.Spec.Donor == *record.Donor {
		return nil
	}
	before, awaits := p.DeepCopy(), p.Spec.AwaitsDonor()
	p.Spec.Donor, w.id = *record.Donor, cloud.InstanceID(record.Donor.ProviderID)
	if !awaits { // another client named a donor meanwhile
		return nil
	}
	if err := d.store.patch(ctx, p, before); err != nil {
		p.Spec.Donor = before.Spec.Donor
		return err
	}
	return nil
}

// readGrowth reads the size of the pool, and then the new Node or, without a Node at the end, the new instance.
func (d leaving) readGrowth(ctx context.Context, w *pass) error {
	facts := &w.facts.Growth
	growth := w.removalRecord()
	if err := d.readRemovedInstance(ctx, w); err != nil || facts.Instance == plan.InstanceRemoved {
		return err
	}
	pool, err := d.cloud.Pool(ctx, w.pool)
	if cloud.Is(err, cloud.NotFound) && w.ends() {
		return d.witness.confirmPoolGone(ctx, w) // with the pool, its instances are gone
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
	if facts.Registered || growth.Instance != "" || !w.ends() {
		return nil
	}
	added, err := d.unregistered(ctx, w, growth.Unregistered)
	if err == nil && len(added) > 0 {
		w.id, facts.Instance = cloud.InstanceID(added[0]), plan.InstancePresent
	}
	return err
}

// readRemovedInstance reads whether the recorded removal of the new instance is complete.
func (d leaving) readRemovedInstance(ctx context.Context, w *pass) error {
	facts := &w.facts.Growth
	id := w.removalRecord().Instance
	if id == "" {
		return nil
	}
	facts.Instance = plan.InstanceRemoving
	_, err := d.cloud.Instance(ctx, cloud.InstanceID(id))
	if !cloud.Is(err, cloud.NotFound) {
		return err
	}
	list, err := inPoolList(ctx, d.cloud, w.pool, cloud.InstanceID(id))
	switch {
	case err != nil:
		return err
	case list == plan.ListMissing:
		if err := d.witness.confirmPoolGone(ctx, w); err != nil {
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
func (d leaving) unregistered(ctx context.Context, w *pass, known []string) (ids []string, err error) {
	instances, err := d.cloud.Instances(ctx, w.pool)
	if err != nil {
		return nil, err
	}
	has := func(id cloud.InstanceID) {
		instances = slices.DeleteFunc(instances, func(i cloud.Instance) bool { return d.cloud.SameInstance(i.ID, id) })
	}
	for _, id := range known {
		has(cloud.InstanceID(id))
	}
	err = membership.Each(ctx, d.kube, d.cloud, "", func(n *corev1.Node, of cloud.Membership) error {
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

// bind records the new node as the donor, with its reservation, and then names it in the specification. The Lease, the
// reservation on the Node and the cordon follow at once, before the first pods. A later pass repeats a lost write.
func (d leaving) bind(ctx context.Context, w *pass) error {
	id := cloud.InstanceID(w.donor.node.Spec.ProviderID)
	instance, err := d.cloud.Instance(ctx, id)
	if err != nil {
		return err
	}
	w.donor.instance = instance
	w.donor.instance.BuiltFrom = d.cloud.BuiltFrom(w.pool, instance)
	replacement := w.removalRecord()
	replacement.Unregistered, replacement.Instance = nil, ""
	reservation := node.NewReservation(holderOf(w.p), w.donor.node, "", metav1.NewTime(d.now()))
	reservation.Replacement = &replacement
	remember := w.remember(&reservation)
	err = d.store.record(ctx, w, func(r *v1alpha1.Record) {
		remember(r)
		r.Donor = &v1alpha1.Donor{NodeName: w.donor.node.Name, ProviderID: w.donor.node.Spec.ProviderID}
	})
	if err != nil {
		return err
	}
	if err := d.nameDonor(ctx, w); err != nil {
		return err
	}
	reserved, err := d.leases.Note(ctx, w.donor.node, reservation)
	if err != nil {
		return err
	}
	return node.Cordon(ctx, d.kube, reserved)
}

// removeUnregistered removes the new instance, which has no Node. The record precedes the removal.
func (d leaving) removeUnregistered(ctx context.Context, w *pass) error {
	id := w.removalRecord().Instance
	if id == "" {
		return d.recordReplacement(ctx, w, func(to *v1alpha1.DonorReplacement) { to.Instance = string(w.id) })
	}
	_, err := d.cloud.EnsureRemoved(ctx, cloud.InstanceID(id))
	return err
}
