package azure

import (
	"fmt"
	"net/http"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// faults are part of the state and survive a restart. Nouns of a fault: `gallery, definition, version, snapshot, disk,
// pool, instance, extension, rollingUpgrade, group, subscription, usage, permission, operation` (a poll) `, token`.
// Operations: `get, list, put, patch, delete, view, powerOff, start, restart, deallocate, reimage, update`, and `post` on a token.
type faults struct{ *backend }

// add adds a fault and returns its name. A fault with the same name is replaced.
func (s faults) add(f fault.Fault) (string, error) {
	f, err := f.Validate()
	if err != nil {
		return "", err
	}
	fillText(&f)
	if f.Name == "" {
		f.Name = "fault-" + newUUID()[:8]
	}
	err = s.store.Write(func(st *state) error {
		st.Faults = st.Faults.With(f)
		return nil
	})
	return f.Name, err
}

// fillText sets the usual code and message of an error.
func fillText(f *fault.Fault) {
	code, message := "InternalServerError", "Encountered internal server error."
	switch {
	case f.Long:
		code, message = "InternalExecutionError", "An internal execution error occurred. Please retry later."
	case f.Status == http.StatusTooManyRequests:
		code, message = "TooManyRequests", "The request is being throttled as the limit has been reached for operation type."
	case f.Status == http.StatusServiceUnavailable:
		code, message = "ServiceUnavailable", "The service is temporarily unavailable. Please retry later."
	case f.Status == http.StatusUnauthorized:
		code, message = "ExpiredAuthenticationToken", "The access token expiry UTC time has passed."
	case f.Status == http.StatusConflict:
		code, message = "Conflict", "The request failed due to conflict with a concurrent request."
	case f.Status == http.StatusNotFound:
		code, message = "NotFound", "The entity was not found in this Azure location."
	}
	if f.Code == "" {
		f.Code = code
	}
	if f.Message == "" {
		f.Message = message
	}
}

// live lists the faults that can still strike.
func (s faults) live() []fault.Fault {
	var out []fault.Fault
	s.store.Read(func(st *state) { out = st.Faults.Live() })
	return out
}

// clear removes the named faults, or all.
func (s faults) clear(names ...string) error {
	return s.store.Write(func(st *state) error {
		st.Faults = st.Faults.Without(names...)
		return nil
	})
}

// take returns the first fault that strikes a request, and counts the request.
func (s faults) take(method, path, noun, operation string) *fault.Fault {
	none := true
	s.store.Read(func(st *state) { none = len(st.Faults) == 0 })
	if none {
		return nil
	}
	var struck *fault.Fault
	err := s.store.Write(func(st *state) error {
		struck = st.Faults.Strike(method, path, noun, operation)
		return nil
	})
	if err != nil {
		s.config.Log.Error("fault was not counted", "error", err)
	}
	return struck
}

// trouble applies the fault of a call in a phase.
func (s faults) trouble(w http.ResponseWriter, c *call, now fault.Phase) error {
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
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(f.RetryAfter))
	}
	return refuse(f.Status, f.Code, "%s", f.Message)
}
