package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/help"
	"github.com/kamino-dev/kamino/internal/cli/logging"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/runner"
)

const rootHelp = `Kamino builds golden images for node pools from a node that already works.

A new node is slow and unpatched, because it boots an old base image, runs bootstrap scripts, installs patches, reboots and pulls container images.
Kamino does this work once: "kamino capture" copies the OS disk of a patched, healthy node (the donor) without its identity and secrets. It then
points the pool's recipe, for example its launch template, at the new image. New nodes use the image, and running nodes don't change.

Exit codes:
  0    done.
  1    unexpected error.
  2    wrong usage.
  3    refused, nothing was changed.
  4    the capture failed, and the node is in service.
  5    a credential or a permission is missing.
  6    the API server or the cloud is unreachable.
  7    something needs you. Only with "status --exit-code".
  10   nothing to do ("kamino auto --detailed-exitcode" only).
  130  interrupted, or --timeout is over.`

const rootExample = `  # Install the definitions and permissions
  kamino manifests | kubectl apply --server-side -f -

  # Capture a node; new nodes of the pool use its image
  kamino capture worker-3

  # Show pools, image versions and running captures
  kamino status`

// Main runs the command in the real environment and returns its exit code.
func Main() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	onSignal(func() { cancel(errInterrupted) })
	return NewFactory().Run(ctx, os.Args[1:])
}

// onSignal calls end at the first signal, and ends the process at the second signal.
func onSignal(end func()) {
	process.OnSignal(end, ExitInterrupted, fmt.Sprintf("kamino: killed. Nothing is lost: run the same command again to continue the capture. "+
		"If this command held Kamino's Lease, other commands wait up to %s for the Lease", runner.LeaseDuration))
}

// Run runs the command with the arguments and returns its exit code.
func (f *Factory) Run(ctx context.Context, args []string) int {
	out, said := output.NewSafe(f.Out), output.NewSafe(f.Err)
	if f.Window != nil {
		width, _ := f.Window()
		said.On(width)
		if f.Redraws != nil && f.Redraws() {
			out.On(width)
		}
	}
	f.Out, f.Err = out, said
	o := &Options{}
	defer o.end()
	started := false
	root := f.command(o, &started)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	if !started {
		err = &failure{Code: ExitUsage, Err: fmt.Errorf("%w (see %s --help)", help.UnknownCommand(err), cmd.CommandPath())}
	}
	var (
		e       *failure
		refused *cluster.Refused
	)
	if errors.Is(context.Cause(ctx), errInterrupted) && !errors.As(err, &e) && !errors.As(err, &refused) {
		err = &failure{Code: ExitInterrupted, Err: errInterrupted}
	}
	say(f.Err, "kamino: %s\n", explain(err))
	return exitCode(err)
}

// Command is the tree of verbs, for documentation of the help.
func (f *Factory) Command() *cobra.Command { return f.command(&Options{}, new(bool)) }

// command is the tree of verbs. Cobra sets started after valid flags and arguments: an earlier error is a usage error.
func (f *Factory) command(o *Options, started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "kamino",
		Short:         "Build golden images for node pools from a node that works",
		Long:          rootHelp,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*started = true
			return f.prepare(cmd, o)
		},
	}
	root.Version = build.Read().String()
	root.SetOut(f.Out)
	root.SetErr(f.Err)
	o.Image = defaultImage(f.Getenv)
	o.bind(root.PersistentFlags(), f.Getenv)
	cobra.EnableCommandSorting = false // the groups have an order of their own
	root.AddGroup(help.Groups()...)
	root.SetHelpCommandGroupID(help.GroupSetup)
	root.SetCompletionCommandGroupID(help.GroupSetup)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(help.GroupCapture, newCaptureCommand(f, o), newStatusCommand(f, o), newDashboardCommand(f, o), newDescribeCommand(f, o), newCancelCommand(f, o))
	add(help.GroupPolicy, newPlanCommand(f, o), newAutoCommand(f, o))
	add(help.GroupPool, newHistoryCommand(f, o), newDiffCommand(f, o), newSBOMCommand(f, o), newReportCommand(f, o),
		newPromoteCommand(f, o), newRollbackCommand(f, o), newRestoreCommand(f, o), newRebuildCommand(f, o), newQuarantineCommand(f, o),
		newUnquarantineCommand(f, o), newAcknowledgeCommand(f, o), newDeleteVersionCommand(f, o))
	add(help.GroupNode, newReservationsCommand(f, o), newReturnNodeCommand(f, o))
	add(help.GroupSetup, newDoctorCommand(f, o), newManifestsCommand(f, o), newControllerCommand(f, o), newVersionCommand(f, o), newSupportCommand(f, o),
		help.NewOptionsCommand())
	help.Rename(root, f.CalledAs)
	help.Apply(root)
	return root
}

// prepare sets up the logs.
func (f *Factory) prepare(cmd *cobra.Command, o *Options) error {
	if o.LogLevel == "" {
		o.LogLevel = "warn"
		if cmd.Name() == "controller" {
			o.LogLevel = "info"
		}
	}
	o.LogOutput = logging.NewOutput(f.Err)
	log, err := logging.New(o.LogOutput, o.LogLevel, o.LogFormat)
	if err != nil {
		return &failure{Code: ExitUsage, Err: err}
	}
	o.Log = log
	if err := o.As.Check(); err != nil {
		return &failure{Code: ExitUsage, Err: err}
	}
	logging.Adopt(log, o.LogLevel)
	return nil
}
