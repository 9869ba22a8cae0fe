package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
)

// store keeps record and report of a capture on its Prototype; without a Prototype, on the Lease.
type store struct {
	client client.Client
	leases node.Reservations
}

// errOutdatedDefinition is returned if the API server drops a field that Kamino relies on.
var errOutdatedDefinition = errors.New("the definition of prototypes is older than this version of Kamino: run `" + v1alpha1.DefinitionsCommand + "`")

// begin writes the finalizer, before anything else of the capture: a deleted Prototype must keep the donor's release.
func (s store) begin(ctx context.Context, p *v1alpha1.Prototype) error {
	before := p.DeepCopy()
	if !controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer) {
		return nil
	}
	return s.patch(ctx, p, before)
}

// mark writes that the capture has a record, so that later processes see the loss of the record.
func (s store) mark(ctx context.Context, p *v1alpha1.Prototype) error {
	if isMarked(p) {
		return nil
	}
	before := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.BegunAnnotation, string(p.UID))
	return s.patch(ctx, p, before)
}

// record changes the Prototype's record, before the effect that the record allows.
func (s store) record(ctx context.Context, w *pass, change func(*v1alpha1.Record)) error {
	record := w.record
	change(&record)
	if w.isOrphan { // without a Prototype, the reservation is the record
		_, err := s.leases.Note(ctx, w.donor.node, *record.Reservation)
		return err
	}
	if record.UID = w.p.UID; w.p.Status.Record == nil {
		record.TrialMode = cmp.Or(w.p.Spec.Settings.Trial.Mode, v1alpha1.DefaultTrialMode)
	}
	if err := s.commit(ctx, w, func(to *v1alpha1.PrototypeStatus) { to.Record = &record }); err != nil {
		return err
	}
	w.record = record
	return s.mark(ctx, w.p)
}

// commit writes the status with a change on which effects depend. The resource version guards the write: a second process that
// runs the same Prototype gets a conflict.
func (s store) commit(ctx context.Context, w *pass, change func(*v1alpha1.PrototypeStatus)) error {
	before := w.p.Status.DeepCopy()
	change(&w.p.Status)
	if err := s.writeStatus(ctx, w); err != nil {
		w.p.Status = *before
		return err
	}
	return nil
}

// patch writes the differences from before, unless the object has changed meanwhile. The status is kept for the write
// at the end of the pass.
func (s store) patch(ctx context.Context, p, before *v1alpha1.Prototype) error {
	status := p.Status.DeepCopy()
	err := s.client.Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	p.Status = *status
	if err != nil {
		return fmt.Errorf("write prototype %s: %w", p.Name, err)
	}
	return nil
}

// writeStatus writes record and report in one write, if the pass changed them. The resource version guards the write. The patch is
// made from the statuses alone, which are the smaller part of the object.
func (s store) writeStatus(ctx context.Context, w *pass) error {
	p := w.p
	if equality.Semantic.DeepEqual(*w.written, p.Status) {
		return nil
	}
	wanted := p.Status.DeepCopy()
	from, to := &v1alpha1.Prototype{Status: *w.written}, &v1alpha1.Prototype{Status: *wanted}
	from.ResourceVersion, to.ResourceVersion = p.ResourceVersion, p.ResourceVersion
	difference, err := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}).Data(to)
	if err != nil {
		return fmt.Errorf("compare the status of prototype %s: %w", p.Name, err)
	}
	err = s.client.Status().Patch(ctx, p, client.RawPatch(types.MergePatchType, difference))
	if err == nil && (wanted.Record != nil && p.Status.Record == nil || wanted.Proof != nil && p.Status.Proof == nil) {
		err = errOutdatedDefinition
	}
	p.Status = *wanted
	if err != nil {
		return fmt.Errorf("write the status of prototype %s: %w", p.Name, err)
	}
	w.written = wanted.DeepCopy()
	return nil
}
