package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// openTrigger creates a named pipe at /proc/sysrq-trigger and opens the pipe for reading. Also open for writing, so that the
// end of a writer is not the end of the file. Non-blocking, so that Close ends a read.
func openTrigger(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}
