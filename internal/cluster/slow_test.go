package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a RoundTripper with a fixed delay. The status depends on the number of the request.
type answers struct {
	takes  time.Duration
	status func(n int) (status int, after string, err error)
	bodies []string
}

type timedOut struct{ error }

func (timedOut) Timeout() bool { return true }

func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	body := ""
	if request.Body != nil {
		text, _ := io.ReadAll(request.Body)
		body = string(text)
	}
	a.bodies = append(a.bodies, body)
	time.Sleep(a.takes)
	status, after, err := a.status(len(a.bodies))
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if after != "" {
		header.Set("Retry-After", after)
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

func send(ctx context.Context, t *testing.T, c *retrier, method, path, body string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "https://api"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.RoundTrip(request)
	if response != nil {
		_ = response.Body.Close()
	}
	return response, err
}

// TestASlowAPIServerIsNamedOnce: the message has the delay. One slow answer or a slow watch causes no message.
func TestASlowAPIServerIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var messages []string
		server := &answers{takes: 4 * time.Second, status: func(int) (int, string, error) { return 200, "", nil }}
		c := &retrier{next: server, say: func(text string) { messages = append(messages, text) }}
		for n, path := range []string{"/a", "/a?watch=true", "/a?watch=true", "/b", "/c", "/d", "/e", "/f"} {
			if _, err := send(t.Context(), t, c, http.MethodGet, path, ""); err != nil {
				t.Fatal(err)
			}
			if want := min(1, n/4); len(messages) != want {
				t.Fatalf("after %d answers: %q", n+1, messages)
			}
		}
		if !strings.Contains(messages[0], "slow") || !strings.Contains(messages[0], "4s") {
			t.Errorf("%q", messages)
		}
		messages = nil
		quick := &retrier{next: &answers{takes: time.Second, status: server.status}, say: c.say}
		for range 10 {
			if _, err := send(t.Context(), t, quick, http.MethodGet, "/a", ""); err != nil || len(messages) > 0 {
				t.Fatalf("%v, %q", err, messages)
			}
		}
	})
}

// TestABusyAPIServerIsWaitedFor: the same request is retried until the context's deadline or for five minutes, after
// the delay that the server requests.
func TestABusyAPIServerIsWaitedFor(t *testing.T) {
	busy := func(times int, after string) func(int) (int, string, error) {
		return func(n int) (int, string, error) {
			if n <= times {
				return 429, after, nil
			}
			return 200, "", nil
		}
	}
	for name, test := range map[string]struct {
		method, path, body string
		status             func(int) (int, string, error)
		limit              time.Duration
		want, tries        int
		takes              time.Duration
	}{
		"half of the answers":     {"GET", "/a", "", busy(1, "1"), 0, 200, 2, time.Second},
		"a write":                 {"PATCH", "/a", "patch", busy(3, "1"), 0, 200, 4, 3 * time.Second},
		"it asks for longer":      {"GET", "/a", "", busy(2, "30"), 0, 200, 3, time.Minute},
		"it asks for nothing":     {"GET", "/a", "", busy(5, ""), 0, 200, 6, (1 + 2 + 4 + 8 + 10) * time.Second},
		"for ever":                {"GET", "/a", "", busy(1000, "10"), 0, 429, 30, 290 * time.Second},
		"for as long as is given": {"GET", "/a", "", busy(1000, "10"), time.Hour, 429, 360, 3590 * time.Second},
		"no time":                 {"GET", "/a", "", busy(1000, "10"), 5 * time.Second, 429, 1, 0},
		"an eviction":             {"POST", "/api/v1/namespaces/a/pods/b/eviction", "{}", busy(1, "10"), 0, 429, 1, 0},
		"a read that took too long": {"GET", "/a", "", func(n int) (int, string, error) { return map[bool]int{true: 504, false: 200}[n == 1], "", nil },
			0, 200, 2, time.Second},
		"a write that took too long": {"PATCH", "/a", "patch", func(int) (int, string, error) { return 504, "", nil }, 0, 504, 1, 0},
		"no answer to a read": {"GET", "/a", "", func(n int) (int, string, error) {
			if n == 1 {
				return 0, "", timedOut{errors.New("i/o timeout")}
			}
			return 200, "", nil
		}, 0, 200, 2, time.Second},
		"an answer": {"GET", "/a", "", func(int) (int, string, error) { return 503, "1", nil }, 0, 503, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.limit)
					defer cancel()
				}
				var messages []string
				server := &answers{status: test.status}
				begun := time.Now()
				response, err := send(ctx, t, &retrier{next: server, say: func(text string) { messages = append(messages, text) }},
					test.method, test.path, test.body)
				if err != nil || response.StatusCode != test.want || len(server.bodies) != test.tries || time.Since(begun) != test.takes {
					t.Errorf("%v, %v after %d tries and %s; want %d after %d and %s",
						response, err, len(server.bodies), time.Since(begun), test.want, test.tries, test.takes)
				}
				if err == nil && test.want == 429 && test.method == "GET" && response.Header.Get("Retry-After") != "" {
					t.Error("client-go would try again")
				}
				for _, body := range server.bodies {
					if body != test.body {
						t.Errorf("the body of a try is %q", body)
					}
				}
				said := 0
				if test.takes > quietly {
					said = 1
				}
				if len(messages) != said {
					t.Errorf("said: %q", messages)
				}
			})
		})
	}
}

// TestAnInterruptEndsTheWait for a busy API server. A connection that never succeeded returns the error at once.
func TestAnInterruptEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		begun := time.Now()
		c := &retrier{next: &answers{status: func(int) (int, string, error) { return 429, "60", nil }}}
		if _, err := send(ctx, t, c, http.MethodGet, "/a", ""); !errors.Is(err, context.Canceled) || time.Since(begun) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		refused := errors.New("connection refused")
		c = &retrier{next: &answers{status: func(int) (int, string, error) { return 0, "", refused }}}
		if _, err := send(t.Context(), t, c, http.MethodGet, "/a", ""); !errors.Is(err, refused) {
			t.Errorf("%v", err)
		}
	})
}

// silence answers after a time.
type silence time.Duration

func (s silence) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(s))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestASilentAPIServer: anyone who waits hears of it during the wait, once; a watch is silent by nature.
func TestASilentAPIServer(t *testing.T) {
	for name, of := range map[string]struct {
		path  string
		takes time.Duration
		said  int
	}{
		"an answer":     {"/a", 3 * time.Second, 0},
		"a long wait":   {"/a", 28 * time.Second, 1},
		"a long watch":  {"/a?watch=true", 28 * time.Second, 0},
		"longer by far": {"/a", 10 * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []time.Duration
				begun := time.Now()
				c := &retrier{next: silence(of.takes), say: func(string) { said = append(said, time.Since(begun)) }}
				if _, err := send(t.Context(), t, c, http.MethodGet, of.path, ""); err != nil {
					t.Fatal(err)
				}
				if len(said) != of.said || of.said == 1 && said[0] != quietly {
					t.Errorf("said after %v", said)
				}
			})
		})
	}
}
