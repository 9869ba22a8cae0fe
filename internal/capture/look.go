package capture

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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

// world is what one look found: the objects that act needs, and the facts that plan decides on.
type world struct {
	p      *v1alpha1.Prototype
	record v1alpha1.Record
	proof  *v1alpha1.Proof
	// unproven is why the pod says that there is no proof; empty if it says nothing.
	unproven string
	id       cloud.InstanceID
	pool     cloud.PoolID
	donorOf  cloud.Membership // the pool that the donor's Node says, before a capture begins

	node        *corev1.Node          // nil if it is gone, or now is another instance's
	orphan      bool                  // the Prototype is gone, and p stands for what its reservation tells
	over        string                // what stands in place of our reservation
	reservation *v1alpha1.Reservation // ours, from the node or else from the record; nil if the donor is not held
	left        node.Remaining
	blocked     []node.Blocked
	instance    cloud.Instance
	hold        cloud.Hold // how the instance stands to its pool, where that matters
	pod         *corev1.Pod
	order       *v1alpha1.Order
	// reported is what the pod has signed and the Prototype does not carry yet, as annotations; disbelieved is why
	// something that stands on the order is not believed.
	reported    map[string]string
	disbelieved string

	snapshot cloud.Snapshot
	copying  bool // the snapshot was looked at, and is being made
	image    cloud.Image
	recipe   cloud.Pool
	change   cloud.RecipeChange
	retire   []string
	savedAs  string // the Secret that keeps what the recipe loses
	// customData is the copy that goes with it; nil if nobody named one.
	customData []byte
	refusals   []cloud.Refusal
	kured      kured.Lock           // whether kured reboots a node
	lookWhy    string               // why the look at the disk refuses
	peers      []corev1.Node        // the pool's other nodes, before a capture begins
	crowded    string               // what is the matter with the number of the pool's images
	ahead      []v1alpha1.Prototype // captures that hold donors, where only so many may

	facts plan.Facts
}

// look reads as much of the world as the decision can depend on, nearest things first. What an earlier
// stage cannot have left is not asked for: the record says which stage was reached, because it is written
// before each effect.
func (e *Engine) look(ctx context.Context, p *v1alpha1.Prototype, record v1alpha1.Record) (*world, error) {
	w := &world{p: p, record: record, id: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	w.facts.Deleting = p.DeletionTimestamp != nil
	w.facts.Failed = p.Status.Failure != nil
	if err := e.lookNode(ctx, w); err != nil {
		return nil, err
	}
	if err := e.lookPool(ctx, w); err != nil || w.pool == "" {
		return w, err
	}
	for _, part := range []func(context.Context, *world) error{
		podsOf(e).lookPod, e.lookCopy, e.lookInstance, ordersOf(e).lookReport, e.lookArtifacts, e.lookRecipe, podsOf(e).lookDonePod, ordersOf(e).lookLeftOrder, e.lookPreflight, e.lookKuredAgain,
	} {
		if err := part(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// lookPool tells the pool. A donor that is of none refuses a capture that has not begun.
func (e *Engine) lookPool(ctx context.Context, w *world) error {
	of, err := membership.OfPrototype(ctx, e.Cloud, w.p, w.node)
	switch {
	case err != nil:
		return err
	case of.Pool == "" && w.held():
		return noPool(w.id, of)
	case of.Pool == "":
		w.facts.Refused = true
		w.refusals = []cloud.Refusal{notInPool(w, of)}
	}
	w.pool = of.Pool
	return nil
}

func notInPool(w *world, of cloud.Membership) cloud.Refusal {
	return cloud.Refuse(NotInPool, fmt.Sprintf("node %s belongs to no pool that can be captured: %s", w.p.Spec.Donor.NodeName, of.Why), "choose another node")
}

func noPool(id cloud.InstanceID, of cloud.Membership) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: "find the pool of", Resource: string(id), Message: of.Why}
}

func (w *world) held() bool { return w.facts.Lock == plan.Ours || w.facts.Recorded }

// lookNode reads the Node, who holds it, and for how long.
func (e *Engine) lookNode(ctx context.Context, w *world) error {
	name := w.p.Spec.Donor.NodeName
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read node %s: %w", name, err)
	case e.Cloud.SameInstance(cloud.InstanceID(n.Spec.ProviderID), w.id):
		w.node = n
	}
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
	holdOf(e).lookDeadlines(w)
	return e.lookPods(ctx, w)
}

// readNode takes the facts from a Node that is the donor's.
func (w *world) readNode() {
	n, f := w.node, &w.facts
	f.Node = plan.NodeNotReady
	if nodestate.Ready(n) {
		f.Node = plan.NodeReady
	}
	f.Cordoned = n.Spec.Unschedulable
	if w.reservation != nil {
		f.Restored = node.Restored(n, *w.reservation)
	}
	boot := n.Status.NodeInfo.BootID
	f.Rebooted = f.MustBoot() && boot != "" && boot != w.record.LeaveBoot()
}

// lookPods reads which pods must still leave, while the donor is being drained.
func (e *Engine) lookPods(ctx context.Context, w *world) error {
	f := &w.facts
	if f.MustBoot() || !f.Recorded || !f.Cordoned || w.node == nil || f.Failed || f.Deleting {
		f.Drained = f.MustBoot()
		return nil
	}
	drain := w.p.Spec.Settings.Defaulted().Drain
	left, err := node.Left(ctx, e.Kube, w.node.Name, drain, e.own(w.p))
	if err != nil {
		return err
	}
	w.left = left
	f.Drained = len(left.Pods) == 0 && len(left.Stuck) == 0
	f.DrainOverdue = !drain.Force && e.drainOverdue(w)
	if f.DrainOverdue && !f.Drained {
		w.blocked = node.HeldBack(ctx, e.Kube, left) // what the capture will say that it failed for
	}
	return nil
}

func (e *Engine) drainOverdue(w *world) bool {
	limit := w.p.Spec.Settings.Defaulted().Drain.Timeout.Duration
	return w.reservation != nil && e.now().Sub(w.reservation.ReservedAt.Time) > limit
}

// lookPod reads the pod on the donor: before the order the one that looks at the disk, behind it the generalize pod
// while it works.
func (d pods) lookPod(ctx context.Context, w *world) error {
	if w.p.UID == "" || !w.facts.Unrecorded && w.facts.Touched && w.podDone() {
		return nil // a Prototype that is only thought of has none
	}
	return d.readPod(ctx, w)
}

// lookDonePod reads the pod where it must not be any more.
func (d pods) lookDonePod(ctx context.Context, w *world) error {
	if !w.podDone() || !w.facts.DonePodMatters() {
		return nil
	}
	return d.readPod(ctx, w)
}

// podDone tells whether the pod has done its work, or its time is over.
func (w *world) podDone() bool { return w.facts.Returning || w.proofText() != "" }

func (d pods) readPod(ctx context.Context, w *world) error {
	pod, err := d.Kube.CoreV1().Pods(d.namespace).Get(ctx, podName(w.p), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", d.namespace, podName(w.p), err)
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
func (e *Engine) lookInstance(ctx context.Context, w *world) error {
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
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Unsupported) && !w.held(): // the preflight says which
		return nil
	case err != nil:
		return err
	}
	w.instance = instance
	w.instance.BuiltFrom = e.Cloud.BuiltFrom(w.pool, instance)
	f.Power = power(instance.Power)
	return holdOf(e).lookHold(ctx, w)
}

// speaksForItself tells that the instance need not be asked for: while the node says by itself that it
// runs and nothing but the cluster is waited for, and once the donor is given back.
func (w *world) speaksForItself() bool {
	f := &w.facts
	ending := f.Failed || f.Deleting
	if !w.held() {
		return f.MustBoot() || ending || w.looking() && f.Node == plan.NodeReady
	}
	if ending || f.Node != plan.NodeReady {
		return false
	}
	draining := f.Recorded && f.Cordoned && !f.MustBoot()
	return draining || w.generalizing()
}

// generalizing tells that the pod is at work, and nothing else has happened since.
func (w *world) generalizing() bool {
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

func (w *world) proofText() string { return w.p.Annotations[v1alpha1.ProofAnnotation] }
