package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Block is a fenced block of a page.
type Block struct{ Language, Text string }

// Blocks returns the fenced blocks of a page, in order. A line of an indented block loses the fence's indentation.
func Blocks(t testing.TB, path string) (blocks []Block) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?ms)^( *)```(\\w*)[^\n]*\n(.*?)^ *```$").FindAllStringSubmatch(string(page), -1) {
		text := strings.ReplaceAll("\n"+match[3], "\n"+match[1], "\n")
		blocks = append(blocks, Block{match[2], strings.TrimPrefix(text, "\n")})
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block", path)
	}
	return blocks
}

// mark separates the outputs of blocks.
const mark = "@@ end of block"

// RunPage runs the blocks "sh" of a page in one shell and directory, in their order, and returns the output. A block
// "console" holds lines that the output before it must contain, in their order.
func (s *Sandbox) RunPage(t testing.TB, path, dir string, env []string, replacements ...string) string {
	t.Helper()
	replace := strings.NewReplacer(replacements...)
	var script strings.Builder
	var wants [][]string // by shell block
	for _, b := range Blocks(t, path) {
		text := replace.Replace(b.Text)
		switch b.Language {
		case "sh":
			fmt.Fprintf(&script, "%s\necho '%s'\n", text, mark)
			wants = append(wants, nil)
		case "console":
			if len(wants) == 0 {
				t.Fatalf("%s expects an output before the first command", path)
			}
			wants[len(wants)-1] = append(wants[len(wants)-1], strings.Split(strings.TrimSpace(text), "\n")...)
		}
	}
	command := exec.CommandContext(t.Context(), "sh", "-ec", script.String())
	command.Dir, command.Env = dir, append(append(s.Env(), s.AsPerson(t)...), env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the page may leave processes in the background
	out, err := command.CombinedOutput()
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("the commands of %s: %v\n%s", path, err, out)
	}
	outputs := strings.Split(string(out), mark+"\n")
	for i, want := range wants {
		if missing := missingLine(want, outputs[i]); missing != "" {
			t.Errorf("%s expects the line %q, in order; the commands write\n%s", path, missing, outputs[i])
		}
	}
	return string(out)
}

// missingLine returns the first line that an output does not contain after the lines before it. Numbers and the width of
// gaps may differ, and … stands for any text.
func missingLine(want []string, output string) string {
	rest := strings.Split(output, "\n")
	for _, line := range want {
		words := strings.Fields(line)
		for i, word := range words {
			word = regexp.QuoteMeta(word)
			word = regexp.MustCompile(`[0-9]+`).ReplaceAllString(word, `[0-9]+`)
			words[i] = strings.ReplaceAll(word, "…", ".*")
		}
		pattern := regexp.MustCompile(`^\s*` + strings.Join(words, `\s+`) + `\s*$`)
		for {
			if len(rest) == 0 {
				return line
			}
			fits := pattern.MatchString(rest[0])
			rest = rest[1:]
			if fits {
				break
			}
		}
	}
	return ""
}
