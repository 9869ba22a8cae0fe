package aws

import (
	"net/http"
	"net/url"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// faults are part of the state and survive a restart. Nouns of a fault: `instance, volume, snapshot, image, template,
// group, tag, token`. The operations are the API's actions, such as `RunInstances`. The path is the service, the action
// and the parameters, such as `/ec2/StopInstances?InstanceId.1=i-017c91377615f8edc&`, so that a fault can strike a single
// group or instance. Long accepts the request and lets the work fail later. Deny denies an action, such as
// `ec2:RunInstances`. Its Code names the denying policy: empty for the caller's own policies, `scp` for a service
// control policy, and `boundary` for a permissions boundary. `condition` and `simulated` appear in policy simulations only.
type faults struct{ *backend }

// add adds a fault and returns its name. A fault with the same name is replaced.
func (s faults) add(f fault.Fault) (string, error) {
	f, err := f.Validate()
	if err != nil {
		return "", err
	}
	if f.Deny == "" {
		fillText(&f)
	}
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
	code, message := "InternalError", "An internal error has occurred"
	switch {
	case f.Long:
		code, message = "Server.InternalError", "Server.InternalError: Internal error on launch"
	case f.Status == http.StatusServiceUnavailable:
		code, message = "RequestLimitExceeded", "Request limit exceeded."
	case f.Status == http.StatusTooManyRequests:
		code, message = "Throttling", "Rate exceeded"
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

// take returns the first fault that strikes a call, and counts the call.
func (s faults) take(c *call) *fault.Fault {
	none := true
	s.store.Read(func(st *state) { none = len(st.Faults) == 0 })
	if none {
		return nil
	}
	path := "/" + c.service.name + "/" + c.action.name + "?"
	if said, err := url.QueryUnescape(c.in.String()); err == nil {
		path += said
	}
	var struck *fault.Fault
	err := s.store.Write(func(st *state) error {
		struck = st.Faults.Strike(c.r.Method, path, c.action.noun, c.action.name)
		return nil
	})
	if err != nil {
		s.config.Log.Error("fault was not counted", "error", err)
	}
	return struck
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
