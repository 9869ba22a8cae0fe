// Package fault is trouble that is ordered from a simulated cloud: which requests it strikes, when, and what becomes
// of them. It knows no cloud: nouns, operations and actions are the simulator's own.
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

// Phase says when a fault strikes: before the request has any effect, or after it has had it.
type Phase string

const (
	Before Phase = "before"
	After  Phase = "after"
)

// Fault is trouble that is ordered. It strikes requests for which everything given under "which" holds.
type Fault struct {
	// Name identifies it; the simulator makes one up for a fault without.
	Name string `json:"name,omitempty"`

	// Which: the method; a regular expression that the path must contain, without regard to case; the noun and the
	// operation on it, as the simulator names them.
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

// Ordered is a fault with what has become of it: how many requests it matched, and how many it struck.
type Ordered struct {
	Fault
	Seen   int `json:"seen"`
	Struck int `json:"struck"`
}

func (f *Ordered) spent() bool { return f.Count > 0 && f.Struck >= f.Count }

// Checked is the fault with what it leaves out, or what is wrong with it.
func (f Fault) Checked() (Fault, error) {
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

// Befall waits for the fault's delay and breaks the connection off if that is ordered: as the panic that net/http
// takes for it.
func (f *Fault) Befall(ctx context.Context, c clock.Clock) error {
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

// List is the faults that were ordered, in their order. It is kept with what the simulator knows, and guarded by it.
type List []*Ordered

// Without is the list without the faults of these names; without names, none is left.
func (l List) Without(names ...string) List {
	return slices.DeleteFunc(slices.Clone(l), func(o *Ordered) bool { return len(names) == 0 || slices.Contains(names, o.Name) })
}

// With is the list with one more fault, which takes the place of one of its name.
func (l List) With(f Fault) List { return append(l.Without(f.Name), &Ordered{Fault: f}) }

// Live are the faults that can still strike.
func (l List) Live() []Fault {
	var out []Fault
	for _, f := range l {
		if !f.spent() {
			out = append(out, f.Fault)
		}
	}
	return out
}

// Strike counts the first fault that strikes a request, and returns a copy of it; nil if none does.
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
func (l List) Denying(action string) *Ordered {
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
