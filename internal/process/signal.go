// Package process is how a process behaves on its machine: what it makes of signals, and how little it takes while it waits.
package process

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// OnSignal calls end at the first signal that asks the process to end. Who asks again ends it right there, with an exit code and
// a sentence.
func OnSignal(end func(), code int, killed string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		heed(signals, time.Now, end)
		_, _ = fmt.Fprintln(os.Stderr, killed)
		os.Exit(code)
	}()
}

// oneWish is how long signals count as one and the same: a terminal, a shell and a supervisor may each pass on what a person
// wished once.
const oneWish = 2 * time.Second

// heed asks the process to end at the first signal, and returns at the next one that is a wish of its own: then it is to end
// right there, whatever it waits for.
func heed(signals <-chan os.Signal, now func() time.Time, end func()) {
	<-signals
	asked := now()
	end()
	for range signals {
		if now().Sub(asked) > oneWish {
			return
		}
	}
}
