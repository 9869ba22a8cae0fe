package step

import (
	"fmt"
	"time"
)

// Pass is the result of one pass.
type Pass[A, R ~string] struct {
	Decision Decision[A, R]
	// Done: nothing is left to do.
	Done bool
	// After is the pause before the next pass; zero is at once.
	After time.Duration
}

// Repeats counts equal decisions in a row. The zero value has counted none.
type Repeats[A, R ~string] struct {
	last  Decision[A, R]
	times int
}

// Add counts a decision, and returns how many times in a row it came. More than one means that no change is seen: the last
// pass did the same action, and the world does not show its effect. A wait changes nothing, so its count is zero.
func (r *Repeats[A, R]) Add(d Decision[A, R]) int {
	if d != r.last || d.Waits() {
		r.last, r.times = d, 0
	}
	if !d.Waits() {
		r.times++
	}
	return r.times
}

// Limits bound the repetition of an action without a visible change.
type Limits struct {
	// Pause is the shortest pause after a repetition. Without it, a cloud that shows its writes late gets a request in each
	// moment.
	Pause time.Duration
	// Times is the number of equal decisions in a row at which the loop ends; zero is no limit.
	Times int
}

// NoChange is the error of a loop whose action was repeated too often.
type NoChange struct {
	Action string
	Times  int
}

func (e *NoChange) Error() string {
	return fmt.Sprintf("action %s was done %d times, and no change is visible", e.Action, e.Times)
}

// Run makes passes until a pass is done, or until pass or pause returns an error, which Run returns. After Limits.Times equal
// decisions in a row the error is a *NoChange.
func Run[A, R ~string](limits Limits, pass func() (Pass[A, R], error), pause func(time.Duration) error) error {
	var repeats Repeats[A, R]
	for {
		p, err := pass()
		if err != nil || p.Done {
			return err
		}
		times := repeats.Add(p.Decision)
		if limits.Times > 0 && times >= limits.Times {
			return &NoChange{Action: string(p.Decision.Do), Times: times}
		}
		if times > 1 {
			p.After = max(p.After, limits.Pause)
		}
		if err := pause(p.After); err != nil {
			return err
		}
	}
}
