package aws

import (
	"net/http"
	"net/url"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// faults are the troubles that were ordered; they are part of the state and outlive a restart. A fault's nouns are
// "instance", "volume", "snapshot", "image", "template", "group", "tag" and "token"; its operations are the API's actions, such as
// "RunInstances"; its path is the service, the action and the parameters, as
// "/ec2/StopInstances?InstanceId.1=i-017c91377615f8edc&", so that trouble can be one group's or one instance's. Long lets what was asked for be accepted
// and fail later. Deny takes an action away, such as "ec2:RunInstances"; its Code says whose policy that is: empty is the
// caller's own, which does not allow it, "scp" a service control policy and "boundary" a permissions boundary, which deny it.
type faults struct{ *world }

// add orders a fault and returns its name. One of the same name is replaced.
func (s faults) add(f fault.Fault) (string, error) {
	f, err := f.Checked()
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

// fillText gives an error the code and message that it commonly has.
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

// clear removes the faults of these names; without names, all.
func (s faults) clear(names ...string) error {
	return s.store.Write(func(st *state) error {
		st.Faults = st.Faults.Without(names...)
		return nil
	})
}

// take finds the first fault that strikes a call and counts it.
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

// trouble does what a fault orders in a phase, if one struck the call.
func (s faults) trouble(c *call, now fault.Phase) error {
	f := c.fault
	if f == nil || f.Phase != now {
		return nil
	}
	if err := f.Befall(c.r.Context(), s.config.Clock); err != nil {
		return err
	}
	if f.Status == 0 || f.Long {
		return nil
	}
	return refuse(f.Status, f.Code, "%s", f.Message)
}

// fails is the code and text of a failure that was ordered for what a call starts; empty if none was.
func (c *call) fails() string {
	if c.fault != nil && c.fault.Long {
		return c.fault.Code + ": " + c.fault.Message
	}
	return ""
}
