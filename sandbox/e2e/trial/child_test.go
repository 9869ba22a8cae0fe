package trial

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// within is how long anything may take before a test gives up on it. It only ends what hangs.
const within = 5 * time.Minute

// child is a kamino that runs.
type child struct {
	command *exec.Cmd
	exited  chan struct{}
	said    text
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

// start runs kamino on the ground, and does not wait.
func (g *ground) start(args ...string) *child {
	g.Helper()
	c := &child{command: exec.Command(sandbox.Kamino, append(args, "--namespace", g.namespace)...), exited: make(chan struct{})}
	c.command.Env, c.command.Stdout, c.command.Stderr = append(sandbox.Env(), g.env...), &c.said, &c.said
	if err := c.command.Start(); err != nil {
		g.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.command.Wait() // the exit code says it
	}()
	g.Cleanup(func() {
		c.kill()
		g.Logf("kamino %s ended with %d\n%s", strings.Join(args, " "), c.command.ProcessState.ExitCode(), &c.said)
	})
	return c
}

// kill ends the child at once, and returns when it is dead. One that has ended stays as it is.
func (c *child) kill() {
	_ = c.command.Process.Signal(syscall.SIGKILL)
	<-c.exited
}

// ends waits for the child and demands an exit code, and that it has said all of the texts.
func (c *child) ends(t *testing.T, code int, says ...string) {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(within):
		t.Fatalf("it does not end:\n%s", &c.said)
	}
	if got := c.command.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, &c.said)
	}
	for _, s := range says {
		if !strings.Contains(c.said.String(), s) {
			t.Errorf("it does not say %q:\n%s", s, &c.said)
		}
	}
}

// eventually looks until it is so. What is said last is told if that never happens.
func (g *ground) eventually(what string, so func() (bool, string)) {
	g.Helper()
	for last := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		done, state := so()
		if done {
			return
		}
		if time.Now().After(last) {
			g.Fatalf("pool %s: it never happens that %s: %s", g.pool, what, state)
		}
	}
}
