// Package step has what all planners share: a decision is one action, or a wait or a failure with its reason. A loop repeats
// passes with one decision each, and ends if an action shows no change.
//
// The package is pure: callers pass clock and context as functions. It knows no action besides Wait and Fail; a planner
// declares its own.
package step

// The actions of every planner. They are untyped, and so are constants of each planner's own type.
const (
	// Wait changes nothing; Why is the awaited event.
	Wait = "Wait"
	// Fail ends the work; Why is the cause.
	Fail = "Fail"
)

// Decision is one action of a planner, with the reason of a wait or a failure. A is the planner's type of actions, and R of
// reasons.
type Decision[A, R ~string] struct {
	Do  A
	Why R
}

// String reads as "Wait: Proof", "Fail: DrainTimeout" or "Cordon".
func (d Decision[A, R]) String() string {
	if d.Why == "" {
		return string(d.Do)
	}
	return string(d.Do) + ": " + string(d.Why)
}

// Waits reports whether the decision changes nothing.
func (d Decision[A, R]) Waits() bool { return d.Do == Wait }

// Verbs returns the functions with which a planner writes its decisions:
//
//	var do, wait, fail = step.Verbs[Action, Reason]()
func Verbs[A, R ~string]() (do func(A) Decision[A, R], wait, fail func(R) Decision[A, R]) {
	return func(a A) Decision[A, R] { return Decision[A, R]{Do: a} },
		func(r R) Decision[A, R] { return Decision[A, R]{Wait, r} },
		func(r R) Decision[A, R] { return Decision[A, R]{Fail, r} }
}
