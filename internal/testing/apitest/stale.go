package apitest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Stale is a proxy in front of the package's API server that shows informers an old state, as the watch caches of real API servers do:
// their first list is of an earlier resource version, watches stand still, and after a break only the last of several changes is seen.
// Reads without a resource version, and writes, always meet the true state.
type Stale struct {
	server   *httptest.Server
	upstream http.RoundTripper
	target   *url.URL

	mu   sync.Mutex
	wake *sync.Cond
	// past is the resource version of first lists; empty for the newest. held: watches stand still. cuts counts the breaks.
	past string
	held bool
	cuts int
	// resumed are the breaks that each path has noticed.
	resumed map[string]int
}

// NewStale starts a proxy, which ends with the test.
func NewStale(t testing.TB) *Stale {
	t.Helper()
	config := rest.CopyConfig(Server(t))
	config.NextProtos = []string{"http/1.1"} // an ended watch is a closed connection, which no other client shares
	upstream, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if target.Host == "" {
		target = &url.URL{Scheme: "https", Host: config.Host}
	}
	s := &Stale{upstream: upstream, target: target, resumed: map[string]int{}}
	s.wake = sync.NewCond(&s.mu)
	s.server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Show("", false)
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// Config is the configuration for clients of the proxy.
func (s *Stale) Config() *rest.Config {
	return &rest.Config{Host: s.server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
}

// Show sets the resource version of first lists, or the newest if empty, and whether watches stand still.
func (s *Stale) Show(past string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past, s.held = past, held
	s.wake.Broadcast()
}

// Cut ends all watches. An informer lists again, and sees only the last of the changes that its watch held back.
func (s *Stale) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	s.wake.Broadcast()
}

// ServeHTTP implements http.Handler.
func (s *Stale) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	isWatch := q.Get("watch") == "true" || q.Get("watch") == "1"
	s.mu.Lock()
	past, cuts := s.past, s.cuts
	isBroken := isWatch && s.resumed[r.URL.Path] < cuts
	if isWatch {
		s.resumed[r.URL.Path] = cuts
	}
	s.mu.Unlock()
	switch {
	case isWatch && q.Get("sendInitialEvents") == "true":
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // the client lists instead
		return
	case isBroken:
		refuse(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	case past != "" && !isWatch && q.Get("resourceVersion") == "0":
		q.Set("resourceVersion", past)
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", s.target.Scheme, s.target.Host, ""
	out.URL.RawQuery = q.Encode()
	out.Header.Del("Accept-Encoding")
	answer, err := s.upstream.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	for key, values := range answer.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.StatusCode)
	if !isWatch {
		_, _ = io.Copy(w, answer.Body)
		return
	}
	s.stream(w, r, answer.Body, cuts)
}

// stream passes the events of a watch until a break, or the end of the client.
func (s *Stale) stream(w http.ResponseWriter, r *http.Request, events io.ReadCloser, cuts int) {
	go func() { // a break must not wait for the next event
		<-r.Context().Done()
		s.wake.Broadcast()
	}()
	go func() {
		s.mu.Lock()
		for s.cuts == cuts && r.Context().Err() == nil {
			s.wake.Wait()
		}
		s.mu.Unlock()
		_ = events.Close()
	}()
	w.(http.Flusher).Flush()
	buffer := make([]byte, 64<<10)
	for {
		n, err := events.Read(buffer)
		s.mu.Lock()
		for s.held && s.cuts == cuts && r.Context().Err() == nil {
			s.wake.Wait()
		}
		isCut := s.cuts != cuts
		s.mu.Unlock()
		if isCut || r.Context().Err() != nil {
			return
		}
		if _, failed := w.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), //nolint:gosec // an HTTP code
		Reason: reason, Message: strings.ToLower(string(reason)),
	})
}
