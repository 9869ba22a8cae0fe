package aws

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// state is the whole state of the simulator. Tables use IDs as keys; Auto Scaling's tables use names.
type state struct {
	// Elapsed is the timeline's time at the last change.
	Elapsed        time.Duration             `json:"elapsed"`
	Events         []*event                  `json:"events"`
	Templates      map[string]*template      `json:"templates"`
	Instances      map[string]*instance      `json:"instances"`
	Volumes        map[string]*volume        `json:"volumes"`
	Snapshots      map[string]*snapshot      `json:"snapshots"`
	Images         map[string]*image         `json:"images"`
	Roots          map[string]*rootTask      `json:"roots"`
	Groups         map[string]*group         `json:"groups"`
	Configurations map[string]*configuration `json:"configurations"`
	Profiles       map[string]*profile       `json:"profiles,omitempty"`
	// Parameters are the parameters of Systems Manager that clients made.
	Parameters map[string]*parameter `json:"parameters,omitempty"`
	// Networks and Subnets are those that clients made.
	Networks map[string]*network `json:"networks"`
	Subnets  map[string]*subnet  `json:"subnets"`
	// Once are the requests that came with a client token, by action and token.
	Once     map[string]*tokenResult `json:"once"`
	Sessions map[string]*session     `json:"sessions"`
	Faults   fault.List              `json:"faults"`
	// Lag and Full override the configuration: the lag, and the instance types (or "type/zone") without capacity.
	Lag  *time.Duration `json:"lag,omitempty"`
	Full []string       `json:"full,omitempty"`
	// Rolled are healthy instances that were rebuilt or replaced.
	Rolled []string `json:"rolled,omitempty"`
	// moment is the time of the current change: the time of the request or of the event.
	moment time.Duration
}

func newState() *state {
	return &state{
		Templates: map[string]*template{}, Instances: map[string]*instance{}, Volumes: map[string]*volume{}, Snapshots: map[string]*snapshot{},
		Images: map[string]*image{}, Roots: map[string]*rootTask{}, Groups: map[string]*group{}, Configurations: map[string]*configuration{},
		Profiles: map[string]*profile{}, Parameters: map[string]*parameter{}, Networks: map[string]*network{}, Subnets: map[string]*subnet{},
		Once: map[string]*tokenResult{}, Sessions: map[string]*session{},
	}
}

// resource is the common part of EC2's resources.
type resource struct {
	ID      string            `json:"id"`
	Tags    map[string]string `json:"tags"`
	Created time.Time         `json:"created"`
	// Seen is the time from which clients see the resource.
	Seen time.Duration `json:"seen"`
	// Operator is the only service that may change the resource; empty for most resources.
	Operator string `json:"operator,omitempty"`
}

func (r *resource) base() *resource { return r }

// owned is anything with an ID and tags.
type owned interface{ base() *resource }

// sorted returns a table's values in the order of creation.
func sorted[T owned](table map[string]T) []T {
	return slices.SortedFunc(maps.Values(table), func(a, b T) int {
		if c := a.base().Created.Compare(b.base().Created); c != 0 {
			return c
		}
		if a.base().ID < b.base().ID {
			return -1
		}
		return 1
	})
}

// owned finds a resource that can have tags.
func (st *state) owned(id string) (owned, string) {
	switch {
	case st.Instances[id] != nil:
		return st.Instances[id], "instance"
	case st.Volumes[id] != nil:
		return st.Volumes[id], "volume"
	case st.Snapshots[id] != nil:
		return st.Snapshots[id], "snapshot"
	case st.Images[id] != nil:
		return st.Images[id], "image"
	case st.Templates[id] != nil:
		return st.Templates[id], "launch-template"
	case st.Roots[id] != nil:
		return st.Roots[id], "replace-root-volume-task"
	case st.Networks[id] != nil:
		return st.Networks[id], "vpc"
	case st.Subnets[id] != nil:
		return st.Subnets[id], "subnet"
	}
	if suffix, is := strings.CutPrefix(id, "eni-"); is {
		if i := st.Instances["i-"+suffix]; i != nil && i.State != terminated {
			return &i.Interface, "network-interface"
		}
	}
	return nil, ""
}

// tokenResult is the result of a request with a client token.
type tokenResult struct {
	// Form is the request, Made the IDs of the result.
	Form string   `json:"form"`
	Made []string `json:"made"`
	// At is the time of the first request.
	At time.Time `json:"at"`
}

// repeated finds the earlier result for the same client token; nil for none.
func (st *state) repeated(c *call) ([]string, *problem) {
	token := c.in.Get("ClientToken")
	if token == "" {
		return nil, nil
	}
	before := st.Once[c.action.name+"/"+token]
	if before == nil {
		return nil, nil
	}
	if before.Form != asked(c.in) {
		return nil, bad("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	}
	_ = c.in.Names() // the comparison has read all parameters
	return before.Made, nil
}

// remember stores the result of a request with a client token.
func (st *state) remember(c *call, made ...string) {
	// Not verified on AWS, trials: `RunInstances` remembers a client token for the time of a trial.
	if token := c.in.Get("ClientToken"); token != "" {
		st.Once[c.action.name+"/"+token] = &tokenResult{Form: asked(c.in), Made: made, At: st.createdAt(made)}
	}
}

// createdAt is the creation time of the first of new resources.
func (st *state) createdAt(made []string) time.Time {
	if len(made) > 0 {
		if o, _ := st.owned(made[0]); o != nil {
			return o.base().Created
		}
	}
	return time.Time{}
}

// askedAt is the time of the first request with the client token of a call.
func (st *state) askedAt(c *call) time.Time {
	if before := st.Once[c.action.name+"/"+c.in.Get("ClientToken")]; before != nil {
		return before.At
	}
	return time.Time{}
}

func asked(in *query.Value) string {
	return in.Copy("ClientToken", "Action", "Version", "DryRun").String()
}
