package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/clouds"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/cluster/definition"
	"github.com/kamino-dev/kamino/internal/doctor"
	"github.com/kamino-dev/kamino/internal/runner"
)

func newDoctorCommand(f *Factory, o *Options) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "doctor [POOL]",
		Short: "Check cluster, permissions and pools, and say how to fix problems",
		Long: `Check the cluster and the pools, before or after the installation, and change nothing. The checks cover clocks, installed definitions, your permissions
in the cluster, and the controller. They find nodes that stay cordoned after a lost capture, leftovers of captures, and what else needs you, as in
"kamino status". For each pool they cover the cloud credential and its permissions, whether Kamino can capture a node, the image versions, and the
time of the last patch.

Each finding is ok, warn or fail, and a problem has its remedy below. The exit code is 3 if a check fails, and 0 if none does.`,
		Example: `  kamino doctor

  # Check the permissions of the controller's service account
  kamino doctor --as system:serviceaccount:kamino-system:kamino

  kamino doctor pool1 -o json | jq '.findings[] | select(.level == "fail")'`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inCluster(f, o, func(ctx context.Context, c *cluster.Connection, args []string) error {
			ctx, cancel := f.within(ctx, o)
			defer cancel()
			return f.examine(ctx, c, o, strings.Join(args, ""), format)
		}),
	}
	o.Clouds.BindTimeout(cmd.Flags())
	output.Bind(cmd, &format, output.Table, output.JSON, output.YAML)
	return cmd
}

// examine needs no session: examine works without a credential for the cloud, and reports the missing credential.
func (f *Factory) examine(ctx context.Context, c *cluster.Connection, o *Options, only string, format output.Format) error {
	d := &doctor.Doctor{
		Kube: c.Kube, Served: c.Served, Skew: c.Skew, Policies: c.Policies, Namespace: o.Namespace, PodNamespace: o.GeneralizeNamespace, Only: only,
		Kured: o.Kured, Now: f.Now, Difference: func(ctx context.Context) (string, error) { return definition.Difference(ctx, c) },
		Lease: func(ctx context.Context) (attention.Lease, error) {
			return runner.LeaseState(ctx, c, o.Namespace, f.Now())
		},
	}
	d.Prototypes = func(ctx context.Context) ([]v1alpha1.Prototype, error) {
		all, err := c.Prototypes(ctx)
		if errors.Is(err, cluster.ErrNotInstalled) { // a finding of its own
			return nil, nil
		}
		return all, err
	}
	var err error
	if d.About, err = chosenCloud(ctx, o); err != nil {
		return err
	}
	native, err := f.Cloud(ctx, o)
	if d.CloudError = err; err == nil {
		s := &session{Factory: f, options: o, cluster: c}
		s.provider, _ = c.InCluster(clouds.SayWait(native, f.Now, s.sayWait), nil)
		s.patient(ctx, only)
		d.Cloud, d.Leftovers, d.Case = s.provider, s.engine.Leftovers, s.engine.Case
	}
	report, err := d.Examine(ctx)
	if errors.Is(context.Cause(ctx), errInterrupted) { // what was not read is no finding
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if err := print.Doctor(f.Out, format, report); err != nil {
		return err
	}
	if report.Failures > 0 {
		return &failure{Code: ExitRefused, Err: errors.New("some checks failed: see the findings above; nothing was changed")}
	}
	return nil
}
