package simulator

import (
	"context"
	"sync"
)

// Queues order long work: work in the same queue runs one after the other, in the order of requests. Use NewQueues.
type Queues struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	last   map[string]chan struct{}
}

// NewQueues are queues without work.
func NewQueues() *Queues {
	l := &Queues{last: map[string]chan struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context ends when the lanes are closed.
func (l *Queues) Context() context.Context { return l.ctx }

// Run queues work in the named lanes and runs the work when all of the lanes are free. The returned channel is closed
// at the end of the work. If the lanes are closed, the channel is closed at once and the work does not run.
func (l *Queues) Run(names []string, work func()) <-chan struct{} {
	mine := make(chan struct{})
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		close(mine)
		return mine
	}
	var before []chan struct{}
	for _, name := range names {
		if last, busy := l.last[name]; busy {
			before = append(before, last)
		}
		l.last[name] = mine
	}
	l.running.Add(1)
	l.mu.Unlock()
	go func() {
		defer l.running.Done()
		defer l.leave(names, mine)
		for _, turn := range before {
			select {
			case <-turn:
			case <-l.ctx.Done():
				return
			}
		}
		work()
	}()
	return mine
}

// leave frees the lanes for the next.
func (l *Queues) leave(names []string, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if l.last[name] == mine {
			delete(l.last, name)
		}
	}
	close(mine)
}

// Close cancels the running work, and waits for its end.
func (l *Queues) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.running.Wait()
}
