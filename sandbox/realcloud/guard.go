package realcloud

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// refusal is a call that the guard does not send.
type refusal struct{ action, why string }

func (r *refusal) Error() string {
	return fmt.Sprintf("refused to call %s: %s. Nothing was sent", r.action, r.why)
}

// Refuse is the error of Identify and Admit.
func Refuse(action, format string, args ...any) error {
	return &refusal{action, fmt.Sprintf(format, args...)}
}

// IsRefusal reports whether the guard stopped a call.
func IsRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// NonRetriable is for Azure's SDK: the same call would be refused again.
func (r *refusal) NonRetriable() {}

// Do implements Transport, and is the guard: the only way to the cloud. It sends no call that the program does not have, no
// change outside the run, and nothing but removals after the end of the run.
func (c *Course) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	does, err := c.in.Identify(r, body)
	if err != nil {
		return nil, err
	}
	if does.Effect != Reads {
		switch {
		case c.Run == "":
			return nil, Refuse(does.Action, "the run has no name")
		case does.Effect != Removes && !c.Now().Before(c.End):
			return nil, Refuse(does.Action, "the run ended at %s; run `verify-cloud clean`", c.End.Format(time.RFC3339))
		}
		if err := c.in.Admit(r.Context(), does); err != nil {
			return nil, err
		}
	}
	sent := r.Clone(r.Context())
	if r.Body != nil {
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	return c.wire.send(sent, does)
}
