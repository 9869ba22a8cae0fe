package trouble

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// within is how long anything may take before a test gives up on it. Nothing comes near it on an idle
// machine: it only ends what hangs.
const within = 5 * time.Minute

// child is a program that runs, most often kamino.
type child struct {
	command        *exec.Cmd
	exited         chan struct{}
	stdout, stderr text
}

// text is what a child says, and can be read while it speaks.
type text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buffer.Write(p)
}

// String is what was said so far.
func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buffer.String()
}

// start runs one of the sandbox's programs with its environment and more of it as NAME=VALUE, and does not
// wait.
func start(t *testing.T, env []string, program string, args ...string) *child {
	t.Helper()
	c := &child{command: exec.Command(filepath.Join(sandbox.Programs, program), args...), exited: make(chan struct{})}
	c.command.Env = append(sandbox.Env(), env...)
	c.command.Stdout, c.command.Stderr = &c.stdout, &c.stderr
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.command.Wait() // the exit code says it
	}()
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		<-c.exited
		t.Logf("%s %s ended with %d\n%s%s", program, strings.Join(args, " "), c.command.ProcessState.ExitCode(), &c.stdout, &c.stderr)
	})
	return c
}

// signal sends one. A child that has ended already gets none.
func (c *child) signal(s syscall.Signal) { _ = c.command.Process.Signal(s) }

// interrupt asks the child to end.
func (c *child) interrupt() { c.signal(syscall.SIGINT) }

// kill ends the child at once, and returns when it is dead.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// ends waits for the child and demands an exit code, and that standard error says all of the texts.
func (c *child) ends(t *testing.T, code int, says ...string) {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(within):
		t.Fatalf("it does not end:\n%s", &c.stderr)
	}
	if got := c.command.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	c.said(t, says...)
}

// lives tells whether the child has not ended.
func (c *child) lives() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// heard tells whether it has said a text on standard error by now.
func (c *child) heard(text string) bool { return strings.Contains(c.stderr.String(), text) }

// told tells whether it has said a text on standard output by now.
func (c *child) told(text string) bool { return strings.Contains(c.stdout.String(), text) }

// said demands that standard error has all of the texts.
func (c *child) said(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(c.stderr.String(), text) {
			t.Errorf("it does not say %q", text)
		}
	}
}

// ending is the exit code of a child that has ended.
func (c *child) ending() int {
	<-c.exited
	return c.command.ProcessState.ExitCode()
}

// endings waits for all children and returns their exit codes, lowest first.
func endings(t *testing.T, children ...*child) []int {
	t.Helper()
	var codes []int
	for _, c := range children {
		select {
		case <-c.exited:
			codes = append(codes, c.ending())
		case <-time.After(within):
			t.Fatalf("it does not end:\n%s", &c.stderr)
		}
	}
	slices.Sort(codes)
	return codes
}

// eventually looks until what it looks for is there. Its state is told if that never happens.
func eventually(t *testing.T, what string, look func() (found bool, state string)) {
	t.Helper()
	last := time.Now().Add(within)
	for {
		found, state := look()
		if found {
			return
		}
		if time.Now().After(last) {
			t.Fatalf("%s: it never happens: %s", what, state)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// soon tells whether something comes true.
func soon(is func() bool) bool {
	last := time.Now().Add(within / 3)
	for !is() {
		if time.Now().After(last) {
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
	return true
}
