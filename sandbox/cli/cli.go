// Package cli is the kamino-sandbox command, with a file for each verb. The package decides words, output and exit
// codes. Package world runs a sandbox, and package control talks to a running sandbox.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/controlplane"
	"github.com/kamino-dev/kamino/sandbox/machine/kernel"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitRefused     = 3 // nothing was changed: not running, or running already
	ExitInterrupted = 130
)

// dirVariable names the directory for verbs without --dir.
const dirVariable = "KAMINO_SANDBOX_DIR"

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// root holds the global flags and the output streams.
type root struct {
	dir            string
	stdout, stderr io.Writer
}

// Main runs the command and returns its exit code. If the program name is etcd, kube-apiserver or kubectl, Main
// becomes that program and does not return.
func Main(args []string) int {
	name := filepath.Base(args[0])
	if slices.Contains(controlplane.Programs(), name) {
		controlplane.Exec(append([]string{name}, args[1:]...))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 1 && args[1] == kernel.Verb {
		return kernel.Main(ctx, kernel.Running{}, args[2:])
	}
	return run(ctx, args[1:], os.Stdout, os.Stderr)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := newRoot(&root{stdout: stdout, stderr: stderr})
	command.SetArgs(args)
	command.SetOut(stdout)
	command.SetErr(stderr)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return ExitDone
	}
	code := exitCode(ctx, err)
	if code == ExitInterrupted && errors.Is(err, context.Canceled) {
		_, _ = fmt.Fprintln(stderr, "interrupted")
		return code
	}
	_, _ = fmt.Fprintln(stderr, "error:", strings.TrimSpace(err.Error()))
	return code
}

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var notRunning *control.NotRunningError
	var inUse *sandboxdir.InUseError
	switch {
	case ctx.Err() != nil:
		return ExitInterrupted
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		return ExitUsage
	case errors.As(err, &notRunning), errors.As(err, &inUse):
		return ExitRefused
	default:
		return ExitFailed
	}
}

func newRoot(r *root) *cobra.Command {
	command := &cobra.Command{
		Use:   "kamino-sandbox",
		Short: "A Kubernetes cluster on a simulated cloud, on this machine, to try Kamino",
		Long: `A sandbox has a real Kubernetes control plane, and machines whose disks are real directory trees. Its simulated
Azure or AWS speaks the real protocol over HTTPS. Time runs faster than in a cloud.

The verbs use the sandbox in --dir. The default is $` + dirVariable + ` or .kamino-sandbox.`,
		Example: `  kamino-sandbox up --dir /tmp/s              # a pool of three nodes, until Ctrl-C
  . /tmp/s/env && kubectl get nodes           # in another terminal; kamino works too
  kamino-sandbox machines --dir /tmp/s        # list the machines
  kamino-sandbox scale pool1 4 --wait --dir /tmp/s
  kamino-sandbox demo                         # a whole capture`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	command.PersistentFlags().StringVar(&r.dir, "dir", defaultDir(), "the directory of the sandbox")
	_ = command.MarkPersistentFlagDirname("dir")
	if version := pflag.CommandLine.Lookup("version"); version != nil {
		version.Hidden = true // Kubernetes' components register the flag; no verb reads the flag
	}
	command.AddGroup(
		&cobra.Group{ID: "life", Title: "Start and stop:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "act", Title: "Use:"},
		&cobra.Group{ID: "trouble", Title: "Trouble:"},
		&cobra.Group{ID: "tool", Title: "Tools:"},
	)
	for _, g := range []struct {
		id    string
		verbs []*cobra.Command
	}{
		{"life", []*cobra.Command{r.up(), r.down(), r.demo()}},
		{"look", []*cobra.Command{r.status(), r.machines(), r.pools(), r.disk(), r.requests(), r.stats(), r.check()}},
		{"act", []*cobra.Command{r.scale(), r.patch(), r.reboot(), r.age(), r.workload()}},
		{"trouble", []*cobra.Command{r.fault(), r.crash(), r.hang(), r.unhang(), r.spoil(), r.outage()}},
		{"tool", []*cobra.Command{r.kubectl(), r.assets()}},
	} {
		for _, verb := range g.verbs {
			verb.GroupID = g.id
			command.AddCommand(verb)
		}
	}
	return command
}

// self is the path of the running program, without resolving symlinks: the program name decides what the program is.
func self() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return os.Executable()
	}
	return filepath.Abs(path)
}

func defaultDir() string {
	if dir := os.Getenv(dirVariable); dir != "" {
		return dir
	}
	return ".kamino-sandbox"
}

// client connects to the sandbox in --dir.
func (r *root) client() (*control.Client, error) {
	dir, err := filepath.Abs(r.dir)
	if err != nil {
		return nil, err
	}
	return control.Dial(dir)
}

// dialed runs a verb with a client of the sandbox in --dir.
func (r *root) dialed(run func(ctx context.Context, client *control.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		return run(command.Context(), client, args)
	}
}

// exactly requires one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError{fmt.Errorf("argument %s is missing", names[len(args)])}
		case len(args) > len(names):
			return usageError{fmt.Errorf("unexpected argument %q: this verb takes %s", args[len(names)], orNothing(names))}
		}
		return nil
	}
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "no arguments"
	}
	return strings.Join(names, " ")
}

// completeNodes offers the nodes of the running sandbox.
func (r *root) completeNodes(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	client, err := r.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	machines, _ := client.Machines(command.Context())
	var names []string
	for _, m := range machines {
		if m.Node != "" {
			names = append(names, m.Node)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completePools offers the pools of the running sandbox.
func (r *root) completePools(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	client, err := r.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	pools, _ := client.Pools(command.Context())
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
