package aws

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// poll is the interval of checks of machines' power in real time, without requests.
const poll = time.Second

// timeline is the simulated time since the creation of the cloud: real time multiplied by the scale, plus the skips
// of the calendar. The timeline stops while no server runs.
type timeline struct {
	clock  clock.Clock
	base   time.Duration
	opened time.Time
	ahead  time.Duration
}

func newTimeline(c clock.Clock, base time.Duration) timeline {
	now := time.Now()
	return timeline{clock: c, base: base, opened: now, ahead: c.At(now).Sub(now)}
}

func (t timeline) now() time.Duration {
	now, scale := time.Now(), t.clock.Scale
	if scale <= 0 {
		scale = 1
	}
	return t.base + time.Duration(float64(now.Sub(t.opened))*scale) + t.clock.At(now).Sub(now) - t.ahead
}

// event is a planned change.
type event struct {
	At     time.Duration `json:"at"`
	Kind   string        `json:"kind"`
	Target string        `json:"target"`
	// Note is the event's own argument.
	Note string `json:"note,omitempty"`
	// Busy: the work of the event runs. Work interrupted by the server's end runs again.
	Busy bool `json:"busy,omitempty"`
}

// turn applies an event to the state. A turn may return longer work.
type turn func(st *state, e event) *work

// work runs on machines and disks, in order for each target. Then note records the result.
type work struct {
	// on are further targets: work on a target runs in the order of due times.
	on   []string
	do   func(ctx context.Context) error
	then func(st *state, now time.Duration, err error)
}

// plan puts an event on the timeline.
func (st *state) plan(at time.Duration, kind, target, note string) {
	st.Events = append(st.Events, &event{At: at, Kind: kind, Target: target, Note: note})
}

// unplan takes the events of a kind off the timeline that are about a target.
func (st *state) unplan(kind, target string) {
	st.Events = slices.DeleteFunc(st.Events, func(e *event) bool { return e.Kind == kind && e.Target == target && !e.Busy })
}

// next is the first due event; nil for none.
func (st *state) next(now time.Duration) *event {
	var first *event
	for _, e := range st.Events {
		if !e.Busy && e.At <= now && (first == nil || e.At < first.At) {
			first = e
		}
	}
	return first
}

// advance applies all due events. Their work runs in its lanes.
func (w *backend) advance() {
	w.findShutDown()
	for {
		due := false
		w.store.Read(func(st *state) { due = st.next(w.time.now()) != nil })
		if !due {
			return
		}
		var jobs []func()
		err := w.store.Write(func(st *state) error {
			now := w.time.now()
			st.Elapsed = now
			for e := st.next(now); e != nil; e = st.next(now) {
				if job := w.applyEvent(st, e); job != nil {
					jobs = append(jobs, job)
				}
			}
			return nil
		})
		if err != nil {
			w.config.Log.Error("the cloud's state was not saved", "error", err)
			return
		}
		for _, job := range jobs {
			job()
		}
	}
}

// applyEvent applies an event, and returns a function that queues the work.
func (w *backend) applyEvent(st *state, e *event) func() {
	e.Busy, st.moment = true, e.At
	job := w.turns[e.Kind](st, *e)
	if job == nil {
		st.Events = slices.DeleteFunc(st.Events, func(o *event) bool { return o == e })
		return nil
	}
	return func() {
		w.lanes.Run(append([]string{e.Target}, job.on...), func() {
			err := job.do(w.lanes.Context())
			if w.lanes.Context().Err() != nil {
				return
			}
			if err != nil {
				w.config.Log.Warn("work failed", "kind", e.Kind, "target", e.Target, "error", err)
			}
			saved := w.store.Write(func(st *state) error {
				st.Events = slices.DeleteFunc(st.Events, func(o *event) bool { return o == e })
				st.moment = w.time.now()
				job.then(st, st.moment, err)
				return nil
			})
			if saved != nil {
				w.config.Log.Error("the cloud's state was not saved", "error", saved)
			}
			w.nudge()
		})
	}
}

// run applies due events without requests, until the lanes are closed.
func (w *backend) run() {
	defer close(w.done)
	for {
		timer := time.NewTimer(poll)
		select {
		case <-w.lanes.Context().Done():
			timer.Stop()
			return
		case <-w.bell:
		case <-timer.C:
		}
		timer.Stop()
		w.advance()
	}
}

// nudge has the timeline looked at now.
func (w *backend) nudge() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}
