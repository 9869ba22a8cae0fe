package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// MainWithPrograms is the body of a TestMain whose tests start sandboxes as separate processes. MainWithPrograms provides
// the programs, and no sandbox.
func MainWithPrograms(m *testing.M, into **Sandbox) int {
	RunAsProgram()
	code, err := runWithPrograms(m, into)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func runWithPrograms(m *testing.M, into **Sandbox) (code int, err error) {
	dir, err := os.MkdirTemp("", "kamino-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &Sandbox{Programs: filepath.Join(dir, "bin")}
	if err := s.gather(); err != nil {
		return 1, err
	}
	*into = s
	return m.Run(), nil
}

// Demo is a run of `kamino-sandbox demo`.
type Demo struct {
	testing.TB
	// Output is the whole output.
	Output string
	Code   int
}

// demoLimit ends a demo that hangs. A demo takes about a minute on two idle cores.
const demoLimit = 20 * time.Minute

// Demo runs a demo with the given kamino binary, and requires that no temporary file is left.
func (s *Sandbox) Demo(t testing.TB, kamino string, flags ...string) Demo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), demoLimit)
	defer cancel()
	temp := t.TempDir()
	command := exec.CommandContext(ctx, filepath.Join(s.Programs, "kamino-sandbox"), append([]string{"demo", "--kamino", kamino}, flags...)...)
	command.Env = append(os.Environ(), "TMPDIR="+temp, "PATH="+s.Programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("kamino-sandbox demo %s: %v\n%s", strings.Join(flags, " "), errors.Join(err, ctx.Err()), out)
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("the demo left %s in its directory for temporary files", entry.Name())
	}
	return Demo{TB: t, Output: string(out), Code: command.ProcessState.ExitCode()}
}

// DemoWith runs a demo. A shell script replaces kamino; $REAL_KAMINO is the real binary.
func (s *Sandbox) DemoWith(t testing.TB, script string, flags ...string) Demo {
	t.Helper()
	dir := t.TempDir()
	kamino := filepath.Join(dir, "kamino")
	err := os.WriteFile(kamino, bytes.ReplaceAll([]byte(script), []byte("$REAL_KAMINO"), []byte(s.Kamino)), 0o755)
	if err = errors.Join(err, os.Symlink(filepath.Join(s.Programs, "kamino-node"), filepath.Join(dir, "kamino-node"))); err != nil {
		t.Fatal(err)
	}
	return s.Demo(t, kamino, flags...)
}

// AssertPassed requires that all checks of the demo passed, and that the output contains these texts. Lines may break anywhere
// between words, and none of the demo's own lines is too wide.
func (d Demo) AssertPassed(prints ...string) {
	d.Helper()
	if d.Code != 0 {
		d.Fatalf("exit code %d\n%s", d.Code, d.Output)
	}
	if strings.Contains(d.Output, "NO  ") {
		d.Error("a check failed, and the exit code is 0")
	}
	d.assertPrints(prints)
}

// AssertFailedChecks requires that the demo ended with an error, and that the output contains these texts.
func (d Demo) AssertFailedChecks(prints ...string) {
	d.Helper()
	if d.Code != 1 {
		d.Errorf("exit code %d, want 1", d.Code)
	}
	d.assertPrints(prints)
}

func (d Demo) assertPrints(texts []string) {
	d.Helper()
	words := strings.Join(strings.Fields(d.Output), " ")
	for _, text := range texts {
		if !strings.Contains(words, strings.Join(strings.Fields(text), " ")) {
			d.Errorf("the demo does not print %q", text)
		}
	}
	if strings.Contains(d.Output, "\x1b[") {
		d.Error("escape sequences without a terminal")
	}
	if d.Failed() {
		d.Log(d.Output)
	}
}
