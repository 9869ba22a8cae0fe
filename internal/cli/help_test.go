package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/help"
)

// TestHelpOfEveryVerb: the help of each verb and of all flags fits into the limit, and each verb has a group.
func TestHelpOfEveryVerb(t *testing.T) {
	run := func(args ...string) string {
		f := NewFactory()
		var out bytes.Buffer
		f.Out, f.Err = &out, t.Output()
		if code := f.Run(t.Context(), args); code != ExitDone {
			t.Errorf("kamino %s: exit code %d", strings.Join(args, " "), code)
		}
		return out.String()
	}
	root := NewFactory().Command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	helps := map[string]string{"--help": run("--help"), "options": run("options")}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			args := append(strings.Fields(below.CommandPath())[1:], "--help")
			helps[strings.Join(args, " ")] = run(args...)
			if cmd == root && !slices.ContainsFunc(help.Groups(), func(g *cobra.Group) bool { return g.ID == below.GroupID }) {
				t.Errorf("kamino %s has no group", below.Name())
			}
			walk(below)
		}
	}
	walk(root)
	for args, text := range helps {
		if !strings.Contains(text, "Flags") && !strings.Contains(text, "flags") {
			t.Errorf("kamino %s names no flags:\n%s", args, text)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > help.Width {
				t.Errorf("kamino %s: a line of %d columns, at most %d: %s", args, n, help.Width, line)
			}
			if strings.Contains(line, "(default )") {
				t.Errorf("kamino %s: a default without a value: %s", args, line)
			}
		}
	}
	if len(helps) < 27 {
		t.Errorf("only %d helps are read", len(helps))
	}
}
