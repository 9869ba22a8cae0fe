package cli

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFirstOutputComesWithinASecond: a person at a terminal sees that a verb works, long before its result.
func TestFirstOutputComesWithinASecond(t *testing.T) {
	if firstWord >= time.Second {
		t.Fatalf("the first word comes after %s", firstWord)
	}
	said := &heard{first: make(chan struct{}, 1)}
	f := &Factory{Err: said, Getenv: func(string) string { return "" }, Window: func() (int, int) { return 80, 24 }}
	_, end := f.within(t.Context(), &Options{})
	defer end()
	select {
	case <-said.first:
	case <-time.After(time.Minute):
		t.Fatal("nothing was said")
	}
	if text := said.String(); !strings.Contains(text, "Kamino reads the cluster and the cloud.") {
		t.Errorf("%q", text)
	}
}

// heard is a terminal that knows when it was first written to.
type heard struct {
	mu    sync.Mutex
	text  bytes.Buffer
	first chan struct{}
}

// Write implements io.Writer.
func (h *heard) Write(text []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case h.first <- struct{}{}:
	default:
	}
	return h.text.Write(text)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}
