package capture

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

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
	p      *v1alpha1.Prototype
	record v1alpha1.Record
	proof  *v1alpha1.Proof
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
	isCopying       bool // the snapshot was read, and is in progress
	isPowerUnread   bool // the instance was not read
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

	// isNodeUnread: the donor's Node is read only before an action. isLeaseUnread: the same for its Lease.
	isNodeUnread, isLeaseUnread bool
	isListed                    bool // a list of all Prototypes had p in this version
	arePodsListed               bool // remainingPods has all pods of the donor

	observedAt time.Time  // begin of the observation
	reads      *keptReads // reads of an earlier pass at the begin; nil without reuse
	facts      plan.Facts
}

// fromPrototype is the state from the Prototype alone.
func fromPrototype(p *v1alpha1.Prototype, record v1alpha1.Record) *observed {
	w := &observed{p: p, record: record, id: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	w.facts.Deleting = p.DeletionTimestamp != nil
	w.facts.Failed = p.Status.Failure != nil
	return w
}

// observe reads only objects that can change the decision. The record precedes each effect, so later stages cost no request.
// With an error, the result is not nil if only the admission is incomplete. reads are those of an earlier pass, or nil.
func (e *Engine) observe(ctx context.Context, p *v1alpha1.Prototype, record v1alpha1.Record, reads *keptReads) (*observed, error) {
	w := fromPrototype(p, record)
	w.observedAt, w.reads = e.now(), reads
	awaits, err := awaitsCloud(ctx, e, w)
	if err != nil {
		return nil, err
	}
	w.isNodeUnread = awaits || outlivesDonor(w)
	return observeFrom(ctx, e, w)
}

// observeFrom reads the Node, unless isNodeUnread, and all other objects.
func observeFrom(ctx context.Context, e *Engine, w *observed) (*observed, error) {
	lookNode := e.lookNode
	if w.isNodeUnread {
		lookNode = func(ctx context.Context, w *observed) error { return readDonor(ctx, e, w) }
	}
	if err := lookNode(ctx, w); err != nil {
		return nil, err
	}
	if err := e.lookPool(ctx, w); err != nil {
		return nil, err
	}
	if w.pool == "" {
		return w, e.lookPreflight(ctx, w)
	}
	for _, part := range []func(context.Context, *observed) error{
		pods{e}.lookPod, artifacts{e}.lookCopy, replacements{e}.readReplacement, e.lookInstance, replacements{e}.readUnfilledPlace, orders{e}.lookReport, artifacts{e}.lookArtifacts,
		trials{e}.lookTrial, trials{e}.lookGate, promotion{e}.lookRecipe, trials{e}.judgeAttempt, pods{e}.lookDonePod, orders{e}.lookLeftOrder, e.lookKuredAgain, trials{e}.findLostTrial,
	} {
		if err := part(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, e.lookPreflight(ctx, w)
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

func (w *observed) isHeld() bool { return w.facts.Lock == plan.Ours || w.facts.Recorded }

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
	f.Recorded = w.reservation != nil
	f.Restored, f.Noted = true, true
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
	f.Touched, f.PowerOffRecorded = w.record.GeneralizeBootID != "", w.record.LeaveBoot() != ""
	f.Returning = w.record.Returning
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

// outlivesDonor reports whether the donor is released or removed, and the capture mostly waits. The donor's Node is
// then read only before an action.
func outlivesDonor(w *observed) bool {
	f, s := &w.facts, &w.p.Status
	ended := w.record.Reservation == nil && w.record.LeaveBoot() != "" && s.Donor != nil && s.Donor.ReleasedAt != nil
	return ended && slices.Contains(waitingPhases, s.Phase) && !f.Failed && !f.Deleting && w.p.Spec.PoolID != "" // without PoolID the Node may be needed to find the pool
}

// awaitsCloud reports whether a held donor waits only for its snapshot, or for its start: whatever the Node says, the wait
// goes on. A passed deadline ends the wait, and is judged with the Node.
func awaitsCloud(ctx context.Context, e *Engine, w *observed) (bool, error) {
	r, s := w.record, &w.p.Status
	if r.Reservation == nil || r.GeneralizeBootID == "" || r.Replacement != nil || w.p.Spec.PoolID == "" || w.facts.Failed || w.facts.Deleting || w.isOrphan {
		return false, nil
	}
	switch {
	case s.Phase == v1alpha1.PhaseSnapshotting && !r.Returning:
		snapshot, err := e.Cloud.Snapshot(ctx, w.id, w.p.Name)
		return snapshot.State == cloud.Pending && !snapshot.Taken, err
	case s.Phase == v1alpha1.PhaseStarting && r.Returning:
		instance, err := e.Cloud.Instance(ctx, w.id)
		if cloud.Is(err, cloud.NotFound) {
			return false, nil
		}
		return err == nil && power(instance.Power) == plan.Changing, err
	}
	return false, nil
}

// waitingPhases are the phases after the donor's release in which a capture mostly waits.
var waitingPhases = []v1alpha1.Phase{v1alpha1.PhasePublishing, v1alpha1.PhaseRunningTrial, v1alpha1.PhaseAwaitingPromotion}

// readNode sets the facts of the donor's Node.
func (w *observed) readNode() {
	n, f := w.node, &w.facts
	f.Node = plan.NodeNotReady
	if nodestate.Ready(n) {
		f.Node = plan.NodeReady
	}
	f.Cordoned = n.Spec.Unschedulable
	if w.reservation != nil {
		f.CordonRestored, f.Restored = n.Spec.Unschedulable == w.reservation.Unschedulable, node.Restored(n, *w.reservation)
	}
	boot := n.Status.NodeInfo.BootID
	f.Rebooted = f.MustBoot() && boot != "" && boot != w.record.LeaveBoot()
}

// lookPod reads the pod on the donor: the inspecting pod before the order, the active generalize pod afterwards.
func (d pods) lookPod(ctx context.Context, w *observed) error {
	if w.p.UID == "" || !w.facts.Unrecorded && (w.facts.Touched && w.podDone() || needsNoPod(w)) {
		return nil
	}
	return d.readPod(ctx, w)
}

// needsNoPod reports whether a pod cannot change the decision: before the begin of the capture, and during the drain.
// Before the order, the list of the donor's pods suffices; the inspection of an added donor also has a pod on another node.
func needsNoPod(w *observed) bool {
	f := &w.facts
	if f.Failed || f.Deleting || f.Added && f.Patch == plan.PatchWanted {
		return false
	}
	return isDraining(w) || w.arePodsListed && !w.remainingPods.HasOwnPod || !w.isHeld() && !f.MustBoot() && w.record.DiskCheckStartedAt == nil && !controllerutil.ContainsFinalizer(w.p, v1alpha1.CaptureFinalizer)
}

// lookDonePod reads a pod that should no longer exist. The recorded pod of this process needs no read, because the deletion
// names its UID.
func (d pods) lookDonePod(ctx context.Context, w *observed) error {
	if !w.podDone() || !w.facts.DonePodMatters() {
		return nil
	}
	made, _ := d.madePods.Load(w.p.UID)
	if pod, found := made.(*corev1.Pod); found && w.facts.Proven && w.record.Order != nil && w.record.Order.Pod == pod.UID {
		w.pod, w.facts.Pod, w.facts.PodKnown = pod, plan.PodActive, true
		return nil
	}
	return d.readPod(ctx, w)
}

// podDone reports whether the pod has finished or is no longer needed.
func (w *observed) podDone() bool {
	return w.facts.Returning || mustBeRemoved(w) && !w.isHeld() || w.hasProof()
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
	w.facts.Pod = plan.PodActive
	if !w.facts.Touched && !w.facts.Unrecorded {
		w.readInspection(d.now())
		return nil
	}
	if w.podTrouble() != "" || w.noProofReason != "" {
		w.facts.Pod = plan.PodFailed
	}
	w.facts.PodKnown = w.record.Order != nil && w.record.Order.Pod == pod.UID
	return nil
}

// lookInstance reads the instance if its power or protection can change the decision.
func (e *Engine) lookInstance(ctx context.Context, w *observed) error {
	f := &w.facts
	if w.isInstanceIrrelevant() {
		f.Power, f.Protected, f.ProtectionRestored = plan.On, true, !w.isHeld()
		return nil
	}
	if w.isCopying {
		f.Power = plan.Off // as at the start of the copy; read again before the next step
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
		f.Power, f.Removing = power(instance.Power), instance.Removing
		if w.isRemoving() {
			f.Power, f.Rebooted = plan.Off, false // whatever the state: its disk is not needed, and it is not started again
		}
		if err = (donorReservation{e}).endMissing(ctx, w); err == nil {
			err = donorReservation{e}.readProtection(ctx, w)
		}
	}
	if err != nil && !w.hasBegun() && f.Pod == plan.NoPod {
		w.instanceErr, err = err, nil // so that other obstacles are also reported
	}
	return err
}

// isInstanceIrrelevant reports whether the instance need not be read: the Node shows that it runs while only the
// cluster is awaited, or the donor is released.
func (w *observed) isInstanceIrrelevant() bool {
	f := &w.facts
	ending := f.Failed || f.Deleting
	if !w.isHeld() {
		return f.MustBoot() || ending || w.isInspecting() && f.Node == plan.NodeReady
	}
	if ending || f.Node != plan.NodeReady {
		return false
	}
	looked := f.Recorded && f.Lock == plan.Ours && f.Pod != plan.NoPod && !f.MustBoot() // the pod is deleted first, whatever the state of the instance
	return f.Patch == plan.PatchUnderWay || isDraining(w) || looked || awaitsReplacement(w) || w.isPodWorking()
}

// isDraining reports whether pods are still to leave a cordoned, and therefore protected, donor. After the drain the
// cloud is asked once more: without the cloud, a touched donor could be neither copied nor started.
func isDraining(w *observed) bool {
	f := &w.facts
	return f.Recorded && f.Cordoned && !f.CordonRestored && !f.MustBoot() && !f.Drained && !isAddedBeforeOrder(w)
}

// isAddedBeforeOrder reports whether an added donor is cordoned, but its protection or its inspection may be incomplete.
func isAddedBeforeOrder(w *observed) bool {
	f := &w.facts
	return f.Added && (f.Patch == plan.PatchWanted || f.Patch == plan.PatchUnderWay && w.record.Patch.Order == nil)
}

// isPodWorking reports whether the pod is working, without a proof and without a reboot.
func (w *observed) isPodWorking() bool {
	return w.facts.Pod == plan.PodActive && !w.facts.Rebooted && !w.hasProof()
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

// hasProof reports whether the Prototype carries a proof, valid or not.
func (w *observed) hasProof() bool { return w.p.Status.Proof != nil }
