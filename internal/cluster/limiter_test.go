package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestLimiterWaitEndsWithContext: after the error of the limiter, the context has ended and has the cause.
func TestLimiterWaitEndsWithContext(t *testing.T) {
	over := errors.New("the time that was given is over")
	for name, test := range map[string]struct {
		limit func(context.Context) (context.Context, context.CancelFunc)
		want  error
		after time.Duration
	}{
		"the deadline comes before the turn": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 4*time.Second, over)
		}, over, 4 * time.Second},
		"without a reason of its own": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 4*time.Second)
		}, context.DeadlineExceeded, 4 * time.Second},
		"the turn comes before the deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 11*time.Second, over)
		}, nil, 8 * time.Second},
		"the caller ends it": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(over) })
			return ctx, func() { cancel(nil) }
		}, over, time.Second},
		"no caller ends it": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		}, nil, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := newContextLimiter(0.125, 1) // one request every eight seconds
				if err := limiter.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := test.limit(t.Context())
				defer cancel()
				begun := time.Now()
				err := limiter.Wait(ctx)
				if !errors.Is(err, test.want) || time.Since(begun) != test.after {
					t.Errorf("%v after %s, want %v after %s", err, time.Since(begun), test.want, test.after)
				}
				if (ctx.Err() != nil) != (test.want != nil) {
					t.Errorf("the context says %v", ctx.Err())
				}
			})
		})
	}
}

// TestClientsThatAskTooMuchEndWithTheirTime tests both clients of a connection over HTTP. Background requests do not
// use the limit of the other client.
func TestClientsThatAskTooMuchEndWithTheirTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "List", "apiVersion": "v1", "items": []}`))
	}))
	defer server.Close()
	captures, err := New(&rest.Config{Host: server.URL}, "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := captures.Background()
	if err != nil {
		t.Fatal(err)
	}
	limit := func(c *Connection) flowcontrol.RateLimiter { return c.Kube.CoreV1().RESTClient().GetRateLimiter() }
	for name, ask := range map[string]func(context.Context) error{
		"objects": func(ctx context.Context) error {
			return c.Client.List(ctx, &v1alpha1.PrototypeList{}, &client.ListOptions{})
		},
		"kube": func(ctx context.Context) error {
			_, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			over := errors.New("over")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, over)
			defer cancel()
			asked := 0
			for err = nil; err == nil; asked++ {
				err = ask(ctx)
			}
			if ctx.Err() == nil || asked < background.burst {
				t.Errorf("after %d requests it ended with %v, and the context goes on", asked, err)
			}
		})
	}
	for limit(c).TryAccept() {
	}
	for i := range background.burst {
		if !limit(captures).TryAccept() {
			t.Fatalf("after %d requests a capture waits for the background", i)
		}
	}
}
