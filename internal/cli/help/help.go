// Package help writes the help of the verbs, and words the errors of their arguments and flags.
package help

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/internal/cli/output"
)

// Width is the limit of all lines in help texts, in columns.
const Width = 100

// Groups of verbs in the help of the root, in order.
const (
	GroupCapture = "capture"
	GroupPolicy  = "policy"
	GroupPool    = "pool"
	GroupNode    = "node"
	GroupSetup   = "setup"
)

// Groups returns the groups with their titles.
func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: GroupCapture, Title: "Captures:"},
		{ID: GroupPolicy, Title: "Policies:"},
		{ID: GroupPool, Title: "Pools and versions:"},
		{ID: GroupNode, Title: "Nodes:"},
		{ID: GroupSetup, Title: "Setup and checks:"},
	}
}

// Apply gives a verb and the verbs below their help and their errors of usage.
func Apply(cmd *cobra.Command) {
	cmd.Long = output.Wrap(cmd.Long, Width)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return argumentError(cmd, args)
			}
			return nil
		}
	}
	cmd.SetUsageFunc(writeUsage)
	cmd.SetFlagErrorFunc(flagError)
	for _, below := range cmd.Commands() {
		Apply(below)
	}
}

// CalledAs returns the name by which the user called the program: "kubectl kamino" for a plugin of kubectl.
func CalledAs(program string) string {
	if plugin, is := strings.CutPrefix(filepath.Base(program), "kubectl-"); is {
		return "kubectl " + plugin
	}
	return "kamino"
}

// inText matches the name of the command before a verb.
var inText = regexp.MustCompile("(?m)(^|[ \"`(])kamino ([a-z])")

// Rename replaces the name of the command in the help of a verb and the verbs below.
func Rename(cmd *cobra.Command, name string) {
	if !cmd.HasParent() {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	rename := func(text string) string { return inText.ReplaceAllString(text, "${1}"+name+" ${2}") }
	cmd.Long, cmd.Example = rename(cmd.Long), rename(cmd.Example)
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { flag.Usage = rename(flag.Usage) })
	for _, below := range cmd.Commands() {
		Rename(below, name)
	}
}

// writeUsage writes the usage, the examples, the verbs below and the own flags of a verb.
func writeUsage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	titles := cmd.Groups()
	if len(titles) == 0 {
		titles = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, group := range titles {
		var lines string
		for _, below := range cmd.Commands() {
			if below.GroupID == group.ID && (below.IsAvailableCommand() || below.Name() == "help") {
				lines += fmt.Sprintf("  %-*s %s\n", below.NamePadding(), below.Name(), below.Short)
			}
		}
		if lines != "" {
			fmt.Fprintf(&b, "\n%s\n%s", group.Title, lines)
		}
	}
	if flags := cmd.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsagesWrapped(Width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for the help of a command.", cmd.CommandPath())
	}
	if cmd.Root().PersistentFlags().HasAvailableFlags() {
		fmt.Fprintf(&b, "\nUse \"%s options\" for the flags of all commands.", cmd.Root().CommandPath())
	}
	b.WriteString("\n")
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// NewOptionsCommand prints the flags of all verbs.
func NewOptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "Print the flags of all commands", Long: "Print the flags that all commands have.",
		Example: "  kamino options", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "All commands have these flags:\n\n%s", cmd.Root().PersistentFlags().FlagUsagesWrapped(Width))
			return err
		},
	}
}

// argumentError names a missing argument, or the first argument too many.
func argumentError(cmd *cobra.Command, args []string) error {
	var names []string
	required := 0
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") || word == "|" {
			break
		}
		names = append(names, word)
		if !strings.HasPrefix(word, "[") {
			required++
		}
	}
	switch {
	case len(args) < required:
		return fmt.Errorf("missing argument %s: run %q",
			strings.TrimSuffix(names[len(args)], "..."), strings.Join(append([]string{cmd.CommandPath()}, names...), " "))
	case len(names) == 0:
		return fmt.Errorf("unexpected argument %q: %q takes no arguments", args[0], cmd.CommandPath())
	}
	return fmt.Errorf("unexpected argument %q: run %q", args[min(len(names), len(args)-1)], strings.Join(append([]string{cmd.CommandPath()}, names...), " "))
}

// flagError rewords an error of the flags, with the remedy.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			return fmt.Errorf("unknown flag -%s", name)
		}
		if near := nearest(cmd.Flags(), name); near != "" {
			return fmt.Errorf("unknown flag --%s: did you mean --%s?", name, near)
		}
		if cmd.Name() == "capture" {
			return fmt.Errorf("unknown flag --%s: settings without a flag come from a file, -f settings.yaml", name)
		}
		return fmt.Errorf("unknown flag --%s", name)
	case errors.As(err, &missing):
		return fmt.Errorf("flag --%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		return fmt.Errorf("invalid value %q for --%s: %w", invalid.GetValue(), invalid.GetFlag().Name, errors.Unwrap(invalid))
	}
	return err
}

// nearest is the visible flag whose name begins with the name, or whose name is the beginning of the name.
func nearest(flags *pflag.FlagSet, name string) (near string) {
	flags.VisitAll(func(flag *pflag.Flag) {
		begins := strings.HasPrefix(flag.Name, name) || strings.HasPrefix(name, flag.Name)
		if near == "" && !flag.Hidden && min(len(name), len(flag.Name)) > 2 && begins {
			near = flag.Name
		}
	})
	return near
}

// UnknownCommand rewords cobra's error about an unknown command, which suggests commands on separate lines.
func UnknownCommand(err error) error {
	message, meant, found := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if name, _, is := strings.Cut(strings.TrimPrefix(message, "unknown command "), " for "); is && strings.HasPrefix(message, "unknown command ") {
		message = "unknown command " + name
	}
	if !found {
		return errors.New(message)
	}
	return fmt.Errorf("%s: did you mean %s?", message, strings.Join(strings.Fields(meant), " or "))
}
