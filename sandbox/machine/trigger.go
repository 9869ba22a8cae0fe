package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// openTrigger makes a named pipe in the place of /proc/sysrq-trigger and opens it for reading. It is open
// for writing as well, so that a writer that goes away is no end of file, and not blocking, so that
// closing it ends a read.
func openTrigger(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}
