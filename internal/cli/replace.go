package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/wording"
)

// replaceFlags select whether and how Kamino rebuilds the nodes of a bad version.
type replaceFlags struct {
	nodes, outage, force, disrupt bool
	print.Pace
	drainTimeout, readyTimeout time.Duration
	// image to replace, instead of the version that a pool leaves.
	image string
}

func (r *replaceFlags) bind(cmd *cobra.Command) {
	flags, with := cmd.Flags(), "with --replace-nodes: "
	flags.BoolVar(&r.nodes, "replace-nodes", false, "rebuild the nodes of the version that the pool leaves")
	flags.BoolVar(&r.AllAtOnce, "all-at-once", false, with+"rebuild all nodes at the same time without a drain; needs --accept-outage")
	flags.BoolVar(&r.outage, "accept-outage", false, "with --all-at-once: accept that all these nodes are out of service at once and lose their pods")
	r.bindPace(cmd, with)
}

// bindPace binds the flags that limit a rebuild.
func (r *replaceFlags) bindPace(cmd *cobra.Command, with string) {
	flags := cmd.Flags()
	flags.IntVar(&r.MaxUnavailable, "max-unavailable", 1, with+"how many nodes of the pool may be out of service at once")
	flags.BoolVar(&r.force, "force", false, with+"evict pods without a controller; after --drain-timeout, ignore disruption budgets")
	flags.BoolVar(&r.disrupt, "disrupt", false,
		with+"rebuild nodes and evict pods despite the do-not-disrupt annotations of Karpenter and the cluster autoscaler")
	flags.DurationVar(&r.drainTimeout, "drain-timeout", 15*time.Minute,
		with+"how long a drain may take; after that Kamino uncordons the node without a rebuild")
	flags.DurationVar(&r.readyTimeout, "ready-timeout", 30*time.Minute, with+"how long a node may take from the start of the rebuild until Ready")
}

func (r *replaceFlags) check() error {
	switch {
	case !r.nodes && (r.AllAtOnce || r.outage || r.force || r.disrupt):
		return usagef("--all-at-once, --accept-outage, --force and --disrupt need --replace-nodes")
	case r.AllAtOnce && !r.outage:
		return usagef("--all-at-once stops all nodes of the version at the same time, without a drain: to accept the outage, add --accept-outage")
	case r.outage && !r.AllAtOnce:
		return usagef("--accept-outage needs --all-at-once")
	case r.MaxUnavailable < 1:
		return usagef("--max-unavailable must be at least 1, not %d", r.MaxUnavailable)
	case r.drainTimeout <= 0 || r.readyTimeout <= 0:
		return usagef("--drain-timeout and --ready-timeout must be longer than 0s")
	}
	return nil
}

// replaceNodes rebuilds the nodes and reports the progress: to Out, or to Err if Out is machine-readable.
func (c *change) replaceNodes(ctx context.Context, deed print.ChangeResult, how replaceFlags) error {
	out := c.Out
	if c.format.Machine() {
		out = c.Err
	} else if err := print.WriteChangeResult(c.Out, c.format, deed); err != nil {
		return err
	}
	replacement := &rebuild.Replacement{
		Kube: c.cluster.Kube, Namespace: c.options.Namespace, Cloud: c.provider, Pool: c.pool.ID, From: deed.Version, To: deed.To, Image: how.image,
		MaxUnavailable: how.MaxUnavailable, AllAtOnce: how.AllAtOnce, OwnNode: c.Getenv(envNode), Now: c.Now,
		Drain:        v1alpha1.DrainSettings{Force: how.force, Disrupt: how.disrupt, Timeout: metav1.Duration{Duration: how.drainTimeout}},
		ReadyTimeout: how.readyTimeout, Kured: c.options.Kured, Recorder: c.options.recorder(c.cluster),
	}
	notify := func(node, what string) { _ = output.Prose(out, fmt.Sprintf("node %s %s\n", node, what)) }
	result, err := replacement.Run(ctx, notify, process.Wait)
	deed.Rebuilt, deed.NotRebuilt, deed.Waiting = result.Rebuilt, result.Failed, result.Waiting
	deed.Changed = deed.Changed || len(result.Rebuilt) > 0
	if c.format.Machine() {
		if err := print.WriteChangeResult(c.Out, c.format, deed); err != nil {
			return err
		}
	}
	if err == nil && len(result.Failed) == 0 && result.Waiting == "" {
		if deed.Nodes != nil && len(deed.Nodes)+len(result.Rebuilt) == 0 {
			return nil // the message was printed before
		}
		err := output.Prose(out, fmt.Sprintf("%s rebuilt; no node runs version %s any longer.\n", wording.Were(len(result.Rebuilt), "node"), deed.Version))
		return err
	}
	return replaceEnding(ctx, deed, err)
}

// replaceEnding reports the remaining nodes, and how to continue.
func replaceEnding(ctx context.Context, deed print.ChangeResult, err error) error {
	done, left := deed.Unfinished()
	switch {
	case ctx.Err() != nil:
		return &failure{Code: ExitInterrupted, Err: fmt.Errorf("%s: interrupted; the drained node stays cordoned until you run the same command again", done)}
	case err != nil:
		return &failure{Code: exitCode(err), Err: fmt.Errorf("%s: %s%s", done, explain(err), left)}
	}
	return &failure{Code: ExitFailed, Err: fmt.Errorf("%s; fix the causes and run the same command again:%s", done, left)}
}
