package aws

import (
	"net/http"
	"net/url"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// faults survive a restart. Nouns: `instance, volume, snapshot, image, template, group, tag, token`. Operations are API
// actions. Long fails the work later. The Code of a Deny names the policy: empty, `scp` or `boundary`.
type faults struct {
	*backend
	simulator.Faults
}

func faultsOf(w *backend) faults {
	return faults{w, simulator.FaultsOf(w.store, func(st *state) *fault.List { return &st.Faults }, usualText, w.config.Log)}
}

// usualText returns the usual code and message of an error. The code of a denied action names a policy.
func usualText(f fault.Fault) (code, message string) {
	switch {
	case f.Deny != "":
		return "", ""
	case f.Long:
		return "Server.InternalError", "Server.InternalError: Internal error on launch"
	case f.Status == http.StatusServiceUnavailable:
		return "RequestLimitExceeded", "Request limit exceeded."
	case f.Status == http.StatusTooManyRequests:
		return "Throttling", "Rate exceeded"
	}
	return "InternalError", "An internal error has occurred"
}

// strike returns the first fault that strikes a call, and counts the call.
func (s faults) strike(c *call) *fault.Fault {
	path := "/" + c.service.name + "/" + c.action.name + "?"
	if said, err := url.QueryUnescape(c.in.String()); err == nil {
		path += said
	}
	return s.Strike(c.r.Method, path, c.action.noun, c.action.name)
}

// trouble applies the fault of a call in a phase.
func (s faults) trouble(c *call, now fault.Phase) error {
	f := c.fault
	if f == nil || f.Phase != now {
		return nil
	}
	if err := f.Apply(c.r.Context(), s.config.Clock); err != nil {
		return err
	}
	if f.Status == 0 || f.Long {
		return nil
	}
	return refuse(f.Status, f.Code, "%s", f.Message)
}

// fails is the code and text of an ordered later failure; empty for none.
func (c *call) fails() string {
	if c.fault != nil && c.fault.Long {
		return c.fault.Code + ": " + c.fault.Message
	}
	return ""
}
