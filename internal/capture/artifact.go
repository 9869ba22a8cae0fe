package capture

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// lookArtifacts reads the snapshot and the image, also without a proof: after the loss of a proof, its artifacts must still be
// found. The image follows the release of the donor. While the donor returns, or is removed, neither matters.
func (a artifacts) lookArtifacts(ctx context.Context, w *pass) error {
	f := &w.facts
	if !f.Unrecorded && !f.Disk.Touched {
		a.lookOutrun(ctx, w)
		return nil
	}
	if f.LeavesDisk() {
		return nil
	}
	var err error
	if !w.isHeld() {
		if w.image.version, err = a.Cloud.Image(ctx, w.ref()); err != nil {
			return err
		}
		f.Image.Version = w.artifact(w.image.version.State, w.image.version.Tags)
		f.Image.Quarantined = w.image.version.Tags[cloud.TagQuarantined] != ""
	}
	if r := w.record.Trial; r != nil && r.Name != "" && f.Image.Version == plan.Complete && !f.Failed && !f.Deleting {
		return nil // the deletion of the snapshot was requested before the attempt; the end looks again
	}
	if w.image.snapshot, err = a.Cloud.Snapshot(ctx, w.id, w.p.Name); err != nil {
		return err
	}
	f.Image.Snapshot = snapshotOf(w)
	return a.confirmLost(ctx, w)
}

// lookOutrun looks for a complete version of a capture that has lost its donor before any copy, as far as the record says: the
// record of a restored etcd is older than the cloud. The version is only reported, so an error does not matter.
func (a artifacts) lookOutrun(ctx context.Context, w *pass) {
	f := w.p.Status.Failure
	if f == nil || w.isHeld() || w.isOrphan || w.p.Status.Image != nil || !slices.Contains([]string{string(plan.DonorGone), string(plan.ReservationLost)}, f.Reason) {
		return
	}
	image, err := a.Cloud.Image(ctx, w.ref())
	if err == nil && image.State == cloud.Complete && image.Tags[cloud.TagUID] == string(w.p.UID) {
		w.image.version, w.facts.Image.Version = image, plan.Complete
	}
}

func snapshotOf(w *pass) plan.Artifact {
	is := w.artifact(w.image.snapshot.State, w.image.snapshot.Tags)
	if is == plan.Pending && w.image.snapshot.Taken {
		return plan.Taken
	}
	return is
}

func (w *pass) ref() cloud.ImageRef {
	return cloud.ImageRef{Pool: w.pool, Version: w.p.Spec.Version}
}

// artifact compares the UID in the tags with this Prototype. An artifact with another proof is removed, but never used.
func (w *pass) artifact(state cloud.State, tags map[string]string) plan.Artifact {
	switch {
	case state == cloud.Absent:
		return plan.Absent
	case tags[cloud.TagUID] != string(w.p.UID):
		return plan.Foreign
	}
	if !w.facts.Unrecorded && !w.isOrphan && (w.disk.proof == nil || tags[cloud.TagProof] != w.disk.proof.Tag()) {
		w.facts.Disk.ProofLost = true
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
func (a artifacts) lookOrphanSnapshot(ctx context.Context, w *pass) error {
	snapshot, err := a.Cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.image.snapshot = snapshot
	w.facts.Image.Snapshot = snapshotOf(w)
	return nil
}
