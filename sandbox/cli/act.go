package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
)

func (r *root) scale() *cobra.Command {
	var wait bool
	command := &cobra.Command{
		Use: "scale POOL NODES", Short: "Change the size of a pool, as an autoscaler does",
		Long: `Sends the cloud the request of a cluster autoscaler. With --wait, the command returns when all new nodes are Ready,
and prints how long each node took, in seconds of this machine's clock.`,
		Example:           `  kamino-sandbox scale pool1 4 --wait`,
		Args:              exactly("POOL", "NODES"),
		ValidArgsFunction: r.completePools,
	}
	out := outputFlag(command)
	command.Flags().BoolVar(&wait, "wait", false, "wait until new nodes are Ready and removed nodes are gone")
	command.RunE = func(command *cobra.Command, args []string) error {
		nodes, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || nodes < 0 {
			return usageError{fmt.Errorf("NODES is %q: pass a number of 0 or more", args[1])}
		}
		client, err := r.client()
		if err != nil {
			return err
		}
		joins, err := client.Scale(command.Context(), args[0], control.Scale{Nodes: nodes, Wait: wait}, r.teller())
		if err != nil || len(joins) == 0 {
			return err
		}
		var rows [][]string
		for _, j := range joins {
			rows = append(rows, []string{j.Node, fmt.Sprintf("%.1fs", j.Registered), fmt.Sprintf("%.1fs", j.Ready)})
		}
		return show(r.stdout, *out, joins, []string{"NEW NODE", "REGISTERED AFTER", "READY AFTER"}, rows)
	}
	return command
}

func (r *root) patch() *cobra.Command {
	order := control.Patch{Reboot: true}
	command := &cobra.Command{
		Use: "patch NODE", Short: "Patch a machine and reboot the machine",
		Long: `Installs newer packages on the disk of the machine, writes the annotation of kured, and
reboots the machine. The node is a good donor afterwards. The command returns when the node is Ready again.`,
		Example: `  kamino-sandbox patch k8s-pool1-24816321-vmss000000
  kamino-sandbox patch k8s-pool1-24816321-vmss000000 --package openssl --package libc6=2.35-0ubuntu3.9
  kamino-sandbox patch k8s-pool1-24816321-vmss000000 --reboot=false   # leave the reboot pending`,
		Args: exactly("NODE"), ValidArgsFunction: r.completeNodes,
		RunE: r.dialed(func(ctx context.Context, client *control.Client, args []string) error {
			return client.Patch(ctx, args[0], order, r.teller())
		}),
	}
	command.Flags().StringArrayVar(&order.Packages, "package", nil,
		"a package to upgrade, as name or name=version (repeatable; default: the kernel and all other packages)")
	command.Flags().BoolVar(&order.Reboot, "reboot", true, "reboot afterwards")
	return command
}

func (r *root) reboot() *cobra.Command {
	return &cobra.Command{
		Use: "reboot NODE", Short: "Reboot a machine and wait until its node is Ready", Args: exactly("NODE"),
		ValidArgsFunction: r.completeNodes,
		RunE: r.dialed(func(ctx context.Context, client *control.Client, args []string) error {
			return client.Reboot(ctx, args[0], r.teller())
		}),
	}
}

func (r *root) age() *cobra.Command {
	return &cobra.Command{
		Use: "age NODE TIME", Short: "Shift the times of a node into the past, as if nothing had happened since",
		Long: `Shifts the transition times of the Node's conditions (Ready among them) back by TIME, and the time of the last
patch. Waiting times of policies (selection.minReadyTime) end at once.

Nothing else ages: Kamino and the API server use the clock of this machine. Creation times of objects stay, and the
day in the name of an image version stays.`,
		Example: `  kamino-sandbox age k8s-pool1-24816321-vmss000000 2h
  kamino-sandbox age k8s-pool1-24816321-vmss000000 26h`,
		Args: exactly("NODE", "TIME"), ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			by, err := time.ParseDuration(args[1])
			if err != nil || by <= 0 {
				return usageError{fmt.Errorf("TIME is %q: pass a duration above 0, such as 90s, 30m or 26h (days have no unit)", args[1])}
			}
			client, err := r.client()
			if err != nil {
				return err
			}
			return client.Age(command.Context(), args[0], by, r.teller())
		},
	}
}

func (r *root) workload() *cobra.Command {
	return &cobra.Command{
		Use: "workload", Short: "Run a workload: a Deployment with a disruption budget, and a DaemonSet", Args: exactly(),
		RunE: r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
			return client.Workload(ctx, r.teller())
		}),
	}
}
