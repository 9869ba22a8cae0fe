package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// commands are typed commands within the output; orders are the lines of a transcript.
	commands = regexp.MustCompile("`[^`]*`|to do: +kamino .*|kamino (capture|return|cancel) \\S+")
	orders   = regexp.MustCompile(`^(code|exec|env|gone|! gone|shows|! shows|phase|event|stdin|cmp|#|kind:|metadata:|spec:)`)
	nodeName = regexp.MustCompile(`\bnode-\d\b`)
)

// TestNoSentenceRepeatsANode: real names are long. A line names a node once, and again only within a command; a row of a
// table names the node in the first column.
func TestNoSentenceRepeatsANode(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if orders.MatchString(line) {
				continue
			}
			times := map[string]int{}
			for _, name := range nodeName.FindAllString(commands.ReplaceAllString(line, ""), -1) {
				named++
				if times[name]++; times[name] == 2 {
					t.Errorf("%s names %s again: %s", file, name, line)
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d names are read", named)
	}
}
