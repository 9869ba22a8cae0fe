package memory

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Loss is a way to lose a call.
type Loss struct {
	Name    string
	Outcome Outcome
	// Wipes: the status of the object is lost with the process, as by a backup without status.
	Wipes bool
}

// Losses are the ways to lose a call: the request or the answer, by an error or by the end of the process.
func Losses() []Loss {
	return []Loss{
		{Name: "error before its effect", Outcome: FailBefore(cloud.Unavailable)},
		{Name: "error after its effect", Outcome: FailAfter(cloud.Unavailable)},
		{Name: "crash before its effect", Outcome: CrashBefore()},
		{Name: "crash after its effect", Outcome: CrashAfter()},
	}
}

// Schedule decides about the calls of one course: calls to a cloud, to an API server and to a store have one count. Schedule is
// safe for concurrent use.
type Schedule struct {
	losses map[int]Loss

	mu    sync.Mutex
	calls []string
	lost  []string
	wiped bool
}

// NewSchedule loses the calls with these numbers, which count from 0. A nil map loses none.
func NewSchedule(losses map[int]Loss) *Schedule { return &Schedule{losses: losses} }

// Next returns the fate of the next call.
func (s *Schedule) Next(call string) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.calls)
	s.calls = append(s.calls, call)
	loss, isLost := s.losses[n]
	if !isLost {
		return Pass()
	}
	s.lost = append(s.lost, fmt.Sprintf("call %d (%s): %s", n, call, loss.Name))
	s.wiped = loss.Wipes
	return loss.Outcome
}

// Inject is Next for a Faulty.
func (s *Schedule) Inject(c Call) Outcome { return s.Next(c.Op + " " + c.Resource) }

// Calls returns all calls so far, lost or not.
func (s *Schedule) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Lost returns a text for each lost call.
func (s *Schedule) Lost() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lost...)
}

// IsWiped reports whether the last lost call has lost the status too. A new process reads no status then.
func (s *Schedule) IsWiped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wiped
}

// Courses lose each call of a course in each way.
type Courses struct {
	// Play plays a course from a new world to its end under the schedule, and fails the test if the end is another than
	// without a loss.
	Play func(t *testing.T, s *Schedule)
	// Losses are the ways; Losses() if nil.
	Losses []Loss
	// Least is the smallest number of calls to lose: a driver that sees no calls tests nothing.
	Least int
	// Choose returns the calls to lose among the calls of the whole course; nil chooses all.
	Choose func(calls []string) []int
	// Sparse takes one way at each call, in turn, for a short suite.
	Sparse bool
}

// LoseEach plays the course without a loss, and then once for each call and way.
func (c Courses) LoseEach(t *testing.T) {
	t.Helper()
	whole := NewSchedule(nil)
	c.Play(t, whole)
	calls := whole.Calls()
	chosen := c.chosen(calls)
	if len(chosen) < c.Least {
		t.Fatalf("%d calls are lost, want at least %d of %v", len(chosen), c.Least, calls)
	}
	losses := c.Losses
	if losses == nil {
		losses = Losses()
	}
	played := len(chosen) * len(losses)
	if c.Sparse {
		played = len(chosen)
	}
	t.Logf("%d schedules lose %d of %d calls", played, len(chosen), len(calls))
	for way, loss := range losses {
		t.Run(loss.Name, func(t *testing.T) {
			t.Parallel()
			for _, n := range chosen {
				if !c.Sparse || n%len(losses) == way {
					c.lose(t, n, loss)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// lose plays the course with one lost call. A failure shows the call, and the calls around it.
func (c Courses) lose(t *testing.T, n int, loss Loss) {
	s := NewSchedule(map[int]Loss{n: loss})
	defer func() {
		if calls := s.Calls(); t.Failed() {
			t.Logf("%v\n%s", s.Lost(), strings.Join(calls[min(len(calls), max(0, n-5)):min(len(calls), n+60)], "\n"))
		}
	}()
	c.Play(t, s)
	if len(s.Lost()) != 1 {
		t.Errorf("call %d was not made", n)
	}
}

func (c Courses) chosen(calls []string) (all []int) {
	if c.Choose != nil {
		return c.Choose(calls)
	}
	for n := range calls {
		all = append(all, n)
	}
	return all
}
