// Package cluster connects a process to a Kubernetes cluster: clients, the installed kinds of Kamino, and the skew of
// the clocks. The package decides nothing about captures.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Connection is a connection to a Kubernetes cluster. Nothing is cached: a command reads a handful of objects.
type Connection struct {
	// Config and HTTP are the base of the clients and of a controller's manager. Both are nil in tests without an API
	// server.
	Config *rest.Config
	HTTP   *http.Client
	// Client reads Prototypes and Secrets, Kube everything else.
	Client client.WithWatch
	Kube   kubernetes.Interface
	// Skew returns how far the API server's clock is ahead of this machine's clock; false before the first response.
	Skew func() (time.Duration, bool)
	// OnUnreadable is called once for each object of Kamino with unreadable fields. Nil ignores such objects.
	OnUnreadable func(message string)
	// retrier retries requests to a busy API server; nil in tests without an API server.
	retrier *retrier
	// another makes the clients for Background; nil in tests without an API server.
	another func() (*Connection, error)
}

// Name is the host of the API server; empty in tests without an API server.
func (c *Connection) Name() string {
	if c.Config == nil {
		return ""
	}
	host := c.Config.Host
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		return u.Host // without a user and a path
	}
	return host
}

// Refused is a refusal with a remedy, in one sentence. Nothing was changed.
type Refused struct{ err error }

// Refusef returns a Refused. The verbs are those of fmt.Errorf.
func Refusef(format string, args ...any) *Refused { return &Refused{fmt.Errorf(format, args...)} }

// Error implements error.
func (r *Refused) Error() string { return r.err.Error() }

// Unwrap returns the wrapped error.
func (r *Refused) Unwrap() error { return r.err }

// ErrNotInstalled reports that the cluster has no definition of Prototypes, with the command to install the
// definitions.
var ErrNotInstalled = Refusef(
	"the cluster has no definition of Prototypes, and nothing was changed: install Kamino with `kamino manifests | kubectl apply -f -`")

// ErrOrdersMissing reports that the cluster has the definitions of an older Kamino, without NodeOrders.
var ErrOrdersMissing = Refusef(
	"the cluster has no definition of NodeOrders, and nothing was changed: update the definitions with `" + v1alpha1.DefinitionsCommand + "`")

// Prototypes lists all Prototypes, a handful for each pool. Prototypes returns ErrNotInstalled without the definition.
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

// Policies lists all PrototypePolicies. The list is empty without the definition.
func (c *Connection) Policies(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
	var list v1alpha1.PrototypePolicyList
	if err := c.Client.List(ctx, &list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list prototypepolicies: %w", err)
	}
	return list.Items, nil
}

// Served reports whether the API server serves a resource of Kamino. resource is the plural name. Discovery answers every
// account that may log in: a list of the resource would need a right in the whole cluster, which Kamino has not for NodeOrders.
func (c *Connection) Served(ctx context.Context, resource string) (bool, error) {
	raw, err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/apis/"+v1alpha1.GroupVersion.String()).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	var served metav1.APIResourceList
	if err := cmp.Or(err, json.Unmarshal(raw, &served)); err != nil {
		return false, err
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }), nil
}

// NotAllowed reports whether the API server or the cloud rejects the credential or denies the action.
func NotAllowed(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) ||
		cloud.Is(err, cloud.Unauthenticated) || cloud.Is(err, cloud.Denied)
}

// Unreachable reports whether the API server or the cloud did not respond or is unavailable for now. The same call may
// work later.
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

// local reports whether the error is a bare system error number, as file operations return. A bare number also
// implements net.Error. Errors of a network wrap the number.
func local(err net.Error) bool {
	_, bare := err.(syscall.Errno) // errors.As would also find a wrapped number
	return bare
}
