package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// ErrUnconfirmed is returned if no Lease confirms the reservation on a Node. Any account that annotates Nodes can write
// a reservation.
var ErrUnconfirmed = errors.New("no Lease in Kamino's namespace confirms the reservation on the Node")

// Settled is the minimum age of a leftover Lease. Reserve writes the Node right after the Lease.
const Settled = 2 * time.Minute

// Reservations reads and writes the holders of nodes. A reservation is a Lease in Kamino's namespace with a copy on the
// Node. Kubelets and accounts that annotate Nodes cannot write in the namespace.
type Reservations struct {
	Kube kubernetes.Interface
	// Namespace of the Leases; DefaultNamespace if empty.
	Namespace string
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Lease is the content of a reservation's Lease.
type Lease struct {
	Name, Namespace string
	Node            string
	NodeUID         types.UID
	Reservation     v1alpha1.Reservation
	// WrittenAt is the time of the last write, by the writer's clock.
	WrittenAt time.Time

	uid             types.UID
	resourceVersion string
}

// Of reports whether the Lease belongs to the Node.
func (l Lease) Of(n *corev1.Node) bool { return l.Node == n.Name && l.NodeUID == n.UID }

// Confirmed returns the reservation in the Lease of the Node and ignores the Node's annotation; nil without a Lease.
func (s Reservations) Confirmed(ctx context.Context, n *corev1.Node) (*v1alpha1.Reservation, error) {
	l, err := s.readLease(ctx, n)
	if err != nil || l == nil {
		return nil, err
	}
	return &l.Reservation, nil
}

// Held returns the reservation of the Node by the holder. Held returns ErrUnconfirmed without such a Lease.
func (s Reservations) Held(ctx context.Context, n *corev1.Node, holder v1alpha1.Holder) (*v1alpha1.Reservation, error) {
	r, err := s.Confirmed(ctx, n)
	switch {
	case err != nil:
		return nil, err
	case r == nil || !r.Same(holder):
		return nil, fmt.Errorf("node %s: %w", n.Name, ErrUnconfirmed)
	}
	return r, nil
}

// All returns the Leases of all reservations. All skips a Lease with unreadable content, because the Lease confirms
// nothing.
func (s Reservations) All(ctx context.Context) ([]Lease, error) {
	list, err := s.leases().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.HolderLabel})
	if err != nil {
		return nil, fmt.Errorf("list the leases of namespace %s: %w", s.namespace(), err)
	}
	all := make([]Lease, 0, len(list.Items))
	for i := range list.Items {
		if l, err := leaseOf(&list.Items[i]); err == nil {
			all = append(all, *l)
		}
	}
	return all, nil
}

// ReservationOf returns the reservation of a Node from the result of All; nil if there is none.
func ReservationOf(all []Lease, n *corev1.Node) *v1alpha1.Reservation {
	for i := range all {
		if all[i].Of(n) {
			return &all[i].Reservation
		}
	}
	return nil
}

// Drop deletes the Lease. Drop fails if the Lease has changed since the read.
func (s Reservations) Drop(ctx context.Context, l Lease) error {
	err := s.leases().Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.uid, ResourceVersion: &l.resourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s/%s: %w", s.namespace(), l.Name, err)
	}
	return nil
}

// DropOf deletes all Leases of the holder. Call DropOf when the holder reserves no node any more.
func (s Reservations) DropOf(ctx context.Context, holder types.UID) error {
	all, err := s.All(ctx)
	for _, l := range all {
		if l.Reservation.UID == holder {
			err = errors.Join(err, s.Drop(ctx, l))
		}
	}
	return err
}

// Hold reserves a node that stays as it is: only the Lease names the holder. Another holder is a conflict.
func (s Reservations) Hold(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) error {
	if err := unheld(n, r.Holder); err != nil {
		return err
	}
	_, err := s.grant(ctx, n, r)
	return err
}

// grant writes the Lease before the Node. grant returns the Lease only if this call created the Lease. A Lease of
// another holder is a conflict, except a leftover Lease: an old Lease whose Node is as before the reservation. A Node that
// its holder does not touch says nothing about the Lease.
func (s Reservations) grant(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) (*Lease, error) {
	made, err := s.create(ctx, n, r)
	if err == nil {
		return leaseOf(made)
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	have, getErr := s.get(ctx, n)
	switch {
	case getErr != nil:
		return nil, getErr
	case have == nil: // the first holder has given up
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), n.Name, err)
	}
	l, err := leaseOf(have)
	leftover := err == nil && !l.Reservation.Untouched && AsBefore(n, l.Reservation) && s.now().Sub(l.WrittenAt) >= Settled
	if err == nil && !l.Reservation.Same(r.Holder) && !leftover {
		err = fmt.Errorf("lease %s/%s is held by %s", have.Namespace, have.Name, l.Reservation.Holder)
	}
	if err != nil {
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), n.Name, err)
	}
	return nil, s.update(ctx, have, n, r)
}

// Renew writes the Lease of a reserved node, whether the Lease exists or not, and leaves the copy on the Node: the caller must
// know that the node is reserved.
func (s Reservations) Renew(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) error {
	have, err := s.get(ctx, n)
	switch {
	case err != nil:
		return err
	case have == nil:
		if _, err = s.create(ctx, n, r); apierrors.IsAlreadyExists(err) {
			err = apierrors.NewConflict(corev1.Resource("nodes"), n.Name, err)
		}
		return err
	}
	return s.update(ctx, have, n, r)
}

// End deletes the Lease of a released Node if the Lease belongs to the holder.
func (s Reservations) End(ctx context.Context, n *corev1.Node, holder v1alpha1.Holder) error {
	l, err := s.readLease(ctx, n)
	if err != nil || l == nil || !l.Reservation.Same(holder) {
		return err
	}
	return s.Drop(ctx, *l)
}

// create makes the Lease. The error says so if there is one by the name.
func (s Reservations) create(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	lease.Name, lease.Namespace = v1alpha1.ReservationLeaseName(n.Name, n.UID), s.namespace()
	if err := fill(lease, n, r, s.now()); err != nil {
		return nil, err
	}
	made, err := s.leases().Create(ctx, lease, metav1.CreateOptions{FieldManager: "kamino"})
	if err != nil {
		return nil, fmt.Errorf("create lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return made, nil
}

// update writes the Lease if the content changes. The resource version makes the API server refuse a concurrent write.
func (s Reservations) update(ctx context.Context, have *coordinationv1.Lease, n *corev1.Node, r v1alpha1.Reservation) error {
	want := have.DeepCopy()
	if err := fill(want, n, r, s.now()); err != nil {
		return err
	}
	if maps.Equal(want.Annotations, have.Annotations) && maps.Equal(want.Labels, have.Labels) {
		return nil
	}
	if _, err := s.leases().Update(ctx, want, metav1.UpdateOptions{FieldManager: "kamino"}); err != nil {
		return fmt.Errorf("update lease %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// fill writes the reservation into the Lease. The spec is for people: `kubectl get leases` shows the holder.
func fill(lease *coordinationv1.Lease, n *corev1.Node, r v1alpha1.Reservation, now time.Time) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("reserve node %s: %w", n.Name, err)
	}
	metav1.SetMetaDataLabel(&lease.ObjectMeta, v1alpha1.HolderLabel, holderLabel(r.UID))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.ReservedNodeAnnotation, n.Name)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.ReservedNodeUIDAnnotation, string(n.UID))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.ReservationAnnotation, string(text))
	acquired, renewed := metav1.NewMicroTime(r.ReservedAt.Time), metav1.NewMicroTime(now)
	lease.Spec.HolderIdentity = ptr(strings.ReplaceAll(r.Brief(), " ", "/"))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &acquired, &renewed
	return nil
}

// holderLabel returns the holder's UID as a label value. UIDs of Kamino's own holders stay unchanged.
func holderLabel(uid types.UID) string {
	if text := string(uid); len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:8])
}

// get reads the Lease of the Node's name and UID; nil if there is none.
func (s Reservations) get(ctx context.Context, n *corev1.Node) (*coordinationv1.Lease, error) {
	name := v1alpha1.ReservationLeaseName(n.Name, n.UID)
	have, err := s.leases().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read lease %s/%s: %w", s.namespace(), name, err)
	}
	return have, nil
}

// readLease returns the Lease of the Node; nil if there is none.
func (s Reservations) readLease(ctx context.Context, n *corev1.Node) (*Lease, error) {
	have, err := s.get(ctx, n)
	if err != nil || have == nil {
		return nil, err
	}
	l, err := leaseOf(have)
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", have.Namespace, have.Name, err)
	}
	if !l.Of(n) {
		return nil, nil
	}
	return l, nil
}

func leaseOf(lease *coordinationv1.Lease) (*Lease, error) {
	r, err := v1alpha1.ReservationOf(lease.Annotations)
	switch {
	case err != nil:
		return nil, err
	case r == nil || r.UID == "":
		return nil, errors.New("the lease names no holder")
	}
	l := &Lease{
		Name: lease.Name, Namespace: lease.Namespace, Node: lease.Annotations[v1alpha1.ReservedNodeAnnotation],
		NodeUID: types.UID(lease.Annotations[v1alpha1.ReservedNodeUIDAnnotation]), Reservation: *r, uid: lease.UID, resourceVersion: lease.ResourceVersion,
	}
	if at := lease.Spec.RenewTime; at != nil {
		l.WrittenAt = at.Time
	}
	return l, nil
}

func (s Reservations) leases() coordination.LeaseInterface {
	return s.Kube.CoordinationV1().Leases(s.namespace())
}

func (s Reservations) namespace() string { return cmp.Or(s.Namespace, v1alpha1.DefaultNamespace) }

func (s Reservations) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}
