package capture

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// lookCopy reads a snapshot in progress before the instance, because the donor's power is irrelevant until the snapshot
// is complete. The phase only suggests a snapshot in progress; the cloud must confirm.
func (a artifacts) lookCopy(ctx context.Context, w *observed) error {
	f := &w.facts
	if w.p.Status.Phase != v1alpha1.PhaseSnapshotting || !w.isHeld() || !f.Touched || f.Returning || f.Failed || f.Deleting {
		return nil
	}
	snapshot, err := a.Cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.snapshot = snapshot
	w.isCopying = snapshot.State == cloud.Pending && (!snapshot.Taken || mustBeRemoved(w)) && snapshot.Tags[cloud.TagUID] == string(w.p.UID)
	return nil
}

// lookArtifacts reads the snapshot and the image. Neither can exist while the pod works, and no image while the donor is held. Both
// are read also without a proof: after the loss of a proof, its artifacts must still be found.
func (a artifacts) lookArtifacts(ctx context.Context, w *observed) error {
	f := &w.facts
	if !f.Unrecorded && (!f.Touched || w.isDiskInUse()) {
		a.lookOutrun(ctx, w)
		return nil
	}
	if w.isHeld() && (f.Returning || w.isRemoving()) {
		// The return of the donor does not depend on the snapshot, and precedes all other steps.
		f.Snapshot = plan.Complete
		return nil
	}
	if w.isPoweringOff() {
		return nil
	}
	if !w.isHeld() {
		if suffices, err := a.lookImage(ctx, w); err != nil {
			return err
		} else if suffices {
			return endConfirm(ctx, a.Engine, w, versionObject)
		}
	}
	if !w.isCopying {
		snapshot, err := a.snapshotOf(ctx, w)
		if err != nil {
			return err
		}
		w.snapshot = snapshot
	}
	f.Snapshot = snapshotOf(w)
	return a.confirmLost(ctx, w)
}

// lookOutrun looks for a complete version of a capture that has lost its donor before any copy, as far as the record says: the
// record of a restored etcd is older than the cloud. The version is only reported, so an error does not matter.
func (a artifacts) lookOutrun(ctx context.Context, w *observed) {
	f := w.p.Status.Failure
	if f == nil || w.isHeld() || w.isOrphan || w.p.Status.Image != nil || !slices.Contains([]string{string(plan.DonorGone), string(plan.ReservationLost)}, f.Reason) {
		return
	}
	image, err := a.Cloud.Image(ctx, w.ref())
	if err == nil && image.State == cloud.Complete && image.Tags[cloud.TagUID] == string(w.p.UID) {
		w.image, w.facts.Image = image, plan.Complete
	}
}

// lookImage reads the image. suffices is true if the snapshot is known, or irrelevant. An image is made from a complete
// snapshot only, so an incomplete snapshot is read first.
func (a artifacts) lookImage(ctx context.Context, w *observed) (suffices bool, err error) {
	f := &w.facts
	if awaitsSnapshot(w) {
		if w.snapshot, err = a.snapshotOf(ctx, w); err != nil {
			return false, err
		}
		if w.snapshot.State == cloud.Pending {
			f.Snapshot = snapshotOf(w)
			return true, nil
		}
	}
	if w.image, err = a.imageOf(ctx, w); err != nil {
		return false, err
	}
	f.Image = w.artifact(w.image.State, w.image.Tags)
	f.Quarantined = w.image.Tags[cloud.TagQuarantined] != ""
	if f.Image == plan.Pending && !f.Failed && !f.Deleting {
		return true, nil // an incomplete image is the only relevant fact
	}
	if isTried(w) {
		f.Snapshot = plan.Deleting // as at the start of the attempt; Kamino reads again before the capture ends
		return true, nil
	}
	return false, nil
}

// awaitsSnapshot reports whether the last pass has published nothing, because the snapshot was incomplete.
func awaitsSnapshot(w *observed) bool {
	s := &w.p.Status
	return !w.isHeld() && s.Phase == v1alpha1.PhasePublishing && s.Image == nil && !w.facts.Failed && !w.facts.Deleting
}

// imageOf returns the image version. While the capture only awaits the snapshot's deletion, an earlier read suffices.
func (a artifacts) imageOf(ctx context.Context, w *observed) (cloud.Image, error) {
	if w.reads != nil && w.reads.image != nil {
		return *w.reads.image, nil
	}
	return a.Cloud.Image(ctx, w.ref())
}

// snapshotOf returns the snapshot. While the cloud prepares the image version, an earlier read suffices.
func (a artifacts) snapshotOf(ctx context.Context, w *observed) (cloud.Snapshot, error) {
	switch {
	case w.reads == nil:
	case w.reads.snapshot != nil:
		return *w.reads.snapshot, nil
	case w.reads.image != nil:
		ctx = cloud.WithReadCache(ctx)
	}
	return a.Cloud.Snapshot(ctx, w.id, w.p.Name)
}

// isTried reports whether an attempt at a trial is open. Attempts begin only after the start of the snapshot's
// deletion.
func isTried(w *observed) bool {
	f := &w.facts
	return w.record.Trial != nil && w.record.Trial.Name != "" && f.Image == plan.Complete && !f.Failed && !f.Deleting
}

func snapshotOf(w *observed) plan.Artifact {
	is := w.artifact(w.snapshot.State, w.snapshot.Tags)
	if is == plan.Pending && w.snapshot.Taken {
		return plan.Taken
	}
	return is
}

// isDiskInUse reports whether the pod is generalizing the donor's disk, so that no copy can exist.
func (w *observed) isDiskInUse() bool {
	f := &w.facts
	return !w.isOrphan && w.isHeld() && !f.Failed && !f.Deleting && f.Power == plan.On && w.isPodWorking()
}

// isPoweringOff reports whether the donor is still powering off after its proof, so that no copy can exist. True for at
// most powerOffGrace.
func (w *observed) isPoweringOff() bool {
	f := &w.facts
	return w.isHeld() && f.PoweringOff && !f.Returning && !f.Failed && !f.Deleting && (f.Power == plan.On || f.Power == plan.Changing)
}

func (w *observed) ref() cloud.ImageRef {
	return cloud.ImageRef{Pool: w.pool, Version: w.p.Spec.Version}
}

// artifact compares the UID in the tags with this Prototype. An artifact with another proof is removed, but never used.
func (w *observed) artifact(state cloud.State, tags map[string]string) plan.Artifact {
	switch {
	case state == cloud.Absent:
		return plan.Absent
	case tags[cloud.TagUID] != string(w.p.UID):
		return plan.Foreign
	}
	if !w.facts.Unrecorded && !w.isOrphan && (w.proof == nil || tags[cloud.TagProof] != w.proof.Tag()) {
		w.facts.ProofLost = true
	}
	switch state {
	case cloud.Complete:
		return plan.Complete
	case cloud.Failed:
		return plan.Broken
	case cloud.Deleting:
		return plan.Deleting
	case cloud.Pending, cloud.Absent:
	}
	return plan.Pending
}

// lookOrphanSnapshot reads the snapshot of a capture without a Prototype.
func (a artifacts) lookOrphanSnapshot(ctx context.Context, w *observed) error {
	snapshot, err := a.Cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.snapshot = snapshot
	w.facts.Snapshot = snapshotOf(w)
	return nil
}
