package drive

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// The Lease's times. A capture takes minutes to hours, so that half a minute until a crashed holder is
// replaced is short, and a renewal each eight seconds costs nobody much. All holders must use
// the same ones.
const (
	// LeaseDuration is how long a Lease lasts whose holder has died.
	LeaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 8 * time.Second
	// leaseWriteTimeout bounds one write of the Lease, so that several fit into the renewDeadline.
	leaseWriteTimeout = 5 * time.Second
)

// Role is what kind of process holds the Lease.
type Role string

// The kinds of process that hold it.
const (
	RoleController Role = "controller"
	RoleCommand    Role = "command"
)

// identity is a holder's name in the Lease: its role, its host, and what tells it from another on the same
// host, as "controller/kamino-controller-5d9/3f0e…".
func identity(r Role) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%s/%s", r, host, uuid.NewUUID())
}

// Holder is whoever holds the Lease, read from its identity; zero if nobody does.
type Holder struct {
	Role Role
	Host string
}

func parseHolder(identity string) Holder {
	if identity == "" {
		return Holder{}
	}
	parts := strings.Split(identity, "/")
	if len(parts) != 3 {
		return Holder{Role: "process", Host: identity}
	}
	return Holder{Role: Role(parts[0]), Host: parts[1]}
}

// String reads as a part of a sentence: "the controller kamino-controller-5d9", "a command on laptop".
func (h Holder) String() string {
	switch h.Role {
	case "":
		return "nobody"
	case RoleController:
		return "the controller " + h.Host
	case RoleCommand:
		return "a command on " + h.Host
	default:
		return h.Host
	}
}

// lock is the Lease as client-go's elector takes it.
func lock(c *cluster.Connection, namespace string, r Role) (resourcelock.Interface, error) {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, v1alpha1.LeaseName,
		c.Kube.CoreV1(), c.Kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity(r)})
	if err != nil {
		return nil, err
	}
	return wholeWrites{lock}, nil
}

// wholeWrites is a lock whose writes are carried to their end even when the elector is stopped meanwhile.
// An elector that drops a write in flight takes it for one that failed: if the API server did it all the
// same, a process that has ended holds the Lease, and everybody waits until it expires.
type wholeWrites struct{ resourcelock.Interface }

// Create implements resourcelock.Interface.
func (l wholeWrites) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseWriteTimeout)
	defer cancel()
	return l.Interface.Create(ctx, record)
}

// Update implements resourcelock.Interface.
func (l wholeWrites) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseWriteTimeout)
	defer cancel()
	return l.Interface.Update(ctx, record)
}

// LeaseHolder looks who holds the Lease in the namespace now; the zero Holder is returned if nobody does.
func LeaseHolder(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) (Holder, error) {
	lease, err := c.Kube.CoordinationV1().Leases(namespace).Get(ctx, v1alpha1.LeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Holder{}, nil
	case err != nil:
		return Holder{}, fmt.Errorf("lease %s/%s: %w", namespace, v1alpha1.LeaseName, err)
	case expired(lease, now):
		return Holder{}, nil
	default:
		return parseHolder(*lease.Spec.HolderIdentity), nil
	}
}

// expired tells whether nobody holds the Lease: it was given back, or its holder stopped renewing it.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return true
	}
	return s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second).Before(now)
}

// CheckLease makes sure that this command may hold the Lease, without taking it: a Prototype that nobody
// could work on would only be in the way.
func CheckLease(ctx context.Context, c *cluster.Connection, namespace string) error {
	leases := c.Kube.CoordinationV1().Leases(namespace)
	lease, err := leases.Get(ctx, v1alpha1.LeaseName, metav1.GetOptions{})
	switch {
	case err == nil:
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{}
		lease.Name = v1alpha1.LeaseName
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	switch {
	case err == nil, apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return nil // somebody writes it just now: it can be written
	case apierrors.IsNotFound(err):
		return cluster.Refusef("there is no namespace %s for Kamino's Lease and pods, and nothing was changed: "+
			"install Kamino with `kamino manifests | kubectl apply -f -`", namespace)
	default:
		return fmt.Errorf("lease %s/%s: %w", namespace, v1alpha1.LeaseName, err)
	}
}
