package world

import "sync"

// broadcast wakes all goroutines that wait for the next ring.
type broadcast struct {
	mu   sync.Mutex
	rung chan struct{}
}

func newBell() *broadcast { return &broadcast{rung: make(chan struct{})} }

// next is closed by the next ring. Who asks before looking misses nothing.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *broadcast) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}
