// Package process sets how a process handles signals, how the process waits, and how little CPU time waiting takes.
package process

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// OnSignal calls end at the first SIGINT or SIGTERM. A second signal ends the process at once, with the exit code and
// the message killed.
func OnSignal(end func(), code int, killed string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		handleSignals(signals, time.Now, end)
		_, _ = fmt.Fprintln(os.Stderr, killed)
		os.Exit(code)
	}()
}

// sameSignal is how long several signals are one request: a terminal, a shell and a supervisor may each forward the same
// signal.
const sameSignal = 2 * time.Second

// handleSignals calls end at the first signal, and returns at the next separate signal.
func handleSignals(signals <-chan os.Signal, now func() time.Time, end func()) {
	<-signals
	asked := now()
	end()
	for range signals {
		if now().Sub(asked) > sameSignal {
			return
		}
	}
}
