package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// consoleSize is the part of a serial console that a cloud keeps. Source: EC2, GetConsoleOutput.
const consoleSize = 64 << 10

// Console implements fleet.Fleet. A light machine has no console. The journal is on the console, as with
// ForwardToConsole=yes in journald.conf(5): most real images show no more than the state of units.
func (f *Fleet) Console(id string) string {
	text, err := os.ReadFile(f.consolePath(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.config.Log.Warn("console not read", "machine", id, "error", err)
	}
	return string(text[max(0, len(text)-consoleSize):])
}

func (f *Fleet) consolePath(id string) string {
	return filepath.Join(f.config.Dir, "consoles", fileName(id)+".log")
}

// print writes a line of a program to the console, with the simulated time since the start of the boot.
func (s *session) print(program, format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), s.root, "")
	up := float64(time.Since(s.began)) / float64(time.Second) * max(s.machine.fleet.config.Clock.Scale, 1)
	s.printRaw(fmt.Sprintf("[%12.6f] %s: %s\n", up, program, text))
}

func (s *session) printRaw(text string) {
	if s.spec.Light {
		return
	}
	path := s.machine.fleet.consolePath(s.spec.ID)
	if err := disk.Append(path, strings.ReplaceAll(text, "\n", "\r\n"), 0o600); err != nil {
		s.machine.fleet.config.Log.Warn("console not written", "machine", s.spec.ID, "error", err)
	}
}

// printUnit writes systemd's line about the start of a unit.
func (s *session) printUnit(unit, description string, err error) {
	if err == nil {
		s.printRaw(fmt.Sprintf("[  OK  ] Started %s - %s.\n", unit, description))
		return
	}
	s.printRaw(fmt.Sprintf("[FAILED] Failed to start %s - %s.\nSee 'systemctl status %s' for details.\n", unit, description, unit))
}

// printFailure writes what a program said before its end.
func (s *session) printFailure(program string, err error) {
	var failure *bootconfig.Failure
	if !errors.As(err, &failure) {
		s.print(program, "%s", err)
		return
	}
	s.print(strings.TrimSuffix(failure.Unit, ".service"), "%s", failure.Text)
	s.printUnit(failure.Unit, description(failure.Unit), failure)
	if failure.Unit == containerdUnit {
		s.print("kubelet", "command failed: failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint "+
			"\"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: dial unix "+
			"/run/containerd/containerd.sock: connect: no such file or directory")
		s.printUnit(kubeletUnit, description(kubeletUnit), failure)
	}
}

func description(unit string) string {
	if unit == containerdUnit {
		return "containerd container runtime"
	}
	return "kubelet: The Kubernetes Node Agent"
}

// kernelLog are the kernel's lines of a boot.
func (s *session) kernelLog() []string {
	kernel := disk.Kernel(s.root)
	return []string{
		"Linux version " + kernel,
		"Command line: BOOT_IMAGE=/boot/vmlinuz-" + kernel + " root=LABEL=cloudimg-rootfs ro console=tty1 console=ttyS0",
		"EXT4-fs (sda1): mounted filesystem with ordered data mode. Quota mode: none.",
	}
}
