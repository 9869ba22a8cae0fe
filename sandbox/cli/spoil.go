package cli

import (
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
		Use: "spoil POOL [VERSION] --with DEFECT", Short: "Make an image version bad, so that nodes built from it do not work",
		Long: `The disk of the version carries the defect: machines that are built from it have it, and those that are built from
other versions, or were built before, do not. Without VERSION it is the next one that is captured in the pool. A VERSION
that does not exist yet gets the defect when it is made.

  never-joins          the kubelet does not start: there is no Node
  no-network           the Node is Ready, and pods on it reach nothing and are not reached
  crashing-daemonset   pods of DaemonSets crash as soon as they have started (--daemonset for a single one)
  shared-identity      machine ID and system UUID are those of a node of the pool that runs
  not-ready-later      the Node is Ready, and --after a while it is not any more
  joins-late           the kubelet starts --after a while, and all is well then
  none                 takes it back, for machines that are built from then on

A version that is captured from a node with a defect has it, too.`,
		Example: `  kamino-sandbox spoil pool1 --with never-joins                      # the next version
  kamino-sandbox spoil pool1 2026.11.22 --with not-ready-later --after 8m
  kamino-sandbox spoil pool1 --with never-joins --share 70 --seed 3  # seven nodes in ten
  kamino-sandbox spoil pool1 2026.11.22 --with none`,
		ValidArgsFunction: r.completePools,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("give POOL, and VERSION unless it is the next one")}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&kind, "with", "", "what is wrong: "+joined(disk.DefectKinds()))
	flags.IntVar(&d.Share, "share", 100, "how many in a hundred machines have it")
	flags.Uint64Var(&d.Seed, "seed", 0, "which machines do, with --share; the same for the same seed")
	flags.DurationVar(&d.After, "after", 0, "with not-ready-later: for how long the node is Ready; with joins-late: how late the kubelet starts; in simulated time (default 5m)")
	flags.StringVar(&d.DaemonSet, "daemonset", "", "with crashing-daemonset: which one, as namespace/name (default: all)")
	_ = command.RegisterFlagCompletionFunc("with", cobra.FixedCompletions(words(disk.DefectKinds()), cobra.ShellCompDirectiveNoFileComp))
	command.RunE = func(command *cobra.Command, args []string) error {
		d.Kind = disk.DefectKind(kind)
		if _, err := d.Checked(); err != nil {
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
		Use: "outage WHAT", Short: "Take the pod network away from the whole cluster, and give it back",
		Long: `What nodes were built from does not matter: their kubelets say that the network is not ready, and start no pod that needs it.

  all-nodes   every node
  new-nodes   nodes that join while it lasts; the others go on
  none        the network is back`,
		Example: `  kamino-sandbox outage all-nodes
  kamino-sandbox outage none`,
		Args:              exactly("WHAT"),
		ValidArgsFunction: cobra.FixedCompletions(words(kubelet.Outages()), cobra.ShellCompDirectiveNoFileComp),
	}
	command.Flags().DurationVar(&after, "for", 0, "end it after so much simulated time (default: with `outage none`)")
	command.RunE = func(command *cobra.Command, args []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		return client.Outage(command.Context(), control.Outage{What: kubelet.Outage(args[0]), For: after})
	}
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
