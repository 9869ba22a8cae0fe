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

// operation is a long operation, which continues after a restart. Steps and the state hold the finished work.
type operation struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Target is the changed resource. Lanes are the exclusive lanes: operations in the same lane run one after the
	// other.
	Target string   `json:"target"`
	Lanes  []string `json:"lanes"`
	// Action, Targets and Flags are the job's own arguments.
	Action  string          `json:"action,omitempty"`
	Targets []string        `json:"targets,omitempty"`
	Flags   map[string]bool `json:"flags,omitempty"`
	// Latency is simulated. Began is the time when the lanes were free, zero before.
	Latency time.Duration `json:"latency"`
	Asked   time.Time     `json:"asked"`
	Began   time.Time     `json:"began"`
	Ended   time.Time     `json:"ended"`
	Status  string        `json:"status"`
	Problem *problem      `json:"problem,omitempty"`
	// Steps that are done, for steps that run only once.
	Steps map[string]bool `json:"steps,omitempty"`
	// Ordered is an ordered failure at the end. Effect: the operation has its effect before the failure.
	Ordered *problem `json:"ordered,omitempty"`
	Effect  bool     `json:"effect,omitempty"`
}

// job is the work of a kind of operation. run does the work and returns the change of the state; run may repeat after
// a restart. fail records a failure in the state.
type job struct {
	run  func(ctx context.Context, op operation) (func(*state), error)
	fail func(st *state, op operation, p *problem)
}

// work holds the jobs for all kinds of resources.
func (s *backend) work() map[string]job {
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
func (s *backend) change(c *call, f func(*state) error) error {
	if err := s.store.Write(f); err != nil {
		return err
	}
	if c.started != nil {
		s.start(*c.started)
	}
	return nil
}

// start queues an operation in its lanes. The returned channel is closed at the end of the work. If the server ends,
// the next start continues.
func (s *backend) start(op operation) <-chan struct{} {
	return s.lanes.Run(op.Lanes, func() { s.run(op.ID) })
}

// resume starts the unfinished operations of an earlier server, in order.
func (s *backend) resume() {
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

// run does the work of an operation. An operation interrupted by the server's end stays in progress.
func (s *backend) run(id string) {
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

// end records outcome and effect in a single change.
func (s *backend) end(op operation, j job, commit func(*state), p *problem) {
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
func (s *backend) wait(op operation, part float64) error {
	due := op.Began.Add(s.config.Clock.Real(time.Duration(float64(op.Latency) * part)))
	return s.until(due)
}

func (s *backend) until(due time.Time) error {
	if s.config.Stepped {
		return s.untilStep(s.config.Clock.Now().Add(time.Until(due)))
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.lanes.Context().Done():
		return s.lanes.Context().Err()
	}
}

// untilStep waits until skips of the calendar have brought its time.
func (s *backend) untilStep(due time.Time) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for s.config.Clock.Now().Before(due) {
		select {
		case <-look.C:
		case <-s.lanes.Context().Done():
			return s.lanes.Context().Err()
		}
	}
	return nil
}

// copyOnce copies the content of a disk to the target of an operation: only once, also after restarts, if the copy could be recorded.
func (s contents) copyOnce(ctx context.Context, op operation, source string) error {
	const copied = "copied"
	done := false
	s.store.Read(func(st *state) { done = st.Operations[op.ID].Steps[copied] })
	if done {
		return nil
	}
	if err := s.copy(ctx, op.Target, source); err != nil {
		return err
	}
	return s.store.Write(func(st *state) error {
		found := st.Operations[op.ID]
		steps := map[string]bool{copied: true}
		for k := range found.Steps {
			steps[k] = true
		}
		found.Steps = steps
		return nil
	})
}

// percent is the passed share of the latency, 0 to 100.
func (s *backend) percent(op operation) int {
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

func (s *backend) runNothing(_ context.Context, op operation) (func(*state), error) {
	return nil, s.wait(op, 1)
}

// operations answers clients that poll.
type operations struct{ *backend }

func (s operations) routes() []*route {
	path := subscriptionPath + "/providers/Microsoft.Compute/locations/{location}/operations/{operation}"
	return []*route{{method: http.MethodGet, pattern: path, noun: "operation", operation: "get", handle: s.get}} // a poll needs no action
}

// get answers a poll. The status URL answers 200. The Location answers 202 during the work and 204 afterwards.
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
