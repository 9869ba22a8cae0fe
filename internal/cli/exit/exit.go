// Package exit has the exit codes of the programs, and errors with an exit code.
package exit

import "fmt"

// Exit codes, one for each class of ending.
const (
	Done        = 0
	Unexpected  = 1
	Usage       = 2
	Refused     = 3  // nothing was changed
	Failed      = 4  // the capture failed and the donor is in service
	NotAllowed  = 5  // a credential or a permission
	Unreachable = 6  // the API server or the cloud
	NeedsPerson = 7  // with status --exit-code only
	NothingToDo = 10 // with --detailed-exitcode only
	Interrupted = 130
)

// Failure is an error with an exit code.
type Failure struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Failure) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Failure) Unwrap() error { return e.Err }

// Usagef returns an error of wrong usage.
func Usagef(format string, args ...any) error {
	return &Failure{Usage, fmt.Errorf(format, args...)}
}

// Refusedf returns a refusal: nothing was changed.
func Refusedf(format string, args ...any) error {
	return &Failure{Refused, fmt.Errorf(format, args...)}
}
