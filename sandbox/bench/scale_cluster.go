package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// cluster is an etcd process, an API server process, and a simulated Azure whose scale sets have no machines. The
// nodes are only objects. Nothing else runs, so the measurement shows only the API server and the controller.
type cluster struct {
	site         *sandboxdir.Directory
	servers      sandboxdir.Servers
	api          *envtest.Environment
	kube         kubernetes.Interface
	objects      dynamic.Interface
	cloud        *azure.Server
	pools, nodes int
	undo         []func() error
}

func startCluster(ctx context.Context, o Options, dir string, pools, nodes int) (_ *cluster, err error) {
	c := &cluster{pools: pools, nodes: nodes}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.site, err = sandboxdir.Open(filepath.Join(dir, "site"), pool.Azure); err != nil {
		return nil, err
	}
	c.onStop(c.site.Close)
	if err := c.startAPI(ctx, o, filepath.Join(dir, "programs")); err != nil {
		return nil, err
	}
	if err := c.startCloud(ctx); err != nil {
		return nil, err
	}
	if err := c.site.WriteClientFiles(c.servers); err != nil {
		return nil, err
	}
	return c, c.install(ctx, o)
}

func (c *cluster) onStop(undo func() error) { c.undo = append(c.undo, undo) }

// stop ends everything, the last first.
func (c *cluster) stop() error {
	var errs []error
	for i := len(c.undo) - 1; i >= 0; i-- {
		errs = append(errs, c.undo[i]())
	}
	c.undo = nil
	return errors.Join(errs...)
}

// startAPI starts etcd and the API server from the sandbox's binary.
func (c *cluster) startAPI(ctx context.Context, o Options, programs string) error {
	if _, err := (child.Programs{}).Output(ctx, nil, o.Sandbox, "assets", programs); err != nil {
		return err
	}
	c.api = &envtest.Environment{BinaryAssetsDirectory: programs, ControlPlaneStartTimeout: 5 * time.Minute}
	// The plugin taints new nodes until a controller removes the taint; the controller does not run here.
	c.api.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "TaintNodesByCondition")
	config, err := c.api.Start()
	if err != nil {
		return err
	}
	c.onStop(c.api.Stop)
	c.servers.Kubeconfig = c.api.KubeConfig
	config = rest.CopyConfig(config)
	// Without compression nodes are listed faster, on one machine as in a cluster's network.
	config.QPS, config.Burst, config.DisableCompression = -1, 0, true
	if c.objects, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	c.kube, err = kubernetes.NewForConfig(config)
	return err
}

// startCloud starts the simulated Azure without latencies, and with the rate limits of the real Azure.
func (c *cluster) startCloud(ctx context.Context) error {
	ca, err := authority.Open(c.site.Path("pki"))
	if err != nil {
		return err
	}
	c.servers.CA = ca.CertPEM()
	pair, err := ca.Issue("azure", authority.Subject{Name: "azure", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return err
	}
	unscaled := clock.Clock{Scale: 1}
	machines, err := machine.New(ctx, machine.Config{Dir: c.site.Path("machines"), Clock: unscaled, Client: c.kube})
	if err != nil {
		return err
	}
	c.onStop(func() error { machines.Close(); return nil })
	facts := c.site.Identity
	c.cloud, err = azure.New(azure.Config{
		Dir: c.site.Path("azure"), Clock: unscaled, Fleet: machines, SubscriptionID: facts.SubscriptionID, TenantID: facts.TenantID,
		ResourceGroup: facts.ResourceGroup, Location: facts.Location, ClientID: facts.ClientID, ClientSecret: facts.ClientSecret,
		ZRS: true, Certificate: certificate, Throttle: readLimit,
	})
	if err != nil {
		return err
	}
	c.onStop(func() error { c.cloud.Close(); return nil })
	return c.serveCloud(ctx)
}

func (c *cluster) serveCloud(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.servers.Cloud = "https://" + listener.Addr().String()
	serving, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.cloud.Serve(serving, listener) }()
	c.onStop(func() error {
		end()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	for i := range c.pools {
		if err := c.cloud.CreatePool(ctx, c.poolOf(i).Azure("")); err != nil {
			return err
		}
	}
	return nil
}

// readLimit is Azure's rate limit for reads of a principal: a burst, and a rate per second.
var readLimit = azure.Throttle{ReadBurst: 250, ReadRate: 25}

// letForget waits until the rate limit no longer counts the requests of the last start. Otherwise, throttling would
// be measured.
func (c *cluster) letForget(ctx context.Context) error {
	requests := c.cloud.Requests()
	if len(requests) == 0 {
		return nil
	}
	refill := time.Duration(readLimit.ReadBurst / readLimit.ReadRate * float64(time.Second))
	select {
	case <-time.After(time.Until(requests[len(requests)-1].Time.Add(refill))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poolOf is the pool of node i.
func (c *cluster) poolOf(i int) pool.Spec {
	return pool.Spec{Name: fmt.Sprintf("pool%02d", i%c.pools), Light: true}.Complete()
}

func (c *cluster) programs(o Options) child.Programs {
	return o.programs(c.site.Environment(c.servers))
}

// install applies the manifests, and waits until the API server serves the kinds.
func (c *cluster) install(ctx context.Context, o Options) error {
	programs := c.programs(o)
	if _, err := programs.Install(ctx); err != nil {
		return err
	}
	_, err := programs.Output(ctx, nil, o.Sandbox, "kubectl", "--", "wait", "--for=condition=Established", "crd", "--all")
	return err
}

var policies = v1alpha1.GroupVersion.WithResource("prototypepolicies")

const policyName = "all"

// renewPolicy replaces the policy for all pools, to remove the last decisions from the status. The policy only
// decides, in a dry run.
func (c *cluster) renewPolicy(ctx context.Context) error {
	all := metav1.ListOptions{}
	if err := c.objects.Resource(policies).DeleteCollection(ctx, metav1.DeleteOptions{}, all); err != nil {
		return err
	}
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.PrototypePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: v1alpha1.PrototypePolicySpec{DryRun: true},
	})
	if err != nil {
		return err
	}
	p := &unstructured.Unstructured{Object: text}
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PrototypePolicy"))
	_, err = c.objects.Resource(policies).Create(ctx, p, metav1.CreateOptions{})
	return err
}

// decisionWithin bounds the wait for a first decision.
const decisionWithin = 2 * time.Minute

// awaitDecision returns when the status of the policy has a decision for every pool.
func (c *cluster) awaitDecision(ctx context.Context, p *controller) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionWithin)
	defer cancel()
	watch, err := c.objects.Resource(policies).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", policyName).String(),
	})
	if err != nil {
		return time.Time{}, err
	}
	defer watch.Stop()
	for {
		select {
		case event, more := <-watch.ResultChan():
			seen := time.Now()
			if !more {
				return seen, p.Trouble(errors.New("no decision was made in time"))
			}
			if object, is := event.Object.(*unstructured.Unstructured); is && c.decided(object) {
				return seen, nil
			}
		case <-p.Ended():
			return time.Time{}, p.Trouble(errors.New("the command has ended"))
		}
	}
}

// decided: every pool has a donor that only the dry run does not capture.
func (c *cluster) decided(object *unstructured.Unstructured) bool {
	policy := &v1alpha1.PrototypePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
		return false
	}
	for i := range policy.Status.Pools {
		if d := policy.Status.Pools[i].Decision; d == nil || d.Reason != v1alpha1.PolicyDryRun {
			return false
		}
	}
	return len(policy.Status.Pools) == c.pools
}
