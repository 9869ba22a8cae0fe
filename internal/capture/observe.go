package capture

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// proofLife is the validity of a proof. Another client that starts and stops the donor takes longer. After a longer
// pause of the capture, the proof is outdated.
const proofLife = 10 * time.Minute

// powerOffGrace is the time for the donor to power itself off after its proof. Later the cloud stops the instance.
const powerOffGrace = 30 * time.Second

// fromPrototype is the state from the Prototype alone.
func fromPrototype(p *v1alpha1.Prototype, record v1alpha1.Record) *pass {
	w := &pass{p: p, written: p.Status.DeepCopy(), record: record, id: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	w.facts.Deleting = p.DeletionTimestamp != nil
	w.facts.Failed = p.Status.Failure != nil
	return w
}

// unseen is the state from the Prototype alone, with a newer record.
func (w *pass) unseen(record v1alpha1.Record) *pass {
	again := fromPrototype(w.p, record)
	again.written = w.written
	return again
}

// observe looks at the capture, and judges its admission if it has not begun.
func (e *Engine) observe(ctx context.Context, w *pass) error {
	if err := e.look(ctx, w); err != nil {
		return err
	}
	return e.lookPreflight(ctx, w)
}

// look reads the objects of the capture, in an order in which each read knows what the reads before it found. The record
// precedes each effect, so what the record excludes is not read.
func (e *Engine) look(ctx context.Context, w *pass) error {
	for _, look := range []func(context.Context, *pass) error{
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
func (e *Engine) lookPool(ctx context.Context, w *pass) error {
	of, err := membership.OfPrototype(ctx, e.Cloud, w.p, w.donor.node)
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

func (w *pass) isHeld() bool { return w.facts.Hold.Lock == plan.Ours || w.facts.Hold.Recorded }

// lookNode reads the Node, its holder and the deadlines.
func (e *Engine) lookNode(ctx context.Context, w *pass) error {
	if err := readNamed(ctx, e, w); err != nil {
		return err
	}
	return readDonor(ctx, e, w)
}

// readDonor sets the facts of the record and of the Node, if present.
func readDonor(ctx context.Context, e *Engine, w *pass) error {
	f := &w.facts
	w.donor.reservation = w.record.Reservation
	f.Hold.Recorded = w.donor.reservation != nil
	f.Hold.Restored, f.Hold.Noted = true, true
	var err error
	switch {
	case w.donor.node != nil && !w.record.DonorGone:
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
	if w.donor.node != nil {
		w.readNode()
	}
	readDeparture(w)
	readPatch(w)
	donorReservation{e}.lookDeadlines(w)
	return drain{e}.lookPods(ctx, w)
}

// readNamed reads the Node of the donor's name.
func readNamed(ctx context.Context, e *Engine, w *pass) error {
	name := w.p.Spec.Donor.NodeName
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", name, err)
	}
	w.donor.namedNode = n
	if e.Cloud.SameInstance(cloud.InstanceID(n.Spec.ProviderID), w.id) {
		w.donor.node = n
	}
	return nil
}

// readNode sets the facts of the donor's Node.
func (w *pass) readNode() {
	n, f := w.donor.node, &w.facts
	f.Donor.Node = plan.NodeNotReady
	if nodestate.Ready(n) {
		f.Donor.Node = plan.NodeReady
	}
	f.Donor.Cordoned = n.Spec.Unschedulable
	if w.donor.reservation != nil {
		f.Hold.CordonRestored, f.Hold.Restored = n.Spec.Unschedulable == w.donor.reservation.Unschedulable, node.Restored(n, *w.donor.reservation)
	}
	boot := n.Status.NodeInfo.BootID
	f.Donor.Rebooted = f.MustBoot() && boot != "" && boot != w.record.LeaveBoot()
}

// lookPod reads the pod on the donor: the inspecting pod before the order, the generalize pod afterwards. A record precedes each
// pod, and the list of the donor's pods shows a pod of a late request.
func (d pods) lookPod(ctx context.Context, w *pass) error {
	f := &w.facts
	recorded := w.record.DiskCheckStartedAt != nil || f.MustBoot() || f.Failed || f.Deleting || w.donor.arePodsListed && w.donor.remainingPods.HasOwnPod
	if w.p.UID == "" || !f.Unrecorded && !(recorded && f.PodMatters()) {
		return nil
	}
	return d.readPod(ctx, w)
}

// lookLeftPod reads a pod that should no longer exist, before the capture ends.
func (d pods) lookLeftPod(ctx context.Context, w *pass) error {
	if w.disk.pod != nil || !w.facts.LeftoversMatter() {
		return nil
	}
	return d.readPod(ctx, w)
}

func (d pods) readPod(ctx context.Context, w *pass) error {
	namespace := podNamespaceOf(w, d.podNamespace())
	pod, err := d.Kube.CoreV1().Pods(namespace).Get(ctx, podName(w.p), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", namespace, podName(w.p), err)
	}
	w.disk.pod = pod
	w.facts.Disk.Pod = plan.PodActive
	if !w.facts.Disk.Touched && !w.facts.Unrecorded {
		w.readInspection(d.now())
		return nil
	}
	if w.podTrouble() != "" || w.disk.noProofReason != "" {
		w.facts.Disk.Pod = plan.PodFailed
	}
	w.facts.Disk.PodKnown = w.record.Order != nil && w.record.Order.Pod == pod.UID
	return nil
}

// lookInstance reads the instance with its protection, unless the donor is released.
func (e *Engine) lookInstance(ctx context.Context, w *pass) error {
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
		w.donor.instance = instance
		w.donor.instance.BuiltFrom = e.Cloud.BuiltFrom(w.pool, instance)
		f.Donor.Power, f.Leaving.Removing = power(instance.Power), instance.Removing
		if err = (donorReservation{e}).endMissing(ctx, w); err == nil {
			err = donorReservation{e}.readProtection(ctx, w)
		}
	}
	if err != nil && !w.hasBegun() && w.record.DiskCheckStartedAt == nil {
		w.preflight.instanceErr, err = err, nil // so that other obstacles are also reported
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
