package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// message is a line of an answer: an event, or at the end the result or the error.
type message struct {
	Event  *Event          `json:"event,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Done   bool            `json:"done,omitempty"`
}

// work carries out an order. The returned value becomes the result.
type work func(ctx context.Context, r *http.Request, report func(Event)) (any, error)

// Handler serves the orders that a Client gives. Every answer is a sequence of JSON lines.
func Handler(w World) http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range readHandlers(w) {
		mux.Handle(pattern, answer(do))
	}
	for pattern, do := range orders(w) {
		mux.Handle(pattern, answer(do))
	}
	return mux
}

func readHandlers(w World) map[string]work {
	return map[string]work{
		"GET /status":   func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) { return w.Status(ctx) },
		"GET /machines": func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) { return w.Machines(ctx) },
		"GET /pools":    func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) { return w.Pools(ctx) },
		"GET /faults":   func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) { return w.Faults(ctx) },
		"GET /requests": func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) { return w.Requests(ctx) },
		"GET /stats":    func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) { return w.Stats(ctx) },
	}
}

func orders(w World) map[string]work {
	node := func(do func(context.Context, string) error) work {
		return func(ctx context.Context, r *http.Request, _ func(Event)) (any, error) {
			return nil, do(ctx, r.PathValue("node"))
		}
	}
	return map[string]work{
		"POST /machines/{node}/crash":  node(w.Crash),
		"POST /machines/{node}/hang":   node(w.Hang),
		"POST /machines/{node}/unhang": node(w.Unhang),
		"POST /machines/{node}/reboot": func(ctx context.Context, r *http.Request, report func(Event)) (any, error) {
			return nil, w.Reboot(ctx, r.PathValue("node"), report)
		},
		"POST /machines/{node}/age": func(ctx context.Context, r *http.Request, report func(Event)) (any, error) {
			by, err := body[time.Duration](r)
			if err != nil {
				return nil, err
			}
			return nil, w.Age(ctx, r.PathValue("node"), by, report)
		},
		"POST /machines/{node}/patch": func(ctx context.Context, r *http.Request, report func(Event)) (any, error) {
			p, err := body[Patch](r)
			if err != nil {
				return nil, err
			}
			return nil, w.Patch(ctx, r.PathValue("node"), p, report)
		},
		"POST /pools/{pool}/scale": func(ctx context.Context, r *http.Request, report func(Event)) (any, error) {
			s, err := body[Scale](r)
			if err != nil {
				return nil, err
			}
			return w.Scale(ctx, r.PathValue("pool"), s, report)
		},
		"POST /pools/{pool}/spoil": func(ctx context.Context, r *http.Request, _ func(Event)) (any, error) {
			s, err := body[Spoil](r)
			if err != nil {
				return nil, err
			}
			return w.Spoil(ctx, r.PathValue("pool"), s)
		},
		"POST /outage": func(ctx context.Context, r *http.Request, _ func(Event)) (any, error) {
			o, err := body[Outage](r)
			if err != nil {
				return nil, err
			}
			return nil, w.Outage(ctx, o)
		},
		"POST /workload": func(ctx context.Context, _ *http.Request, report func(Event)) (any, error) {
			return nil, w.Workload(ctx, report)
		},
		"POST /faults": func(ctx context.Context, r *http.Request, _ func(Event)) (any, error) {
			f, err := body[fault.Fault](r)
			if err != nil {
				return nil, err
			}
			return w.AddFault(ctx, f)
		},
		"DELETE /faults": func(ctx context.Context, r *http.Request, _ func(Event)) (any, error) {
			return nil, w.ClearFaults(ctx, r.URL.Query()["name"])
		},
		"DELETE /requests": func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) {
			return nil, w.ResetStats(ctx)
		},
		"POST /stop": func(ctx context.Context, _ *http.Request, _ func(Event)) (any, error) {
			return nil, w.RequestStop(ctx)
		},
	}
}

// Serve answers on the listener until the context ends.
func Serve(ctx context.Context, l net.Listener, w World) error {
	server := &http.Server{Handler: Handler(w), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		// The answer to the order to stop should get out.
		brief, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(brief) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(do work) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		var mu sync.Mutex
		send := func(m message) {
			mu.Lock()
			defer mu.Unlock()
			_ = json.NewEncoder(w).Encode(m)
			_ = http.NewResponseController(w).Flush()
		}
		result, err := do(r.Context(), r, func(e Event) { send(message{Event: &e}) })
		if err != nil {
			send(message{Error: err.Error(), Done: true})
			return
		}
		raw, err := json.Marshal(result)
		if err != nil {
			send(message{Error: err.Error(), Done: true})
			return
		}
		send(message{Result: raw, Done: true})
	})
}

func body[T any](r *http.Request) (T, error) {
	var value T
	decoder := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&value)
	return value, err
}
