package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
)

func (r *root) machines() *cobra.Command {
	command := &cobra.Command{
		Use: "machines", Short: "List the machines and their nodes", Args: exactly(),
		Aliases: []string{"machine"},
		Example: `  kamino-sandbox machines
  kamino-sandbox machines -o json | jq -r '.[].disk'`,
	}
	out := outputFlag(command)
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
		machines, err := client.Machines(ctx)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, m := range machines {
			rows = append(rows, []string{orDash(m.Node), m.Pool, m.Power, ready(m), age(m.Age), orDash(m.MachineID), short(m.Image)})
		}
		return show(r.stdout, *out, machines, []string{"NODE", "POOL", "POWER", "READY", "AGE", "MACHINE ID", "BUILT FROM"}, rows)
	})
	return command
}

func ready(m control.Machine) string {
	text := orDash(m.Ready)
	if m.State == "hung" {
		text += ",hung"
	}
	if m.Cordoned {
		text += ",cordoned"
	}
	return text
}

func (r *root) status() *cobra.Command {
	command := &cobra.Command{Use: "status", Short: "Show whether a sandbox runs in the directory, and its address", Args: exactly()}
	out := outputFlag(command)
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
		s, err := client.Status(ctx)
		if err != nil {
			return err
		}
		return show(r.stdout, *out, s, []string{"PROCESS", "AGE", "TIME", "API SERVER", "CLOUD", "ANSWERS ON"}, [][]string{{
			strconv.Itoa(s.PID), age(time.Since(s.Since).Seconds()), strconv.FormatFloat(s.TimeScale, 'g', 4, 64) + "x", s.API, string(s.Cloud), s.Endpoint,
		}})
	})
	return command
}

func (r *root) pools() *cobra.Command {
	command := &cobra.Command{Use: "pools", Short: "List the pools and the image of their next node", Args: exactly(), Aliases: []string{"pool"}}
	out := outputFlag(command)
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
		pools, err := client.Pools(ctx)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, p := range pools {
			rows = append(rows, []string{p.Name, fmt.Sprintf("%d/%d", p.Ready, p.Capacity), p.Generation, p.Profile, p.UpgradePolicy,
				orDash(strings.Join(p.Extensions, ",")), short(p.Image)})
		}
		return show(r.stdout, *out, pools, []string{"POOL", "READY", "GENERATION", "PROFILE", "UPGRADES", "EXTENSIONS", "NEXT NODE'S IMAGE"}, rows)
	})
	return command
}

func (r *root) disk() *cobra.Command {
	return &cobra.Command{
		Use: "disk NODE", Short: "Print the path of a machine's disk (a directory)", Args: exactly("NODE"),
		Aliases:           []string{"disks"},
		Example:           `  cat "$(kamino-sandbox disk k8s-pool1-24816321-vmss000000)/etc/machine-id"`,
		ValidArgsFunction: r.completeNodes,
		RunE: r.dialed(func(ctx context.Context, client *control.Client, args []string) error {
			machines, err := client.Machines(ctx)
			if err != nil {
				return err
			}
			var names []string
			for _, m := range machines {
				if m.Node != args[0] {
					names = append(names, orDash(m.Node))
					continue
				}
				if m.Disk == "" {
					return fmt.Errorf("machine %s is a light machine and has no disk", args[0])
				}
				_, err := fmt.Fprintln(r.stdout, m.Disk)
				return err
			}
			return fmt.Errorf("machine %s not found; machines: %s", args[0], strings.Join(names, ", "))
		}),
	}
}

func (r *root) requests() *cobra.Command {
	var polls bool
	command := &cobra.Command{
		Use: "requests", Short: "List the requests to the simulated cloud", Args: exactly(),
		Example: `  kamino-sandbox requests            # without polls of long operations
  kamino-sandbox requests --polls`,
	}
	out := outputFlag(command)
	command.Flags().BoolVar(&polls, "polls", false, "show polls and logins, too")
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
		all, err := client.Requests(ctx)
		if err != nil {
			return err
		}
		shown := all[:0]
		var rows [][]string
		for _, q := range all {
			if !polls && (q.Class == "poll" || q.Class == "repeat" || q.Class == "login") {
				continue
			}
			shown = append(shown, q)
			rows = append(rows, []string{q.Time.Format("15:04:05.000"), q.Method, strconv.Itoa(q.Status), string(q.Class),
				fmt.Sprint(q.Took.Round(time.Millisecond)), q.Path})
		}
		return show(r.stdout, *out, shown, []string{"TIME", "METHOD", "STATUS", "CLASS", "TOOK", "PATH"}, rows)
	})
	return command
}

func (r *root) stats() *cobra.Command {
	var reset bool
	command := &cobra.Command{Use: "stats", Short: "Count the requests to the simulated cloud", Args: exactly()}
	out := outputFlag(command)
	command.Flags().BoolVar(&reset, "reset", false, "set the counters to zero afterwards")
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
		s, err := client.Stats(ctx)
		if err != nil {
			return err
		}
		rows := [][]string{
			{"requests", strconv.Itoa(s.Requests)}, {"reads", strconv.Itoa(s.Reads)}, {"writes", strconv.Itoa(s.Writes)},
			{"polls", strconv.Itoa(s.Polls)}, {"repeats", strconv.Itoa(s.Repeats)}, {"logins", strconv.Itoa(s.Logins)},
			{"throttled", strconv.Itoa(s.Throttled)}, {"failed", strconv.Itoa(s.Failed)},
		}
		for _, name := range slices.Sorted(maps.Keys(s.ByOperation)) {
			rows = append(rows, []string{"  " + name, strconv.Itoa(s.ByOperation[name])})
		}
		if err := show(r.stdout, *out, s, []string{"WHAT", "COUNT"}, rows); err != nil || !reset {
			return err
		}
		return client.ResetStats(ctx)
	})
	return command
}
