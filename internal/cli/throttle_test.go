package cli

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/wording"
)

// throttlingServer is an API server that throttles all requests.
type throttlingServer struct{}

func (throttlingServer) RoundTrip(*http.Request) (*http.Response, error) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"too many requests"}`
	header := http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}
	return &http.Response{StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests", Header: header,
		Body: io.NopCloser(strings.NewReader(status))}, nil
}

// silentCloud answers after a while, or when the caller gives up.
func silentCloud(after time.Duration) cloud.Provider {
	return cloud.Intercept(memory.New(memory.Config{}).Provider, func(ctx context.Context, _ cloud.Op, call func(context.Context) error) error {
		if err := process.Wait(ctx, after); err != nil {
			return err
		}
		return call(ctx)
	})
}

// TestAVerbSaysThatItWaitsForTheCloud: once, after three seconds, what it waits for and since when. A cloud that answers is no news.
func TestAVerbSaysThatItWaitsForTheCloud(t *testing.T) {
	for after, want := range map[time.Duration]string{
		2 * time.Second: "", 4 * time.Second: saysWaiting, time.Hour: saysWaiting,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			f := NewFactory()
			var said strings.Builder
			f.Err, f.Now = &said, func() time.Time { return time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC) }
			f.Connect = func(*Options) (*cluster.Connection, error) {
				return cluster.New(&rest.Config{Host: "https://api", Transport: throttlingServer{}}, "test")
			}
			f.Cloud = func(context.Context, *Options) (cloud.Provider, error) { return silentCloud(after), nil }
			f.Engine = func(*cluster.Connection, cloud.Provider, *Options) runner.Engine { return nil }
			s, err := open(ctx, f, &Options{}, false)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, _ = s.provider.Instance(ctx, "memory:///i")
			}
			if said.String() != want {
				t.Errorf("an answer after %s: said %q, want %q", after, said.String(), want)
			}
		})
	}
}

const saysWaiting = "Kamino has waited for the cloud since 12:00:00 UTC (call Instance of memory:///i). It keeps trying.\n"

// TestPatienceOfVerbs: a verb waits for a busy API server as long as --timeout permits, from the first request on; five
// minutes by default.
func TestPatienceOfVerbs(t *testing.T) {
	for verb, patience := range map[string]time.Duration{
		"capture node-1":                        5 * time.Minute,
		"capture node-1 --timeout 30m":          30 * time.Minute,
		"cancel pool1-2026.03.09 --timeout 40s": 40 * time.Second,
		"auto --timeout 40s":                    40 * time.Second,
		"return-node node-1":                    20 * time.Minute, // the default of --timeout
		"return-node --leftovers --timeout 40s": 40 * time.Second,
	} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFactory()
				var said strings.Builder
				f.Out, f.Err = t.Output(), &said
				f.Connect = func(*Options) (*cluster.Connection, error) {
					return cluster.New(&rest.Config{Host: "https://api", Transport: throttlingServer{}}, "test")
				}
				f.Cloud = func(context.Context, *Options) (cloud.Provider, error) {
					return memory.New(memory.Config{}).Provider, nil
				}
				begun, says := time.Now(), "The API server is too busy (429 Too Many Requests). Kamino tries each request again for up to "+wording.Duration(patience)+"."
				code := f.Run(t.Context(), strings.Fields(verb))
				if took := time.Since(begun); code != ExitUnreachable && code != ExitInterrupted || took > patience || took < patience-15*time.Second {
					t.Errorf("exit code %d after %s, want the end of %s", code, took, patience)
				}
				if !strings.Contains(said.String(), says) {
					t.Errorf("said %q, want %q", said.String(), says)
				}
			})
		})
	}
}

// TestPatienceOfReads: a verb that only reads waits while the cloud throttles, says so after three seconds, and succeeds within --timeout.
// Without enough time the verb ends before the timeout, with the cloud's error.
func TestPatienceOfReads(t *testing.T) {
	const pools, burst, rate = 60, 20, 5
	w := newVerbWorld(t, size{pools: pools, nodes: 3 * pools})
	for _, verb := range verbsOfAll {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(w.built))          // a bubble begins in the year 2000
				tokens, at := float64(burst), time.Now() // as in the limits of Azure
				w.throttles = func() bool {
					tokens, at = min(burst, tokens+rate*time.Since(at).Seconds()), time.Now()
					if tokens < 1 {
						return true
					}
					tokens--
					return false
				}
				w.columns = 200
				begun, said := time.Now(), strings.Builder{}
				if code := w.try(t, verb, &said); code != ExitDone {
					t.Errorf("exit code %d: %s", code, said.String())
				}
				if took := time.Since(begun); took < 3*time.Second || took > 4*time.Minute {
					t.Errorf("took %s", took)
				}
				if says := "The cloud throttles the credential. Kamino waits as the cloud asks, for up to 5m00s."; strings.Count(said.String(), says) != 1 {
					t.Errorf("said %q, want %q once", said.String(), says)
				}
				if says := "Meanwhile, the cluster knows:\nNothing needs you, as far as the cluster knows.\n"; strings.Count(said.String(), says) != 1 {
					t.Errorf("said %q, want %q once", said.String(), says)
				}
				if !strings.Contains(said.String(), "Kamino reads the cluster and the cloud.\n") {
					t.Errorf("a person waits without a word: %q", said.String())
				}
				w.throttles, begun = func() bool { return true }, time.Now()
				if code := w.try(t, verb+" --timeout 20s", &said); code == ExitDone || time.Since(begun) > 20*time.Second {
					t.Errorf("always throttled: exit code %d after %s", code, time.Since(begun))
				}
			})
		})
	}
}
