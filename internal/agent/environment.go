package agent

import (
	"io"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
)

// Environment is what the program reads and writes besides disks.
type Environment struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	// Running is the kernel of hosts whose disks are copied while they run, and Devices the kernel with the devices of copies.
	Running quiesce.Kernel
	Devices offline.Kernel

	// args are the arguments of the run.
	args []string
}
