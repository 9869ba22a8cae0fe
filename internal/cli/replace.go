package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/replace"
	"github.com/kamino-dev/kamino/internal/wording"
)

// replaceFlags say whether and how the nodes that run a bad version are rebuilt.
type replaceFlags struct {
	nodes, allAtOnce, outage, force, disrupt bool
	maxUnavailable                           int
	drainTimeout, readyTimeout               time.Duration
	// image that must go, in place of the version that a pool leaves.
	image string
}

func (r *replaceFlags) bind(cmd *cobra.Command) {
	flags, with := cmd.Flags(), "with --replace-nodes: "
	flags.BoolVar(&r.nodes, "replace-nodes", false, "rebuild the nodes that run the version which the pool leaves")
	flags.BoolVar(&r.allAtOnce, "all-at-once", false, with+"rebuild all of them at the same time, undrained; needs --accept-outage")
	flags.BoolVar(&r.outage, "accept-outage", false, "with --all-at-once: yes, all these nodes may be out of service at once, and what runs on them is lost")
	r.bindPace(cmd, with)
}

// bindPace binds what bounds a rebuilding.
func (r *replaceFlags) bindPace(cmd *cobra.Command, with string) {
	flags := cmd.Flags()
	flags.IntVar(&r.maxUnavailable, "max-unavailable", 1, with+"how many nodes of the pool may be out of service at once")
	flags.BoolVar(&r.force, "force", false, with+"lose pods that nothing makes again, and at the end of --drain-timeout have no regard to budgets")
	flags.BoolVar(&r.disrupt, "disrupt", false, with+"also nodes, and pods, that ask not to be disrupted by an annotation of Karpenter's or the cluster autoscaler's")
	flags.DurationVar(&r.drainTimeout, "drain-timeout", 15*time.Minute, with+"how long a node may take to drain before it is given back as it is")
	flags.DurationVar(&r.readyTimeout, "ready-timeout", 30*time.Minute, with+"how long a node may take from its rebuild's begin until it is Ready")
}

func (r *replaceFlags) check() error {
	switch {
	case !r.nodes && (r.allAtOnce || r.outage || r.force || r.disrupt):
		return usagef("--all-at-once, --accept-outage, --force and --disrupt belong to --replace-nodes")
	case r.allAtOnce && !r.outage:
		return usagef("--all-at-once takes every node that runs the version out of service at the same time, and drains none: add --accept-outage if that is meant")
	case r.outage && !r.allAtOnce:
		return usagef("--accept-outage belongs to --all-at-once")
	case r.maxUnavailable < 1:
		return usagef("--max-unavailable must be at least 1, not %d", r.maxUnavailable)
	case r.drainTimeout <= 0 || r.readyTimeout <= 0:
		return usagef("--drain-timeout and --ready-timeout must be longer than nothing")
	}
	return nil
}

// line says what becomes of the nodes.
func (r *replaceFlags) line(b history.Rollback, dryRun bool) string {
	are := "are rebuilt now"
	if len(b.Nodes) == 1 {
		are = "is rebuilt now"
	}
	if dryRun {
		are = "would be rebuilt"
	}
	how := fmt.Sprintf("%d at a time", r.maxUnavailable)
	if r.allAtOnce {
		how = "all at once"
	}
	switch {
	case b.Nodes == nil:
		return fmt.Sprintf("Which nodes run version %s is not known yet; those that do %s from version %s, %s.", b.From, are, b.To, how)
	case len(b.Nodes) == 0:
		return fmt.Sprintf("No node runs version %s.", b.From)
	}
	return fmt.Sprintf("%s version %s and %s from version %s, %s: %s", print.Run(len(b.Nodes)), b.From, are, b.To, how, wording.Names(b.Nodes))
}

// replaceNodes rebuilds the nodes and says so as it goes on: to Out, or to Err where Out is for a machine.
func (s *session) replaceNodes(ctx context.Context, pool cloud.PoolID, deed print.Deed, flags changeFlags, how replaceFlags) error {
	out := s.Out
	if flags.format == print.JSON || flags.format == print.YAML {
		out = s.Err
	} else if err := print.WriteDeed(s.Out, flags.format, deed); err != nil {
		return err
	}
	replacement := &replace.Replacement{
		Kube: s.cluster.Kube, Cloud: s.provider, Pool: pool, From: deed.Version, To: deed.To, Image: how.image,
		MaxUnavailable: how.maxUnavailable, AllAtOnce: how.allAtOnce, OwnNode: s.Getenv(envNode), Now: s.Now,
		Drain:        v1alpha1.DrainSettings{Force: how.force, Disrupt: how.disrupt, Timeout: metav1.Duration{Duration: how.drainTimeout}},
		ReadyTimeout: how.readyTimeout, Kured: s.options.Kured,
	}
	if recorder := s.options.recorder(s.cluster); recorder != nil {
		replacement.Event = func(n *corev1.Node, kind, reason, note string) {
			recorder.Eventf(n, nil, kind, reason, "Rebuild", "%s", note)
		}
	}
	tell := func(node, what string) { _, _ = fmt.Fprintf(out, "node %s %s\n", node, what) }
	result, err := replacement.Run(ctx, tell, pause)
	deed.Rebuilt, deed.NotRebuilt, deed.Waiting = result.Rebuilt, result.Failed, result.Waiting
	deed.Changed = deed.Changed || len(result.Rebuilt) > 0
	if flags.format == print.JSON || flags.format == print.YAML {
		if err := print.WriteDeed(s.Out, flags.format, deed); err != nil {
			return err
		}
	}
	if err == nil && len(result.Failed) == 0 && result.Waiting == "" {
		if deed.Nodes != nil && len(deed.Nodes)+len(result.Rebuilt) == 0 {
			return nil // which was said already
		}
		_, err := fmt.Fprintf(out, "%s rebuilt; no node runs version %s any more.\n", wording.Were(len(result.Rebuilt), "node"), deed.Version)
		return err
	}
	return replaceEnding(ctx, deed, err)
}

// replaceEnding says what is left, and how to go on.
func replaceEnding(ctx context.Context, deed print.Deed, err error) error {
	var left []string
	for _, name := range slices.Sorted(maps.Keys(deed.NotRebuilt)) {
		left = append(left, fmt.Sprintf("\n  node %s %s", name, deed.NotRebuilt[name]))
	}
	if deed.Waiting != "" {
		left = append(left, "\n  the others wait: "+deed.Waiting)
	}
	first := fmt.Sprintf("pool %s is rolled back", deed.Pool)
	if deed.Verb == "rebuild" {
		first = fmt.Sprintf("pool %s has nodes of its oldest image", deed.Pool)
	}
	done := fmt.Sprintf("%s, and %s rebuilt, but not all", first, wording.Were(len(deed.Rebuilt), "node"))
	if len(deed.Rebuilt) == 0 {
		done = first + ", but no node was rebuilt"
	}
	switch {
	case ctx.Err() != nil:
		return &ending{ExitInterrupted, fmt.Errorf("%s: interrupted; a node that was taken stays cordoned until the same command goes on with it", done)}
	case err != nil:
		return &ending{exitCode(err), fmt.Errorf("%s: %s%s", done, explain(err), strings.Join(left, ""))}
	}
	return &ending{ExitFailed, fmt.Errorf("%s; the same command goes on once this is mended:%s", done, strings.Join(left, ""))}
}
