package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/testing/example"
)

// viewSource is a source of views.
type viewSource struct {
	mu    sync.Mutex
	view  dashboard.View
	err   error
	count int
}

func (l *viewSource) nextView(context.Context) (dashboard.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.view, l.err
}

func (l *viewSource) set(v dashboard.View, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view, l.err = v, err
}

// serve starts a server with a clock that only the test moves.
func serve(t *testing.T, interval time.Duration) (*httptest.Server, *viewSource, *testClock) {
	t.Helper()
	l, clock := &viewSource{view: example.View()}, &testClock{at: example.Now}
	s := &Server{Look: l.nextView, Explain: func(err error) string { return err.Error() }, Interval: interval, Now: clock.now, Log: logr.Discard()}
	server := httptest.NewServer(s.Handler(t.Context()))
	t.Cleanup(server.Close)
	return server, l, clock
}

type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// ask sends a request with a Host.
func ask(t *testing.T, server *httptest.Server, method, path, host string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// TestOnlyOwnHosts: a site whose name resolves to this machine does not get the page (DNS rebinding).
func TestOnlyOwnHosts(t *testing.T) {
	server, l, _ := serve(t, time.Minute)
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8642": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "127.0.0.1:8642": 200, "[::1]": 200,
		"[::1]:8642": 200, "10.1.2.3:80": 200,
		"evil.example": 403, "evil.example:8642": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "localhost.": 403,
		"kamino.kamino-system.svc": 403,
	} {
		for _, path := range []string{"/", "/assets/dashboard.js"} {
			if answer, body := ask(t, server, http.MethodGet, path, host); answer.StatusCode != want || want == 403 && strings.Contains(body, "general") {
				t.Errorf("Host %s, %s: status %d, want %d", host, path, answer.StatusCode, want)
			}
		}
		if want != 403 {
			continue
		}
		if answer, _ := ask(t, server, http.MethodGet, "/stream", host); answer.StatusCode != want {
			t.Errorf("Host %s: the stream is open", host)
		}
	}
	if l.count != 1 {
		t.Errorf("%d looks", l.count)
	}
}

// TestHeaders of every answer, also of refusals: the policy, and no cookie.
func TestHeaders(t *testing.T) {
	server, _, _ := serve(t, time.Minute)
	for _, test := range []struct {
		method, path, host string
		status             int
		kind               string
	}{
		{"GET", "/", "localhost", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", "localhost", 200, "text/html; charset=utf-8"},
		{"GET", "/assets/dashboard.css", "localhost", 200, "text/css; charset=utf-8"},
		{"GET", "/assets/dashboard.js", "localhost", 200, "text/javascript; charset=utf-8"},
		{"GET", "/assets/icon.svg", "localhost", 200, "image/svg+xml"},
		{"GET", "/assets/../server.go", "localhost", 404, ""},
		{"GET", "/pools", "localhost", 404, ""},
		{"POST", "/", "localhost", 405, ""},
		{"PUT", "/", "localhost", 405, ""},
		{"DELETE", "/assets/icon.svg", "localhost", 405, ""},
		{"OPTIONS", "/", "localhost", 405, ""},
		{"GET", "/", "evil.example", 403, ""},
	} {
		answer, _ := ask(t, server, test.method, test.path, test.host)
		h := answer.Header
		if answer.StatusCode != test.status || test.kind != "" && h.Get("Content-Type") != test.kind {
			t.Errorf("%s %s: status %d, type %s", test.method, test.path, answer.StatusCode, h.Get("Content-Type"))
		}
		csp := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s %s: policy %q", test.method, test.path, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if h.Get(name) != want {
				t.Errorf("%s %s: %s is %q", test.method, test.path, name, h.Get(name))
			}
		}
		if h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: %v", test.method, test.path, h)
		}
	}
}

// TestLooks: viewers share a look, and the server does not look without a viewer.
func TestLooks(t *testing.T) {
	server, l, clock := serve(t, time.Minute)
	if l.count != 0 {
		t.Errorf("%d looks without a viewer", l.count)
	}
	for range 3 {
		ask(t, server, http.MethodGet, "/", "localhost")
	}
	clock.advance(59 * time.Second)
	ask(t, server, http.MethodGet, "/", "localhost")
	if l.count != 2 { // nine tenths of the interval are over
		t.Errorf("%d looks, want 2", l.count)
	}
}

// TestPageOfAPool: each pool has a page of its own, from the same look.
func TestPageOfAPool(t *testing.T) {
	server, l, _ := serve(t, time.Minute)
	if answer, body := ask(t, server, http.MethodGet, "/pool?name=gpu", "localhost"); answer.StatusCode != http.StatusOK ||
		!strings.Contains(body, "Pool <span class=\"name\">gpu</span>") || strings.Contains(body, "Pool <span class=\"name\">general</span>") {
		t.Errorf("%s: %s", answer.Status, body)
	}
	if answer, _ := ask(t, server, http.MethodGet, "/pool?name=none", "localhost"); answer.StatusCode != http.StatusNotFound || l.count != 1 {
		t.Errorf("%s after %d looks", answer.Status, l.count)
	}
}

// TestAFailedLook keeps the last view, with its time and the error.
func TestAFailedLook(t *testing.T) {
	server, l, clock := serve(t, time.Minute)
	l.set(dashboard.View{}, errors.New("no <b>answer</b>"))
	if _, body := ask(t, server, http.MethodGet, "/", "localhost"); !strings.Contains(body, "The last look failed: no &lt;b&gt;answer") {
		t.Errorf("%s", body)
	}
	l.set(example.View(), nil)
	clock.advance(time.Minute)
	ask(t, server, http.MethodGet, "/", "localhost")
	l.set(dashboard.View{}, errors.New("no answer"))
	clock.advance(time.Minute)
	_, body := ask(t, server, http.MethodGet, "/", "localhost")
	for _, want := range []string{"The last look failed: no answer", "2026-03-09 12:00:00 UTC", "general"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing", want)
		}
	}
	l.set(example.View(), nil)
	clock.advance(time.Minute)
	if _, body := ask(t, server, http.MethodGet, "/", "localhost"); strings.Contains(body, "failed:") && strings.Contains(body, "last look") {
		t.Error("the error stays")
	}
}

// TestStream sends an event at the begin, because the page may be older, and after a change.
func TestStream(t *testing.T) {
	server, l, clock := serve(t, time.Millisecond)
	answer, err := server.Client().Get(server.URL + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("type %s", kind)
	}
	lines := bufio.NewScanner(answer.Body)
	await := func(prefix string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return
			}
		}
		t.Fatalf("no %q: %v", prefix, lines.Err())
	}
	await("event: changed")
	await(": nothing new")
	changed := example.View()
	changed.Cluster = "another"
	l.set(changed, nil)
	clock.advance(time.Second)
	await("event: changed")
	await("data: ")
	await(": nothing new")
}

// TestManyStreams: a page too many is refused, and a closed page makes room.
func TestManyStreams(t *testing.T) {
	server, _, _ := serve(t, time.Millisecond)
	var open []*http.Response
	get := func() *http.Response {
		t.Helper()
		answer, err := server.Client().Get(server.URL + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for range maxStreams {
		open = append(open, get())
	}
	refused := get()
	if refused.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", refused.StatusCode)
	}
	_ = refused.Body.Close()
	for _, answer := range open {
		if answer.StatusCode != http.StatusOK {
			t.Errorf("status %d", answer.StatusCode)
		}
		_ = answer.Body.Close()
	}
}

func TestListenLocal(t *testing.T) {
	for _, address := range []string{"localhost:0", "127.0.0.1:0", ":0"} {
		l, err := ListenLocal(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			t.Errorf("%s listens on %s", address, ip)
		}
		if _, err := ListenLocal(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "use another port with --address") {
			t.Errorf("a used port: %v", err)
		}
		_ = l.Close()
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.168.1.1:80", "example.org:80", "localhost", ""} {
		if _, err := ListenLocal(t.Context(), address); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

// TestServe ends with its context.
func TestServe(t *testing.T) {
	l, err := ListenLocal(t.Context(), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	source := &viewSource{view: example.View()}
	s := &Server{Look: source.nextView, Explain: func(err error) string { return err.Error() }, Interval: time.Minute, Now: time.Now, Log: logr.Discard()}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	answer, err := http.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
