package capture

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// donorCloud has the calls of a cloud.Provider that read the donor's instance.
type donorCloud interface {
	poolFinder
	instanceLister
	Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error)
	BuiltFrom(pool cloud.PoolID, instance cloud.Instance) string
	Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error)
}

// donorReader reads Node, pods and instance of the donor.
type donorReader struct {
	kube    kubernetes.Interface
	cloud   donorCloud
	leases  node.Reservations
	store   store
	witness witness
	locks   locks
	drain   drain
	kured   string
	seen    *membership.Cluster // as in preflight
	now     clock
}

// lookNode reads the Node, its holder and the deadlines.
func (h donorReader) lookNode(ctx context.Context, w *pass) error {
	if err := h.readNamed(ctx, w); err != nil {
		return err
	}
	return h.readDonor(ctx, w)
}

// lookPool finds the donor's pool. A donor without a pool is refused before the capture begins.
func (h donorReader) lookPool(ctx context.Context, w *pass) error {
	of, err := membership.OfPrototype(ctx, h.cloud, w.p, w.donor.node)
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

// readNamed reads the Node of the donor's name.
func (h donorReader) readNamed(ctx context.Context, w *pass) error {
	name := w.p.Spec.Donor.NodeName
	n, err := h.seen.Node(name), error(nil)
	if n == nil {
		n, err = h.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", name, err)
	}
	w.donor.namedNode = n
	if h.cloud.SameInstance(cloud.InstanceID(n.Spec.ProviderID), w.id) {
		w.donor.node = n
	}
	return nil
}

// readDonor sets the facts of the record and of the Node, if present.
func (h donorReader) readDonor(ctx context.Context, w *pass) error {
	f := &w.facts
	w.donor.reservation = w.record.Reservation
	f.Hold.Recorded = w.donor.reservation != nil
	f.Hold.Restored, f.Hold.Noted = true, true
	f.Hold.ProtectionRestored = f.Copy.Wanted // which has none
	readOrdered(w)
	var err error
	switch {
	case w.donor.node != nil && !w.record.DonorGone:
		err = h.locks.readLock(ctx, w)
	case recordLost(w.p) && !w.isOrphan:
		err = h.locks.readLost(ctx, w, nil)
	}
	if err != nil {
		return err
	}
	readOrdered(w) // the Lease may have replaced the record
	f.Hold.Returning = w.record.Returning
	f.Unrecorded = recordLost(w.p)
	if w.donor.reservation != nil && w.donor.reservation.Replaces() {
		return fmt.Errorf("node %s: %w", w.p.Spec.Donor.NodeName, errEarlierVersion)
	}
	if w.donor.node != nil {
		readNode(w)
	}
	readPatch(w)
	h.lookDeadlines(w)
	return h.drain.lookPods(ctx, w)
}

// readOrdered sets the facts of the record about the order of the generalization.
func readOrdered(w *pass) {
	w.facts.Disk.Touched = w.record.GeneralizeBootID != "" || isCopyOrder(w.record)
	w.facts.Donor.MustLeaveBoot = w.record.LeaveBoot() != ""
}

// readNode sets the facts of the donor's Node.
func readNode(w *pass) {
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

// lookInstance reads the instance with its protection, unless the donor is released.
func (h donorReader) lookInstance(ctx context.Context, w *pass) error {
	f := &w.facts
	if !w.isHeld() && (f.IsOrdered() || f.Failed || f.Deleting) || w.copyRecord().Accepted { // another copy needs a Ready Node
		return nil
	}
	instance, err := h.cloud.Instance(ctx, w.id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		err = h.confirmGone(ctx, w)
	case cloud.Is(err, cloud.Unsupported) && !w.isHeld(): // the preflight reports the kind of instance
		return nil
	case err == nil:
		w.donor.instance = instance
		w.donor.instance.BuiltFrom = h.cloud.BuiltFrom(w.pool, instance)
		f.Donor.Power = power(instance.Power)
		if err = h.endMissing(ctx, w); err == nil {
			err = h.readProtection(ctx, w)
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

// readProtection reads the instance's scale-in protection before Protect and before the release. NotFound counts as no
// protection if the list of the pool lacks the instance, too.
func (h donorReader) readProtection(ctx context.Context, w *pass) error {
	f := &w.facts
	if f.MustBoot() && !f.Hold.Returning && !f.Failed && !f.Deleting || f.Copy.Wanted {
		return nil
	}
	hold, err := h.cloud.Protection(ctx, w.id)
	if cloud.Is(err, cloud.NotFound) {
		err = h.confirmUnprotected(ctx, w)
	}
	if err != nil {
		return err
	}
	w.donor.protection = hold
	f.Hold.Protected = hold.Protected || hold.Token == ""
	f.Hold.ProtectionRestored = w.donor.reservation == nil || hold.Token == "" || w.donor.reservation.Protection == "" || hold.Token == w.donor.reservation.Protection
	return nil
}

// registerTimeout limits the wait for a started machine to register its deleted Node again.
const registerTimeout = 10 * time.Minute

// lookDeadlines compares the time out of service with the deadlines.
func (h donorReader) lookDeadlines(w *pass) {
	if !w.isHeld() || w.donor.reservation == nil || w.facts.Donor.Patch == plan.PatchUnderWay {
		return
	}
	f, now := &w.facts, h.now()
	if f.Copy.Wanted {
		f.Hold.Overdue = now.Sub(w.copiesSince(w.donor.reservation.ReservedAt.Time)) > copyLimit
		return
	}
	limit := w.p.Spec.Settings.Defaulted().OutOfService
	since, taken := w.outOfServiceSince()
	held := now.Sub(since)
	if !taken {
		held -= limit.ReadyTimeout.Duration // the donor serves
	}
	f.Hold.Overdue = held > limit.Deadline.Duration
	f.Hold.ReadyOverdue = held > limit.Deadline.Duration+limit.ReadyTimeout.Duration
	since = w.returningSince()
	if since.IsZero() {
		return
	}
	if w.isOrphan {
		// An orphan may have waited for days: its timeout runs from the begin of the return.
		f.Hold.ReadyOverdue = now.Sub(since) > limit.ReadyTimeout.Duration
	}
	if w.donor.node == nil && now.Sub(since) > min(registerTimeout, limit.ReadyTimeout.Duration) {
		f.Hold.ReadyOverdue = true
	}
}

func (w *pass) returningSince() time.Time {
	for _, r := range []*v1alpha1.Reservation{w.donor.reservation, w.record.Reservation} {
		if r != nil && r.ReturningSince != nil {
			return r.ReturningSince.Time
		}
	}
	return time.Time{}
}

// outOfServiceSince is the begin of the donor's time out of service. A pioneer serves until the end of its patch.
func (w *pass) outOfServiceSince() (at time.Time, taken bool) {
	switch {
	case w.donor.reservation == nil:
		return time.Time{}, false
	case servesForPatch(w):
		return w.donor.reservation.ReservedAt.Time, false
	case !patchEndedAt(w).IsZero():
		return patchEndedAt(w), true
	}
	return w.donor.reservation.ReservedAt.Time, true
}

// lookKuredAgain reads kured's lock again before the cordon. Protect takes up to minutes in a cloud, and kured does not
// see our reservation. A later race is possible: decision 0011 in docs/contribute/decisions separates the hours of both.
func (h donorReader) lookKuredAgain(ctx context.Context, w *pass) error {
	f := &w.facts
	if !w.isHeld() || f.Copy.Wanted && f.Donor.Patch != plan.PatchWanted || f.Donor.Cordoned || f.MustBoot() || f.Failed || f.Deleting || f.Donor.Node == plan.NodeGone || f.Donor.Patch == plan.PatchUnderWay {
		return nil
	}
	lock, err := kured.Read(ctx, h.kube, h.kured, h.now())
	w.preflight.kured, f.Queued = lock, lock.Node != ""
	return err
}

// confirmGone returns an error unless the cloud's answer that the instance does not exist is believed. The time of the first
// answer is recorded before Kamino acts on a later one.
func (h donorReader) confirmGone(ctx context.Context, w *pass) error {
	f := &w.facts
	if !w.isHeld() || w.donor.reservation == nil {
		return h.confirmGoneBefore(ctx, w)
	}
	if f.Unrecorded && !f.Failed && !f.Deleting {
		f.Donor.Power = plan.Changing // the capture fails first, whatever the instance
		return nil
	}
	list, err := inPoolList(ctx, h.cloud, w.pool, w.id)
	if err != nil {
		return err
	}
	now, absence := metav1.NewTime(h.now()), plan.Absence{Node: f.Donor.Node, List: list}
	doubt, agreed := judgeAbsence(absence, w.donor.reservation.AgreedSince, now)
	if doubt == plan.NoDoubt {
		f.Donor.Power = plan.InstanceGone
		return nil
	}
	if err := h.recordMissing(ctx, w, orNow(w.donor.reservation.MissingSince, now), agreed); err != nil {
		return err
	}
	return doubtful("the instance of node "+w.p.Spec.Donor.NodeName, string(w.id), doubts[doubt])
}

// confirmGoneBefore is confirmGone before the reservation. A donor in service loses nothing, so the list is asked only once.
func (h donorReader) confirmGoneBefore(ctx context.Context, w *pass) error {
	list, err := inPoolList(ctx, h.cloud, w.pool, w.id)
	if err == nil && list == plan.ListHas {
		err = doubtful("the instance of node "+w.p.Spec.Donor.NodeName, string(w.id), doubts[plan.IsListed])
	}
	if err == nil {
		w.facts.Donor.Power = plan.InstanceGone
	}
	return err
}

// recordMissing writes since when the instance is missing, and since when the list agrees, into the record of the reservation; nil
// once the instance is there. An equal record costs nothing.
func (h donorReader) recordMissing(ctx context.Context, w *pass, since, agreed *metav1.Time) error {
	reservation := *w.donor.reservation
	if reservation.MissingSince.Equal(since) && reservation.AgreedSince.Equal(agreed) {
		return nil
	}
	reservation.MissingSince, reservation.AgreedSince = since, agreed
	if w.isOrphan || !w.facts.Hold.Recorded { // the Lease is the record
		if err := h.leases.Renew(ctx, w.donor.node, reservation); err != nil {
			return fmt.Errorf("record the missing instance of node %s: %w", w.donor.node.Name, err)
		}
		w.donor.lease = &reservation
	} else if err := h.store.record(ctx, w, func(r *v1alpha1.Record) { r.Reservation = &reservation }); err != nil {
		return err
	}
	w.donor.reservation, w.record.Reservation = &reservation, &reservation
	return nil
}

// endMissing ends the record of missing answers: the instance exists.
func (h donorReader) endMissing(ctx context.Context, w *pass) error {
	if !w.isHeld() || w.donor.reservation == nil || w.donor.reservation.MissingSince == nil {
		return nil
	}
	return h.recordMissing(ctx, w, nil, nil)
}

// confirmUnprotected returns an error unless an instance that exists has no protection, because it is in no list of its pool: the
// cloud has not found the protection.
func (h donorReader) confirmUnprotected(ctx context.Context, w *pass) error {
	list, err := inPoolList(ctx, h.cloud, w.pool, w.id)
	switch {
	case err != nil:
		return err
	case list == plan.ListHas:
		return doubtful("the scale-in protection of node "+w.p.Spec.Donor.NodeName, string(w.id), doubts[plan.IsListed])
	case list == plan.ListMissing && !w.isOrphan:
		return h.witness.confirmPoolGone(ctx, w)
	}
	return nil
}
