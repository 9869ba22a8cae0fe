//go:build machines

package real

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

	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// scale is the number of additional files on the disk of TestScale, by directory: packages, container images, data
// and logs.
var scale = map[string]int{
	"usr/lib/site": 60_000, disk.LayerDir(imageLayer): 80_000,
	"var/lib/site": 40_000, "var/log/site": 20_000,
}

// TestScale measures the cost of a run and a verification on a large disk. References are a plain walk of the same
// tree and a read of the searched files, all in one run with a warm cache. No time is asserted.
func TestScale(t *testing.T) {
	requireMeasurements(t)
	kamino, root := os.Getenv("KAMINO_AGENT_BIN"), filepath.Join(t.TempDir(), "root")
	if _, err := disk.UsedNode(root, disk.Static, disk.TemplateValues{Hostname: "donor"}); err != nil {
		t.Fatal(err)
	}
	if err := disk.AddLayer(root, imageLayer, true); err != nil {
		t.Fatal(err)
	}
	written := fill(t, root)
	searched := "etc home root var/lib var/log"
	var out strings.Builder
	fmt.Fprintf(&out, "%s files, %d MiB written\n| what | time | CPU | memory | against the walk |\n|---|---|---|---|---|\n",
		strings.TrimSpace(run(t, "sh", "-c", "find "+root+" -type f | wc -l")), written>>20)
	var walk time.Duration
	for _, step := range []struct {
		what    string
		command []string
	}{
		{"walk (`find`, each file's status)", []string{"find", root, "-printf", "%s\\0"}},
		{"read what is searched (`cat`)", []string{"sh", "-c", "cd " + root + " && find " + searched + " -path '*/snapshots' -prune -o -type f -exec cat {} + >/dev/null"}},
		{"`kamino-node generalize --dry-run`", []string{kamino, "generalize", "--root", root, "--dry-run"}},
		{"`kamino-node generalize`", []string{kamino, "generalize", "--root", root}},
		{"`kamino-node generalize` again", []string{kamino, "generalize", "--root", root}},
		{"`kamino-node verify`", []string{kamino, "verify", root}},
	} {
		took, usage, memory := runMeasured(t, step.command)
		if walk == 0 {
			walk = took
		}
		fmt.Fprintf(&out, "| %s | %.2f s | %.2f s | %d MiB | %.1f |\n", step.what, took.Seconds(),
			(time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds(), memory>>20, took.Seconds()/walk.Seconds())
	}
	t.Logf("\n%s", out.String())
}

// fill writes the files, with 0.5 to 16 KiB each, and returns their total size.
func fill(t *testing.T, root string) (written int64) {
	t.Helper()
	line := "2026-11-21T06:00:00Z donor site[812]: request 0123456789abcdef from 10.240.0.9 took 12 ms, level=info path=/healthz\n"
	text := bytes.Repeat([]byte(line), 16<<10/len(line))
	for dir, count := range scale {
		for i := range count {
			parent := filepath.Join(root, dir, fmt.Sprintf("%03d", i/200))
			if i%200 == 0 {
				if err := os.MkdirAll(parent, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			content := text[:min(512<<(i%6), len(text))]
			if err := os.WriteFile(filepath.Join(parent, fmt.Sprintf("file-%d.log", i)), content, 0o644); err != nil {
				t.Fatal(err)
			}
			written += int64(len(content))
		}
	}
	return written
}

// runMeasured runs a program that must succeed, and measures the time, the CPU and the memory without the program file.
func runMeasured(t *testing.T, command []string) (time.Duration, *syscall.Rusage, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := child.WatchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	took, memory := time.Since(begun), peak()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, errs.String())
	}
	usage, measured := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !measured {
		t.Fatal("what a program used is not known here")
	}
	return took, usage, memory
}
