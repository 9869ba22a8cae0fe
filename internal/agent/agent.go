// Package agent has the verbs of kamino-node, the program on nodes: generalize, inspect, verify, quiesce, patch and probe. The control plane
// starts the program in pods and passes an order; people use it on mounted disks. The packages below do the work.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cli/help"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/process"
)

const rootHelp = `Check, clean and search the disk of a node. Kamino runs this program in pods on nodes. You can run the program on a
copy of a disk, mounted or attached.

Exit codes:
  0    done.
  1    unexpected error.
  2    wrong usage.
  3    refused, nothing was changed.
  4    the disk must not be copied.
  130  interrupted.`

const rootExample = `  # Check a mounted copy of a disk, remove identity and secrets, and search for what is left
  kamino-node generalize --root /mnt/disk --dry-run
  kamino-node generalize --root /mnt/disk
  kamino-node verify /mnt/disk`

// Main runs the program in the real environment and returns its exit code.
func Main() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	process.OnSignal(cancel, exit.Interrupted, "kamino-node: killed")
	return Environment{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Running: quiesce.Linux{}, Devices: offline.Linux{}}.
		Run(ctx, os.Args[1:])
}

// Run runs the program with the arguments and returns its exit code.
func (e Environment) Run(ctx context.Context, args []string) int {
	e.Out, e.Err = output.NewSafe(e.Out), output.NewSafe(e.Err)
	e.args = args
	root := e.Command()
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.Done
	}
	var ended *endedError
	if errors.As(err, &ended) {
		return ended.code
	}
	code := exit.Unexpected
	var failure *exit.Failure
	switch {
	case errors.As(err, &failure):
		code = failure.Code
	case !started:
		code, err = exit.Usage, fmt.Errorf("%w (see %s --help)", help.UnknownCommand(err), cmd.CommandPath())
	case ctx.Err() != nil:
		code, err = exit.Interrupted, errors.New("interrupted")
	}
	_, _ = fmt.Fprintf(e.Err, "kamino-node: %s\n", err)
	return code
}

// Command is the tree of verbs.
func (e Environment) Command() *cobra.Command {
	root := &cobra.Command{
		Use: "kamino-node", Short: "Work on the disk of a node", Long: rootHelp, Example: rootExample,
		SilenceUsage: true, SilenceErrors: true,
		Version: build.Read().String(),
	}
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	cobra.EnableCommandSorting = false // the order is that of a capture
	root.AddCommand(newInspectCommand(e), newGeneralizeCommand(e), newVerifyCommand(e), newQuiesceCommand(e), newFreezeCommand(),
		newPatchCommand(e), newProbeCommand(e))
	help.Apply(root)
	return root
}
