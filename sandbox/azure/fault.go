package azure

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Phase says when a fault strikes: before the request has any effect, or after it has had it.
type Phase string

const (
	Before Phase = "before"
	After  Phase = "after"
)

// Fault is trouble that is ordered. It strikes requests for which everything given under "which" holds.
type Fault struct {
	// Name identifies it; AddFault makes one up for a fault without.
	Name string `json:"name,omitempty"`

	// Which: the method; a regular expression that the path must contain, without regard to case; the noun
	// ("gallery", "definition", "version", "snapshot", "disk", "pool", "instance", "extension", "group",
	// "subscription", "usage", "permission", "operation" for polls, "token"); the operation on it ("get",
	// "list", "put", "patch", "delete", "view", "powerOff", "start", "restart", "deallocate", "reimage",
	// "update"; "post" on a token).
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Skip lets the first so many requests pass; Count is how many it strikes then, 0 meaning all.
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`

	// Phase in which it strikes; empty means Before.
	Phase Phase `json:"phase,omitempty"`
	// Delay before anything else, in simulated seconds. Alone it only makes things slow.
	Delay float64 `json:"delay,omitempty"`
	// Status answers with an error, which Code and Message name.
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// RetryAfter in seconds goes along with the error; with no Status it means 429, TooManyRequests.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Long accepts the request and lets the long operation end as Failed, with Code and Message; with
	// Phase After the operation has had its effect nevertheless.
	Long bool `json:"long,omitempty"`
	// Ignore answers as if all went well, and does nothing.
	Ignore bool `json:"ignore,omitempty"`
	// Drop breaks the connection off without an answer.
	Drop bool `json:"drop,omitempty"`

	// Deny takes a permission away, such as "Microsoft.Compute/snapshots/write"; "*" in it stands for
	// anything. It shows in the permissions lists. Nothing else in the fault but Name and Count matters then.
	Deny string `json:"deny,omitempty"`
}

// orderedFault is a fault with what has become of it.
type orderedFault struct {
	Fault
	Seen   int `json:"seen"`
	Struck int `json:"struck"`
}

func (f *orderedFault) spent() bool { return f.Count > 0 && f.Struck >= f.Count }

// AddFault orders a fault and returns its name. One of the same name is replaced. Faults outlive a restart.
func (s *Server) AddFault(f Fault) (string, error) {
	if _, err := regexp.Compile("(?i)" + f.Path); err != nil {
		return "", fmt.Errorf("fault's path: %w", err)
	}
	if f.Phase == "" {
		f.Phase = Before
	}
	if f.Phase != Before && f.Phase != After {
		return "", fmt.Errorf("fault's phase is %q: say %q or %q", f.Phase, Before, After)
	}
	if f.RetryAfter > 0 && f.Status == 0 {
		f.Status = http.StatusTooManyRequests
	}
	f.fillText()
	if f.Name == "" {
		f.Name = "fault-" + newUUID()[:8]
	}
	err := s.store.write(func(st *state) error {
		st.Faults = slices.DeleteFunc(slices.Clone(st.Faults), func(o *orderedFault) bool { return o.Name == f.Name })
		st.Faults = append(st.Faults, &orderedFault{Fault: f})
		return nil
	})
	return f.Name, err
}

// fillText gives an error the code and message that it commonly has.
func (f *Fault) fillText() {
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

// Faults lists the faults that can still strike.
func (s *Server) Faults() []Fault {
	var out []Fault
	s.store.read(func(st *state) {
		for _, f := range st.Faults {
			if !f.spent() {
				out = append(out, f.Fault)
			}
		}
	})
	return out
}

// ClearFaults removes the faults of these names; without names, all.
func (s *Server) ClearFaults(names ...string) error {
	return s.store.write(func(st *state) error {
		st.Faults = slices.DeleteFunc(slices.Clone(st.Faults), func(o *orderedFault) bool {
			return len(names) == 0 || slices.Contains(names, o.Name)
		})
		return nil
	})
}

func (f *Fault) matches(method, path, noun, operation string) bool {
	if f.Deny != "" ||
		f.Method != "" && !strings.EqualFold(f.Method, method) ||
		f.Resource != "" && !strings.EqualFold(f.Resource, noun) ||
		f.Operation != "" && !strings.EqualFold(f.Operation, operation) {
		return false
	}
	found, err := regexp.MatchString("(?i)"+f.Path, path)
	return err == nil && found
}

// takeFault finds the first fault that strikes the call and counts it.
func (s *Server) takeFault(c *call) *Fault {
	return s.takeFaultFor(c.r.Method, c.r.URL.Path, c.route.noun, c.route.operation)
}

func (s *Server) takeFaultFor(method, path, noun, operation string) *Fault {
	none := true
	s.store.read(func(st *state) { none = len(st.Faults) == 0 })
	if none {
		return nil
	}
	var struck *Fault
	err := s.store.write(func(st *state) error {
		for _, f := range st.Faults {
			if f.spent() || !f.matches(method, path, noun, operation) {
				continue
			}
			if f.Seen++; f.Seen <= f.Skip {
				continue
			}
			f.Struck++
			one := f.Fault
			struck = &one
			return nil
		}
		return nil
	})
	if err != nil {
		s.config.Log.Error("fault was not counted", "error", err)
	}
	return struck
}

// trouble does what a fault orders in a phase, if one struck the call.
func (s *Server) trouble(w http.ResponseWriter, c *call, now Phase) error {
	f := c.fault
	if f == nil || f.Phase != now {
		return nil
	}
	if f.Delay > 0 {
		if err := s.config.Clock.Sleep(c.r.Context(), time.Duration(f.Delay*float64(time.Second))); err != nil {
			return err
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 || f.Long {
		return nil
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(f.RetryAfter))
	}
	return refuse(f.Status, f.Code, "%s", f.Message)
}

// pretend answers a write as if it had been done.
func (s *Server) pretend(c *call) (*reply, error) {
	var op *operation
	err := s.change(c, func(st *state) error {
		op = c.begin(st, operation{Kind: "nothing", Target: c.r.URL.Path, Latency: s.config.Latencies.Delete, Lanes: []string{newUUID()}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch c.r.Method {
	case http.MethodPut, http.MethodPatch:
		look, vars, p := s.find(http.MethodGet, c.r.URL.Path)
		if p != nil {
			return nil, p
		}
		rep, err := look.handle(s, &call{r: c.r, route: look, vars: vars, principal: c.principal})
		if err != nil {
			return nil, err
		}
		rep.operation = op
		return rep, nil
	default:
		return &reply{status: http.StatusAccepted, operation: op}, nil
	}
}
