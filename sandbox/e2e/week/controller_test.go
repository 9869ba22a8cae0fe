package week

import (
	"io"
	"syscall"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// start starts a kamino whose clock is the calendar. Its output goes to log.
func (w *week) start(log io.Writer, args ...string) *sandboxtest.Process {
	return sandbox.StartWithLog(w, log, w.environ, "kamino", args...)
}

// startControllers starts the first controller.
func (w *week) startControllers() {
	w.Helper()
	w.controller.Lock()
	defer w.controller.Unlock()
	w.controller.process = w.startController()
}

// exitUnreachable is the exit code of a controller whose first request was lost.
const exitUnreachable = 6

// startController needs w.controller. A controller that exits because no server responds is started again, as a
// Deployment would.
func (w *week) startController() *sandboxtest.Process {
	p := w.start(w.log, "controller", "--health-probe-bind-address", "0", "--image", "ghcr.io/kamino-dev/kamino-node:week")
	go func() {
		<-p.Exited()
		w.controller.Lock()
		defer w.controller.Unlock()
		if w.controller.process != p || w.Context().Err() != nil {
			return // the test stopped the controller
		}
		if code := p.ExitCode(); code != exitUnreachable {
			w.Errorf("a controller exited with %d", code)
		}
		w.freeLease()
		w.controller.process = w.startController()
	}()
	return p
}

// stopController asks the controller to exit, which must exit with 0.
func (w *week) stopController() {
	w.Helper()
	w.controller.Lock()
	defer w.controller.Unlock()
	p := w.controller.process
	w.controller.process = nil
	p.Signal(syscall.SIGTERM)
	p.ExpectExit(0)
}
