package aws

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// poll is how often, in real time, machines are asked for their power while nobody else asks.
const poll = time.Second

// timeline tells simulated time since the cloud's beginning: what has passed on the wall, times the clock's scale, and
// what the calendar was put forward. It stands still while no server runs.
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

// event is something that comes to pass at its time.
type event struct {
	At     time.Duration `json:"at"`
	Kind   string        `json:"kind"`
	Target string        `json:"target"`
	// Note is the event's own argument.
	Note string `json:"note,omitempty"`
	// Busy tells that its work is being done. Work that a server's end interrupts is done again.
	Busy bool `json:"busy,omitempty"`
}

// turn is what an event does to the state. It may return work that takes its time.
type turn func(st *state, e event) *work

// work is done on machines and disks, one after the other for each target; then notes what has become of it.
type work struct {
	// on are targets beside the event's own that it is about: work on one of them goes on in the order in which it fell due.
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

// next is the first event that is due; nil if none is.
func (st *state) next(now time.Duration) *event {
	var first *event
	for _, e := range st.Events {
		if !e.Busy && e.At <= now && (first == nil || e.At < first.At) {
			first = e
		}
	}
	return first
}

// advance lets pass what is due. Work that comes of it goes on in its lanes.
func (w *world) advance() {
	w.look()
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
				if job := w.pass(st, e); job != nil {
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

// pass lets one event pass, and returns what puts its work into its lane.
func (w *world) pass(st *state, e *event) func() {
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

// run lets time pass while nobody asks for anything, until the lanes are closed.
func (w *world) run() {
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
func (w *world) nudge() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}
