package capture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

const (
	// mostCopies is the number of copies of one capture. A copy whose flush came too late, or with a half-installed package, is
	// made again.
	mostCopies = 3
	// mostWorkshops is the number of workshops of one capture. A fresh one follows a lost one.
	mostWorkshops = 3
	// copyLimit is the longest hold of a donor whose disk is copied. The donor serves, so that only other captures wait. A first
	// snapshot of a large disk takes up to an hour, and reading a disk made from it as long.
	// The time of a pioneer begins at the end of its patch.
	copyLimit = 3 * time.Hour
	// copyEnd is the age at which a snapshot of a disk in use is a leftover in any case, in its tag.
	copyEnd = copyLimit + time.Hour
	// workshopLimit is the time for the workshop's Node to become Ready.
	workshopLimit = 15 * time.Minute
	// awayLimit is the time for which the Node may be not Ready with the copy attached. Without a heartbeat of its kubelet, a Node is
	// not Ready after 40 seconds.
	awayLimit = 30 * time.Second
	// heardLimit is the time after which a Node that is still Ready shows that its kubelet has reported meanwhile. The node controller
	// waits for 40 to 50 seconds.
	heardLimit = time.Minute
	// quietLimit is the time for the pod on the donor, from its order on. The pod waits ten minutes for a quiet disk, and then ten
	// minutes for the engine.
	quietLimit = 25 * time.Minute
)

// copyCloud has the calls of a cloud.Provider about workshops and copies of disks in use.
type copyCloud interface {
	Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error)
	Workshops(ctx context.Context, pools ...cloud.PoolID) ([]cloud.WorkshopSpec, error)
	EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error)
	EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error)
	ConsoleOutput(ctx context.Context, id cloud.InstanceID) (string, error)
	Snapshot(ctx context.Context, instance cloud.InstanceID, name string) (cloud.Snapshot, error)
	Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error)
	EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error)
	DeleteSnapshot(ctx context.Context, instance cloud.InstanceID, name string) error
	Copy(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error)
	Copies(ctx context.Context, pools ...cloud.PoolID) ([]cloud.CopySpec, error)
	EnsureAttached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error)
	EnsureDetached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error)
	EndCopy(ctx context.Context, spec cloud.CopySpec) (cloud.State, error)
}

// copying copies the disk of a donor in service, and keeps the workshop on which the copy is cleaned.
type copying struct {
	kube       kubernetes.Interface
	client     client.Client
	cloud      copyCloud
	observer   TrialObserver // nil: no workshop is possible
	customData customDataReader
	orders     orders
	pods       pods
	store      store
	witness    witness
	events     recorder
	wait       func(ctx context.Context, d time.Duration) error
	now        clock
}

// copyObjects are the workshop and the copy of the donor's disk.
type copyObjects struct {
	workshop cloud.Trial
	// node is the workshop's Node; nil before it is Ready and takes no pods. late explains a workshop that does not join, or has left.
	node *corev1.Node
	late string
	raw  cloud.Snapshot
	disk cloud.DiskCopy
	// moment is the signed report of the pod on the donor; nil without one.
	moment *v1alpha1.Moment
}

// copyRecord is the record of the capture by copy, or the zero value.
func (w *pass) copyRecord() v1alpha1.CopyRecord {
	if w.record.Copy == nil {
		return v1alpha1.CopyRecord{}
	}
	return *w.record.Copy
}

// isCopyOrder reports whether the recorded order generalizes a copy of the donor's disk.
func isCopyOrder(r v1alpha1.Record) bool { return r.Order != nil && r.Order.Copy != nil }

// asksMoment reports whether the recorded order is to make the donor's disk quiet.
func (w *pass) asksMoment() bool {
	return w.facts.Copy.Wanted && w.record.Order != nil && w.record.Order.Copy == nil
}

// awaitsMoment reports whether the order of the try has no pod yet.
func (w *pass) awaitsMoment() bool {
	return w.asksMoment() && w.record.Order.Pod == "" && w.copyRecord().Snapshot == ""
}

// workshopName and copyName are the names of the capture's objects in the cloud. Each has another name than the one before: a cloud
// may show an earlier object late, or return it for the request for the next.
func workshopName(p *v1alpha1.Prototype, number int32) string {
	return p.Name + "-workshop" + further(number)
}

func copyName(p *v1alpha1.Prototype, try int32) string { return fmt.Sprintf("%s-copy-%d", p.Name, try) }

// further is the end of the name of a further workshop, and of the disk on it.
func further(number int32) string {
	if number < 2 {
		return ""
	}
	return fmt.Sprintf("-%d", number)
}

// ownerTags name the owner and the end of everything that a capture by copy makes in the cloud.
func (w *pass) ownerTags(now time.Time) map[string]string {
	begun := now
	if r := w.donor.reservation; r != nil {
		begun = w.copiesSince(r.ReservedAt.Time)
	}
	return map[string]string{
		cloud.TagPrototype: w.p.Name, cloud.TagUID: string(w.p.UID), cloud.TagEndsAt: begun.Add(copyEnd).UTC().Format(time.RFC3339),
	}
}

// copiesSince is when copyLimit begins: with the reservation, or with the end of a pioneer's patch.
func (w *pass) copiesSince(reserved time.Time) time.Time {
	if patched := patchEndedAt(w); !patched.IsZero() {
		return patched
	}
	return reserved
}

func (c copying) workshopSpec(w *pass) cloud.WorkshopSpec {
	return cloud.WorkshopSpec{
		Pool: w.pool, Name: w.copyRecord().Workshop.Name, InstanceType: w.p.Spec.Settings.Donor.WorkshopType, Tags: w.ownerTags(c.now()),
	}
}

// copySpec is the disk of the current try.
func (w *pass) copySpec(now time.Time) cloud.CopySpec {
	r := w.copyRecord()
	tags := w.ownerTags(now)
	tags[cloud.TagOrder] = string(r.Moment)
	return cloud.CopySpec{
		Name: copyName(w.p, r.Try) + further(r.Workshops), Instance: cloud.InstanceID(r.Workshop.Instance), SnapshotID: r.Snapshot, Tags: tags,
	}
}

// look reads the workshop and the copy of the current try, as long as the record says that there may be one.
func (c copying) look(ctx context.Context, w *pass) error {
	f, r := &w.facts, w.copyRecord()
	if !f.Copy.Wanted || w.record.Copy == nil || w.isOrphan {
		return nil
	}
	f.Copy.Accepted, f.Copy.Spent = r.Accepted, r.Try >= mostCopies && !w.awaitsMoment()
	f.Copy.LastWorkshop = r.Workshops >= mostWorkshops
	if r.Workshop.Name != "" {
		if err := c.lookWorkshop(ctx, w); err != nil {
			return err
		}
	}
	if r.Try == 0 || !w.isHeld() && !w.ends() && r.Workshop.Name == "" {
		return nil
	}
	return c.lookCopy(ctx, w)
}

// lookCopy reads the snapshot of the running disk, and the disk made from it.
func (c copying) lookCopy(ctx context.Context, w *pass) (err error) {
	f, r := &w.facts, w.copyRecord()
	if w.copy.raw, err = c.cloud.Snapshot(ctx, w.id, copyName(w.p, r.Try)); err != nil {
		return err
	}
	f.Copy.Raw = rawOf(w)
	if r.Workshop.Instance == "" {
		return nil
	}
	if w.copy.disk, err = c.cloud.Copy(ctx, w.copySpec(c.now())); err != nil {
		return err
	}
	f.Copy.Volume = volumeOf(w.copy.disk)
	if err := confirmCopyLost(ctx, c, w); err != nil {
		return err
	}
	return lookHeartbeat(ctx, c, w)
}

// lookHeartbeat asks whether the workshop has lived on in its boot until the proven disk was free. The Node of a machine that crashed
// stays Ready for 40 seconds, and meanwhile the machine could have booted from the disk. Only its kubelet renews its Lease.
func lookHeartbeat(ctx context.Context, c copying, w *pass) error {
	f, r := &w.facts, w.copyRecord().Workshop
	if f.Copy.Volume != plan.VolumeFree || f.Copy.Workshop != plan.WorkshopReady || !w.record.Proves(w.p.Status.Proof, w.p.UID) {
		return nil
	}
	now, version := metav1.NewTime(c.now()), ""
	lease, err := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, w.copy.node.Name, metav1.GetOptions{})
	if err == nil {
		version = lease.ResourceVersion
	}
	if r.Free == nil || r.Heartbeat == "" && version != "" {
		free := cmp.Or(r.Free, &now)
		return c.note(ctx, w, func(r *v1alpha1.CopyRecord) { r.Workshop.Free, r.Workshop.Heartbeat = free, version })
	}
	isLate := now.Sub(r.Free.Time) > heardLimit
	if f.Copy.Heard = version != r.Heartbeat && version != "" || isLate; isLate {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// confirmCopyLost asks the lists of the cloud for an accepted copy of which reads have found neither snapshot nor disk. The copy would
// be made again. Kamino itself removes it with a lost workshop.
func confirmCopyLost(ctx context.Context, c copying, w *pass) error {
	f, r := &w.facts, w.copyRecord()
	isRemoved := slices.Contains([]plan.Workshop{plan.WorkshopLost, plan.WorkshopAway, plan.WorkshopEnding}, f.Copy.Workshop)
	if w.ends() || isRemoved || !r.Accepted || f.Image.Snapshot != plan.Absent || f.Image.Version != plan.Absent {
		return nil
	}
	if own := f.Copy.Raw != plan.Absent && f.Copy.Raw != plan.Deleting; own || f.Copy.Volume != plan.NoVolume {
		return c.witness.endConfirm(ctx, w, copyObject)
	}
	name := w.copySpec(c.now()).Name
	copies, err := c.cloud.Copies(ctx, w.pool)
	snapshots, missing := c.cloud.Snapshots(ctx, w.pool)
	isListed := slices.ContainsFunc(copies, func(s cloud.CopySpec) bool { return s.Name == name }) ||
		slices.ContainsFunc(snapshots, func(s cloud.Snapshot) bool { return s.ID == r.Snapshot && s.State != cloud.Deleting })
	list, err := listAnswer(isListed, err, missing)
	if err != nil {
		return err
	}
	return c.witness.confirmMissing(ctx, w, copyObject, list)
}

// confirmWorkshopLost asks the list of the cloud for a workshop that was there, and that a read has not found.
func confirmWorkshopLost(ctx context.Context, c copying, w *pass) error {
	all, err := c.cloud.Workshops(ctx, w.pool)
	list, err := listAnswer(slices.ContainsFunc(all, func(s cloud.WorkshopSpec) bool { return s.Name == w.copyRecord().Workshop.Name }), err)
	if err != nil {
		return err
	}
	return c.witness.confirmMissing(ctx, w, workshopObject, list)
}

// rawOf is the state of the raw snapshot.
func rawOf(w *pass) plan.Artifact {
	s := w.copy.raw
	switch {
	case s.State == cloud.Absent:
		return plan.Absent
	case s.Tags[cloud.TagUID] != string(w.p.UID):
		return plan.Foreign
	case s.State == cloud.Complete:
		return plan.Complete
	case s.State == cloud.Failed:
		return plan.Broken
	case s.State == cloud.Deleting:
		return plan.Deleting
	}
	return plan.Pending
}

func volumeOf(d cloud.DiskCopy) plan.Volume {
	switch d.State {
	case cloud.Absent:
		return plan.NoVolume
	case cloud.Complete:
		if d.IsAttached {
			return plan.VolumeAttached
		}
		return plan.VolumeFree
	case cloud.Failed:
		return plan.VolumeBroken
	case cloud.Deleting:
		return plan.VolumeDeleting
	case cloud.Pending:
	}
	return plan.VolumeChanging
}

// lookWorkshop reads the workshop, and keeps users' pods away from its Node.
func (c copying) lookWorkshop(ctx context.Context, w *pass) (err error) {
	f, r := &w.facts, w.copyRecord().Workshop
	if w.copy.workshop, err = c.cloud.Workshop(ctx, c.workshopSpec(w)); err != nil {
		return err
	}
	seen, isWanted := w.copy.workshop, !w.ends() && f.Image.Snapshot == plan.Absent && f.Image.Version == plan.Absent
	f.Copy.Workshop = builtState(r, seen)
	switch {
	case f.Copy.Workshop == plan.WorkshopLost && seen.State == cloud.Absent && isWanted:
		return confirmWorkshopLost(ctx, c, w)
	case f.Copy.Workshop != plan.WorkshopMaking:
		return nil
	}
	if err := c.witness.endConfirm(ctx, w, workshopObject); err != nil {
		return err
	}
	if len(seen.Instances) > 0 && isWanted {
		if err := c.lookWorkshopNode(ctx, w); err != nil {
			return err
		}
	}
	if f.Copy.Workshop == plan.WorkshopMaking && r.Boot == "" && r.StartedAt != nil && c.now().Sub(r.StartedAt.Time) > workshopLimit {
		f.Copy.Workshop = plan.WorkshopLate
		return c.explainLate(ctx, w)
	}
	return nil
}

// builtState is the state of a workshop by what the cloud shows: WorkshopMaking means that its Node decides.
func builtState(r v1alpha1.WorkshopRecord, seen cloud.Trial) plan.Workshop {
	switch {
	case r.CleaningUp:
		return plan.WorkshopEnding
	case seen.State == cloud.Failed && seen.Trouble != "" && !hasJoined(r):
		return plan.WorkshopFailed
	case seen.State == cloud.Failed, seen.State == cloud.Deleting, seen.State == cloud.Absent && r.Instance != "":
		return plan.WorkshopLost
	case seen.State == cloud.Absent:
		return plan.WorkshopDecided
	}
	return plan.WorkshopMaking
}

// hasJoined reports whether a Node of the workshop was seen.
func hasJoined(r v1alpha1.WorkshopRecord) bool {
	return slices.ContainsFunc(r.Nodes, func(n v1alpha1.TrialNodeRecord) bool { return n.Node != "" })
}

// lookWorkshopNode finds the workshop's Node, records the Node with what was changed there, and evicts pods that slipped in.
func (c copying) lookWorkshopNode(ctx context.Context, w *pass) error {
	if c.observer == nil {
		return errNoObserver()
	}
	before := w.copyRecord().Workshop
	held, err := c.observer.Hold(ctx, c.subject(w))
	after := before
	after.Nodes, after.Instance = held.Known, string(w.copy.workshop.Instances[0].ID)
	if !equality.Semantic.DeepEqual(before, after) {
		if noted := c.note(ctx, w, func(r *v1alpha1.CopyRecord) { r.Workshop = after }); noted != nil {
			return noted
		}
	}
	if w.copy.late = held.Doubt; w.copy.late == "" && held.Node != nil && !held.Ready {
		w.copy.late = nodestate.NotReady(held.Node)
	}
	if err == nil && after.Boot != "" {
		err = c.lookBoot(ctx, w, held)
	}
	if err != nil || !isPresent(held) || w.facts.Copy.Workshop == plan.WorkshopAway {
		return err
	}
	if !w.facts.Disk.Touched {
		left, err := node.Left(ctx, c.kube, held.Node.Name, v1alpha1.DrainSettings{}, ownPod(podNamespaceOf(w, c.orders.podNamespace), w.p))
		if err != nil {
			return err
		}
		if len(left.Pods)+len(left.Stuck) > 0 {
			w.copy.late = fmt.Sprintf("pods are left on node %s: %s", held.Node.Name, strings.Join(append(left.Names(), left.Stuck...), ", "))
			_, err := node.Evict(ctx, c.kube, left, v1alpha1.DrainSettings{}, false)
			return err
		}
	}
	w.copy.node, w.facts.Copy.Workshop = held.Node, plan.WorkshopReady
	return nil
}

func isPresent(held trial.Held) bool { return held.Doubt == "" && held.Node != nil && held.Ready }

// lookBoot compares the workshop with the boot in which the copy was attached. A machine with two roots of the same labels may boot
// either, so a workshop that boots again, or no longer shows that it has not, is lost.
func (c copying) lookBoot(ctx context.Context, w *pass, held trial.Held) error {
	r, now := w.copyRecord().Workshop, metav1.NewTime(c.now())
	switch isAway := !isPresent(held); {
	case held.Node != nil && held.Node.Status.NodeInfo.BootID != r.Boot:
		w.copy.late, w.facts.Copy.Workshop = fmt.Sprintf("node %s has booted again", held.Node.Name), plan.WorkshopAway
	case isAway && r.AwaySince == nil:
		return c.note(ctx, w, func(r *v1alpha1.CopyRecord) { r.Workshop.AwaySince = &now })
	case isAway && now.Sub(r.AwaySince.Time) > awayLimit:
		w.copy.late, w.facts.Copy.Workshop = cmp.Or(held.Doubt, fmt.Sprintf("its Node is not Ready for more than %s", awayLimit)), plan.WorkshopAway
	case !isAway && r.AwaySince != nil:
		return c.note(ctx, w, func(r *v1alpha1.CopyRecord) { r.Workshop.AwaySince = nil })
	}
	return nil
}

// explainLate says what cluster, cloud and console know about a workshop that does not join.
func (c copying) explainLate(ctx context.Context, w *pass) error {
	if w.copy.late != "" {
		return nil
	}
	w.copy.late = "its kubelet did not register a Node"
	if trouble := w.copy.workshop.Trouble; trouble != "" {
		w.copy.late += "; " + trouble
	}
	if len(w.copy.workshop.Instances) > 0 {
		text, err := c.cloud.ConsoleOutput(ctx, w.copy.workshop.Instances[0].ID)
		w.copy.late += trial.Console(text, err, false)
	}
	return nil
}

// subject is the workshop for the TrialObserver.
func (c copying) subject(w *pass) trial.Subject {
	spec := c.workshopSpec(w)
	return trial.Subject{
		Prototype: w.p, Pool: w.pool, Spec: cloud.TrialSpec{ImageRef: w.ref(), Name: spec.Name, Tags: spec.Tags},
		Instances: w.copy.workshop.Instances, Known: w.copyRecord().Workshop.Nodes, Facts: trial.Facts{Now: c.now()},
	}
}

// lookMoment compares the pod that makes the donor's disk quiet with its report.
func (c copying) lookMoment(_ context.Context, w *pass) error {
	f := &w.facts
	if !w.asksMoment() || w.disk.pod == nil {
		return nil
	}
	state := v1alpha1.MomentState("")
	if w.copy.moment != nil {
		state = w.copy.moment.State
	}
	late := w.disk.order != nil && c.now().Sub(w.disk.order.CreationTimestamp.Time) > quietLimit
	switch {
	case state == v1alpha1.MomentBusy:
		f.Copy.Quiesce = plan.QuiesceTooBusy
	case state == v1alpha1.MomentFailed:
		f.Copy.Quiesce = plan.QuiesceFailed
	case state == v1alpha1.MomentNow, state == v1alpha1.MomentOver:
		f.Copy.Quiesce = plan.QuiesceOver
	case w.disk.order == nil, late, w.podTrouble() != "":
		f.Copy.Quiesce = plan.QuiesceFailed
	case state == v1alpha1.MomentQuiet:
		f.Copy.Quiesce = plan.QuiesceReady
	default:
		f.Copy.Quiesce = plan.QuiesceWaits
	}
	return nil
}

// note changes the record of the copy.
func (c copying) note(ctx context.Context, w *pass, change func(*v1alpha1.CopyRecord)) error {
	r := w.copyRecord()
	change(&r)
	return c.store.record(ctx, w, func(record *v1alpha1.Record) { record.Copy = &r })
}
