//go:build !linux

package host

import (
	"errors"
	"os"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

func (h *Host) detach(*tree.Tree) {}

func (h *Host) flush(*tree.Tree) error { return errors.New("a live run needs Linux") }

func ownFileSystem(*tree.Tree) bool { return false }

func readOnly(*tree.Tree) bool { return false }

// ownLayer is implemented on Linux only.
func ownLayer() string { return "" }

// OpenBelow is implemented on Linux only.
func OpenBelow(*tree.Tree, func(string, ...any)) (*generalize.HiddenFiles, func(), error) {
	return nil, func() {}, nil
}

func zeroOut(*os.File, int64, int64) error { return errors.ErrUnsupported }

func noMedium(error) bool { return false }
