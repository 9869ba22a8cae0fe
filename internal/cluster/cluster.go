// Package cluster is one process's connection to a Kubernetes cluster: its clients, what the API server knows of Kamino's
// kinds, and how far the two clocks are apart. It decides nothing about captures.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Connection to a Kubernetes cluster. Nothing is cached: a command looks at a handful of objects.
type Connection struct {
	// Config and HTTP are what the clients are made of; a controller's manager is made of them too. Nil in
	// tests without an API server.
	Config *rest.Config
	HTTP   *http.Client
	// Client is for Prototypes and Secrets, Kube for everything else.
	Client client.WithWatch
	Kube   kubernetes.Interface
	// Skew is how far the API server's clock is ahead of this machine's; false if nothing has been heard of it yet.
	Skew func() (time.Duration, bool)
	// OnUnreadable, if set, is called once for each object of Kamino's kinds that Client reads with unreadable fields.
	OnUnreadable func(message string)
	// calmly waits for the API server; nil in tests without one.
	calmly *calmly
	// another makes the clients that Background returns; nil in tests without an API server.
	another func() (*Connection, error)
}

// Refused is a refusal in one sentence, with what to do. Nothing was changed.
type Refused struct{ err error }

// Refusef makes a Refused; its verbs are those of fmt.Errorf.
func Refusef(format string, args ...any) *Refused { return &Refused{fmt.Errorf(format, args...)} }

// Error implements error.
func (r *Refused) Error() string { return r.err.Error() }

// Unwrap gives out what it was made of.
func (r *Refused) Unwrap() error { return r.err }

// ErrNotInstalled says how to install Prototypes, which are not there.
var ErrNotInstalled = Refusef(
	"this cluster doesn't know Prototypes yet, and nothing was changed: install Kamino's definitions with `kamino manifests | kubectl apply -f -`")

// ErrOrdersMissing says how to install what an older Kamino did not need.
var ErrOrdersMissing = Refusef(
	"this cluster doesn't know Orders, which this version of Kamino needs, and nothing was changed: write its definitions with `kamino crds --apply`")

// Prototypes lists all Prototypes. There are a handful for each pool. ErrNotInstalled is returned where the kind is not known.
func (c *Connection) Prototypes(ctx context.Context) ([]v1alpha1.Prototype, error) {
	var list v1alpha1.PrototypeList
	err := c.Client.List(ctx, &list)
	switch {
	case apierrors.IsNotFound(err):
		return nil, ErrNotInstalled
	case err != nil:
		return nil, fmt.Errorf("list prototypes: %w", err)
	default:
		return list.Items, nil
	}
}

// Policies lists all. What the cluster does not know is none.
func (c *Connection) Policies(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
	var list v1alpha1.PrototypePolicyList
	if err := c.Client.List(ctx, &list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list prototypepolicies: %w", err)
	}
	return list.Items, nil
}

// Served tells whether the API server knows a kind of Kamino's, by its plural.
func (c *Connection) Served(ctx context.Context, resource string) (bool, error) {
	path := fmt.Sprintf("/apis/%s/%s", v1alpha1.GroupVersion.String(), resource)
	err := c.Kube.CoreV1().RESTClient().Get().AbsPath(path).Param("limit", "1").
		SetHeader("Accept", "application/json").Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil // RBAC is asked before; whether it exists is not told to everybody
	}
	return err == nil, err
}

// NotAllowed tells whether the API server or the cloud does not accept the credential, or doesn't let it
// do what was asked.
func NotAllowed(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) ||
		cloud.Is(err, cloud.Unauthenticated) || cloud.Is(err, cloud.Denied)
}

// Unreachable tells whether the API server or the cloud did not answer, or answered that it can't just
// now: the same call may work later.
func Unreachable(err error) bool {
	var (
		network   net.Error
		transport *url.Error
		fromCloud *cloud.Error
	)
	switch {
	case errors.As(err, &fromCloud):
		return fromCloud.Kind == cloud.Unavailable || fromCloud.Kind == cloud.Throttled
	case errors.Is(err, context.Canceled):
		return false
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err),
		apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
		return true
	default:
		return errors.As(err, &network) && !local(network) || errors.As(err, &transport)
	}
}

// local tells whether what looks like an error of the network is the bare number of one that the system gave: it has
// the methods of such an error, and is one of a file as well. What comes over a network says so around it.
func local(err net.Error) bool {
	_, bare := err.(syscall.Errno) // who stands around it is what tells them apart
	return bare
}
