package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRollbackRule: a person on call can learn the rule of an automatic rollback: at most 60 words, and six states.
func TestRollbackRule(t *testing.T) {
	text, err := os.ReadFile("concepts/join-health.md")
	if err != nil {
		t.Fatal(err)
	}
	var rule []string
	for line := range strings.Lines(string(text)) {
		if quoted, is := strings.CutPrefix(line, "> "); is {
			rule = append(rule, strings.Fields(quoted)...)
		}
	}
	if n := len(rule); n == 0 || n > 60 {
		t.Errorf("the rule has %d words, want at most 60: %s", n, strings.Join(rule, " "))
	}
	_, states, _ := strings.Cut(string(text), "## States\n")
	states, _, _ = strings.Cut(states, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(states) {
		if cell, _, isRow := strings.Cut(strings.TrimPrefix(line, "|"), "|"); isRow && strings.HasPrefix(line, "|") {
			for _, name := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(cell, -1) {
				named[name[1]] = true
			}
		}
	}
	if len(named) != 6 {
		t.Errorf("the page has the states %v, want six", named)
	}
}
