package azure

import (
	"fmt"
	"net/http"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// faults survive a restart. Nouns: `gallery, definition, version, snapshot, disk, pool, instance, extension, rollingUpgrade,
// group, subscription, usage, permission, operation, token`. Operations are HTTP methods and actions, such as `reimage`.
type faults struct {
	*backend
	simulator.Faults
}

func faultsOf(w *backend) faults {
	return faults{w, simulator.FaultsOf(w.store, func(st *state) *fault.List { return &st.Faults }, usualText, w.config.Log)}
}

// usualText returns the usual code and message of an error.
func usualText(f fault.Fault) (code, message string) {
	if f.Long {
		return "InternalExecutionError", "An internal execution error occurred. Please retry later."
	}
	switch f.Status {
	case http.StatusTooManyRequests:
		return "TooManyRequests", "The request is being throttled as the limit has been reached for operation type."
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable", "The service is temporarily unavailable. Please retry later."
	case http.StatusUnauthorized:
		return "ExpiredAuthenticationToken", "The access token expiry UTC time has passed."
	case http.StatusConflict:
		return "Conflict", "The request failed due to conflict with a concurrent request."
	case http.StatusNotFound:
		return "NotFound", "The entity was not found in this Azure location."
	}
	return "InternalServerError", "Encountered internal server error."
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
