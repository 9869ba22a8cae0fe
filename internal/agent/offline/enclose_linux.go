package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Enclose runs this program again in a mount namespace of its own, and returns the exit code. arguments makes the arguments for an empty
// directory, where the program may mount. When the program ends, even by SIGKILL, the kernel unmounts everything; it also ends with its
// caller. A cancelled context sends SIGTERM, and Enclose waits for the end.
func Enclose(ctx context.Context, arguments func(dir string) []string, out, log io.Writer) (code int, err error) {
	dir, err := os.MkdirTemp("", "kamino-copy-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(dir)
	// The kernel ends the program with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", arguments(dir)...)
	cmd.Stdout, cmd.Stderr = out, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.Is(err, syscall.EPERM):
		return 0, refusef("a mount namespace cannot be made: %v. Run the command as root, or in a privileged pod", err)
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return ended.ExitCode(), nil
	case err != nil && cmd.ProcessState != nil && cmd.ProcessState.ExitCode() >= 0:
		return cmd.ProcessState.ExitCode(), nil
	case err != nil:
		return 0, fmt.Errorf("clean the copy: %w; its file systems are unmounted, and the copy must not be used", err)
	}
	return 0, nil
}
