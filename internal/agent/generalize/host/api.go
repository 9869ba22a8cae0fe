package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// pauses between attempts to reach the API server. The network may be down shortly while its agents stop.
var pauses = []time.Duration{
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second,
}

// API reads one order and writes its report.
type API struct{ client rest.Interface }

// Access is the access to the API server.
type Access struct {
	// Host and Port are KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
	Host, Port string
	// TokenFile has the service account's token, and CAFile the server's CA certificates.
	TokenFile, CAFile string
}

// NewAPI reads the token and certificates at once: during the run the kubelet that would renew them is stopped, and
// their directory is removed.
func NewAPI(a Access) (*API, error) {
	if a.Host == "" || a.Port == "" {
		return nil, errors.New("the address of the API server is not known: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set")
	}
	token, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	ca, err := os.ReadFile(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificates of the API server: %w", err)
	}
	return newAPI(&rest.Config{
		Host: "https://" + net.JoinHostPort(a.Host, a.Port), BearerToken: strings.TrimSpace(string(token)),
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	})
}

func newAPI(config *rest.Config) (*API, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.Timeout = 10 * time.Second
	config.UserAgent = "kamino-generalize"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &API{client: client}, nil
}

// Get returns the current order.
func (a *API) Get(ctx context.Context, o Order, wait func(context.Context, time.Duration) error) (*v1alpha1.NodeOrder, error) {
	found := &v1alpha1.NodeOrder{}
	err := retry(ctx, wait, func() error {
		// A new object each time: a failed attempt may have filled an object partly.
		found = &v1alpha1.NodeOrder{}
		return a.client.Get().Namespace(o.Namespace).Resource("nodeorders").Name(o.Name).MaxRetries(0).Do(ctx).Into(found)
	})
	if apierrors.IsNotFound(err) {
		return nil, refused("there is no order %s", o)
	}
	if err != nil {
		return nil, classify("get order "+o.String(), err)
	}
	return found, nil
}

// Report signs a report and writes the report to the order, over an earlier report whose write may be unconfirmed. The patch
// includes the UID, so that a newer order of the same name gets no foreign report.
func (a *API) Report(ctx context.Context, o Order, report *v1alpha1.Report, wait func(context.Context, time.Duration) error) error {
	report.Order, report.Pod = o.UID, o.Pod
	status, err := report.Sign(o.Key)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.UID}, "status": status})
	if err != nil {
		return err
	}
	written := &v1alpha1.NodeOrder{}
	err = retry(ctx, wait, func() error {
		written = &v1alpha1.NodeOrder{}
		return a.client.Patch(types.MergePatchType).Namespace(o.Namespace).Resource("nodeorders").Name(o.Name).SubResource("status").
			Body(patch).MaxRetries(0).Do(ctx).Into(written)
	})
	if err != nil {
		return classify("report on order "+o.String(), err)
	}
	if written.UID != o.UID || written.Status != status {
		return fmt.Errorf("report on order %s: the API server answered with another object", o)
	}
	return nil
}

// retry retries until success, a final error or the end of the pauses.
func retry(ctx context.Context, wait func(context.Context, time.Duration) error, try func() error) error {
	for _, pause := range pauses {
		err := try()
		if err == nil || final(err) {
			return err
		}
		if wait(ctx, pause) != nil {
			return err
		}
	}
	return try()
}

// final reports whether a retry would fail too. A conflict is not final, because another client wrote concurrently.
func final(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := int(status.Status().Code)
	return code >= 400 && code < 500 && code != 408 && code != 409 && code != 429
}

// APIError is an error of the API server, or a missing response, with its exit code.
type APIError struct {
	Err  error
	code int
}

func (e *APIError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *APIError) Unwrap() error { return e.Err }

// ExitCode is 5 if the credential was rejected or lacks permissions, and 6 if the API server did not respond.
func (e *APIError) ExitCode() int { return e.code }

// unreachable is the exit code without a response of the API server.
const unreachable = 6

func classify(what string, err error) error {
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return &APIError{fmt.Errorf("%s: the service account %s may not: %w", what, v1alpha1.GeneralizeServiceAccount, err), 5}
	case final(err):
		return fmt.Errorf("%s: %w", what, err)
	default:
		return &APIError{fmt.Errorf("%s: the API server does not answer: %w", what, err), unreachable}
	}
}
