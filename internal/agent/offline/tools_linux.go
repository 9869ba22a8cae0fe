package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
)

// checker is the program that checks a kind of file system without a change. Exit code 0 means clean.
type checker struct {
	program string
	args    []string
	// of is the package that has the program, for a remedy.
	of string
}

// checkers are the programs by kind. Sources: e2fsck(8), xfs_repair(8), fsck.fat(8).
var checkers = map[Kind]checker{
	ext4: {"e2fsck", []string{"-n", "-f"}, "e2fsprogs"},
	xfs:  {"xfs_repair", []string{"-n"}, "xfsprogs"},
	vfat: {"fsck.vfat", []string{"-n"}, "dosfstools"},
}

// toolDirs are where a machine has such programs.
var toolDirs = []string{"usr/sbin", "sbin", "usr/bin", "bin", "usr/local/sbin"}

// find returns the path of a program in the root of this machine; empty without it. The copy's programs never run.
func (m machine) find(program string) string {
	for _, dir := range toolDirs {
		at := filepath.Join(m.root, dir, program)
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return "/" + dir + "/" + program
		}
	}
	return ""
}

// refuseWithoutTools refuses a machine that lacks a program for a file system of the device.
func (m machine) refuseWithoutTools(parts []Partition) error {
	var whys []string
	for _, p := range parts {
		c, mounts := checkers[p.Kind]
		if mounts && m.find(c.program) == "" {
			why := fmt.Sprintf("this machine has no %s, which checks %s afterwards. Install the package %s on the machine", c.program, p.Kind, c.of)
			if !slices.Contains(whys, why) {
				whys = append(whys, why)
			}
		}
	}
	if len(whys) > 0 {
		return generalize.NewRefused(whys...)
	}
	return nil
}

// maxOutput is the number of bytes of a program's output in an error.
const maxOutput = 1 << 10

// check checks an unmounted partition. The program gets the open partition, so that no name of a device matters, and runs in the
// root of its machine.
func (m machine) check(ctx context.Context, p Partition, f *os.File) error {
	c := checkers[p.Kind]
	cmd := exec.CommandContext(ctx, m.find(c.program), append(slices.Clone(c.args), "/proc/self/fd/3")...)
	if filepath.Clean(m.root) != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root}
	}
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}, []*os.File{f}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("run %s: %w", c.program, err)
	}
	text := out.String()
	return discardf(NotClean, "%s finds errors on %s after the cleaning (%v): %s. Take a fresh copy", c.program, p.name(), err,
		generalize.Printable(strings.Join(strings.Fields(text[max(0, len(text)-maxOutput):]), " ")))
}
