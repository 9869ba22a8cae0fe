package quiesce

import (
	"context"
	"errors"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Kernel is what a run asks of the host's kernel.
type Kernel interface {
	// Open finds the disk that the host at t runs from. A *RefusedError says why the disk is not copied while it runs.
	Open(t *tree.Tree) (Volume, error)
}

// Volume is the root file system of a running host, and the boot loader's partitions on the same disk.
type Volume interface {
	// Disk identifies the disk.
	Disk() Disk
	// Flush writes all that is in memory to the disk.
	Flush() error
	// Guard prepares a freeze that ends however this program ends. The name is used once on the host. An error says why there will be no
	// freeze.
	Guard(ctx context.Context, name string) (Guard, error)
	Close()
}

// Guard freezes the root file system once.
type Guard interface {
	// Freeze returns why the file system is not frozen; empty if it is. After an error, such as ErrNotFrozen, it is writable.
	Freeze() (why string, err error)
	// Thaw ends the freeze at the answer, and after a second at the latest. It returns how long writers stood at the most, and why the copy
	// was not accepted in the freeze; empty if it was.
	Thaw(ctx context.Context, answers <-chan bool) (frozenFor time.Duration, late string)
	// Close ends a guard whose freeze was not asked for.
	Close()
}

// ErrNotFrozen is the error of a guard that ended before it froze: it had waited too long, or was killed. Another guard may succeed.
var ErrNotFrozen = errors.New("the helper ended before it froze the root file system: run kamino-node quiesce again when the disk is less busy")
