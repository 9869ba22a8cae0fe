package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/controller/prototype"
	"github.com/kamino-dev/kamino/internal/metrics"
	"github.com/kamino-dev/kamino/internal/notify"
	"github.com/kamino-dev/kamino/internal/notify/delivery"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

// Controller follows all policies and advances all Prototypes of a cluster while it holds the Lease.
type Controller struct {
	Options
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	// Counts holds the Prometheus metrics.
	Counts *metrics.Metrics
	// Health is the address of /healthz and /readyz, Metrics of /metrics, and Pprof of /debug/pprof; 0 means none.
	Health, Metrics, Pprof string
	// Dashboard is the address of the read-only page; 0 means none.
	Dashboard string
	// ClusterName names the cluster on the page and in notices; empty if unknown. Endpoints receive the notices.
	ClusterName string
	Endpoints   []delivery.Endpoint
	// Explain turns an error into a sentence, for the page.
	Explain func(error) string
}

// Run works until the context ends, and then releases the Lease.
func (k *Controller) Run(ctx context.Context) error {
	all, err := k.Cluster.Prototypes(ctx)
	if err != nil {
		return err
	}
	if earlier := v1alpha1.EarlierCapture(all); earlier != "" {
		return errors.New(earlier)
	}
	if known, err := k.Cluster.Served(ctx, "nodeorders"); err != nil || !known {
		return cmp.Or(err, error(cluster.ErrOrdersMissing)) // without the definition, the cache would never sync
	}
	if err := k.Cluster.CheckClock(); err != nil {
		return err
	}
	manager, err := k.manager()
	if err != nil {
		return err
	}
	provider := k.Counts.Provider(k.Cloud)
	looks := policy.NewPoolCache(provider, k.Now)
	observer := k.Counts.Observer(looks.Watcher(), k.Log.WithName("metrics"))
	background, err := k.Cluster.Background()
	if err != nil {
		return err
	}
	decider := k.decider(manager, background, provider, looks)
	notices := delivery.New(k.Endpoints, k.ClusterName, k.Counts.Notice, k.Log.WithName("notify"))
	decider.Observers.Status = func(before, after *v1alpha1.PrototypePolicy) {
		notices.Send(notify.OfPolicy(before, after, k.now())...)
	}
	decider.Observers.Attention = func(news []attention.Item) { logNews(k.Log.WithName("policy"), news) }
	noticed := func(_ context.Context, before, after *v1alpha1.Prototype) {
		notices.Send(notify.OfPrototype(before, after, k.now())...)
	}
	engine := NewEngine(k.Cluster, provider, k.Options, noteLimiter{manager.GetEventRecorder(eventSource)})
	sweeper := k.sweeper(engine, decider.Nodes, manager.GetCache(), noteLimiter{manager.GetEventRecorder(eventSource)})
	engine.Waves = true
	engine.Observe, engine.PolicyConcurrent, engine.Drives = each(looks.Observe, observer.Observe, sweeper.Observe, logChanges(k.Log.WithName("capture"), k.now), noticed), decider.MaxConcurrent, true
	if err := (&prototype.Reconciler{Pass: k.Counts.Pass(engine.Pass)}).SetupWithManager(manager); err != nil {
		return err
	}
	decider.Preflight, decider.Evictions = engine.Refusals, NewEngine(background, provider, k.Options, nil).Evictions
	rebuilds := k.rebuilds(manager, provider, decider)
	decider.Rebuild = rebuilds.Take
	if err := k.watchPolicies(ctx, manager, background, decider); err != nil {
		return err
	}
	labeler, err := k.labeler(background, provider, looks)
	if err != nil {
		return err
	}
	for _, runs := range append(k.pages(background, provider), sweeper, rebuilds, observer, labeler, notices, ctrlmanager.RunnableFunc(k.announceLease)) {
		if err := manager.Add(runs); err != nil {
			return err
		}
	}
	k.Log.Info("controller starts", "namespace", k.Namespace, "image", k.Image)
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// announceLease logs that this replica works. The manager calls announceLease when the replica holds the Lease.
func (k *Controller) announceLease(context.Context) error {
	k.Log.Info("controller holds the Lease", "namespace", k.Namespace, "lease", v1alpha1.LeaseName)
	return nil
}

// manager returns the manager that runs the controller under the Lease. At an orderly stop, the manager releases the Lease
// after the end of all passes.
func (k *Controller) manager() (ctrl.Manager, error) {
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	caching, err := prototype.CacheOptions(k.PodNamespace)
	if err != nil {
		return nil, err
	}
	lock, err := lock(k.Cluster, k.Namespace, RoleController)
	if err != nil {
		return nil, err
	}
	duration, deadline, period := LeaseDuration, renewDeadline, retryPeriod
	// To compress the list of nodes of a large cluster costs the API server more time than the network saves.
	config := rest.CopyConfig(k.Cluster.Config)
	config.DisableCompression = true
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              scheme,
		MapperProvider:                      func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return cluster.StaticMapper(), nil },
		Cache:                               nodecache.InformerOptions(caching),
		Logger:                              k.Log.V(1), // the framework informs at debug; its errors always appear
		LeaderElection:                      true,
		LeaderElectionID:                    v1alpha1.LeaseName, // the name in leader_election_master_status
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &duration,
		RenewDeadline:                       &deadline,
		RetryPeriod:                         &period,
		Metrics:                             metricsserver.Options{BindAddress: k.Metrics},
		HealthProbeBindAddress:              k.Health,
		PprofBindAddress:                    k.Pprof,
		// Unique names protect metrics against two managers in one process. This process has one manager; tests run in
		// sequence.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{manager.AddHealthzCheck, manager.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return nil, err
		}
	}
	return manager, nil
}
