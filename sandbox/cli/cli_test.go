package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// longestLine is the limit for lines of help, in characters.
const longestLine = 120

// TestHelpFitsTheScreen limits the line length of each verb's description. Package docs tests the sentences.
func TestHelpFitsTheScreen(t *testing.T) {
	verbs := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		verbs++
		for line := range strings.Lines(c.Long) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > longestLine {
				t.Errorf("%s --help: a line of %d characters, at most %d: %s", c.CommandPath(), n, longestLine, line)
			}
		}
		for _, verb := range c.Commands() {
			walk(verb)
		}
	}
	walk(newRoot(&root{}))
	if verbs < 20 {
		t.Errorf("only %d verbs are read", verbs)
	}
}
