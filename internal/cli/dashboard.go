package cli

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/dashboard/web"
	"github.com/kamino-dev/kamino/internal/dashboard/web/gather"
	"github.com/kamino-dev/kamino/internal/runner"
)

func newDashboardCommand(f *Factory, o *Options) *cobra.Command {
	var (
		address  string
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a page with pools, versions, captures and joins on localhost",
		Long: `Serve a read-only page on this machine until interrupted. It shows the pools with their nodes by version, running captures, the lineage of versions,
joins and events, and uses your kubeconfig and your cloud credential.

Every user of this machine can read the page, which changes nothing and refuses requests for other host names.`,
		Example: `  kamino dashboard
  kamino dashboard --address localhost:9000`,
		Args: cobra.NoArgs,
		RunE: inLook(f, o, func(ctx context.Context, s *session, _ []string) error {
			l, err := web.ListenLocal(ctx, address)
			if err != nil {
				return &failure{Code: ExitUsage, Err: err}
			}
			looks := gather.Gatherer{Finder: s.pools(), Explain: explain, Now: s.Now, Cluster: s.cluster.Name(),
				Lease: func(ctx context.Context) (attention.Lease, error) {
					return runner.LeaseState(ctx, s.cluster, s.options.Namespace, s.Now())
				}}
			page := &web.Server{Look: looks.Gather, Explain: explain, Interval: interval, Now: time.Now, Log: o.Log}
			if _, err := fmt.Fprintf(s.Out, "Dashboard: http://localhost:%d\n", l.Addr().(*net.TCPAddr).Port); err != nil {
				return err
			}
			return page.Serve(ctx, l)
		}),
	}
	cmd.Flags().StringVar(&address, "address", "localhost:8642", "loopback `address` and port; port 0 selects a free port")
	bindInterval(cmd, &interval, "least time between two looks at the cluster and the cloud")
	return cmd
}
