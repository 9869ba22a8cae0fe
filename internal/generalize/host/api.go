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
	"github.com/kamino-dev/kamino/internal/generalize"
)

// pauses between attempts to reach the API server. The network may be away for a moment when its agents
// are stopped.
var pauses = []time.Duration{
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second,
}

// API reads one Prototype and writes its proof.
type API struct{ client rest.Interface }

// Access says how the API server is reached.
type Access struct {
	// Host and Port of the API server, as KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
	Host, Port string
	// TokenFile holds the service account's token, CAFile the certificates that the server is known by.
	TokenFile, CAFile string
}

// NewAPI reads token and certificates at once: while the run lasts the kubelet that would renew them is
// stopped, and the directory that they lie in is removed.
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

// Get returns the Prototype.
func (a *API) Get(ctx context.Context, name string, wait func(context.Context, time.Duration) error) (*v1alpha1.Prototype, error) {
	p := &v1alpha1.Prototype{}
	err := persist(ctx, wait, func() error {
		// A new object each time: an attempt that broke off may have filled in half of one.
		p = &v1alpha1.Prototype{}
		return a.client.Get().Resource("prototypes").Name(name).MaxRetries(0).Do(ctx).Into(p)
	})
	if apierrors.IsNotFound(err) {
		return nil, refused("there is no Prototype %s", name)
	}
	if err != nil {
		return nil, classify("get Prototype "+name, err)
	}
	return p, nil
}

// Prove writes the proof on its Prototype. The UID goes along, so that a Prototype of the same name that
// came since is not given somebody else's proof: the API server refuses to change a UID.
func (a *API) Prove(ctx context.Context, s generalize.Subject, proof *v1alpha1.Proof, wait func(context.Context, time.Duration) error) error {
	text, err := json.Marshal(proof)
	if err != nil {
		return err
	}
	written, err := a.annotate(ctx, s, map[string]any{v1alpha1.ProofAnnotation: string(text)}, wait)
	if err != nil {
		return err
	}
	if written.UID != s.UID || written.Annotations[v1alpha1.ProofAnnotation] != string(text) {
		return fmt.Errorf("annotate Prototype %s: the API server answered with another object", s.Prototype)
	}
	return nil
}

// Unprove writes why there is no proof, and takes back one whose writing nobody has confirmed.
func (a *API) Unprove(ctx context.Context, u *v1alpha1.Unproven, name string, wait func(context.Context, time.Duration) error) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = a.annotate(ctx, generalize.Subject{Prototype: name, UID: u.UID},
		map[string]any{v1alpha1.UnprovenAnnotation: string(text), v1alpha1.ProofAnnotation: nil}, wait)
	return err
}

func (a *API) annotate(ctx context.Context, s generalize.Subject, annotations map[string]any, wait func(context.Context, time.Duration) error) (*v1alpha1.Prototype, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "annotations": annotations}})
	if err != nil {
		return nil, err
	}
	written := &v1alpha1.Prototype{}
	err = persist(ctx, wait, func() error {
		written = &v1alpha1.Prototype{}
		return a.client.Patch(types.MergePatchType).Resource("prototypes").Name(s.Prototype).Body(patch).MaxRetries(0).Do(ctx).Into(written)
	})
	if err != nil {
		return nil, classify("annotate Prototype "+s.Prototype, err)
	}
	return written, nil
}

// persist tries until it works, the answer is one that will not change, or the pauses are used up.
func persist(ctx context.Context, wait func(context.Context, time.Duration) error, try func() error) error {
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

// final says whether an answer will be the same the next time. A conflict may not: somebody else wrote
// the object in the same moment.
func final(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := int(status.Status().Code)
	return code >= 400 && code < 500 && code != 408 && code != 409 && code != 429
}

// Trouble is an answer of the API server, or the lack of one, with the exit code of its class.
type Trouble struct {
	Err  error
	code int
}

func (e *Trouble) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Trouble) Unwrap() error { return e.Err }

// ExitCode is 5 if the credential was not taken or not enough, and 6 if the API server did not answer.
func (e *Trouble) ExitCode() int { return e.code }

// unreachable is the exit code for an API server that did not answer.
const unreachable = 6

func classify(what string, err error) error {
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return &Trouble{fmt.Errorf("%s: the service account %s may not: %w", what, v1alpha1.GeneralizeServiceAccount, err), 5}
	case final(err):
		return fmt.Errorf("%s: %w", what, err)
	default:
		return &Trouble{fmt.Errorf("%s: the API server does not answer: %w", what, err), unreachable}
	}
}
