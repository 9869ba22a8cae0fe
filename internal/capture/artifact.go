package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// lookCopy looks at the snapshot while it is being made, before the instance: until it is complete nothing is decided
// on the donor's power. That it is being made is the status's word, which is only believed if the cloud says so too.
func (a artifacts) lookCopy(ctx context.Context, w *observed) error {
	f := &w.facts
	if w.p.Status.Phase != v1alpha1.PhaseSnapshotting || !w.held() || !f.Touched || f.Returning || f.Failed || f.Deleting {
		return nil
	}
	snapshot, err := a.Cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.snapshot = snapshot
	w.copying = snapshot.State == cloud.Pending && (!snapshot.Taken || leaves(w)) && snapshot.Tags[cloud.TagUID] == string(w.p.UID)
	return nil
}

// lookArtifacts reads the snapshot and the image. Neither can exist while the pod is at work, and no image is
// made while the donor is held. Both are looked for whether or not there is a proof: one that somebody removed
// must not hide what was made by it.
func (a artifacts) lookArtifacts(ctx context.Context, w *observed) error {
	f := &w.facts
	if !f.Unrecorded && (!f.Touched || w.atWork()) {
		return nil
	}
	if w.held() && (f.Returning || w.removing()) {
		// The way back does not depend on it, and nothing else is done before the donor is back.
		f.Snapshot = plan.Complete
		return nil
	}
	if w.goingOff() {
		return nil
	}
	if !w.held() {
		image, err := a.imageOf(ctx, w)
		if err != nil {
			return err
		}
		w.image = image
		f.Image = w.artifact(image.State, image.Tags)
		f.Quarantined = image.Tags[cloud.TagQuarantined] != ""
		if f.Image == plan.Pending && !f.Failed && !f.Deleting {
			return nil // until it is complete nothing else matters
		}
		if isTried(w) {
			f.Snapshot = plan.Deleting // as when the attempt was begun; Kamino looks again before the capture ends
			return nil
		}
	}
	if !w.copying {
		snapshot, err := a.snapshotOf(ctx, w)
		if err != nil {
			return err
		}
		w.snapshot = snapshot
	}
	f.Snapshot = snapshotOf(w)
	return nil
}

// imageOf is the version, as an earlier pass has read it where the capture only waits for the snapshot to go.
func (a artifacts) imageOf(ctx context.Context, w *observed) (cloud.Image, error) {
	if w.reads != nil && w.reads.image != nil {
		return *w.reads.image, nil
	}
	return a.Cloud.Image(ctx, w.ref())
}

// snapshotOf is the snapshot, as an earlier pass has read it where what the version needs is being made.
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

// isTried reports whether an attempt at a trial is open, which begins only once the snapshot is on its way out.
func isTried(w *observed) bool {
	f := &w.facts
	return w.record.Trial != nil && w.record.Trial.Name != "" && f.Image == plan.Complete && !f.Failed && !f.Deleting
}

// snapshotOf is what the donor's snapshot is to the capture.
func snapshotOf(w *observed) plan.Artifact {
	is := w.artifact(w.snapshot.State, w.snapshot.Tags)
	if is == plan.Pending && w.snapshot.Taken {
		return plan.Taken
	}
	return is
}

// atWork tells that the donor's disk is being generalized, so that there is no copy of it.
func (w *observed) atWork() bool {
	f := &w.facts
	return !w.orphan && w.held() && !f.Failed && !f.Deleting && f.Power == plan.On && w.generalizing()
}

// goingOff tells that the donor is still powering itself off behind its proof, so that nobody has copied its disk yet.
// It holds for half a minute at most.
func (w *observed) goingOff() bool {
	f := &w.facts
	return w.held() && f.PoweringOff && !f.Returning && !f.Failed && !f.Deleting && (f.Power == plan.On || f.Power == plan.Changing)
}

func (w *observed) ref() cloud.ImageRef {
	return cloud.ImageRef{Pool: w.pool, Version: w.p.Spec.Version}
}

// artifact is ours if its tags say that it belongs to this Prototype. One that does not carry the proof that the
// Prototype carries is still ours to remove, and not to be used.
func (w *observed) artifact(state cloud.State, tags map[string]string) plan.Artifact {
	switch {
	case state == cloud.Absent:
		return plan.Absent
	case tags[cloud.TagUID] != string(w.p.UID):
		return plan.Foreign
	}
	if !w.facts.Unrecorded && !w.orphan && (w.proof == nil || tags[cloud.TagProof] != w.proof.Tag()) {
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

// lookOrphanSnapshot looks at the snapshot of a capture whose Prototype is gone.
func (a artifacts) lookOrphanSnapshot(ctx context.Context, w *observed) error {
	snapshot, err := a.Cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.snapshot = snapshot
	w.facts.Snapshot = snapshotOf(w)
	return nil
}
