// Package child runs the programs of a sandbox, as a user in a shell would.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// Programs are the binaries of a sandbox, with the environment of their processes.
type Programs struct {
	Kamino, Sandbox string
	Env             []string
}

// With returns the environment of this process with the variables of a sandbox.
func With(variables []sandboxdir.Variable) []string {
	env := os.Environ()
	for _, v := range variables {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// Command is a process that gets an interrupt at the end of the context, and is killed five seconds later.
func (p Programs) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = p.Env
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	return command
}

// Output runs a program with an input, and returns the standard output. The error has the standard error.
func (p Programs) Output(ctx context.Context, in io.Reader, name string, args ...string) ([]byte, error) {
	command := p.Command(ctx, name, args...)
	var stderr bytes.Buffer
	command.Stdin, command.Stderr = in, &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// Apply passes manifests to the sandbox's kubectl, and returns a line for each object.
func (p Programs) Apply(ctx context.Context, manifests io.Reader) (lines []string, err error) {
	applied, err := p.Output(ctx, manifests, p.Sandbox, "kubectl", "--", "apply", "-f", "-")
	return strings.Split(strings.TrimSpace(string(applied)), "\n"), err
}

// Install applies the output of `kamino manifests`.
func (p Programs) Install(ctx context.Context) (lines []string, err error) {
	manifests, err := p.Output(ctx, nil, p.Kamino, "manifests")
	if err != nil {
		return nil, err
	}
	return p.Apply(ctx, bytes.NewReader(manifests))
}

// Process is a program in the background.
type Process struct {
	command *exec.Cmd
	log     string
	ended   chan struct{}
	err     error // of the program; valid after the end
}

// Start starts a command whose output goes to a file.
func Start(command *exec.Cmd, log string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the child has a copy of the file
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{command: command, log: log, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = command.Wait()
	}()
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop interrupts the process and waits for the end. An exit code is no error. A controller releases its Lease, so the next
// controller need not wait.
func (p *Process) Stop() error {
	err := p.command.Process.Signal(os.Interrupt)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		err = errors.Join(err, p.err)
	}
	return err
}

// Trouble adds the end of the output to an error.
func (p *Process) Trouble(err error) error {
	text, _ := os.ReadFile(p.log)
	const tail = 4000
	return fmt.Errorf("%w; end of %s:\n%s", err, p.log, text[max(0, len(text)-tail):])
}
