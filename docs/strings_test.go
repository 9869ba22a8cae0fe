package docs

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/internal/cli"
)

// comments are the lines of an example that explain a command.
func comments(example string) (texts []string) {
	for line := range strings.Lines(example) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "# "); is {
			texts = append(texts, text)
		}
	}
	return texts
}

// TestHelp holds the help of all verbs to the limits of pages.
func TestHelp(t *testing.T) {
	var total figures
	verbs := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		verbs++
		texts := append(comments(c.Example), c.Short, c.Long)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts = append(texts, strings.ReplaceAll(f.Usage, "`", "")) })
		for _, text := range texts {
			for _, block := range prose(text) {
				total.hold(t, c.CommandPath()+" --help", block)
			}
		}
		for line := range strings.Lines(c.Long) {
			if len([]rune(line)) > longestLine+1 {
				t.Errorf("%s --help: a line of %d characters, at most %d: %s", c.CommandPath(), len([]rune(line))-1, longestLine, line)
			}
		}
		for _, verb := range c.Commands() {
			walk(verb)
		}
	}
	walk(cli.NewFactory().Command())
	total.check(t, "help")
	if verbs < 25 || total.words < 3000 {
		t.Errorf("only %d verbs with %d words of help are read", verbs, total.words)
	}
}
