package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/runner"
)

func newDescribeCommand(f *Factory, o *Options) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "describe PROTOTYPE",
		Short: "Show one capture: steps, verification, image, and the reason of a failure",
		Long: `Show the record of a capture, running or ended: the donor, the time of each step, the image version, and the changes to the pool's recipe. The output
includes the files that were removed from the disk, the verification before the copy, and for a failed capture the reason and the remedy.

The command needs no cloud credential. "kamino status" and "kamino history" show the other versions of a pool.`,
		Example: `  kamino describe pool1-2026.03.09
  kamino describe pool1-2026.03.09 -o json | jq .proof`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePrototypes(f, o),
		RunE: inCluster(f, o, func(ctx context.Context, c *cluster.Connection, args []string) error {
			return describe(ctx, f, c, o.Namespace, args[0], format)
		}),
	}
	output.Bind(cmd, &format, output.Table, output.JSON, output.YAML)
	return cmd
}

func describe(ctx context.Context, f *Factory, cluster *cluster.Connection, namespace, argument string, format output.Format) error {
	all, err := cluster.Prototypes(ctx)
	if err != nil {
		return err
	}
	// The argument may have the form of `kubectl get -o name`.
	name := argument[strings.LastIndex(argument, "/")+1:]
	p := runner.Named(all, name)
	if p == nil {
		return refusedf("Prototype %s not found: run `kubectl get prototypes` to list Prototypes", name)
	}
	version := contents.OfPrototype(p)
	d := print.Description{Prototype: print.Presentable(p), Lineage: version.Lineage, Contents: print.CountContents(version)}
	d.Proof, d.Unproven = p.Status.Proof, p.Status.Unproven
	if p.Spec.Pioneer != nil && (p.Status.Patch == nil || p.Status.Patch.Result == "") {
		policies, err := cluster.Policies(ctx)
		if err != nil {
			f.note("pending patches are unknown: %s", explain(err))
		}
		d.Pending = print.PatchesOf(policies, cloud.PoolID(p.Spec.PoolID))
	}
	if !p.Status.Terminal() {
		facts := attention.Facts{Now: f.Now(), Prototypes: []v1alpha1.Prototype{*p}}
		if facts.Lease, err = runner.LeaseState(ctx, cluster, namespace, f.Now()); err != nil {
			f.note("Whether a process works on the capture is unknown: %s", explain(err))
		}
		d.Attention = attention.List(facts)
	}
	return print.Describe(f.Out, format, d, f.Now())
}
