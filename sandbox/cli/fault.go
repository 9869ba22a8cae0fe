package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

func (r *root) fault() *cobra.Command {
	command := &cobra.Command{
		Use: "fault", Short: "Inject faults into the simulated cloud", Aliases: []string{"faults"},
		Example: `  # the next snapshot is accepted and then fails
  kamino-sandbox fault add --resource snapshot --operation put --long --code Conflict --count 1
  # two reads of the pool are throttled
  kamino-sandbox fault add --resource pool --operation get --retry-after 5 --count 2
  # the connection breaks after the cloud accepted the image version
  kamino-sandbox fault add --resource version --operation put --phase after --drop --count 1
  # a permission is missing
  kamino-sandbox fault add --deny Microsoft.Compute/snapshots/write
  kamino-sandbox fault list
  kamino-sandbox fault clear`,
		Args: exactly(),
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(r.faultAdd(), r.faultList(), r.faultClear())
	return command
}

func (r *root) faultAdd() *cobra.Command {
	var f fault.Fault
	var phase string
	command := &cobra.Command{
		Use: "add", Short: "Add a fault and print its name", Args: exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			f.Phase = fault.Phase(phase)
			if !harmful(f) {
				return usageError{fmt.Errorf("the fault has no effect: pass --status, --retry-after, --delay, --long, --drop, --ignore or --deny")}
			}
			client, err := r.client()
			if err != nil {
				return err
			}
			name, err := client.AddFault(command.Context(), f)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(r.stdout, name)
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.Name, "name", "", "name of the fault, for `fault clear` (default: generated)")
	flags.StringVar(&f.Method, "method", "", "match requests with this HTTP method")
	flags.StringVar(&f.Path, "path", "", "match requests whose path matches this regular expression")
	flags.StringVar(&f.Resource, "resource", "",
		"match requests for gallery, definition, version, snapshot, disk, pool, instance, extension, operation (a poll), token, ...")
	flags.StringVar(&f.Operation, "operation", "", "match requests to get, list, put, patch, delete, view, powerOff, start, ...")
	flags.IntVar(&f.Skip, "skip", 0, "let this number of requests pass first")
	flags.IntVar(&f.Count, "count", 0, "end after this number of requests (0: never)")
	flags.StringVar(&phase, "phase", string(fault.Before), "before or after: whether the fault strikes before or after the effect of the request")
	flags.Float64Var(&f.Delay, "delay", 0, "wait this number of simulated seconds first")
	flags.IntVar(&f.Status, "status", 0, "answer with this HTTP status")
	flags.StringVar(&f.Code, "code", "", "code of the error (default: the usual code of such an error)")
	flags.StringVar(&f.Message, "message", "", "message of the error")
	flags.IntVar(&f.RetryAfter, "retry-after", 0, "send Retry-After with this number of seconds; without --status, throttle")
	flags.BoolVar(&f.Long, "long", false, "accept the request and let its long operation fail")
	flags.BoolVar(&f.Ignore, "ignore", false, "answer with success and do nothing")
	flags.BoolVar(&f.Drop, "drop", false, "break the connection")
	flags.StringVar(&f.Deny, "deny", "", "remove a permission, such as Microsoft.Compute/snapshots/write")
	_ = command.RegisterFlagCompletionFunc("phase",
		cobra.FixedCompletions([]string{string(fault.Before), string(fault.After)}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func harmful(f fault.Fault) bool {
	return f.Status != 0 || f.RetryAfter > 0 || f.Delay > 0 || f.Long || f.Ignore || f.Drop || f.Deny != ""
}

func (r *root) faultList() *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the faults that can still strike", Args: exactly()}
	out := outputFlag(command)
	command.RunE = r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
		faults, err := client.Faults(ctx)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, f := range faults {
			text, err := describe(f)
			if err != nil {
				return err
			}
			rows = append(rows, []string{f.Name, text})
		}
		return show(r.stdout, *out, faults, []string{"NAME", "FAULT"}, rows)
	})
	return command
}

// describe shows the fields of a fault that are set.
func describe(f fault.Fault) (string, error) {
	f.Name = ""
	raw, err := json.Marshal(f)
	return strings.NewReplacer(`"`, "", "{", "", "}", "", ",", " ").Replace(string(raw)), err
}

func (r *root) faultClear() *cobra.Command {
	return &cobra.Command{
		Use: "clear [NAME ...]", Short: "Remove faults: the named faults, or all",
		RunE: r.dialed(func(ctx context.Context, client *control.Client, args []string) error {
			return client.ClearFaults(ctx, args...)
		}),
	}
}
