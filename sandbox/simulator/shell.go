// Package simulator is the shell of a simulated cloud: HTTPS, the record of requests, faults, rate limits, the state in a file,
// and the order of long work. Packages aws and azure have the services.
package simulator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// Shell serves a cloud. Methods are safe for concurrent use.
type Shell struct {
	// Cloud names the cloud in errors.
	Cloud       string
	Certificate tls.Certificate
	// Services answer the requests, enter the requests in Log, and apply Orders.
	Services http.Handler
	Log      *requestlog.Log
	Orders   Faults
}

// Handler serves all services under one address. Clients insist on HTTPS.
func (s *Shell) Handler() http.Handler { return s.Services }

// Serve answers on the listener with the certificate, until the context ends.
func (s *Shell) Serve(ctx context.Context, l net.Listener) error {
	if err := Serve(ctx, l, s.Services, s.Certificate); err != nil {
		return fmt.Errorf("%s simulator: serve: %w", s.Cloud, err)
	}
	return nil
}

// Stats counts the requests so far.
func (s *Shell) Stats() requestlog.Stats { return s.Log.Stats() }

// ResetStats deletes all records and counters.
func (s *Shell) ResetStats() { s.Log.Reset() }

// Requests lists the requests so far, oldest first; the oldest of very many are forgotten.
func (s *Shell) Requests() []requestlog.Request { return s.Log.Requests() }

// AddFault adds a fault and returns its name. A fault with the same name is replaced. Faults survive a restart.
func (s *Shell) AddFault(f fault.Fault) (string, error) { return s.Orders.add(f) }

// Faults lists the faults that can still strike.
func (s *Shell) Faults() []fault.Fault { return s.Orders.live() }

// ClearFaults removes the named faults, or all.
func (s *Shell) ClearFaults(names ...string) error { return s.Orders.clear(names...) }
