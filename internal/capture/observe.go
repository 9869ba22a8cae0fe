package capture

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// proofLife is the validity of a proof. Another client that starts and stops the donor takes longer. After a longer
// pause of the capture, the proof is outdated.
const proofLife = 10 * time.Minute

// powerOffGrace is the time for the donor to power itself off after its proof. Later the cloud stops the instance.
const powerOffGrace = 30 * time.Second

// observed is the result of one observation: the objects for act, and the facts for package plan.
type observed struct {
	p *v1alpha1.Prototype
	// written is the status as the API server has it.
	written *v1alpha1.PrototypeStatus
	record  v1alpha1.Record
	proof   *v1alpha1.Proof
	// noProofReason is the pod's reason for a missing proof; empty without such a report.
	noProofReason string
	id            cloud.InstanceID
	pool          cloud.PoolID
	noPoolReason  string // reason why the donor belongs to no pool

	node          *corev1.Node          // nil if the Node is gone, or belongs to another instance now
	namedNode     *corev1.Node          // the Node of the donor's name, of any instance
	isOrphan      bool                  // the Prototype is gone, and p is made from the reservation
	otherHolder   string                // description of a reservation in place of ours
	lease         *v1alpha1.Reservation // in the Lease of the node, as read or written in this pass; nil if unread or absent
	reservation   *v1alpha1.Reservation // ours, from the Node or the record; nil if the donor is not held
	remainingPods node.Remaining
	blockedPods   []node.BlockedPod
	instance      cloud.Instance
	protection    cloud.Protection // scale-in protection of the instance, if read
	pod           *corev1.Pod
	order         *v1alpha1.NodeOrder
	// reported is the signed report that the Prototype does not carry yet; nil without such a report. ignoredReport is the
	// reason to ignore a report on the NodeOrder.
	reported      *v1alpha1.Report
	ignoredReport string

	snapshot        cloud.Snapshot
	image           cloud.Image
	recipe          cloud.Pool
	isPoolDeleted   bool // the pool is deleted, and has no recipe
	change          cloud.RecipeChange
	contentsChange  string // difference from the contents of the version in the recipe, in one line
	retire          []string
	replacement     *corev1.Node // the replacement of the donor, if present
	capacity        int64        // of the pool, if read for a replacement
	trial           observedTrial
	savedRecipeName string // the Secret with the saved parts of the recipe
	// customData is the user's copy for the saved recipe; nil without one.
	customData []byte
	// admission has the facts for the admission, refusals the result, and admissionErr the error of an incomplete case.
	// instanceErr is the error of reading the instance.
	admission                 *admission.Case
	refusals                  []cloud.Refusal
	admissionErr, instanceErr error
	kured                     kured.Lock           // holder of kured's lock
	inspectionObstacle        string               // obstacle found by the disk inspection
	summary                   string               // the files of unknown origin of another node, for the comparison
	comparison                string               // result of the comparison; empty without a result
	imageLimitWarning         string               // warning about the number of the pool's images
	activeCaptures            []v1alpha1.Prototype // captures that hold donors
	removals                  int                  // donors of gone Prototypes whose instances are being removed
	awaitsPoolReplacement     bool                 // a removed donor has no replacement yet

	arePodsListed bool // remainingPods has all pods of the donor

	facts plan.Facts
}

// fromPrototype is the state from the Prototype alone.
func fromPrototype(p *v1alpha1.Prototype, record v1alpha1.Record) *observed {
	w := &observed{p: p, written: p.Status.DeepCopy(), record: record, id: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	w.facts.Deleting = p.DeletionTimestamp != nil
	w.facts.Failed = p.Status.Failure != nil
	return w
}

// unseen is the state from the Prototype alone, with a newer record.
func (w *observed) unseen(record v1alpha1.Record) *observed {
	again := fromPrototype(w.p, record)
	again.written = w.written
	return again
}

// observe looks at the capture, and judges its admission if it has not begun.
func (e *Engine) observe(ctx context.Context, w *observed) error {
	if err := e.look(ctx, w); err != nil {
		return err
	}
	return e.lookPreflight(ctx, w)
}

// look reads the objects of the capture, in an order in which each read knows what the reads before it found. The record
// precedes each effect, so what the record excludes is not read.
func (e *Engine) look(ctx context.Context, w *observed) error {
	for _, look := range []func(context.Context, *observed) error{
		e.lookNode, e.lookPool, replacements{e}.readReplacement, e.lookInstance, replacements{e}.readUnfilledPlace, orders{e}.readProof, artifacts{e}.lookArtifacts, pods{e}.lookPod, orders{e}.lookReport,
		trials{e}.lookTrial, trials{e}.lookGate, promotion{e}.lookRecipe, trials{e}.judgeAttempt, pods{e}.lookLeftPod, orders{e}.lookLeftOrder, e.lookKuredAgain, trials{e}.findLostTrial,
	} {
		if err := look(ctx, w); err != nil {
			return err
		}
		if w.pool == "" && w.noPoolReason != "" {
			break
		}
	}
	return nil
}

// lookPool finds the donor's pool. A donor without a pool is refused before the capture begins.
func (e *Engine) lookPool(ctx context.Context, w *observed) error {
	of, err := membership.OfPrototype(ctx, e.Cloud, w.p, w.node)
	switch {
	case err != nil:
		return err
	case of.Pool == "" && w.isHeld():
		return noPool(w.id, of)
	}
	w.pool, w.noPoolReason = of.Pool, of.Why
	return nil
}

func noPool(id cloud.InstanceID, of cloud.Membership) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: "find the pool of", Resource: string(id), Message: of.Why}
}

func (w *observed) isHeld() bool { return w.facts.Hold.Lock == plan.Ours || w.facts.Hold.Recorded }

// lookNode reads the Node, its holder and the deadlines.
func (e *Engine) lookNode(ctx context.Context, w *observed) error {
	if err := readNamed(ctx, e, w); err != nil {
		return err
	}
	return readDonor(ctx, e, w)
}

// readDonor sets the facts of the record and of the Node, if present.
func readDonor(ctx context.Context, e *Engine, w *observed) error {
	f := &w.facts
	w.reservation = w.record.Reservation
	f.Hold.Recorded = w.reservation != nil
	f.Hold.Restored, f.Hold.Noted = true, true
	var err error
	switch {
	case w.node != nil && !w.record.DonorGone:
		err = donorReservation{e}.readLock(ctx, w)
	case recordLost(w.p) && !w.isOrphan:
		err = donorReservation{e}.readLost(ctx, w, nil)
	}
	if err != nil {
		return err
	}
	f.Disk.Touched, f.Donor.MustLeaveBoot = w.record.GeneralizeBootID != "", w.record.LeaveBoot() != ""
	f.Hold.Returning = w.record.Returning
	f.Unrecorded = recordLost(w.p)
	if w.node != nil {
		w.readNode()
	}
	readDeparture(w)
	readPatch(w)
	donorReservation{e}.lookDeadlines(w)
	return drain{e}.lookPods(ctx, w)
}

// readNamed reads the Node of the donor's name.
func readNamed(ctx context.Context, e *Engine, w *observed) error {
	name := w.p.Spec.Donor.NodeName
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", name, err)
	}
	w.namedNode = n
	if e.Cloud.SameInstance(cloud.InstanceID(n.Spec.ProviderID), w.id) {
		w.node = n
	}
	return nil
}

// readNode sets the facts of the donor's Node.
func (w *observed) readNode() {
	n, f := w.node, &w.facts
	f.Donor.Node = plan.NodeNotReady
	if nodestate.Ready(n) {
		f.Donor.Node = plan.NodeReady
	}
	f.Donor.Cordoned = n.Spec.Unschedulable
	if w.reservation != nil {
		f.Hold.CordonRestored, f.Hold.Restored = n.Spec.Unschedulable == w.reservation.Unschedulable, node.Restored(n, *w.reservation)
	}
	boot := n.Status.NodeInfo.BootID
	f.Donor.Rebooted = f.MustBoot() && boot != "" && boot != w.record.LeaveBoot()
}

// lookPod reads the pod on the donor: the inspecting pod before the order, the generalize pod afterwards. A record precedes each
// pod, and the list of the donor's pods shows a pod of a late request.
func (d pods) lookPod(ctx context.Context, w *observed) error {
	f := &w.facts
	recorded := w.record.DiskCheckStartedAt != nil || f.MustBoot() || f.Failed || f.Deleting || w.arePodsListed && w.remainingPods.HasOwnPod
	if w.p.UID == "" || !f.Unrecorded && !(recorded && f.PodMatters()) {
		return nil
	}
	return d.readPod(ctx, w)
}

// lookLeftPod reads a pod that should no longer exist, before the capture ends.
func (d pods) lookLeftPod(ctx context.Context, w *observed) error {
	if w.pod != nil || !w.facts.LeftoversMatter() {
		return nil
	}
	return d.readPod(ctx, w)
}

func (d pods) readPod(ctx context.Context, w *observed) error {
	namespace := podNamespaceOf(w, d.podNamespace())
	pod, err := d.Kube.CoreV1().Pods(namespace).Get(ctx, podName(w.p), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", namespace, podName(w.p), err)
	}
	w.pod = pod
	w.facts.Disk.Pod = plan.PodActive
	if !w.facts.Disk.Touched && !w.facts.Unrecorded {
		w.readInspection(d.now())
		return nil
	}
	if w.podTrouble() != "" || w.noProofReason != "" {
		w.facts.Disk.Pod = plan.PodFailed
	}
	w.facts.Disk.PodKnown = w.record.Order != nil && w.record.Order.Pod == pod.UID
	return nil
}

// lookInstance reads the instance with its protection, unless the donor is released.
func (e *Engine) lookInstance(ctx context.Context, w *observed) error {
	f := &w.facts
	if !w.isHeld() && (f.MustBoot() || f.Failed || f.Deleting) {
		return nil
	}
	instance, err := e.Cloud.Instance(ctx, w.id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		err = donorReservation{e}.confirmGone(ctx, w)
	case cloud.Is(err, cloud.Unsupported) && !w.isHeld(): // the preflight reports the kind of instance
		return nil
	case err == nil:
		w.instance = instance
		w.instance.BuiltFrom = e.Cloud.BuiltFrom(w.pool, instance)
		f.Donor.Power, f.Leaving.Removing = power(instance.Power), instance.Removing
		if err = (donorReservation{e}).endMissing(ctx, w); err == nil {
			err = donorReservation{e}.readProtection(ctx, w)
		}
	}
	if err != nil && !w.hasBegun() && w.record.DiskCheckStartedAt == nil {
		w.instanceErr, err = err, nil // so that other obstacles are also reported
	}
	return err
}

func power(p cloud.Power) plan.Power {
	switch p {
	case cloud.PowerRunning:
		return plan.On
	case cloud.PowerStopped:
		return plan.Off
	case cloud.PowerStarting, cloud.PowerStopping, cloud.PowerUnknown:
		return plan.Changing
	}
	return plan.Changing
}
