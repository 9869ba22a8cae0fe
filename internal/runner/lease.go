package runner

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
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// Times of the Lease. A capture takes minutes to hours, so half a minute until the replacement of a crashed holder is
// short. A renewal every eight seconds is cheap. All holders must use the same times.
const (
	// LeaseDuration is the lifetime of a Lease without renewal.
	LeaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 8 * time.Second
	// leaseWriteTimeout limits one write of the Lease, so that several writes fit into renewDeadline.
	leaseWriteTimeout = 5 * time.Second
)

// Role is the kind of a process that holds the Lease.
type Role string

// Kinds of processes.
const (
	RoleController Role = "controller"
	RoleCommand    Role = "command"
)

// identity is a holder's name in the Lease: role, host and a unique ID, such as "controller/kamino-controller-5d9/3f0e…".
func identity(r Role) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%s/%s", r, host, uuid.NewUUID())
}

// Holder is the holder of the Lease, parsed from its identity; zero without a holder.
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

// String returns a part of a sentence: "the controller kamino-controller-5d9", "a command on laptop".
func (h Holder) String() string {
	switch h.Role {
	case "":
		return "no process"
	case RoleController:
		return "the controller " + h.Host
	case RoleCommand:
		return "a command on " + h.Host
	default:
		return h.Host
	}
}

// lock is the Lease in the form of client-go's elector.
func lock(c *cluster.Connection, namespace string, r Role) (resourcelock.Interface, error) {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, v1alpha1.LeaseName,
		c.Kube.CoreV1(), c.Kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity(r)})
	if err != nil {
		return nil, err
	}
	return wholeWrites{lock}, nil
}

// wholeWrites completes writes after a stop of the elector. Otherwise the elector treats a canceled write as failed. If the
// API server completed the write, an ended process holds the Lease, and all processes wait until the Lease expires.
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

// LeaseHolder reads the holder of the Lease in the namespace; the zero Holder means no holder.
func LeaseHolder(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) (Holder, error) {
	lease, err := readLease(ctx, c, namespace)
	if err != nil || lease == nil || expired(lease, now) {
		return Holder{}, err
	}
	return parseHolder(*lease.Spec.HolderIdentity), nil
}

// LeaseState reads whether a process works on captures, and since when not. A process that stops regularly releases the
// Lease, and its successor has a whole term to begin.
func LeaseState(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) (attention.Lease, error) {
	lease, err := readLease(ctx, c, namespace)
	state := attention.Lease{Known: err == nil}
	if err != nil || lease == nil {
		return state, err
	}
	holder := Holder{}
	if lease.Spec.HolderIdentity != nil {
		holder = parseHolder(*lease.Spec.HolderIdentity)
	}
	switch {
	case !expired(lease, now):
		state.Holder, state.Sweeps = holder.String(), holder.Role == RoleController
		return state, nil
	case holder.Role != "":
		state.Lost = holder.String()
	}
	if renewed := lease.Spec.RenewTime; renewed != nil {
		state.Over = renewed.Add(LeaseDuration)
	}
	return state, nil
}

// readLease reads the Lease; nil without a Lease.
func readLease(ctx context.Context, c *cluster.Connection, namespace string) (*coordinationv1.Lease, error) {
	lease, err := c.Kube.CoordinationV1().Leases(namespace).Get(ctx, v1alpha1.LeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("lease %s/%s: %w", namespace, v1alpha1.LeaseName, err)
	}
	return lease, nil
}

// expired reports whether the Lease has no holder: the holder released the Lease, or stopped the renewals.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return true
	}
	return s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second).Before(now)
}

// CheckLease checks with a dry run that this command may hold the Lease: without the permission, the Prototype would only
// block the pool.
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
		return nil // another process writes the Lease now, so writes are possible
	case apierrors.IsNotFound(err):
		return cluster.Refusef("namespace %s for Kamino's Lease and pods does not exist, and nothing was changed: "+
			"install Kamino with `kamino manifests | kubectl apply -f -`", namespace)
	default:
		return fmt.Errorf("lease %s/%s: %w", namespace, v1alpha1.LeaseName, err)
	}
}
