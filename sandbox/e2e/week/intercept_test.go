package week

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// handle is called for each request of a controller or command. handle causes the week's trouble, and translates
// time stamps of the API servers to the calendar.
func (w *week) handle(server sandboxtest.Server, r *http.Request) (p sandboxtest.Handling) {
	f := w.trouble.fateOf(r)
	if f == killedBefore {
		w.kill(fmt.Sprintf("before %s %s", r.Method, r.URL.Path), nil)
	}
	if p.Drop = f == lostBefore || f == killedBefore; p.Drop {
		return p
	}
	w.removeDonorAt(server, r)
	if f.after() {
		p.After = func() {
			if f == killedAfter {
				w.kill(fmt.Sprintf("after %s %s", r.Method, r.URL.Path), nil)
			}
		}
	}
	if server != sandboxtest.Cloud {
		p.Drop, p.Answer = calendarTimes{}.request(r) != nil, calendarTimes{}.response
	}
	return p
}

// calendarTimes translates the time stamps that the API server sets.
type calendarTimes struct{}

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	asJSON   = "application/json"
)

// request asks for JSON, which can be edited here, and removes time stamps from writes, because the API server
// refuses foreign stamps.
func (calendarTimes) request(r *http.Request) error {
	for i, accept := range r.Header.Values("Accept") {
		r.Header["Accept"][i] = strings.ReplaceAll(accept, protobuf, asJSON)
	}
	r.Header.Del("Accept-Encoding")
	if !strings.Contains(r.Header.Get("Content-Type"), "json") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	body = withoutStamps(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

func (calendarTimes) response(r *http.Response) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), asJSON) {
		return nil
	}
	if r.Request.URL.Query().Get("watch") == "true" {
		r.Body = translateLines(r.Body, calendar.At)
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	body = translate(body, calendar.At)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}
