package exit

import (
	"errors"
	"strings"
)

// InLines gives each reason of a refused or failed run a line of its own. In a status the reasons stay in one line.
func InLines(err error) error {
	var why interface {
		error
		Verdict() string
		Lines() []string
	}
	if !errors.As(err, &why) {
		return err
	}
	lines := why.Lines()
	if len(lines) < 2 {
		return err
	}
	return &listedError{err, why.Verdict() + ":\n  " + strings.Join(lines, "\n  ")}
}

// listedError is an error with a text of several lines.
type listedError struct {
	error
	text string
}

func (e *listedError) Error() string { return e.text }
func (e *listedError) Unwrap() error { return e.error }

// Classed gives an error the exit code that the error itself names.
func Classed(err error) error {
	var knows interface{ ExitCode() int }
	if errors.As(err, &knows) {
		return &Failure{Code: knows.ExitCode(), Err: err}
	}
	return err
}
