//go:build !linux

package offline

import (
	"context"
	"io"
)

// Run is implemented on Linux only.
func (d Disk) Run(context.Context) (*Result, error) {
	return nil, refusef("copies of disks are cleaned on Linux only")
}

// Enclose is implemented on Linux only.
func Enclose(context.Context, func(dir string) []string, io.Writer, io.Writer) (int, error) {
	return 0, refusef("copies of disks are cleaned on Linux only")
}
