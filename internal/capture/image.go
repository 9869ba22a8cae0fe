package capture

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
)

// imageCloud has the calls of a cloud.Provider about snapshots and versions.
type imageCloud interface {
	Snapshot(ctx context.Context, instance cloud.InstanceID, name string) (cloud.Snapshot, error)
	Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error)
	EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error)
	EnsureCopySnapshot(ctx context.Context, spec cloud.CopySpec, snapshot cloud.SnapshotSpec) (cloud.Snapshot, error)
	DeleteSnapshot(ctx context.Context, instance cloud.InstanceID, name string) error
	Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error)
	Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error)
	EnsureImage(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error)
	DeleteImage(ctx context.Context, ref cloud.ImageRef) error
}

// images copies the disk, and makes a version of the copy.
type images struct {
	cloud   imageCloud
	witness witness
	now     clock
}

// lookArtifacts reads the snapshot and the image, also without a proof: after the loss of a proof, its artifacts must still be
// found. The image follows the release of the donor. While the donor returns, or is removed, neither matters.
func (a images) lookArtifacts(ctx context.Context, w *pass) error {
	f := &w.facts
	if !f.Unrecorded && !f.Disk.Touched {
		a.lookOutrun(ctx, w)
		return nil
	}
	if f.LeavesDisk() {
		return nil
	}
	if !w.isHeld() {
		if err := lookVersion(ctx, a, w); err != nil {
			return err
		}
	}
	if r := w.record.Trial; r != nil && r.Name != "" && f.Image.Version == plan.Complete && !f.Failed && !f.Deleting {
		return nil // the deletion of the snapshot was requested before the attempt; the end looks again
	}
	var err error
	if w.image.snapshot, err = a.cloud.Snapshot(ctx, w.id, w.p.Name); err != nil {
		return err
	}
	f.Image.Snapshot = snapshotOf(w)
	if err := a.witness.confirmStarted(ctx, w); err != nil {
		return err
	}
	return a.confirmLost(ctx, w)
}

func lookVersion(ctx context.Context, a images, w *pass) (err error) {
	f := &w.facts
	if w.image.version, err = a.cloud.Image(ctx, w.ref()); err != nil {
		return err
	}
	f.Image.Version = artifact(w, w.image.version.State, w.image.version.Tags)
	f.Image.Quarantined = w.image.version.Tags[cloud.TagQuarantined] != ""
	return nil
}

// lookOutrun looks for a complete version of a capture that has lost its donor before any copy, as far as the record says: the
// record of a restored etcd is older than the cloud. The version is only reported, so an error does not matter.
func (a images) lookOutrun(ctx context.Context, w *pass) {
	f := w.p.Status.Failure
	if f == nil || w.isHeld() || w.isOrphan || w.p.Status.Image != nil ||
		!slices.Contains([]string{string(plan.DonorGone), string(plan.RecordLost)}, f.Reason) {
		return
	}
	image, err := a.cloud.Image(ctx, w.ref())
	if err == nil && image.State == cloud.Complete && image.Tags[cloud.TagUID] == string(w.p.UID) {
		w.image.version, w.facts.Image.Version = image, plan.Complete
	}
}

func snapshotOf(w *pass) plan.Artifact {
	is := artifact(w, w.image.snapshot.State, w.image.snapshot.Tags)
	if is == plan.Pending && w.image.snapshot.Taken {
		return plan.Taken
	}
	return is
}

// artifact compares the UID in the tags with this Prototype. An artifact with another proof is removed, but never used.
func artifact(w *pass, state cloud.State, tags map[string]string) plan.Artifact {
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
func (a images) lookOrphanSnapshot(ctx context.Context, w *pass) error {
	snapshot, err := a.cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.image.snapshot = snapshot
	w.facts.Image.Snapshot = snapshotOf(w)
	return nil
}

// copyDisk copies the proven disk: the donor's own, or the cleaned copy.
func (a images) copyDisk(ctx context.Context, w *pass) (err error) {
	spec := cloud.SnapshotSpec{Name: w.p.Name, Instance: w.id, Tags: w.tags()}
	if w.facts.Copy.Wanted {
		copied := w.copySpec(a.now())
		copied.Proven = w.record.Order.Disk
		_, err = a.cloud.EnsureCopySnapshot(ctx, copied, spec)
		return err
	}
	_, err = a.cloud.EnsureSnapshot(ctx, spec)
	return err
}

func (a images) deleteSnapshot(ctx context.Context, w *pass) error {
	return a.cloud.DeleteSnapshot(ctx, w.id, w.p.Name)
}

// publish makes a version of the snapshot.
func (a images) publish(ctx context.Context, w *pass) error {
	_, err := a.cloud.EnsureImage(ctx, w.imageSpec(a.now()))
	return err
}

func (a images) deleteVersion(ctx context.Context, w *pass) error {
	return a.cloud.DeleteImage(ctx, w.ref())
}

// confirmLost asks the lists of the cloud for the version and the snapshot of a capture that is past its snapshot, if reads have found
// neither. The capture would end as interrupted.
func (a images) confirmLost(ctx context.Context, w *pass) error {
	f := &w.facts
	if w.isHeld() && !isPastSnapshot(w) || w.isOrphan || !f.Disk.Touched || f.Failed || f.Deleting || f.Unrecorded {
		return nil
	}
	if w.isHeld() && f.Image.Snapshot == plan.Absent { // the record of a restored etcd is older than the cloud
		if err := lookVersion(ctx, a, w); err != nil {
			return err
		}
	}
	if f.Image.Version != plan.Absent || f.Image.Snapshot != plan.Absent && f.Image.Snapshot != plan.Deleting {
		return a.witness.endConfirm(ctx, w, versionObject)
	}
	list, err := a.inLists(ctx, w)
	if err != nil {
		return err
	}
	return a.witness.confirmMissing(ctx, w, versionObject, list)
}

// isPastSnapshot reports whether the record says that the snapshot was seen: the donor returns, or its workshop is gone.
func isPastSnapshot(w *pass) bool {
	r := w.copyRecord()
	return w.record.Returning || r.Accepted && (r.Workshop.CleaningUp || r.Workshop.Name == "")
}

// inLists looks for the version or the snapshot of the capture in the lists of the pool. A list that is not found is no witness.
func (a images) inLists(ctx context.Context, w *pass) (plan.List, error) {
	uid := string(w.p.UID)
	images, err := a.cloud.Images(ctx, w.pool)
	if slices.ContainsFunc(images, func(i cloud.Image) bool { return i.Tags[cloud.TagUID] == uid && i.State != cloud.Deleting }) {
		return plan.ListHas, nil
	}
	snapshots, missing := a.cloud.Snapshots(ctx, w.pool)
	isListed := slices.ContainsFunc(snapshots, func(s cloud.Snapshot) bool { return s.Tags[cloud.TagUID] == uid && s.State != cloud.Deleting })
	return listAnswer(isListed, err, missing)
}

// tags of a snapshot or an image version: the Prototype, the donor, the donor's own image version, and the proof.
func (w *pass) tags() map[string]string {
	tags := map[string]string{
		cloud.TagBuiltFrom: w.p.Spec.Donor.NodeName,
		cloud.TagPrototype: w.p.Name,
		cloud.TagUID:       string(w.p.UID),
		cloud.TagProof:     w.disk.proof.Tag(),
		cloud.TagVerified:  w.disk.proof.Verified(),
	}
	if w.disk.proof.ContentsDigest != "" {
		tags[cloud.TagContents] = w.disk.proof.ContentsDigest
	}
	if w.record.BuiltFrom != "" {
		tags[cloud.TagLineage] = w.record.BuiltFrom
	}
	addSoftwareTags(w, tags)
	return tags
}

// imageSpec returns the image version to create from the snapshot.
func (w *pass) imageSpec(now time.Time) cloud.ImageSpec {
	tags := w.tags()
	tags[cloud.TagBuiltAt] = history.BuiltAtTag(w.disk.proof.At.Time, now)
	proven := ""
	if w.record.Order != nil {
		proven = w.record.Order.Disk
	}
	return cloud.ImageSpec{
		ImageRef:           w.ref(),
		SnapshotID:         w.image.snapshot.ID,
		Proven:             proven,
		Tags:               tags,
		Replicas:           w.p.Spec.Settings.Replicas(),
		InitializationRate: w.p.Spec.Settings.InitializationRate(),
	}
}

// addSoftwareTags adds the donor's software. The image copies the snapshot's tags, because at the publication the donor
// may be patched again or gone.
func addSoftwareTags(w *pass, tags map[string]string) {
	known := w.image.snapshot.Tags
	switch absent := w.image.snapshot.State == cloud.Absent; {
	case absent && w.facts.Copy.Wanted:
		known = w.copyRecord().Software
	case absent && w.donor.node != nil:
		known = describeNode(w.donor.node)
	}
	for _, key := range softwareTags {
		if value := known[key]; value != "" {
			tags[key] = value
		}
	}
}

// softwareTags are the tags with the donor's software at the time of the copy.
var softwareTags = []string{cloud.TagOS, cloud.TagKernel, cloud.TagKubelet, cloud.TagRuntime, cloud.TagImages, cloud.TagPatchedAt, cloud.TagPatchLevel}

// maxTag is the longest tag value that all clouds accept, in bytes. Source: Azure's limit for tags.
const maxTag = 256

// describeNode returns the tags from a Node.
func describeNode(n *corev1.Node) map[string]string {
	info := n.Status.NodeInfo
	tags := map[string]string{
		cloud.TagOS:      info.OSImage,
		cloud.TagKernel:  info.KernelVersion,
		cloud.TagKubelet: info.KubeletVersion,
		cloud.TagRuntime: info.ContainerRuntimeVersion,
	}
	if images := len(n.Status.Images); images > 0 {
		tags[cloud.TagImages] = strconv.Itoa(images)
	}
	if at := patchedAt(n); !at.IsZero() {
		tags[cloud.TagPatchedAt] = at.UTC().Format(time.RFC3339)
	}
	if level := n.Annotations[v1alpha1.PatchLevelAnnotation]; level != "" && len(level) <= maxTag {
		tags[cloud.TagPatchLevel] = level // a cut level would equal no node's
	}
	for key, value := range tags {
		if len(value) > maxTag {
			tags[key] = strings.ToValidUTF8(value[:maxTag], "")
		}
	}
	return tags
}

// patchedAt is the latest patch time in the known annotations; zero without annotations. Policies may use other
// annotations, which are not known here.
func patchedAt(n *corev1.Node) time.Time {
	var last time.Time
	for _, key := range []string{v1alpha1.PatchedAtAnnotation, v1alpha1.KuredRebootNeededAnnotation} {
		if at, err := time.Parse(time.RFC3339, n.Annotations[key]); err == nil && at.After(last) {
			last = at
		}
	}
	return last
}
