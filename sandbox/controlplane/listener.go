package controlplane

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
)

// listener closes with all connections that it has accepted. The API server stops to listen at its end, and then gives a minute to
// clients that watch, or that never finish a request.
type listener struct {
	net.Listener
	mu   sync.Mutex
	open map[*connection]bool // nil once closed
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, open: map[*connection]bool{}}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{accepted, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil, errors.Join(net.ErrClosed, accepted.Close())
	}
	l.open[c] = true
	return c, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.open = nil
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Conn.Close() // its client may have closed it
	}
	return err
}

// connection leaves its listener when it closes.
type connection struct {
	net.Conn
	of *listener
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
