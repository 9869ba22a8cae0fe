// Package fault describes faults in a simulated cloud: the affected requests, the time and the effect. Package fault
// knows no cloud: each simulator defines nouns, operations and actions.
package fault

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// Phase is when a fault strikes: before or after the effect of the request.
type Phase string

const (
	Before Phase = "before"
	After  Phase = "after"
)

// Fault is a fault. A fault strikes the requests that match all conditions.
type Fault struct {
	// Name of the fault; if empty, the simulator generates a name.
	Name string `json:"name,omitempty"`

	// Conditions: the method; a case-insensitive regular expression for a part of the path; the simulator's noun and
	// operation.
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Skip lets the first so many requests pass; Count is how many it strikes then, 0 meaning all.
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`

	// Phase of the fault; empty means Before.
	Phase Phase `json:"phase,omitempty"`
	// Delay before anything else, in simulated seconds. Alone it only makes things slow.
	Delay float64 `json:"delay,omitempty"`
	// Status answers with an error, with Code and Message.
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

	// Deny removes a permission, such as "Microsoft.Compute/snapshots/write"; "*" matches any text. Permission lists
	// omit the permission. All other fields except Name and Count have no effect.
	Deny string `json:"deny,omitempty"`
}

// Counted is a fault with the number of matching requests, and the number of struck requests.
type Counted struct {
	Fault
	Seen   int `json:"seen"`
	Struck int `json:"struck"`
}

func (f *Counted) spent() bool { return f.Count > 0 && f.Struck >= f.Count }

// Validate returns the fault with defaults, or an error.
func (f Fault) Validate() (Fault, error) {
	if _, err := regexp.Compile("(?i)" + f.Path); err != nil {
		return f, fmt.Errorf("fault's path: %w", err)
	}
	if f.Phase == "" {
		f.Phase = Before
	}
	if f.Phase != Before && f.Phase != After {
		return f, fmt.Errorf("fault's phase is %q: say %q or %q", f.Phase, Before, After)
	}
	if f.RetryAfter > 0 && f.Status == 0 {
		f.Status = http.StatusTooManyRequests
	}
	return f, nil
}

// Apply waits for the fault's delay. If the fault breaks the connection, Befall panics with http.ErrAbortHandler.
func (f *Fault) Apply(ctx context.Context, c clock.Clock) error {
	if f.Delay > 0 {
		if err := c.Sleep(ctx, time.Duration(f.Delay*float64(time.Second))); err != nil {
			return err
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	return nil
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

// List is the list of faults, in order. The simulator stores and guards the list.
type List []*Counted

// Without is the list without the faults of these names; without names, none is left.
func (l List) Without(names ...string) List {
	return slices.DeleteFunc(slices.Clone(l), func(o *Counted) bool { return len(names) == 0 || slices.Contains(names, o.Name) })
}

// With adds a fault to the list, and replaces a fault with the same name.
func (l List) With(f Fault) List { return append(l.Without(f.Name), &Counted{Fault: f}) }

// Live returns the faults that can still strike.
func (l List) Live() []Fault {
	var out []Fault
	for _, f := range l {
		if !f.spent() {
			out = append(out, f.Fault)
		}
	}
	return out
}

// Strike counts a request, and returns a copy of the first matching fault; nil if no fault matches.
func (l List) Strike(method, path, noun, operation string) *Fault {
	for _, f := range l {
		if f.spent() || !f.matches(method, path, noun, operation) {
			continue
		}
		if f.Seen++; f.Seen <= f.Skip {
			continue
		}
		f.Struck++
		struck := f.Fault
		return &struck
	}
	return nil
}

// Denying is the fault that takes the permission for an action away; nil if none does.
func (l List) Denying(action string) *Counted {
	for _, f := range l {
		if f.Deny != "" && !f.spent() && actionMatches(f.Deny, action) {
			return f
		}
	}
	return nil
}

// actionMatches compares an action with a pattern of role definitions.
func actionMatches(pattern, action string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	found, err := regexp.MatchString("(?i)^"+strings.Join(parts, ".*")+"$", action)
	return err == nil && found
}
