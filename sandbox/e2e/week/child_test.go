package week

import (
	"io"
	"os/exec"
	"syscall"
)

// child is a kamino that runs by the calendar.
type child struct {
	command *exec.Cmd
	exited  chan struct{}
}

// start runs one, and does not wait.
func (w *week) start(args ...string) *child {
	return w.startInto(w.log, args...)
}

func (w *week) startInto(log io.Writer, args ...string) *child {
	c := &child{command: exec.Command(sandbox.Kamino, args...), exited: make(chan struct{})}
	c.command.Env = append(sandbox.Env(), w.env...)
	c.command.Stdout, c.command.Stderr = log, log
	if err := c.command.Start(); err != nil {
		w.Errorf("kamino %v: %v", args, err)
		close(c.exited)
		return c
	}
	go func() {
		defer close(c.exited)
		_ = c.command.Wait() // the exit code says it
	}()
	return c
}

// kill ends the child at once, and returns when it is dead.
func (c *child) kill() {
	if c.command.Process != nil {
		_ = c.command.Process.Signal(syscall.SIGKILL)
	}
	<-c.exited
}

// ending is the exit code of a child that ends.
func (c *child) ending() int {
	<-c.exited
	return c.command.ProcessState.ExitCode()
}

// controls starts the first controller.
func (w *week) controls() {
	w.Helper()
	w.controller.Lock()
	defer w.controller.Unlock()
	w.controller.child = w.newController()
	w.Cleanup(func() {
		w.controller.Lock()
		defer w.controller.Unlock()
		if c := w.controller.child; c != nil {
			c.kill()
			w.controller.child = nil
		}
	})
}

// unreachable is the exit code of a controller whose very first request was lost.
const unreachable = 6

// newController starts one. It needs w.controller. One that gives up because it reaches nobody is started again, as
// its Deployment would.
func (w *week) newController() *child {
	c := w.start("controller", "--health-probe-bind-address", "0", "--image", "ghcr.io/kamino-dev/kamino:week")
	go func() {
		code := c.ending()
		w.controller.Lock()
		defer w.controller.Unlock()
		if w.controller.child != c {
			return // it was meant to end
		}
		if code != unreachable {
			w.Errorf("the controller ended by itself with %d", code)
		}
		w.freeLease()
		w.controller.child = w.newController()
	}()
	return c
}

// leaves demands that the controller ends well when it is asked to.
func (w *week) leaves() {
	w.Helper()
	w.controller.Lock()
	defer w.controller.Unlock()
	c := w.controller.child
	w.must(c.command.Process.Signal(syscall.SIGTERM))
	if code := c.ending(); code != 0 {
		w.Errorf("the controller ended with %d", code)
	}
	w.controller.child = nil
}
