package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// TestEndedRuns ends the program at every step. Nothing stays mounted, and no process stays.
func TestEndedRuns(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d := newDisk(t, "ext4", t.TempDir())
	whole := filepath.Join(t.TempDir(), "whole.raw")
	command(t, "cp", "--sparse=always", d.image, whole)
	steps := []string{"the root is", "rules of profile", "wiped the swap", "trimmed /boot", "partition 1 is clean", "partition 15 is clean"}
	if testing.Short() {
		steps = []string{"rules of profile", "trimmed /boot"}
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, step := range steps {
			t.Run(fmt.Sprint(signal, " after ", step), func(t *testing.T) {
				image := filepath.Join(t.TempDir(), "disk.raw")
				command(t, "cp", "--sparse=always", whole, image)
				c := *d
				c.image, c.device = image, attach(t, image)
				out, code := endAt(t, signal, step, "generalize", "--device", c.device, "--root-uuid", d.uuid(t, "1"), "--profile", "static")
				if signal == syscall.SIGTERM && code != exit.Interrupted && code != exit.Done ||
					code == exit.Done && step != "partition 15 is clean" {
					t.Errorf("exit code %d\n%s", code, out)
				}
				if code == exit.Interrupted &&
					(!strings.Contains(out, "is unmounted, is cleaned in part, and must not be used") || !strings.Contains(out,
						"interrupted while")) {
					t.Errorf("got\n%s", out)
				}
				awaitFree(t, c.device)
			})
		}
	}
}

// awaitFree waits until nothing uses a device. The kernel unmounts shortly after the end of a process.
func awaitFree(t *testing.T, device string) {
	t.Helper()
	var last error
	for range 600 {
		f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL, 0)
		if err == nil {
			f.Close()
			return
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s is still in use: %v", device, last)
}

// endAt runs the program, sends a signal as soon as its log shows a step, and waits until its whole family has ended.
func endAt(t *testing.T, signal syscall.Signal, step string, args ...string) (log string, code int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	must(t, cmd.Start())
	must(t, write.Close())
	var all bytes.Buffer
	buffer, sent := make([]byte, 4096), false
	// The pipe ends when no process of the family has it.
	for {
		n, err := read.Read(buffer)
		all.Write(buffer[:n])
		if !sent && strings.Contains(all.String(), step) {
			sent = true
			must(t, cmd.Process.Signal(signal))
		}
		if err != nil {
			break
		}
	}
	if !sent {
		t.Errorf("no step %q in\n%s", step, all.String())
	}
	_ = cmd.Wait()
	return all.String(), cmd.ProcessState.ExitCode()
}
