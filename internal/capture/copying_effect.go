package capture

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// beginWorkshop records the workshop. In the next call the cloud builds its instance. What was proven on the one before counts no more.
func (c copying) beginWorkshop(ctx context.Context, w *pass) error {
	if r := w.copyRecord(); r.Workshop.Name == "" {
		now := metav1.NewTime(c.now())
		r.Workshops++
		r.Workshop = v1alpha1.WorkshopRecord{Name: workshopName(w.p, r.Workshops), StartedAt: &now}
		return c.store.record(ctx, w, func(record *v1alpha1.Record) {
			if record.Copy = &r; isCopyOrder(*record) {
				record.Order, w.p.Status.Proof = nil, nil
				meta.RemoveStatusCondition(&w.p.Status.Conditions, v1alpha1.ConditionGeneralized)
			}
		})
	}
	if c.observer == nil {
		return errNoObserver()
	}
	spec := c.workshopSpec(w)
	data, err := c.customData.read(ctx, w.p) // it boots the present recipe, whatever the promotion removes
	if err != nil {
		return err
	}
	spec.CustomData = data
	_, err = c.cloud.EnsureWorkshop(ctx, spec)
	return err
}

// endWorkshop removes the instance and its Node. The begin of the removal is recorded first, and the end after an observation
// without an instance.
func (c copying) endWorkshop(ctx context.Context, w *pass) error {
	r := w.copyRecord().Workshop
	if !r.CleaningUp {
		now := metav1.NewTime(c.now())
		return c.note(ctx, w, func(r *v1alpha1.CopyRecord) {
			r.Workshop.CleaningUp, r.Workshop.CleanupStartedAt = true, &now
			r.Message = cmp.Or(workshopLoss(w), r.Message)
		})
	}
	state, err := c.cloud.EndWorkshop(ctx, c.workshopSpec(w))
	left := false
	if c.observer != nil && len(r.Nodes) > 0 {
		subject := c.subject(w)
		subject.Overdue = r.CleanupStartedAt != nil && c.now().Sub(r.CleanupStartedAt.Time) > endTimeout
		still, cleanErr := c.observer.Clean(ctx, subject)
		left, err = len(still) > 0, errors.Join(err, cleanErr)
	}
	if err != nil || left || state != cloud.Absent || w.copy.workshop.State != cloud.Absent {
		return err
	}
	if err := deleteUnseen(ctx, c, w); err != nil {
		return err
	}
	// The instance stays in the record: the cloud finds the copy by it.
	return c.note(ctx, w, func(r *v1alpha1.CopyRecord) { r.Workshop = v1alpha1.WorkshopRecord{Instance: r.Workshop.Instance} })
}

// quiesce creates the NodeOrder of a new try, and then its pod. Only the recorded NodeOrder is trusted.
func (c copying) quiesce(ctx context.Context, w *pass) error {
	if err := c.pods.image.mayRun(w.p); err != nil {
		return err
	}
	if w.awaitsMoment() && w.disk.order != nil && w.disk.order.UID == w.record.Order.UID {
		return c.pods.createOrderPod(ctx, w, quiescePod(w.p, w.disk.order, c.pods.image.of(w.p)))
	}
	boot, err := bootOf(w.donor.node)
	if err == nil {
		err = deleteUnseen(ctx, c, w)
	}
	if err != nil {
		return err
	}
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // never fails
	order := newOrder(w.p, c.orders.podNamespace, boot, "", "")
	order.Spec.Method = v1alpha1.OrderQuiesce
	order.Spec.Moment = &v1alpha1.OrderMoment{Nonce: hex.EncodeToString(nonce), Freeze: w.p.Spec.Settings.Donor.Freeze}
	made, err := c.orders.makeKeyed(ctx, order)
	if err != nil {
		return err
	}
	trouble := copyTrouble(w)
	return c.store.record(ctx, w, func(r *v1alpha1.Record) {
		r.Order = made
		tried := w.copyRecord()
		tried.Try, tried.Moment, tried.Nonce = tried.Try+1, order.UID, order.Spec.Moment.Nonce
		tried.Snapshot, tried.Accepted, tried.Disk, tried.Software, tried.Message = "", false, nil, nil, trouble
		r.Copy = &tried
	})
}

const (
	// momentInterval is the time between two reads of the NodeOrder while the donor's disk is quiet.
	momentInterval = 50 * time.Millisecond
	// momentReads limits the wait for the moment, which follows the flush of the donor's disk, to 20 seconds; a later moment is for the
	// next pass. overReads limits the wait for the end of the moment.
	momentReads, overReads = 400, 200
)

// errNotQuiet ends a request for a snapshot whose moment has not come. The next pass decides by the pod's report.
var errNotQuiet = errors.New("the donor's disk is not quiet")

// copyRunning asks the cloud for the snapshot. The pod freezes the donor's disk right before the request that copies it. The record
// says whether the cloud's answer came in time. One pass does this, because the disk stands still meanwhile.
func (c copying) copyRunning(ctx context.Context, w *pass) error {
	isQuiet := false
	made, err := c.cloud.EnsureSnapshot(ctx, cloud.SnapshotSpec{
		Name: copyName(w.p, w.copyRecord().Try), Instance: w.id, InUse: true, Tags: w.copySpec(c.now()).Tags,
		BeforeCopy: func(ctx context.Context) error {
			if err := c.say(ctx, w, v1alpha1.WordProceed); err != nil {
				return err
			}
			said, err := c.await(ctx, w, momentReads, func(s v1alpha1.MomentState) bool { return s != v1alpha1.MomentQuiet })
			if err != nil {
				return err
			}
			if isQuiet = said != nil && said.State == v1alpha1.MomentNow; !isQuiet {
				return errNotQuiet
			}
			return nil
		},
	})
	switch {
	case errors.Is(err, errNotQuiet):
		return nil
	case !isQuiet:
		return err // without an error there is a snapshot of another moment: the next pass discards it
	case err != nil:
		return errors.Join(err, c.say(ctx, w, v1alpha1.WordRefused))
	}
	if err := c.say(ctx, w, v1alpha1.WordAccepted); err != nil {
		return err
	}
	over, err := c.await(ctx, w, overReads, func(s v1alpha1.MomentState) bool { return s == v1alpha1.MomentOver || s == v1alpha1.MomentFailed })
	if err != nil {
		return err
	}
	return c.note(ctx, w, func(r *v1alpha1.CopyRecord) {
		r.Snapshot, r.Disk, r.Software = made.ID, over, describeNode(w.donor.node)
		r.Accepted = over != nil && over.State == v1alpha1.MomentOver && over.InTime && over.MachineID != "" && over.RootUUID != ""
		if !r.Accepted {
			r.Message = lateMoment(over)
		}
	})
}

// lateMoment explains a copy that was not accepted in time.
func lateMoment(over *v1alpha1.Moment) string {
	if over == nil || over.Message == "" {
		return "the pod on the donor did not confirm the moment of the copy"
	}
	return over.Message
}

// say writes the engine's word onto the NodeOrder, unless the NodeOrder has changed since the read: a second process that runs the same
// Prototype must not take a snapshot of its own for the one that ended the moment.
func (c copying) say(ctx context.Context, w *pass, word v1alpha1.Word) error {
	before := w.disk.order.DeepCopy()
	metav1.SetMetaDataAnnotation(&w.disk.order.ObjectMeta, v1alpha1.MomentAnnotation, string(word))
	if err := c.client.Patch(ctx, w.disk.order, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the word %s onto order %s/%s: %w", word, before.Namespace, before.Name, err)
	}
	return nil
}

// await reads the NodeOrder until its pod reports a wanted state; nil if it does not in so many reads.
func (c copying) await(ctx context.Context, w *pass, reads int, wanted func(v1alpha1.MomentState) bool) (*v1alpha1.Moment, error) {
	for range reads {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(w.disk.order), w.disk.order); err != nil {
			return nil, fmt.Errorf("read order %s/%s: %w", w.disk.order.Namespace, w.disk.order.Name, err)
		}
		report, err := v1alpha1.ReportOf(w.disk.order, *w.record.Order)
		if err != nil {
			return nil, err
		}
		if report != nil && wanted(report.Moment.State) {
			return report.Moment, nil
		}
		if err := c.wait(ctx, momentInterval); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// deleteUnseen deletes the snapshot of the current try, of which nothing is left: a read that did not find it proves nothing, and it
// holds the donor's secrets.
func deleteUnseen(ctx context.Context, c copying, w *pass) error {
	if w.copyRecord().Try == 0 || w.copy.raw.State != cloud.Absent {
		return nil
	}
	return c.deleteRaw(ctx, w)
}

func (c copying) deleteRaw(ctx context.Context, w *pass) error {
	return c.cloud.DeleteSnapshot(ctx, w.id, copyName(w.p, w.copyRecord().Try))
}

// attach records the boot of the workshop before the disk is there.
func (c copying) attach(ctx context.Context, w *pass) error {
	if w.copyRecord().Workshop.Boot == "" {
		boot, err := bootOf(w.copy.node)
		if err == nil {
			err = c.note(ctx, w, func(r *v1alpha1.CopyRecord) { r.Workshop.Boot = boot })
		}
		if err != nil {
			return err
		}
	}
	_, err := c.cloud.EnsureAttached(ctx, w.copySpec(c.now()))
	return err
}

func (c copying) detach(ctx context.Context, w *pass) error {
	_, err := c.cloud.EnsureDetached(ctx, w.copySpec(c.now()))
	return err
}

func (c copying) deleteDisk(ctx context.Context, w *pass) error {
	_, err := c.cloud.EndCopy(ctx, w.copySpec(c.now()))
	return err
}

// orderCopy creates the NodeOrder that generalizes the copy on the workshop, and records it with the copy.
func (o orders) orderCopy(ctx context.Context, w *pass) error {
	disk := &v1alpha1.CopiedDisk{Snapshot: w.copyRecord().Snapshot, Device: deviceOf(w.copy.disk)}
	rules, err := o.digest(ctx, w.p)
	if err != nil {
		return err
	}
	order := newOrder(w.p, o.podNamespace, disk.Token(), rules, "")
	order.Spec.Method, order.Spec.NodeName = v1alpha1.OrderCopy, w.copy.node.Name
	recorded, err := o.makeKeyed(ctx, order)
	if err != nil {
		return err
	}
	recorded.Copy, recorded.Disk = disk, w.copy.disk.ID
	return o.store.record(ctx, w, func(r *v1alpha1.Record) { r.Order, r.RulesDigest = recorded, rules })
}

// deviceOf is what identifies the disk to its guest.
func deviceOf(d cloud.DiskCopy) string {
	if d.Device.Serial != "" {
		return d.Device.Serial
	}
	return d.ID
}

// quiescePod is the pod that makes the disk of the donor quiet.
func quiescePod(p *v1alpha1.Prototype, order *v1alpha1.NodeOrder, image string) *corev1.Pod {
	return node.OrderPod(order, image, "quiesce", "--root", node.HostMount,
		"--prototype", p.Name, "--uid", string(p.UID), "--boot-id", order.Spec.Token)
}

// copyPod is the pod that generalizes the copy on the workshop. It finds the disk by its serial number.
func copyPod(w *pass, namespace, image string) *corev1.Pod {
	r, disk := w.copyRecord(), w.record.Order.Copy
	order := newOrder(w.p, namespace, disk.Token(), w.record.RulesDigest, "")
	order.UID, order.Spec.NodeName = w.record.Order.UID, w.copy.node.Name
	pod := node.OrderPod(order, image, "generalize", "--machine-root", node.HostMount, "--serial", disk.Device, "--snapshot", disk.Snapshot,
		"--machine-id", r.Disk.MachineID, "--root-uuid", r.Disk.RootUUID, "--nonce-name", string(r.Moment), "--nonce", r.Nonce,
		"--prototype", w.p.Name, "--uid", string(w.p.UID))
	container := &pod.Spec.Containers[0]
	container.Args = append(container.Args, generalizeArgs(w.p)...)
	if rules := w.p.Spec.Settings.Generalize.Rules; rules != "" {
		addRules(&pod.Spec, rules, w.record.RulesDigest)
	}
	return pod
}
