// Package web serves the dashboard: a page with assets, and a stream of notices about changes. The server only reads.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/dashboard/web/page"
)

const (
	// lookTimeout limits a look at the cluster and the cloud.
	lookTimeout = time.Minute
	// maxStreams limits the open streams. A browser tab holds a stream.
	maxStreams = 32
	// writeTimeout limits a write to a browser.
	writeTimeout = 10 * time.Second
)

// Server serves the page. Without a viewer, Server does not look.
type Server struct {
	// Look reads the view.
	Look func(ctx context.Context) (dashboard.View, error)
	// Explain turns an error of Look into a sentence.
	Explain func(error) string
	// Interval is the least time between two looks.
	Interval time.Duration
	Now      func() time.Time
	Log      logr.Logger

	// mu is held during a look: other viewers wait for the result.
	mu     sync.Mutex
	at     time.Time
	view   dashboard.View
	body   []byte
	digest string

	streams chan struct{}
}

// Serve answers on the listener until the context ends. The end of the context is no error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(ctx), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler returns the handler. Looks end with the context.
func (s *Server) Handler(ctx context.Context) http.Handler {
	s.streams = make(chan struct{}, maxStreams)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { s.page(ctx, w) })
	mux.HandleFunc("GET /pool", func(w http.ResponseWriter, r *http.Request) { s.pool(ctx, w, r.FormValue("name")) })
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) { s.stream(ctx, w, r) })
	mux.Handle("GET /assets/", http.FileServerFS(files))
	return guard(mux)
}

// ListenLocal listens on an address of this machine that other machines cannot reach.
func ListenLocal(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q has no port: use localhost:8642", address)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("address %q is not a loopback address: the page shows what your credentials can read, so use localhost", address)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("%w: use another port with --address", err)
	}
	return l, nil
}

// policy allows only this server's own style sheet, script and stream.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard refuses foreign Hosts, and sets the headers of all answers.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !isOwnHost(r.Host) {
			http.Error(w, "this host name is not served: open the page as http://localhost:PORT or by the IP address", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the dashboard is read-only", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOwnHost reports whether a browser that sends the Host cannot have been sent here by another site's name (DNS
// rebinding): the Host is localhost or an IP address.
func isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}

func (s *Server) page(ctx context.Context, w http.ResponseWriter) {
	body, _ := s.current(ctx)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body) // the browser has gone away
}

// pool serves the page of a pool.
func (s *Server) pool(ctx context.Context, w http.ResponseWriter, name string) {
	_, _ = s.current(ctx)
	s.mu.Lock()
	body := page.Pool(s.view, name)
	s.mu.Unlock()
	if body == nil {
		http.Error(w, "no pool of this cluster has this name: open the page of all pools", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body) // the browser has gone away
}

// stream sends the event "changed" at its begin and after a change of the page, until the browser goes away.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many open pages: reload the page instead", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(line string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder in a test has no deadline
		_, err := fmt.Fprint(w, line)
		return err == nil && control.Flush() == nil
	}
	changed := func(digest string) string { return "event: changed\ndata: " + digest + "\n\n" }
	_, last := s.current(ctx)
	if !send(changed(last)) { // the browser's page may be older than the stream
		return
	}
	ticker := time.NewTicker(s.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		line := ": nothing new\n\n"
		if _, digest := s.current(ctx); digest != last {
			last, line = digest, changed(digest)
		}
		if !send(line) {
			return
		}
	}
}

// current returns the page and a digest of its content, from a look that is younger than Interval.
func (s *Server) current(ctx context.Context) (body []byte, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if s.body != nil && now.Sub(s.at) < s.Interval*9/10 { // a ticker may be a little early
		return s.body, s.digest
	}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	view, err := s.Look(looking)
	if err != nil {
		s.Log.V(1).Info("dashboard: look failed", "error", err.Error())
		view = s.view // the last view stays, with the old time
		view.Troubles = []string{"The last look failed: " + s.Explain(err)}
	} else {
		s.view = view
	}
	s.at, s.body = now, page.HTML(view)
	sum := sha256.Sum256(s.body)
	s.digest = hex.EncodeToString(sum[:8])
	return s.body, s.digest
}
