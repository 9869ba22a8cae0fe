package memory

import (
	"fmt"
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
	s.wiped = s.wiped || loss.Wipes
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

// IsWiped reports whether a lost call has lost the status. A new process reads no status then.
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
	// Least is the smallest number of calls of a course: a driver that sees no calls tests nothing.
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
	if len(calls) < c.Least {
		t.Fatalf("the course has %d calls, want at least %d: %v", len(calls), c.Least, calls)
	}
	losses := c.Losses
	if losses == nil {
		losses = Losses()
	}
	for way, loss := range losses {
		t.Run(loss.Name, func(t *testing.T) {
			t.Parallel()
			for _, n := range c.chosen(calls) {
				if c.Sparse && n%len(losses) != way {
					continue
				}
				s := NewSchedule(map[int]Loss{n: loss})
				c.Play(t, s)
				if lost := s.Lost(); len(lost) != 1 {
					t.Errorf("%d calls are lost, want call %d (%s)", len(lost), n, calls[n])
				}
				if t.Failed() {
					t.Fatalf("%v", s.Lost())
				}
			}
		})
	}
}

func (c Courses) chosen(calls []string) []int {
	if c.Choose != nil {
		return c.Choose(calls)
	}
	all := make([]int, len(calls))
	for n := range all {
		all[n] = n
	}
	return all
}
