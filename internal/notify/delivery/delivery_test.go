package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/notify"
)

// token is a secret of an endpoint's URL.
const token = "s3cret-t0ken"

// record collects results and log lines.
type record struct {
	mu      sync.Mutex
	log     strings.Builder
	counted chan string
}

func newRecord() *record { return &record{counted: make(chan string, 1000)} }

func (r *record) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(text)
}

func (r *record) count(result string) { r.counted <- result }

func (r *record) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// start runs a Sender for the URLs until the end of the test.
func start(t *testing.T, r *record, urls ...string) *Sender {
	t.Helper()
	file := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(file, []byte("# endpoints\n\n"+strings.Join(urls, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	s := New(all, "prod", r.count, logr.FromSlogHandler(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.pause = 0
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func notice(id string) notify.Notice {
	return notify.Notice{ID: id, Kind: notify.Promoted, Subject: "prototypes/p",
		Data: notify.Data{Pool: "pool1", Message: "New nodes of pool pool1 use version 1."}}
}

// TestDelivery sends a CloudEvent to one endpoint, and a text to a chat.
func TestDelivery(t *testing.T) {
	type seen struct{ path, kind, user, body string }
	got := make(chan seen, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		got <- seen{r.URL.RequestURI(), r.Header.Get("Content-Type"), user + ":" + password, string(body)}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	r := newRecord()
	s := start(t, r, strings.Replace(server.URL, "://", "://me:"+token+"@", 1)+"/events?key="+token, "chat+"+server.URL+"/hook/"+token)
	s.Send(notice("a"))
	byPath := map[string]seen{}
	for range 2 {
		if result := <-r.counted; result != Sent {
			t.Errorf("result %s", result)
		}
		one := <-got
		byPath[one.path] = one
	}
	event := byPath["/events?key="+token]
	if event.kind != "application/cloudevents+json; charset=utf-8" || event.user != "me:"+token {
		t.Errorf("%+v", event)
	}
	var attributes struct{ ID, Type, Source string }
	if err := json.Unmarshal([]byte(event.body), &attributes); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(struct{ ID, Type, Source string }{"a", "dev.kamino.promoted", "/kamino/prod"}, attributes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	chat := byPath["/hook/"+token]
	if chat.kind != "application/json; charset=utf-8" || !strings.Contains(chat.body, `"text":"[prod] New nodes`) {
		t.Errorf("%+v", chat)
	}
}

// TestAttempts: an error that may pass is tried again, and another error is not.
func TestAttempts(t *testing.T) {
	for _, test := range []struct {
		statuses []int
		want     string
		requests int
	}{
		{[]int{500, 429, 204}, Sent, 3},
		{[]int{503, 503, 503, 200}, Lost, 3},
		{[]int{404, 200}, Lost, 1},
		{[]int{302, 200}, Lost, 1},
	} {
		var (
			mu       sync.Mutex
			requests int
		)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(test.statuses[requests])
			requests++
		}))
		r := newRecord()
		start(t, r, server.URL+"/"+token).Send(notice("a"))
		if got := <-r.counted; got != test.want {
			t.Errorf("%v: %s, want %s", test.statuses, got, test.want)
		}
		server.Close()
		if requests != test.requests {
			t.Errorf("%v: %d requests, want %d", test.statuses, requests, test.requests)
		}
		if test.want == Lost && !strings.Contains(r.logged(), fmt.Sprintf("status %d", test.statuses[test.requests-1])) {
			t.Errorf("%v: %s", test.statuses, r.logged())
		}
	}
}

// TestDeadEndpointDelaysNoOther: Send returns, and another endpoint receives all notices.
func TestDeadEndpointDelaysNoOther(t *testing.T) {
	release := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer dead.Close()
	defer close(release)
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	r := newRecord()
	s := start(t, r, dead.URL+"/"+token, good.URL)
	for i := range queueLength {
		s.Send(notice(fmt.Sprint(i)))
	}
	for range queueLength {
		if got := <-r.counted; got != Sent {
			t.Errorf("result %s", got)
		}
	}
}

// TestAFullQueueDrops the notices that do not fit, and counts each.
func TestAFullQueueDrops(t *testing.T) {
	r := newRecord()
	s := New([]Endpoint{{url: "http://localhost:1/" + token}}, "", r.count, logr.FromSlogHandler(slog.NewTextHandler(r, nil)))
	for i := range queueLength + 3 { // no worker takes a notice
		s.Send(notice(fmt.Sprint(i)))
	}
	if len(r.counted) != 3 || <-r.counted != Dropped {
		t.Errorf("%d notices are counted", len(r.counted))
	}
	if log := r.logged(); strings.Count(log, "notice dropped") != 3 || strings.Contains(log, token) {
		t.Errorf("log:\n%s", log)
	}
}

// TestNoSecretLeaks: no log line and no error has a part of a URL that may be a secret.
func TestNoSecretLeaks(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	refusing := httptest.NewTLSServer(http.NotFoundHandler())
	defer refusing.Close()
	r := newRecord()
	urls := []string{
		strings.Replace(closed.URL, "://", "://"+token+":"+token+"@", 1) + "/" + token + "?" + token + "#" + token,
		refusing.URL + "/" + token, // its certificate is unknown
		"https://localhost:1/" + token,
		"chat+" + closed.URL + "/%7f" + token,
	}
	s := start(t, r, urls...)
	s.Send(notice("a"))
	for range urls {
		if got := <-r.counted; got != Lost {
			t.Errorf("result %s", got)
		}
	}
	if log := r.logged(); strings.Contains(log, token) || strings.Count(log, "notice not delivered") != len(urls) {
		t.Errorf("log:\n%s", log)
	}
	for _, line := range []string{
		token, "https://", "ftp://host/" + token, "https://host/%zz" + token, "http://[" + token, "slack://" + token, "chat+" + token,
		"https://host:port/" + token, "",
	} {
		file := filepath.Join(t.TempDir(), "urls")
		if err := os.WriteFile(file, []byte("https://good\n"+line), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := Read(file)
		switch {
		case line == "" && (err != nil || len(all) != 1):
			t.Errorf("%v, %v", all, err)
		case line != "" && err == nil:
			t.Errorf("%q is taken", line)
		case err != nil && (strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "line 2")):
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestReadNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "urls")
	if _, err := Read(file); err == nil {
		t.Error("a missing file is no error")
	}
	if err := os.WriteFile(file, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "has no URL") {
		t.Errorf("%v", err)
	}
}

// A Sender without endpoints takes notices and does nothing.
func TestWithoutEndpoints(t *testing.T) {
	s := New(nil, "", func(string) { t.Error("something is counted") }, logr.Discard())
	s.Send(notice("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Start(ctx); err != nil {
		t.Error(err)
	}
}
