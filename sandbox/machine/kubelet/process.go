package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// order is the command of a container's process.
type order struct {
	program   string
	arguments []string
	env       []string
	dir       string
	// log gets stdout and stderr; message is where the termination message may be written.
	log, message string
	// isolated processes have an empty network of their own.
	isolated bool
	// openFiles is the hard limit of open files; 0 for the host's.
	openFiles uint64
}

// limitFiles lowers the limit of open files, and replaces the shell by the program in its arguments.
const limitFiles = `ulimit -Sn "$0" && ulimit -Hn "$0" && exec "$@"`

// process is a container that is a real program. The process leads a process group, and the group dies with the
// process.
type process struct {
	order order
	pid   int
	done  chan struct{}

	// code is set before done is closed: the exit code, or 128 and the signal's number.
	code int32

	mu     sync.Mutex
	reaped bool
}

// startProcess starts the program. The program dies with the sandbox.
func startProcess(o order) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(o.log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(o.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(o.program, o.arguments...)
	if o.openFiles > 0 {
		cmd = exec.Command("/bin/sh", append([]string{"-c", limitFiles, fmt.Sprint(o.openFiles), o.program}, o.arguments...)...)
	}
	cmd.Env, cmd.Dir = o.env, o.dir
	// Files, not pipes: waiting for the process must not mean waiting for its children.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = processAttributes(o.isolated)
	p := &process{order: o, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent's death signal when the thread ends that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		p.code = exitCode(cmd.Wait())
		// Remaining processes of the group would write to a machine without power.
		p.signal(syscall.SIGKILL)
		p.mu.Lock()
		p.reaped = true
		p.mu.Unlock()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", o.program, err)
	}
	return p, nil
}

// Run runs a program with its output in a log, and returns the exit code. The end of the context kills the program with its
// process group.
func Run(ctx context.Context, command, env []string, log string) (int32, error) {
	p, err := startProcess(order{program: command[0], arguments: command[1:], env: env, log: log})
	if err != nil {
		return 0, err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		<-p.done
	}
	return p.code, nil
}

func exitCode(err error) int32 {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 255
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(exit.ExitCode())
}

// signal goes to the whole group, as long as its leader has not been forgotten.
func (p *process) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, signal)
	}
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// messageLimit is how much of a termination message the API takes, in bytes.
const messageLimit = 4096

// message is the container's termination message, according to the policy.
func (p *process) message(spec *corev1.Container) string {
	if text := tail(p.order.message); text != "" {
		return text
	}
	if p.code != 0 && spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		return tail(p.order.log)
	}
	return ""
}

// tail is the end of a file, in whole lines; empty if there is none.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-messageLimit)
	text, err := io.ReadAll(io.NewSectionReader(file, from, messageLimit))
	if err != nil {
		return ""
	}
	if from > 0 {
		_, rest, _ := strings.Cut(string(text), "\n")
		return rest
	}
	return string(text)
}

// stopProcesses terminates the pod's processes, and kills remaining processes when the context ends. stopProcesses
// reports whether processes existed.
func (w *worker) stopProcesses(ctx context.Context) bool {
	running := w.alive()
	for _, p := range running {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range running {
		select {
		case <-p.done:
		case <-ctx.Done():
			p.kill()
			<-p.done
		}
	}
	return len(running) > 0
}

func (w *worker) killProcesses() {
	for _, p := range w.alive() {
		p.kill()
	}
}

func (w *worker) alive() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var running []*process
	for p := range w.processes {
		running = append(running, p)
	}
	return running
}
