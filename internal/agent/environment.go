package agent

import (
	"io"
	"time"
)

// Environment is what the program reads and writes besides disks.
type Environment struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time

	// args are the arguments of the run.
	args []string
}
