//go:build !linux

package quiesce

import (
	"errors"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Linux is implemented on Linux only.
type Linux struct{}

// Open implements Kernel.
func (Linux) Open(*tree.Tree) (Volume, error) { return nil, errors.ErrUnsupported }

// Freeze is implemented on Linux only.
func Freeze(string, int) error { return errors.ErrUnsupported }
