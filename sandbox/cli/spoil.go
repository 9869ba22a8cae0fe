package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

func (r *root) spoil() *cobra.Command {
	var d disk.Defect
	var kind string
	command := &cobra.Command{
		Use: "spoil POOL [VERSION] --with DEFECT", Short: "Make an image version bad: its nodes get a defect",
		Long: `The disk of the version gets the defect. Machines that are built from the version afterwards have the defect, too.
Other machines do not. Without VERSION, the next captured version of the pool gets the defect. If VERSION does not
exist yet, VERSION gets the defect when it is made.

  never-joins          The kubelet does not start: there is no Node.
  no-network           The Node is Ready, but its pods have no network.
  crashing-daemonset   Pods of DaemonSets crash after their start (--daemonset for a single DaemonSet).
  shared-identity      The machine ID and the system UUID are equal to those of a running node of the pool.
  not-ready-later      The Node is Ready, and stops being Ready after the time --after.
  joins-late           The kubelet starts after the time --after, and then works.
  none                 New machines of the version have no defect.

A version that is captured from a node with a defect has the defect, too.`,
		Example: `  kamino-sandbox spoil pool1 --with never-joins                      # the next version
  kamino-sandbox spoil pool1 2026.11.22 --with not-ready-later --after 8m
  kamino-sandbox spoil pool1 --with never-joins --share 70 --seed 3  # seven nodes in ten
  kamino-sandbox spoil pool1 2026.11.22 --with none`,
		ValidArgsFunction: r.completePools,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("pass POOL, and VERSION unless the next version gets the defect")}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&kind, "with", "", "kind of the defect: "+joined(disk.DefectKinds()))
	flags.IntVar(&d.Share, "share", 100, "percentage of machines with the defect")
	flags.Uint64Var(&d.Seed, "seed", 0, "selects the machines of --share; the same seed selects the same machines")
	flags.DurationVar(&d.After, "after", 0,
		"not-ready-later: how long the node is Ready; joins-late: how late the kubelet starts; in simulated time (default 5m)")
	flags.StringVar(&d.DaemonSet, "daemonset", "", "crashing-daemonset: the DaemonSet, as namespace/name (default: all DaemonSets)")
	_ = command.RegisterFlagCompletionFunc("with", cobra.FixedCompletions(words(disk.DefectKinds()), cobra.ShellCompDirectiveNoFileComp))
	command.RunE = func(command *cobra.Command, args []string) error {
		d.Kind = disk.DefectKind(kind)
		if _, err := d.Validate(); err != nil {
			return usageError{err}
		}
		client, err := r.client()
		if err != nil {
			return err
		}
		order := control.Spoil{Defect: d}
		if len(args) > 1 {
			order.Version = args[1]
		}
		said, err := client.Spoil(command.Context(), args[0], order)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(r.stdout, said)
		return err
	}
	return command
}

func (r *root) outage() *cobra.Command {
	var after time.Duration
	command := &cobra.Command{
		Use: "outage WHAT", Short: "Cut the pod network of the cluster, and restore it",
		Long: `The kubelets report that the network is not ready, and start no pod that needs the network. The image of a node
does not matter.

  all-nodes   Every node has no network.
  new-nodes   Nodes that join during the outage have no network.
  none        The network is restored.`,
		Example: `  kamino-sandbox outage all-nodes
  kamino-sandbox outage none`,
		Args:              exactly("WHAT"),
		ValidArgsFunction: cobra.FixedCompletions(words(kubelet.Outages()), cobra.ShellCompDirectiveNoFileComp),
	}
	command.Flags().DurationVar(&after, "for", 0, "end the outage after this simulated time (default: with `outage none`)")
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, args []string) error {
		return client.Outage(ctx, control.Outage{What: kubelet.NetworkOutage(args[0]), For: after})
	})
	return command
}

func words[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = string(one)
	}
	return out
}

func joined[T ~string](all []T) string { return strings.Join(words(all), ", ") }
