package process

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestHeed: signals that a terminal and a supervisor send at once count as one. A later signal ends the process at
// once.
func TestHeed(t *testing.T) {
	signals := make(chan os.Signal)
	clock := make(chan time.Time)
	ended, returned := make(chan struct{}), make(chan struct{})
	go func() {
		handleSignals(signals, func() time.Time { return <-clock }, func() { close(ended) })
		close(returned)
	}()
	start := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)

	signals <- os.Interrupt
	clock <- start
	<-ended
	for _, after := range []time.Duration{0, time.Millisecond, time.Second, sameSignal} {
		signals <- syscall.SIGTERM
		clock <- start.Add(after)
		select {
		case <-returned:
			t.Fatalf("a signal %s after the first one killed the process", after)
		default:
		}
	}
	signals <- os.Interrupt
	clock <- start.Add(sameSignal + time.Millisecond)
	<-returned
}
