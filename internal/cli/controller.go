package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/controller/prototype"
	"github.com/kamino-dev/kamino/internal/metrics"
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/policy"
)

// envNode names the node that a controller's own pod runs on: it can't capture that one.
const envNode = "NODE_NAME"

type controllerFlags struct {
	health, metrics, pprof string
	maxConcurrent          int
}

func newControllerCommand(f *Factory, o *Options) *cobra.Command {
	var flags controllerFlags
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller, which follows every policy and carries out every Prototype of the cluster",
		Long: `Decide as every PrototypePolicy of the cluster says, and carry out every Prototype, until interrupted. Several
may run: the one that holds the Lease works, and the others wait for it. The Lease is also what "kamino capture"
goes by, which leaves the work to a controller where there is one.`,
		Example: `  kamino controller --cloud-config /etc/kubernetes/azure.json
  kamino controller --metrics-bind-address :8080 --log-format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.maxConcurrent < 1 {
				return usagef("--max-concurrent must be at least 1, not %d", flags.maxConcurrent)
			}
			counts, err := metrics.Register(ctrlmetrics.Registry, f.Now)
			if err != nil {
				return err
			}
			o.OnRequest = counts.ARMRequest
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			return s.runController(cmd.Context(), flags, counts)
		},
	}
	cmd.Flags().StringVar(&flags.health, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	cmd.Flags().StringVar(&flags.metrics, "metrics-bind-address", "0", "`address` of /metrics; 0 for none")
	cmd.Flags().StringVar(&flags.pprof, "pprof-bind-address", "0", "`address` of /debug/pprof, which tells whoever asks what the process does; 0 for none")
	cmd.Flags().IntVar(&flags.maxConcurrent, "max-concurrent", 1, "how many nodes of the cluster may be out of service at once, each of another pool, where no policy allows more")
	cmd.Flags().StringVar(&o.Image, "image", defaultImage(f.Getenv), "image of the pod that generalizes a disk, where a Prototype names none")
	return cmd
}

func (s *session) runController(ctx context.Context, flags controllerFlags, counts *metrics.Metrics) error {
	if _, err := s.cluster.prototypes(ctx); err != nil {
		return err
	}
	if known, err := s.cluster.served(ctx, "orders"); err != nil || !known {
		return cmp.Or(err, error(errOrdersMissing)) // it would wait for ever to hear of them
	}
	if err := s.cluster.checkClock(); err != nil {
		return err
	}
	manager, err := s.manager(flags)
	if err != nil {
		return err
	}
	provider := counts.Provider(s.provider)
	looks := policy.NewLooks(provider, s.Now)
	observer := counts.Observer(looks.Provider(), s.options.Log.WithName("metrics"))
	decider := s.decider(manager, provider, looks, counts)
	engine := &capture.Engine{
		Client: s.cluster.Client, Kube: s.cluster.Kube, Cloud: provider, Observe: each(looks.Observe, observer.Observe), Namespace: s.options.Namespace,
		PodNamespace: s.options.podNamespace(),
		Image:        s.options.Image, AllowedImages: s.options.AllowedImages, OwnNode: s.Getenv(envNode), MaxConcurrent: flags.maxConcurrent,
		PolicyConcurrent: decider.MaxConcurrent, Now: s.Now, Recorder: clipped{manager.GetEventRecorder(eventSource)}, Log: s.options.Log.WithName("capture"),
		CheckRules: checkRules, Drives: true, Kured: s.options.Kured,
	}
	if err := (&prototype.Reconciler{Pass: counts.Pass(engine.Pass)}).SetupWithManager(manager); err != nil {
		return err
	}
	if err := manager.Add(s.sweeper(engine, decider.Nodes)); err != nil {
		return err
	}
	decider.Preflight, decider.Evictions = engine.Refusals, engine.Evictions
	if err := s.watchPolicies(ctx, manager, decider); err != nil {
		return err
	}
	if err := manager.Add(observer); err != nil {
		return err
	}
	labeler, err := s.labeler(provider, counts, looks)
	if err != nil {
		return err
	}
	if err := manager.Add(labeler); err != nil {
		return err
	}
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// manager makes what runs the controller under the Lease. The Lease is given back when it is stopped in
// order, once no pass runs any more.
func (s *session) manager(flags controllerFlags) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	caching, err := prototype.CacheOptions(s.options.podNamespace())
	if err != nil {
		return nil, err
	}
	lock, err := s.cluster.lock(s.options.Namespace, roleController)
	if err != nil {
		return nil, err
	}
	duration, deadline, period := leaseDuration, renewDeadline, retryPeriod
	// To compress all nodes of a large cluster costs the API server more time than a cluster's network saves.
	config := rest.CopyConfig(s.cluster.Config)
	config.DisableCompression = true
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              scheme,
		MapperProvider:                      func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return staticMapper(), nil },
		Cache:                               nodecache.InformerOptions(caching),
		Logger:                              s.options.Log,
		LeaderElection:                      true,
		LeaderElectionID:                    v1alpha1.LeaseName, // names it in leader_election_master_status
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &duration,
		RenewDeadline:                       &deadline,
		RetryPeriod:                         &period,
		Metrics:                             metricsserver.Options{BindAddress: flags.metrics},
		HealthProbeBindAddress:              flags.health,
		PprofBindAddress:                    flags.pprof,
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
