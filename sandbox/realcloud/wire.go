package realcloud

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// maxAnswer is the largest answer that is read.
const maxAnswer = 4 << 20

// Call is a request and its answer, as the report has them.
type Call struct {
	// At is the time since the start of the program, Seconds the time until the answer.
	At      float64 `json:"at"`
	Seconds float64 `json:"seconds"`

	Action     string `json:"action"`
	Permission string `json:"permission"`
	Request    any    `json:"request,omitempty"`
	Status     int    `json:"status"`
	Answer     any    `json:"answer,omitempty"`
	// Code and Text are those of a refusal.
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	// changes: the call is no read.
	changes bool
}

// wire sends requests and records them.
type wire struct {
	*Account
	start   time.Time
	most    int
	problem func(answer []byte) (code, text string)

	mu    sync.Mutex
	sent  int
	calls []Call
}

func (w *wire) send(r *http.Request, does Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent++
	n := w.sent
	w.mu.Unlock()
	if n > w.most {
		return nil, Refuse(does.Action, "%d calls are the limit of a run", w.most)
	}
	if w.Intercept != nil {
		if err := w.Intercept(r.Context(), does, false); err != nil {
			return nil, err
		}
	}
	began := w.Now()
	answer, err := w.Transport.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close() // the text is read
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	kept := string(text)
	if does.Keep != nil {
		kept = does.Keep(kept)
	}
	c := Call{At: round(began.Sub(w.start)), Seconds: round(w.Now().Sub(began)), Action: does.Action, Permission: does.Permission,
		Request: does.Form, Status: answer.StatusCode, Answer: requestlog.Structured(kept), changes: does.Effect != Reads}
	if answer.StatusCode >= http.StatusBadRequest {
		c.Code, c.Text = w.problem(text)
	}
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.Saw != nil {
		w.Saw(c)
	}
	if w.Intercept != nil {
		if err := w.Intercept(r.Context(), does, true); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func round(d time.Duration) float64 {
	return float64(d.Round(100*time.Millisecond)) / float64(time.Second)
}
