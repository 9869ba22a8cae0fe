package azure

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// Statuses of long operations.
const (
	statusInProgress = "InProgress"
	statusSucceeded  = "Succeeded"
	statusFailed     = "Failed"
)

// keptOperations is how many ended operations can still be asked for.
const keptOperations = 500

// operation is a long operation. It goes on after a restart: what a job has done already it finds in Steps
// and in the state.
type operation struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Target is the resource that it changes, Lanes what it must have for itself: operations that share a
	// lane run one after the other in the order in which they were asked for.
	Target string   `json:"target"`
	Lanes  []string `json:"lanes"`
	// Action, Targets and Flags are the job's own arguments.
	Action  string          `json:"action,omitempty"`
	Targets []string        `json:"targets,omitempty"`
	Flags   map[string]bool `json:"flags,omitempty"`
	// Latency is simulated; Began is when it got its lanes, zero before.
	Latency time.Duration `json:"latency"`
	Asked   time.Time     `json:"asked"`
	Began   time.Time     `json:"began"`
	Ended   time.Time     `json:"ended"`
	Status  string        `json:"status"`
	Problem *problem      `json:"problem,omitempty"`
	// Steps that are done, each once.
	Steps map[string]bool `json:"steps,omitempty"`
	// Ordered failure: its end, whatever it did; Effect tells whether it does it.
	Ordered *problem `json:"ordered,omitempty"`
	Effect  bool     `json:"effect,omitempty"`
}

// job is what an operation of a kind does. run does the work and returns the change to the state that is
// its result; it may be run again after a restart. fail notes in the state that it came to nothing.
type job struct {
	run  func(ctx context.Context, op operation) (func(*state), error)
	fail func(st *state, op operation, p *problem)
}

// work is what operations on any kind of resource do.
func (s *world) work() map[string]job {
	return map[string]job{
		"resource.settle": {s.settle, written},
		"resource.delete": {s.runDelete, failRemoval},
		"nothing":         {s.runNothing, func(*state, operation, *problem) {}},
	}
}

// begin notes a long operation in the state; it starts when the change is on disk (see change). A failure
// that was ordered for the call is the operation's.
func (c *call) begin(st *state, op operation) *operation {
	op.ID, op.Asked, op.Status = newUUID(), time.Now().UTC(), statusInProgress
	if len(op.Lanes) == 0 {
		op.Lanes = []string{fold(op.Target)}
	}
	if f := c.fault; f != nil && f.Long {
		op.Ordered = &problem{Code: f.Code, Message: f.Message}
		op.Effect = f.Phase == fault.After
	}
	st.Operations[op.ID] = &op
	c.started = &op
	return &op
}

// change writes to the state and then starts the operation that the writing began.
func (s *world) change(c *call, f func(*state) error) error {
	if err := s.store.Write(f); err != nil {
		return err
	}
	if c.started != nil {
		s.start(*c.started)
	}
	return nil
}

// start queues an operation in its lanes and runs it when they are free. What it returns is closed when that is over;
// after the server's end it goes on at the next start.
func (s *world) start(op operation) <-chan struct{} {
	return s.lanes.Run(op.Lanes, func() { s.run(op.ID) })
}

// resume starts the operations that a former server left, in their order.
func (s *world) resume() {
	var left []operation
	s.store.Read(func(st *state) {
		for _, op := range st.Operations {
			if op.Status == statusInProgress {
				left = append(left, *op)
			}
		}
	})
	slices.SortFunc(left, func(a, b operation) int { return a.Asked.Compare(b.Asked) })
	for _, op := range left {
		s.start(op)
	}
}

// run does an operation's work. One that the server's end interrupts stays in progress.
func (s *world) run(id string) {
	var op operation
	err := s.store.Write(func(st *state) error {
		found := st.Operations[id]
		if found.Began.IsZero() {
			found.Began = time.Now().UTC()
		}
		op = *found
		return nil
	})
	var commit func(*state)
	j := s.jobs[op.Kind]
	switch {
	case err != nil:
	case op.Ordered != nil && !op.Effect:
		err = s.wait(op, 1)
	default:
		commit, err = j.run(s.lanes.Context(), op)
	}
	if s.lanes.Context().Err() != nil {
		return
	}
	p := asProblem(err)
	if p == nil {
		p = op.Ordered
	}
	s.end(op, j, commit, p)
}

func asProblem(err error) *problem {
	var p *problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	default:
		return &problem{Code: "InternalExecutionError", Message: "An internal execution error occurred. Please retry later. " + err.Error()}
	}
}

// end notes the outcome, with the effect, in one change.
func (s *world) end(op operation, j job, commit func(*state), p *problem) {
	if p != nil {
		s.config.Log.Warn("operation failed", "kind", op.Kind, "target", op.Target, "code", p.Code, "message", p.Message)
	}
	err := s.store.Write(func(st *state) error {
		found := st.Operations[op.ID]
		found.Ended, found.Problem, found.Status = time.Now().UTC(), p, statusSucceeded
		if p != nil {
			found.Status = statusFailed
		}
		if commit != nil {
			commit(st)
		}
		if p != nil {
			j.fail(st, op, p)
		}
		forget(st)
		return nil
	})
	if err != nil {
		s.config.Log.Error("operation's end was not saved", "kind", op.Kind, "target", op.Target, "error", err)
	}
}

// forget drops the oldest of the ended operations.
func forget(st *state) {
	if len(st.Operations) < 2*keptOperations {
		return
	}
	var ended []*operation
	for _, op := range st.Operations {
		if op.Status != statusInProgress {
			ended = append(ended, op)
		}
	}
	slices.SortFunc(ended, func(a, b *operation) int { return b.Ended.Compare(a.Ended) })
	for _, op := range ended[min(len(ended), keptOperations):] {
		delete(st.Operations, op.ID)
	}
}

// wait sleeps until the given part of the operation's latency has passed since it began.
func (s *world) wait(op operation, part float64) error {
	due := op.Began.Add(s.config.Clock.Real(time.Duration(float64(op.Latency) * part)))
	return s.until(due)
}

func (s *world) until(due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.lanes.Context().Done():
		return s.lanes.Context().Err()
	}
}

// step does something once in an operation's life, restarts included as far as they let it be noted.
func (s *world) step(op operation, name string, f func() error) error {
	done := false
	s.store.Read(func(st *state) { done = st.Operations[op.ID].Steps[name] })
	if done {
		return nil
	}
	if err := f(); err != nil {
		return err
	}
	return s.store.Write(func(st *state) error {
		found := st.Operations[op.ID]
		steps := map[string]bool{name: true}
		for k := range found.Steps {
			steps[k] = true
		}
		found.Steps = steps
		return nil
	})
}

// percent is how much of its latency has passed, 0 to 100.
func (s *world) percent(op operation) int {
	total := s.config.Clock.Real(op.Latency)
	switch {
	case op.Status == statusSucceeded:
		return 100
	case op.Began.IsZero():
		return 0
	case total <= 0:
		return 99
	}
	return int(min(99, 100*time.Since(op.Began)/total))
}

func (s *world) runNothing(_ context.Context, op operation) (func(*state), error) {
	return nil, s.wait(op, 1)
}

// operations are asked for by clients that wait for them.
type operations struct{ *world }

func (s operations) routes() []*route {
	path := subscriptionPath + "/providers/Microsoft.Compute/locations/{location}/operations/{operation}"
	return []*route{{method: http.MethodGet, pattern: path, noun: "operation", operation: "get",
		action: "Microsoft.Compute/locations/operations/read", handle: s.get}}
}

// get is what clients poll. The status URL answers 200 to the end; the Location answers 202 while
// the work goes on and 204 after it.
func (s operations) get(c *call) (*reply, error) {
	var op operation
	found := false
	s.store.Read(func(st *state) {
		if o := st.Operations[c.vars["operation"]]; o != nil {
			op, found = *o, true
		}
	})
	if !found {
		return nil, refuse(http.StatusNotFound, "NotFound", "The entity was not found in this Azure location.")
	}
	rep := &reply{status: http.StatusOK, header: http.Header{}}
	if op.Status == statusInProgress {
		s.retryAfter(rep.header, 10*time.Second)
	}
	if c.r.URL.Query().Get("monitor") == "true" {
		switch op.Status {
		case statusInProgress:
			rep.status = http.StatusAccepted
			rep.header.Set("Location", "https://"+c.r.Host+c.r.URL.RequestURI())
		case statusFailed:
			p := *op.Problem
			p.Status = http.StatusConflict
			return nil, &p
		default:
			rep.status = http.StatusNoContent
		}
		return rep, nil
	}
	body := object{"name": op.ID, "status": op.Status, "startTime": op.Asked.Format(time.RFC3339Nano)}
	if op.Status != statusInProgress {
		body["endTime"] = op.Ended.Format(time.RFC3339Nano)
	}
	if op.Problem != nil {
		body["error"] = op.Problem.body()["error"]
	}
	rep.body = body
	return rep, nil
}
