//go:build !linux

package offline

import (
	"context"
	"io"
)

// Linux is implemented on Linux only.
type Linux struct{}

// Mounts implements Kernel.
func (Linux) Mounts() bool { return true }

// Open implements Kernel.
func (Linux) Open(Disk) (Device, error) {
	return nil, refusef("copies of disks are cleaned on Linux only")
}

// Enclose is implemented on Linux only.
func Enclose(context.Context, func(dir string) []string, io.Writer, io.Writer) (int, error) {
	return 0, refusef("copies of disks are cleaned on Linux only")
}
