package realcloud

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

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
	under sdk.HTTPClient
	now   func() time.Time
	start time.Time
	// intercept runs before and after each call; an error ends the call. nil for nothing.
	intercept func(ctx context.Context, action string, effect effect, after bool) error
	// saw receives each call that was answered; nil for nothing.
	saw func(Call)

	mu    sync.Mutex
	calls []Call
}

func (w *wire) send(r *http.Request, action string, does rule, form url.Values) (*http.Response, error) {
	w.mu.Lock()
	n := len(w.calls)
	w.mu.Unlock()
	if n >= maxCalls {
		return nil, &refusal{action, fmt.Sprintf("%d calls are the limit of a run", maxCalls)}
	}
	if w.intercept != nil {
		if err := w.intercept(r.Context(), action, does.effect, false); err != nil {
			return nil, err
		}
	}
	began := w.now()
	answer, err := w.under.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close() // the text is read
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	c := Call{At: round(began.Sub(w.start)), Seconds: round(w.now().Sub(began)), Action: action, Permission: does.permission(action),
		Request: requestlog.Structured(form.Encode()), Status: answer.StatusCode, Answer: requestlog.Structured(string(text)), changes: does.effect != reads}
	if answer.StatusCode >= http.StatusBadRequest {
		c.Code, c.Text = problemIn(text)
	}
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.saw != nil {
		w.saw(c)
	}
	if w.intercept != nil {
		if err := w.intercept(r.Context(), action, does.effect, true); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func round(d time.Duration) float64 {
	return float64(d.Round(100*time.Millisecond)) / float64(time.Second)
}

// problemIn reads the code and the text of an error in the form of EC2 or of the query protocol.
func problemIn(text []byte) (code, message string) {
	type problem struct {
		Code, Message string
	}
	var both struct {
		EC2   problem `xml:"Errors>Error"`
		Query problem `xml:"Error"`
	}
	if xml.Unmarshal(text, &both) != nil {
		return "", ""
	}
	if both.EC2.Code != "" {
		return both.EC2.Code, both.EC2.Message
	}
	return both.Query.Code, both.Query.Message
}
