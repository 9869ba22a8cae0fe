package cli

import (
	"github.com/spf13/cobra"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kamino-dev/kamino/internal/cli/clouds"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/metrics"
	"github.com/kamino-dev/kamino/internal/notify/delivery"
	"github.com/kamino-dev/kamino/internal/runner"
)

func newControllerCommand(f *Factory, o *Options) *cobra.Command {
	controller := &runner.Controller{}
	maxConcurrent, notifyFile := 1, ""
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller, which executes all policies and Prototypes of the cluster",
		Long: `Execute every PrototypePolicy and every Prototype of the cluster until interrupted. You can run several replicas, of which the holder of the Lease
works while the others wait. "kamino capture" checks the same Lease, and leaves the work to a running controller.`,
		Example: `  kamino controller --cloud-config /etc/kubernetes/` + registry.All()[0].ConfigFile + `
  kamino controller --metrics-bind-address :8080 --log-format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if maxConcurrent < 1 {
				return usagef("--max-concurrent must be at least 1, not %d", maxConcurrent)
			}
			var err error
			if notifyFile != "" {
				if controller.Endpoints, err = delivery.Read(notifyFile); err != nil {
					return usagef("--notify-url-file: %w", err)
				}
			}
			counts, err := metrics.Register(ctrlmetrics.Registry, f.Now, clouds.Known()...)
			if err != nil {
				return err
			}
			o.Clouds.OnRequest = counts.Request
			s, err := open(cmd.Context(), f, o, true)
			if err != nil {
				return err
			}
			s.cluster.Notify(func(text string) { o.Log.Info(text) })
			controller.Options, controller.Cluster, controller.Cloud, controller.Counts = o.processOptions(s.Getenv, s.Now), s.cluster, s.provider, counts
			controller.MaxConcurrent, controller.Explain = maxConcurrent, explain
			s.cluster.OnUnreadable = nil // the controller logs unreadable objects
			return controller.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&controller.Health, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 to disable")
	cmd.Flags().StringVar(&controller.Metrics, "metrics-bind-address", "0", "`address` of /metrics; 0 to disable")
	cmd.Flags().StringVar(&controller.Pprof, "pprof-bind-address", "0",
		"`address` of /debug/pprof, which has no authentication and exposes internals of the process; 0 to disable")
	cmd.Flags().StringVar(&controller.Dashboard, "dashboard-bind-address", "0",
		"`address` of the read-only dashboard, which has no authentication, such as 127.0.0.1:8082 for kubectl port-forward; 0 to disable")
	cmd.Flags().StringVar(&notifyFile, "notify-url-file", "",
		"`file` with the URLs of endpoints for notices, one in each line: https:// for CloudEvents, chat+https:// for a chat's webhook")
	cmd.Flags().StringVar(&controller.ClusterName, "cluster-name", "", "`name` of the cluster in notices and on the dashboard")
	cmd.Flags().IntVar(&maxConcurrent, "max-concurrent", 1,
		"how many nodes of the cluster may be out of service at once, at most one per pool, if no policy allows more")
	cmd.Flags().StringVar(&o.Image, "image", defaultImage(f.Getenv), "image of the pod that generalizes a disk, if the Prototype names none")
	return cmd
}
