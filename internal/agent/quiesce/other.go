//go:build !linux

package quiesce

import (
	"context"
	"errors"
)

type starter = func()

// Run is implemented on Linux only.
func (d Donor) Run(context.Context, <-chan bool, func(State)) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Freeze is implemented on Linux only.
func Freeze(string, int) error { return errors.ErrUnsupported }
