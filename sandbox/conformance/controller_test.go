package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	kubetesting "k8s.io/client-go/testing"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	kubefake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/controller/nodelabel"
	policycontroller "github.com/kamino-dev/kamino/internal/controller/policy"
	"github.com/kamino-dev/kamino/internal/metrics"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/trial/trialnode"
)

// wire is a listener with in-memory pipes as connections. In a synctest bubble, time passes while a read waits on a
// pipe. With a socket, the bubble's time stands still.
type wire struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire { return &wire{calls: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.calls:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// Addr implements net.Listener. The certificate of the test server is valid for this address.
func (*wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.calls <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transport trusts the server of this wire.
func (w *wire) transport(certificate *x509.Certificate) *http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &http.Transport{DialContext: w.dial, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
}

// controller has all parts of `kamino controller` that send cloud requests automatically: policy decisions, engine,
// metrics, and labels of nodes. API server and nodes are in memory.
type controller struct {
	*cloudEnv
	ctx     context.Context
	api     kube.Client
	nodes   *nodecache.Nodes
	looks   *policy.PoolCache
	engine  *capture.Engine
	metrics *metrics.Metrics
	watch   *metrics.Observer
	labeler *nodelabel.Labeler
	decide  *policycontroller.Reconciler
	// news wakes the decisions, as an informer would.
	news chan struct{}
	// from is the snapshot of all versions.
	from cloud.Snapshot
	// captured has the periods of captures. Requests in these periods do not belong to the controller.
	captured [][2]time.Time
}

// newController returns a controller of a provider for the objects; `run` starts the controller.
func newController(ctx context.Context, w *cloudEnv, p cloud.Provider, nodes []*corev1.Node, objects ...kube.Object) *controller {
	w.t.Helper()
	c := &controller{cloudEnv: w, ctx: ctx, news: make(chan struct{}, 1)}
	scheme := runtime.NewScheme()
	w.must(v1alpha1.AddToScheme(scheme))
	c.api = kubefake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}, &v1alpha1.NodeOrder{}).Build()

	c.metrics = metrics.New(nil, registry.All()...)
	provider := cloud.InCluster(c.metrics.Provider(p), func(context.Context) (string, error) { return string(systemNamespace().UID), nil })
	c.nodes, c.looks = nodecache.NewNodes(provider), policy.NewPoolCache(provider, time.Now)
	c.watch = c.metrics.Observer(c.looks.Watcher(), logr.Discard())
	known := []runtime.Object{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount, Namespace: v1alpha1.DefaultGeneralizeNamespace}}}
	var names []runtime.Object
	for _, n := range nodes {
		c.nodes.Set(n)
		known = append(known, n.DeepCopy())
		names = append(names, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: *n.ObjectMeta.DeepCopy()})
	}
	cluster := fake.NewClientset(known...)
	cluster.PrependReactor("create", "*", keepNoDryRun)
	c.engine = &capture.Engine{Client: c.api, Kube: cluster, Cloud: provider, Observe: c.observe, Image: "kamino:test", Log: logr.Discard(),
		TrialObserver: &trialnode.Observer{Kube: cluster, Namespace: v1alpha1.DefaultGeneralizeNamespace, Image: "kamino:test", Same: provider.SameInstance}}
	decider := &policy.Decider{
		Read: c.api, Client: c.api, Cloud: provider, Nodes: c.nodes, PoolCache: c.looks, Preflight: c.engine.Refusals, Log: logr.Discard(),
		Permissions: provider.Permissions, Observers: policy.Observers{Degraded: c.metrics.CapturesRefused},
	}
	c.decide = &policycontroller.Reconciler{Pass: decider.Pass, Nodes: c.nodes}
	metadata := metadatafake.NewTestScheme()
	w.must(metav1.AddMetaToScheme(metadata))
	c.labeler = &nodelabel.Labeler{
		Kube: cluster, Metadata: metadatafake.NewSimpleMetadataClient(metadata, names...), Cloud: provider, Log: logr.Discard(),
		Instances: func(ctx context.Context, pool cloud.PoolID, maxAge time.Duration) ([]cloud.Instance, error) {
			list, err := c.looks.Instances(ctx, pool, maxAge)
			return list.Instances, err
		},
	}
	return c
}

// keepNoDryRun responds to dry runs and reviews of rights as a real API server does. The fake API server would
// store both.
func keepNoDryRun(action kubetesting.Action) (bool, runtime.Object, error) {
	if review, is := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.LocalSubjectAccessReview); is {
		review.Status.Allowed = true
		return true, review, nil
	}
	create, is := action.(kubetesting.CreateActionImpl)
	if !is || len(create.CreateOptions.DryRun) == 0 {
		return false, nil, nil
	}
	return true, create.GetObject(), nil
}

// observe is the engine's callback.
func (c *controller) observe(ctx context.Context, before, after *v1alpha1.Prototype) {
	c.looks.Observe(ctx, before, after)
	c.watch.Observe(ctx, before, after)
}

// run is the process: every reader has its own interval, and every Prototype has one pass at the start.
func (c *controller) run() {
	c.t.Helper()
	prototypes := &v1alpha1.PrototypeList{}
	c.must(c.api.List(c.ctx, prototypes))
	for i := range prototypes.Items {
		if result, err := c.engine.Pass(c.ctx, prototypes.Items[i].Name); err != nil || !result.Done {
			c.t.Fatalf("prototype %s is not at rest: %+v, %v", prototypes.Items[i].Name, result, err)
		}
	}
	for _, start := range []func(context.Context) error{c.watch.Start, c.labeler.Start, c.followPolicies} {
		ended := make(chan error, 1)
		go func() { ended <- start(c.ctx) }()
		c.t.Cleanup(func() {
			if err := <-ended; err != nil {
				c.t.Error(err)
			}
		})
	}
}

// followPolicies reconciles when the reconciler asks for a pass, or after an event.
func (c *controller) followPolicies(ctx context.Context) error {
	for {
		result, err := c.decide.Reconcile(ctx, reconcile.Request{})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(result.RequeueAfter):
		case <-c.news:
		}
	}
}

// node is a node of the instance that is patched, rebooted and Ready since these times.
func node(name, provider string, patched, ready time.Time) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(ready),
			Labels:      map[string]string{corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{v1alpha1.KuredRebootNeededAnnotation: patched.UTC().Format(time.RFC3339)},
		},
		Spec: corev1.NodeSpec{ProviderID: provider},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ready)},
		}},
	}
}

// nodesOf returns a node for each machine of the pool.
func (w *cloudEnv) nodesOf(pool string, patched, ready time.Time) []*corev1.Node {
	w.t.Helper()
	var nodes []*corev1.Node
	for _, spec := range w.cloud.Specs() {
		if spec.Pool == pool {
			nodes = append(nodes, node(strings.ToLower(spec.ComputerName), spec.ProviderID, patched, ready))
		}
	}
	if len(nodes) == 0 {
		w.t.Fatalf("pool %s has no machines", pool)
	}
	return nodes
}

// prototypeOf returns the record of a successful capture of the pool.
func prototypeOf(pool, version string, donor *corev1.Node) *v1alpha1.Prototype {
	return &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", pool, version), UID: types.UID("uid-" + pool), CreationTimestamp: metav1.Now()},
		Spec: v1alpha1.PrototypeSpec{
			Pool: pool, Version: version, Donor: v1alpha1.Donor{NodeName: donor.Name, ProviderID: donor.Spec.ProviderID},
			Settings: v1alpha1.Settings{}.Defaulted(),
		},
		Status: v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded},
	}
}

// promote ends a capture: the recipe names the version, and the Prototype reports success.
func (c *controller) promote(pool, version string) {
	c.t.Helper()
	donor := c.nodesOf(pool, time.Time{}, time.Time{})[0]
	p := prototypeOf(pool, version, donor)
	p.UID += "-2"
	p.Status.Phase = v1alpha1.PhasePromoting
	c.must(c.api.Create(c.ctx, p))
	before := p.DeepCopy()
	c.triggerDecision()
	begun := time.Now()
	c.publishAndPromote(donor, version, c.from)
	c.captured = append(c.captured, [2]time.Time{begun, time.Now()})
	p.Status.Phase = v1alpha1.PhaseSucceeded
	c.must(c.api.Status().Update(c.ctx, p))
	c.observe(c.ctx, before, p)
	c.triggerDecision()
}

// triggerDecision triggers a decision, as an informer would a second after an event.
func (c *controller) triggerDecision() {
	time.Sleep(time.Second)
	c.news <- struct{}{}
}
