package azure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server is a simulated cloud with one subscription in one region. Its methods can be called from any
// goroutine.
type Server struct {
	config Config
	store  *store
	signer *signer
	routes []*route
	jobs   map[string]job

	// ctx ends when the server is closed.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	laneMu  sync.Mutex
	closed  bool
	lanes   map[string]chan struct{}

	bucketMu sync.Mutex
	buckets  map[string]*bucket
	book     book
	rolled   rolls
}

// New opens the state in config.Dir and goes on at once with the operations that are in flight there: the
// fleet must be ready, with the machines that it had. The caller closes the server.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	st, err := openStore(config.Dir)
	if err != nil {
		return nil, err
	}
	sign, err := openSigner(config.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, store: st, signer: sign, routes: routes(), jobs: jobs(),
		lanes: map[string]chan struct{}{}, buckets: map[string]*bucket{}}
	s.book.reset()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	err = s.store.write(func(st *state) error {
		st.ensureGroup(config.SubscriptionID, config.ResourceGroup, config.Location)
		return nil
	})
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.resume()
	return s, nil
}

// Close stops what is in flight and waits for it; a server that is opened on the same Dir goes on with it.
func (s *Server) Close() {
	s.laneMu.Lock()
	s.closed = true
	s.laneMu.Unlock()
	s.cancel()
	s.running.Wait()
}

// Handler serves Resource Manager and the token endpoints. Clients insist on HTTPS.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve answers on the listener with config.Certificate, until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{
		Handler:           s.Handler(),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{s.config.Certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := web.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("azure simulator: serve: %w", err)
	}
	return nil
}

// serve sends a request to where it belongs and enters it in the book.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	entry := Request{Time: time.Now(), Method: r.Method, Path: r.URL.Path}
	counted := &statusWriter{ResponseWriter: w}
	c := &call{r: r}
	defer func() { // also when a fault drops the connection, which is a panic
		if c.route != nil {
			entry.Principal, entry.Noun, entry.Operation = c.principal.ClientID, c.route.noun, c.route.operation
		}
		entry.Status, entry.Took = counted.status, time.Since(entry.Time)
		s.book.enter(entry, r.URL.RequestURI())
	}()
	if s.serveLogin(counted, r, &entry) {
		return
	}
	rep, err := s.answer(counted, c)
	counted.Header().Set("x-ms-request-id", newUUID())
	counted.Header().Set("x-ms-correlation-request-id", newUUID())
	counted.Header().Set("Cache-Control", "no-cache")
	if p := asProblem(err); p != nil {
		s.sendProblem(counted, p)
		return
	}
	s.send(counted, c, rep)
}

func (s *Server) sendProblem(w http.ResponseWriter, p *problem) {
	for k, v := range p.header {
		w.Header()[k] = v
	}
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	w.Header().Set("x-ms-failure-cause", "gateway")
	writeJSON(w, p.Status, p.body())
}

// answer takes a request through everything that stands before its handler, in ARM's order.
func (s *Server) answer(w http.ResponseWriter, c *call) (*reply, error) {
	if strings.HasPrefix(fold(c.r.URL.Path), "/metadata/endpoints") {
		return s.getEndpoints(c)
	}
	who, p := s.authenticate(c.r)
	if p != nil {
		return nil, p
	}
	c.principal = who
	rt, vars, unknown := s.find(c.r.Method, c.r.URL.Path)
	if unknown == nil {
		c.route, c.vars = rt, vars
		c.fault = s.takeFault(c)
	}
	if err := s.trouble(w, c, Before); err != nil {
		return nil, err
	}
	if c.version() == "" {
		return nil, badRequest("MissingApiVersionParameter",
			"The api-version query parameter (?api-version=) is required for all requests.")
	}
	if unknown != nil {
		return nil, unknown
	}
	if p := s.throttle(w.Header(), c); p != nil {
		return nil, p
	}
	if p := s.admit(c); p != nil {
		return nil, p
	}
	return s.act(w, c)
}

// admit checks the subscription, the resource group and the principal's permission.
func (s *Server) admit(c *call) *problem {
	if sub := c.vars["subscription"]; sub != "" && !strings.EqualFold(sub, s.config.SubscriptionID) {
		return refuse(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.", sub)
	}
	if p := s.authorize(c, c.route.action, c.r.URL.Path); p != nil {
		return p
	}
	if group := c.vars["group"]; group != "" && c.route.noun != "group" {
		known := false
		s.store.read(func(st *state) {
			g := st.group(s.config.SubscriptionID, group)
			if known = g != nil; known {
				c.vars["group"] = g.id().group
			}
		})
		if !known {
			return refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", group)
		}
	}
	return c.readBody()
}

// act does what was asked, or what a fault ordered in its place.
func (s *Server) act(w http.ResponseWriter, c *call) (*reply, error) {
	var rep *reply
	var err error
	if c.fault != nil && c.fault.Ignore {
		rep, err = s.pretend(c)
	} else {
		rep, err = c.route.handle(s, c)
	}
	if err != nil {
		return nil, err
	}
	if err := s.trouble(w, c, After); err != nil {
		return nil, err
	}
	return rep, nil
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
