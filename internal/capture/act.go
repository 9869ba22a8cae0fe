package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/node"
)

// act performs the decision.
func (e *Engine) act(ctx context.Context, w *pass, d plan.Decision) error {
	eventRecorder{e}.announce(w, d)
	performed, known := actions[d.Do]
	switch {
	case !known:
		return fmt.Errorf("no such action: %s", d.Do)
	case performed.run == nil:
		return nil
	}
	if err := (donorReservation{e}).permit(ctx, w, d.Do); err != nil {
		return err
	}
	return performed.run(ctx, e, w)
}

// createGeneralizePod creates the pod that generalizes the donor, and records its UID.
func (d pods) createGeneralizePod(ctx context.Context, w *pass) error {
	if err := d.mayGeneralize(w); err != nil {
		return err
	}
	made, err := d.makePod(ctx, generalizePod(w.p, w.record, podNamespaceOf(w, d.podNamespace()), d.Image))
	if err != nil || made == nil {
		return err // the next pass adopts a pod that exists
	}
	w.disk.pod = made
	return d.adopt(ctx, w)
}

// makePod returns the created pod; nil if a pod of the name exists.
func (d pods) makePod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	made, err := d.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return made, nil
}

// adopt records the UID of the pod. Reports of other pods are ignored.
func (d pods) adopt(ctx context.Context, w *pass) error {
	return d.record(ctx, w, func(r *v1alpha1.Record) {
		order := *r.Order
		order.Pod = w.disk.pod.UID
		r.Order = &order
	})
}

// begin writes the finalizer, before anything else of the capture: a deleted Prototype must keep the donor's release.
func (e *Engine) begin(ctx context.Context, p *v1alpha1.Prototype) error {
	before := p.DeepCopy()
	if !controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer) {
		return nil
	}
	return e.patch(ctx, p, before)
}

// mark writes that the capture has a record, so that later processes see the loss of the record.
func mark(ctx context.Context, e *Engine, p *v1alpha1.Prototype) error {
	if isMarked(p) {
		return nil
	}
	before := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.BegunAnnotation, string(p.UID))
	return e.patch(ctx, p, before)
}

// isMarked reports whether a capture of this very object has begun.
func isMarked(p *v1alpha1.Prototype) bool {
	return p.UID != "" && p.Annotations[v1alpha1.BegunAnnotation] == string(p.UID)
}

// reserve writes the finalizer, then the Lease, the Node and the record, and ends the inspection. A deleted Prototype must keep the
// donor's release, and other captures must see the held donor.
func (h donorReservation) reserve(ctx context.Context, w *pass) error {
	if err := h.begin(ctx, w.p); err != nil {
		return err
	}
	reservation := node.NewReservation(v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: w.p.Name, UID: w.p.UID}, w.donor.node, w.donor.protection.Token, metav1.NewTime(h.now()))
	if w.facts.Leaving.Replaced {
		reservation.Replacement = &v1alpha1.DonorReplacement{GrowFirst: w.facts.Leaving.GrowFirst, Added: w.facts.Leaving.Added}
	}
	written, err := h.reservations().Reserve(ctx, w.donor.node, reservation)
	if err != nil {
		return err
	}
	w.donor.node = written
	remember := w.remember(&reservation)
	if w.disk.pod != nil { // the inspection is complete, and the generalize pod needs the name
		if err := pods(h).deletePodAndKey(ctx, w); err != nil {
			return err
		}
		remember = func(r *v1alpha1.Record) {
			w.remember(&reservation)(r)
			r.DiskCheckStartedAt = nil
		}
	}
	return h.record(ctx, w, remember)
}

// forget drops the Lease, and then the reservation in the record. The Lease of a donor whose instance is gone stays with its
// Node.
func (h donorReservation) forget(ctx context.Context, w *pass) error {
	if keepsLease(w) {
		if err := h.renewLease(ctx, w); err != nil {
			return err
		}
		return h.record(ctx, w, func(r *v1alpha1.Record) { r.Reservation, r.DonorGone = nil, true })
	}
	if err := h.reservations().DropOf(ctx, w.p.UID); err != nil {
		return err
	}
	return h.record(ctx, w, func(r *v1alpha1.Record) { r.Reservation = nil })
}

// remember records the reservation, the image of the donor, and the image in the recipe before the capture. The
// instance may be gone when its image is published.
func (w *pass) remember(reservation *v1alpha1.Reservation) func(*v1alpha1.Record) {
	return func(r *v1alpha1.Record) {
		r.Reservation, r.BuiltFrom = reservation, w.donor.instance.BuiltFrom
		if reservation != nil {
			r.Replacement = reservation.Replacement
		}
		if image := w.promotion.recipe.Recipe.Image; image != "" {
			r.Recipe = image
		}
	}
}

// record changes the Prototype's record, before the effect that the record allows.
func (e *Engine) record(ctx context.Context, w *pass, change func(*v1alpha1.Record)) error {
	record := w.record
	change(&record)
	if w.isOrphan { // without a Prototype, the reservation is the record
		_, err := e.reservations().Note(ctx, w.donor.node, *record.Reservation)
		return err
	}
	record.UID = w.p.UID
	if err := e.commit(ctx, w, func(s *v1alpha1.PrototypeStatus) { s.Record = &record }); err != nil {
		return err
	}
	w.record = record
	return mark(ctx, e, w.p)
}

// errOutdatedDefinition is returned if the API server drops a field that Kamino relies on.
var errOutdatedDefinition = errors.New("the definition of prototypes is older than this version of Kamino: run `" + v1alpha1.DefinitionsCommand + "`")

// commit writes the status with a change on which effects depend. The resource version guards the write: a second process that
// runs the same Prototype gets a conflict.
func (e *Engine) commit(ctx context.Context, w *pass, change func(*v1alpha1.PrototypeStatus)) error {
	before := w.p.Status.DeepCopy()
	change(&w.p.Status)
	if err := e.writeStatus(ctx, w); err != nil {
		w.p.Status = *before
		return err
	}
	return nil
}

// patch writes the differences from before, unless the object has changed meanwhile. The status is kept for the write
// at the end of the pass.
func (e *Engine) patch(ctx context.Context, p, before *v1alpha1.Prototype) error {
	status := p.Status.DeepCopy()
	err := e.Client.Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	p.Status = *status
	if err != nil {
		return fmt.Errorf("write prototype %s: %w", p.Name, err)
	}
	return nil
}

// deletePod deletes the pod. The record of an inspection ends with its pod.
func (d pods) deletePod(ctx context.Context, w *pass) error {
	if err := d.deletePodAndKey(ctx, w); err != nil || w.isOrphan || w.record.DiskCheckStartedAt == nil {
		return err
	}
	return d.record(ctx, w, func(r *v1alpha1.Record) { r.DiskCheckStartedAt = nil })
}

// deletePodAndKey deletes the pod, and first the key that only inspecting pods of a comparison have.
func (d pods) deletePodAndKey(ctx context.Context, w *pass) error {
	if hasSummaryKey(w.disk.pod) {
		if err := d.deleteSummaryKey(ctx, w.p, w.disk.pod.Namespace); err != nil {
			return err
		}
	}
	return d.deleteOnlyPod(ctx, w)
}

// deleteOnlyPod removes the pod without grace period: a stopped kubelet could not confirm.
func (d pods) deleteOnlyPod(ctx context.Context, w *pass) error {
	now := int64(0)
	err := d.Kube.CoreV1().Pods(w.disk.pod.Namespace).Delete(ctx, w.disk.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.disk.pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", w.disk.pod.Namespace, w.disk.pod.Name, err)
	}
	return nil
}

// tags of a snapshot or an image version: the Prototype, the donor, the donor's own image version, and the proof.
func (w *pass) tags() map[string]string {
	tags := map[string]string{
		cloud.TagBuiltFrom: w.p.Spec.Donor.NodeName,
		cloud.TagPrototype: w.p.Name,
		cloud.TagUID:       string(w.p.UID),
		cloud.TagProof:     w.disk.proof.Tag(),
		cloud.TagVerified:  w.disk.proof.Verified().Tag(),
	}
	if w.disk.proof.ContentsDigest != "" {
		tags[cloud.TagContents] = w.disk.proof.ContentsDigest
	}
	if w.record.BuiltFrom != "" {
		tags[cloud.TagLineage] = w.record.BuiltFrom
	}
	w.addSoftwareTags(tags)
	return tags
}

// imageSpec returns the image version to create from the snapshot.
func (w *pass) imageSpec(now time.Time) cloud.ImageSpec {
	tags := w.tags()
	tags[cloud.TagBuiltAt] = history.BuiltAtTag(w.disk.proof.At.Time, now)
	return cloud.ImageSpec{ImageRef: w.ref(), SnapshotID: w.image.snapshot.ID, Tags: tags, Replicas: w.p.Spec.Settings.Replicas(), InitializationRate: w.p.Spec.Settings.InitializationRate()}
}
