package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Options name a cluster and the user of the clients.
type Options struct {
	// Kubeconfig and Context name the cluster, like kubectl's flags. Default: KUBECONFIG and the current context.
	Kubeconfig, Context string
	// As is the user to impersonate; the user of the kubeconfig if empty.
	As rest.ImpersonationConfig
	// Agent is the user agent of the clients.
	Agent string
}

// Connect makes clients from the options and the environment. In a pod without a kubeconfig Connect uses the pod's
// cluster. Connect sends no request.
func Connect(o Options) (*Connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New(noCluster(rules))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if o.As.UserName != "" { // in a pod, clientcmd does not apply the override
		config.Impersonate = o.As
	}
	return New(config, o.Agent)
}

// noCluster returns the error text for a missing cluster, with the missing kubeconfig files.
func noCluster(rules *clientcmd.ClientConfigLoadingRules) string {
	var missing []string
	for _, file := range rules.GetLoadingPrecedence() {
		if _, err := os.Stat(file); file != "" && os.IsNotExist(err) {
			missing = append(missing, file)
		}
	}
	if len(missing) == 0 {
		return "no kubeconfig: set KUBECONFIG, or pass --kubeconfig"
	}
	return fmt.Sprintf("no kubeconfig, because %s does not exist: set KUBECONFIG, or pass --kubeconfig", strings.Join(missing, ", no "))
}

// budget limits the requests of a client: per second, and in a burst.
type budget struct {
	qps   float32
	burst int
}

var (
	// foreground is the budget of commands and captures. The API server's priority and fairness limits excessive
	// clients.
	foreground = budget{200, 400}
	// background is the budget of a controller's decisions, labels and sweeps.
	background = budget{50, 100}
)

// New makes the clients of a configuration with the user agent. All clients share one HTTP client, and so one
// connection.
func New(config *rest.Config, agent string) (*Connection, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	config.QPS, config.Burst = background.qps, background.burst
	reader := &clockReader{now: time.Now}
	retries := &retrier{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		reader.next = next
		return reader
	})
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		retries.next = next
		return retries
	})
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c := &Connection{Config: config, HTTP: httpClient, Skew: reader.skew, retrier: retries}
	objects, err := c.connect(foreground)
	if err != nil {
		return nil, err
	}
	reported := &sync.Map{}
	c.Client = &reportingClient{WithWatch: objects, connection: c, reported: reported}
	c.another = func() (*Connection, error) {
		other := *c
		objects, err := other.connect(background)
		if err != nil {
			return nil, err
		}
		other.Client = &reportingClient{WithWatch: objects, connection: c, reported: reported}
		return &other, nil
	}
	return c, nil
}

// connect makes the clients, and returns the client for Kamino's kinds.
func (c *Connection) connect(b budget) (client.WithWatch, error) {
	// Protobuf takes a third of the CPU time and half of the bytes of JSON.
	binary := rest.CopyConfig(c.Config)
	binary.RateLimiter = newContextLimiter(b.qps, b.burst)
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	kube, err := kubernetes.NewForConfigAndClient(binary, c.HTTP)
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(c.Config)
	plain.RateLimiter = newContextLimiter(b.qps, b.burst)
	c.Kube = kube
	return client.NewWithWatch(plain, client.Options{HTTPClient: c.HTTP, Scheme: scheme, Mapper: StaticMapper()})
}

// Background returns clients of the same cluster with a separate rate limit, so that background requests do not delay
// captures.
func (c *Connection) Background() (*Connection, error) {
	if c.another == nil {
		return c, nil
	}
	return c.another()
}

// Scheme returns a scheme with Kamino's kinds and the core kinds.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, nil
}

// DefinitionKind is the kind CustomResourceDefinition.
var DefinitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// StaticMapper maps the kinds to resources without requests. Discovery would cost two requests, and would report a
// missing definition as an error of a cache.
func StaticMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Prototype"), meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("PrototypePolicy"), meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("NodeOrder"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(DefinitionKind, meta.RESTScopeRoot)
	// Kinds of the manifests.
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"Role", "RoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	return mapper
}
