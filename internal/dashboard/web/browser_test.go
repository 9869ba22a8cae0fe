package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/internal/testing/example"
)

// report is what testdata/check.js finds in the browser.
type report struct {
	Width        int      `json:"width"`
	Dark         bool     `json:"dark"`
	Overflow     int      `json:"overflow"`
	Passes       int      `json:"passes"`
	Violations   []string `json:"violations"`
	Focusable    bool     `json:"focusable"`
	StillOpen    bool     `json:"stillOpen"`
	StillFocused bool     `json:"stillFocused"`
	Refused      []string `json:"refused"`
}

// TestInABrowser opens the page in Chromium, at the width of a phone and of a desktop, in light and dark mode. axe-core
// finds nothing, no content is wider than the window, and the policy refuses nothing. A change keeps open lists and the
// focus.
func TestInABrowser(t *testing.T) {
	browser, axe := os.Getenv("KAMINO_BROWSER"), os.Getenv("KAMINO_AXE")
	if browser == "" || axe == "" {
		t.Skip("KAMINO_BROWSER and KAMINO_AXE are not set: make test-browser sets both")
	}
	library, err := os.ReadFile(axe)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		width  int
		size   string
		isDark bool
	}{
		"phone, light": {390, "390,844", false}, "phone, dark": {390, "390,844", true},
		"desktop, light": {1280, "1280,900", false}, "desktop, dark": {1280, "1280,900", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := open(t, browser, library, test.size, test.isDark)
			if got.Width != test.width || got.Dark != test.isDark {
				t.Errorf("the window is %d wide, dark: %t", got.Width, got.Dark)
			}
			if got.Passes < 20 {
				t.Errorf("axe-core passed only %d rules", got.Passes)
			}
			for _, violation := range got.Violations {
				t.Errorf("axe-core: %s", violation)
			}
			if got.Overflow > 0 {
				t.Errorf("the page is %d pixels wider than the window", got.Overflow)
			}
			for _, refused := range got.Refused {
				t.Errorf("refused: %s", refused)
			}
			if !got.Focusable || !got.StillOpen || !got.StillFocused {
				t.Errorf("table focusable: %t; after a change: list open: %t, table focused: %t", got.Focusable, got.StillOpen, got.StillFocused)
			}
		})
	}
}

// open opens the page with the checks, and returns the last report.
func open(t *testing.T, browser string, axe []byte, size string, isDark bool) report {
	t.Helper()
	source := &viewSource{view: example.View()}
	s := &Server{Look: source.nextView, Explain: func(err error) string { return err.Error() }, Interval: 200 * time.Millisecond,
		Now: time.Now, Log: logr.Discard()}
	page, done := s.Handler(t.Context()), make(chan report, 1)
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		page.ServeHTTP(recorder, r)
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		body := bytes.Replace(recorder.Body.Bytes(), []byte("<head>"), []byte(`<head><script src="check/watch.js"></script>`), 1)
		_, _ = w.Write(bytes.Replace(body, []byte("</body>"), []byte(`<script src="check/axe.js"></script><script src="check/check.js"></script></body>`), 1))
	})
	mux.HandleFunc("GET /check/axe.js", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(axe) })
	for _, name := range []string{"watch.js", "check.js"} {
		mux.HandleFunc("GET /check/"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/"+name) })
	}
	mux.HandleFunc("POST /check/ready", func(http.ResponseWriter, *http.Request) {
		changed := example.View()
		changed.Troubles = []string{"after-the-change"}
		source.set(changed, nil)
	})
	mux.HandleFunc("POST /check/done", func(_ http.ResponseWriter, r *http.Request) {
		var got report
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			got.Refused = []string{err.Error()}
		}
		done <- got
	})
	var (
		mu       sync.Mutex
		requests []string
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r.Method+" "+r.URL.Path)
		mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	defer server.Close()
	scheme := "1"
	if isDark {
		scheme = "0"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	var output strings.Builder
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--window-size="+size, "--hide-scrollbars",
		"--blink-settings=preferredColorScheme="+scheme, "--remote-debugging-port=0", server.URL+"/")
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cancel()
		t.Log(<-ended) // the signal of cancel
		server.CloseClientConnections()
	}()
	select {
	case got := <-done:
		return got
	case err := <-ended:
		ended <- errors.Join(err)
		t.Fatalf("the browser ended: %v\n%s", err, output.String())
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		t.Fatalf("the browser does not report, after %v", requests)
	}
	return report{}
}
