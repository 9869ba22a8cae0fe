package sandboxtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/child"
)

// Process is a program of a test, usually kamino. Methods are safe for concurrent use.
type Process struct {
	t       testing.TB
	name    string
	command *exec.Cmd
	exited  chan struct{}
	output  output
}

// output collects standard output and standard error, in order.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	log    io.Writer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil {
		return o.log.Write(p)
	}
	return o.buffer.Write(p)
}

// Start starts one of the sandbox's programs with the sandbox's environment and more variables as NAME=VALUE. The process is
// killed when the test ends; its output is logged then.
func (s *Sandbox) Start(t testing.TB, env []string, program string, args ...string) *Process {
	t.Helper()
	return s.start(t, nil, env, program, args...)
}

// StartWithLog is Start for a process with much output: the output goes to log, and Output is empty.
func (s *Sandbox) StartWithLog(t testing.TB, log io.Writer, env []string, program string, args ...string) *Process {
	t.Helper()
	return s.start(t, log, env, program, args...)
}

func (s *Sandbox) start(t testing.TB, log io.Writer, env []string, program string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, name: program + " " + strings.Join(args, " "), exited: make(chan struct{}), output: output{log: log}}
	p.command = exec.Command(filepath.Join(s.Programs, program), args...)
	p.command.Env = append(s.Env(), append(s.rightsOf(t, program), env...)...)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.command.Wait() // ExitCode reads the exit code
	}()
	t.Cleanup(func() {
		p.Kill()
		if log == nil {
			t.Logf("%s exited with %d\n%s", p.name, p.command.ProcessState.ExitCode(), p.Output())
		}
	})
	return p
}

// Output returns the text on standard output and standard error so far.
func (p *Process) Output() string {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	return p.output.buffer.String()
}

// HasOutput reports whether the process has written a text by now.
func (p *Process) HasOutput(text string) bool { return strings.Contains(p.Output(), text) }

// WaitOutput waits until the process has written a text.
func (p *Process) WaitOutput(text string) {
	p.t.Helper()
	Eventually(p.t, fmt.Sprintf("%s writes %q", p.name, text), func() (bool, string) {
		running := p.Running() // an exited process writes nothing more
		if p.HasOutput(text) {
			return true, ""
		}
		if !running {
			p.t.Fatalf("%s exited with %d and did not write %q:\n%s", p.name, p.ExitCode(), text, p.Output())
		}
		return false, p.Output()
	})
}

// WatchMemory measures the memory of the process, as child.WatchMemory does.
func (p *Process) WatchMemory() (peak func() int64) { return child.WatchMemory(p.command.Process.Pid) }

// Running reports whether the process has not exited.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal. Exited processes get no signal.
func (p *Process) Signal(signal os.Signal) { _ = p.command.Process.Signal(signal) }

// Interrupt asks the process to exit, as Ctrl-C does.
func (p *Process) Interrupt() { p.Signal(syscall.SIGINT) }

// Kill kills the process, and returns when the process is dead.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Exited is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode waits until the process exits. The code of a killed process is -1.
func (p *Process) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.t.Errorf("%s does not exit:\n%s", p.name, p.Output())
		p.Kill()
	}
	return p.command.ProcessState.ExitCode()
}

// ExpectExit waits until the process exits. A different exit code ends the test at once. Each missing text in the
// output is an error.
func (p *Process) ExpectExit(code int, texts ...string) {
	p.t.Helper()
	if got := p.ExitCode(); got != code {
		p.t.Fatalf("%s exited with %d, want %d:\n%s", p.name, got, code, p.Output())
	}
	p.ExpectOutput(texts...)
}

// ExpectOutput reports each text that is missing in the output so far.
func (p *Process) ExpectOutput(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !p.HasOutput(text) {
			p.t.Errorf("%s did not write %q:\n%s", p.name, text, p.Output())
		}
	}
}
