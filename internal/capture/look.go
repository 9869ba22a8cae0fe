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
	"github.com/kamino-dev/kamino/internal/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/kured"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// proofLife is how long a proof stands for the disk that it was written about. A stranger who starts the
// donor and stops it again needs longer; a capture that was not driven meanwhile begins anew.
const proofLife = 10 * time.Minute

// powerOffGrace is how long after its proof a donor has for powering itself off before the cloud is told to.
const powerOffGrace = 30 * time.Second

// observed is what one look found: the objects that act needs, and the facts that plan decides on.
type observed struct {
	p      *v1alpha1.Prototype
	record v1alpha1.Record
	proof  *v1alpha1.Proof
	// unproven is why the pod says that there is no proof; empty if it says nothing.
	unproven string
	id       cloud.InstanceID
	pool     cloud.PoolID
	unplaced string // why the donor is of no pool

	node        *corev1.Node          // nil if it is gone, or now is another instance's
	named       *corev1.Node          // that of the donor's name, whosever it is
	orphan      bool                  // the Prototype is gone, and p stands for what its reservation tells
	over        string                // what stands in place of our reservation
	reservation *v1alpha1.Reservation // ours, from the node or else from the record; nil if the donor is not held
	left        node.Remaining
	blocked     []node.Blocked
	instance    cloud.Instance
	hold        cloud.Protection // how the instance stands to its pool, where that matters
	pod         *corev1.Pod
	order       *v1alpha1.Order
	// reported is what the pod has signed and the Prototype does not carry yet, as annotations; disbelieved is why
	// something that stands on the order is not believed.
	reported    map[string]string
	disbelieved string

	snapshot  cloud.Snapshot
	copying   bool // the snapshot was looked at, and is being made
	image     cloud.Image
	recipe    cloud.Pool
	poolGone  bool // somebody deleted the pool, so that there is no recipe
	change    cloud.RecipeChange
	retire    []string
	successor string // the node that takes the donor's place, if it is there
	capacity  int64  // of the pool, where it was looked at for a successor
	trial     sighting
	savedAs   string // the Secret that keeps what the recipe loses
	// customData is the copy that goes with it; nil if nobody named one.
	customData []byte
	// admission is what speaks for or against a capture that has not begun, refusals what comes of it, and unread what of
	// it could not be looked at; trouble is why the instance could not.
	admission       *admission.Case
	refusals        []cloud.Refusal
	unread, trouble error
	kured           kured.Lock           // whether kured reboots a node
	lookWhy         string               // why the look at the disk refuses
	crowded         string               // what is the matter with the number of the pool's images
	ahead           []v1alpha1.Prototype // captures that hold donors, where only so many may
	removals        int                  // and donors that are being removed though their Prototype is gone
	vacant          bool                 // so does the place of a donor that was removed and is not filled

	// nodeLater: the donor's Node is not read yet, and is not needed for a wait. leaseLater: nor is its Lease.
	nodeLater, leaseLater bool

	lookedAt time.Time  // when the look began
	reads    *keptReads // of earlier passes, with which it began; nil if it read everything
	facts    plan.Facts
}

// unlooked is the world as far as the Prototype tells it, before a look.
func unlooked(p *v1alpha1.Prototype, record v1alpha1.Record) *observed {
	w := &observed{p: p, record: record, id: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	w.facts.Deleting = p.DeletionTimestamp != nil
	w.facts.Failed = p.Status.Failure != nil
	return w
}

// look reads as much of the world as the decision can depend on, nearest things first. What an earlier
// stage cannot have left is not asked for: the record says which stage was reached, because it is written
// before each effect. Beside an error is the world if only what speaks against the capture could not all be asked.
//
// Reads are those of an earlier pass, if the context carries them; otherwise nil.
func (e *Engine) look(ctx context.Context, p *v1alpha1.Prototype, record v1alpha1.Record, reads *keptReads) (*observed, error) {
	w := unlooked(p, record)
	w.lookedAt, w.reads = e.now(), reads
	if err := e.findOrder(ctx, w); err != nil {
		return nil, err
	}
	lookNode := e.lookNode
	if w.nodeLater = outlivesDonor(w); w.nodeLater {
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
		podsOf(e).lookPod, artifactsOf(e).lookCopy, departuresOf(e).lookAhead, e.lookInstance, departuresOf(e).lookBehind, ordersOf(e).lookReport, artifactsOf(e).lookArtifacts,
		trialsOf(e).lookTrial, trialsOf(e).lookGate, promotionOf(e).lookRecipe, trialsOf(e).judge, podsOf(e).lookDonePod, ordersOf(e).lookLeftOrder, e.lookKuredAgain, trialsOf(e).lookLost,
	} {
		if err := part(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, e.lookPreflight(ctx, w)
}

// lookPool tells the pool. A donor that is of none refuses a capture that has not begun.
func (e *Engine) lookPool(ctx context.Context, w *observed) error {
	of, err := membership.OfPrototype(ctx, e.Cloud, w.p, w.node)
	switch {
	case err != nil:
		return err
	case of.Pool == "" && w.held():
		return noPool(w.id, of)
	}
	w.pool, w.unplaced = of.Pool, of.Why
	return nil
}

func noPool(id cloud.InstanceID, of cloud.Membership) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: "find the pool of", Resource: string(id), Message: of.Why}
}

func (w *observed) held() bool { return w.facts.Lock == plan.Ours || w.facts.Recorded }

// lookNode reads the Node, who holds it, and for how long.
func (e *Engine) lookNode(ctx context.Context, w *observed) error {
	if err := readNamed(ctx, e, w); err != nil {
		return err
	}
	return readDonor(ctx, e, w)
}

// readDonor takes the facts from the record, and from the Node if there is one.
func readDonor(ctx context.Context, e *Engine, w *observed) error {
	f := &w.facts
	w.reservation = w.record.Reservation
	f.Recorded = w.reservation != nil
	f.Restored, f.Noted = true, true
	if w.node != nil {
		if err := holdOf(e).readLock(ctx, w); err != nil {
			return err
		}
	}
	f.Touched, f.Down = w.record.GeneralizeBootID != "", w.record.LeaveBoot() != ""
	f.Returning = w.record.Returning
	f.Unrecorded = !w.held() && w.recordLost()
	if w.node != nil {
		w.readNode()
	}
	readDeparture(w)
	holdOf(e).lookDeadlines(w)
	return drainOf(e).lookPods(ctx, w)
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
	w.named = n
	if e.Cloud.SameInstance(cloud.InstanceID(n.Spec.ProviderID), w.id) {
		w.node = n
	}
	return nil
}

// outlivesDonor reports whether the donor was given back, or has left, and the capture is in a phase that mostly waits. The donor's
// Node is read only before the capture acts.
func outlivesDonor(w *observed) bool {
	f, s := &w.facts, &w.p.Status
	ended := w.record.Reservation == nil && w.record.LeaveBoot() != "" && s.Donor != nil && s.Donor.ReleasedAt != nil
	return ended && slices.Contains(waitingPhases, s.Phase) && !f.Failed && !f.Deleting && w.p.Spec.PoolID != "" // which the Node could tell otherwise
}

// waitingPhases are those after the donor in which a capture mostly waits.
var waitingPhases = []v1alpha1.Phase{v1alpha1.PhasePublishing, v1alpha1.PhaseTrying, v1alpha1.PhaseAwaitingPromotion}

// readNode takes the facts from a Node that is the donor's.
func (w *observed) readNode() {
	n, f := w.node, &w.facts
	f.Node = plan.NodeNotReady
	if nodestate.Ready(n) {
		f.Node = plan.NodeReady
	}
	f.Cordoned = n.Spec.Unschedulable
	if w.reservation != nil {
		f.Serves, f.Restored = n.Spec.Unschedulable == w.reservation.Unschedulable, node.Restored(n, *w.reservation)
	}
	boot := n.Status.NodeInfo.BootID
	f.Rebooted = f.MustBoot() && boot != "" && boot != w.record.LeaveBoot()
}

// lookPod reads the pod on the donor: before the order the one that looks at the disk, behind it the generalize pod
// while it works.
func (d pods) lookPod(ctx context.Context, w *observed) error {
	if w.p.UID == "" || !w.facts.Unrecorded && (w.facts.Touched && w.podDone() || podLess(w)) {
		return nil
	}
	return d.readPod(ctx, w)
}

// podLess reports whether a pod cannot bear on the decision: nothing of the capture is written down yet, or pods are still to leave
// a donor that the capture has cordoned. The pod that looked is gone before that, and is looked for once more before the order.
func podLess(w *observed) bool {
	f := &w.facts
	if f.Failed || f.Deleting {
		return false
	}
	return drains(w) || !w.held() && !f.MustBoot() && w.record.LookingSince == nil && !controllerutil.ContainsFinalizer(w.p, v1alpha1.CaptureFinalizer)
}

// lookDonePod reads the pod where it must not be any more.
func (d pods) lookDonePod(ctx context.Context, w *observed) error {
	if !w.podDone() || !w.facts.DonePodMatters() {
		return nil
	}
	return d.readPod(ctx, w)
}

// podDone tells whether the pod has done its work, or its time is over.
func (w *observed) podDone() bool {
	return w.facts.Returning || leaves(w) && !w.held() || w.proofText() != ""
}

func (d pods) readPod(ctx context.Context, w *observed) error {
	namespace := podNamespaceOf(w, d.namespace)
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
		w.readLook(d.now())
		return nil
	}
	if w.podTrouble() != "" || w.unproven != "" {
		w.facts.Pod = plan.PodFailed
	}
	w.facts.PodKnown = w.record.Order != nil && w.record.Order.Pod == pod.UID
	return nil
}

// lookInstance reads the instance, where its power or protection can matter.
func (e *Engine) lookInstance(ctx context.Context, w *observed) error {
	f := &w.facts
	if w.speaksForItself() {
		f.Power, f.Protected, f.ProtectionRestored = plan.On, true, !w.held()
		return nil
	}
	if w.copying {
		f.Power = plan.Off // as when the copy was begun; it is looked at before anything is made of that
		return nil
	}
	instance, err := e.Cloud.Instance(ctx, w.id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		err = holdOf(e).lookKept(ctx, w)
	case cloud.Is(err, cloud.Unsupported) && !w.held(): // the preflight says which
		return nil
	case err == nil:
		w.instance = instance
		w.instance.BuiltFrom = e.Cloud.BuiltFrom(w.pool, instance)
		f.Power, f.Removing = power(instance.Power), instance.Removing
		if w.removing() {
			f.Power, f.Rebooted = plan.Off, false // whatever it is: its disk is not needed, and nobody starts it again
		}
		err = holdOf(e).lookHold(ctx, w)
	}
	if err != nil && !w.begun() && f.Pod == plan.NoPod {
		w.trouble, err = err, nil // which hides nothing else that speaks against the capture
	}
	return err
}

// speaksForItself tells that the instance need not be asked for: while the node says by itself that it
// runs and nothing but the cluster is waited for, and once the donor is given back.
func (w *observed) speaksForItself() bool {
	f := &w.facts
	ending := f.Failed || f.Deleting
	if !w.held() {
		return f.MustBoot() || ending || w.looking() && f.Node == plan.NodeReady
	}
	if ending || f.Node != plan.NodeReady {
		return false
	}
	looked := f.Recorded && f.Lock == plan.Ours && f.Pod != plan.NoPod && !f.MustBoot() // that pod goes first, whatever the cloud says
	return drains(w) || looked || awaits(w) || w.generalizing()
}

// drains tells that pods are still to leave a donor that the capture has cordoned, and so protected. Behind that the cloud is asked
// once more: one that has gone away meanwhile could neither copy a disk that is touched nor start the donor again.
func drains(w *observed) bool {
	f := &w.facts
	return f.Recorded && f.Cordoned && !f.Serves && !f.MustBoot() && !f.Drained
}

// generalizing tells that the pod is at work, and nothing else has happened since.
func (w *observed) generalizing() bool {
	return w.facts.Pod == plan.PodActive && !w.facts.Rebooted && w.proofText() == ""
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

func (w *observed) proofText() string { return w.p.Annotations[v1alpha1.ProofAnnotation] }
