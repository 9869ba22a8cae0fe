//go:build machines

package real

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// aDisk lets a machine's loop device look like a partition of a disk, which Kamino does not take for a loop device. The mounts of
// systemd-nspawn that are on the host's disk go.
const aDisk = `set -e
umount /var/lib/cloud/seed/nocloud-net
number=$(mountpoint -d /)
mkdir -p /run/disk/block /run/disk/vda/vda1
echo 1 >/run/disk/vda/vda1/partition
ln -s /run/disk/vda/vda1 "/run/disk/block/$number"
mount --bind /run/disk/block /sys/dev/block
mknod /dev/vda1 b ${number%:*} ${number#*:}
systemctl stop unattended-upgrades.service apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service`

// becomesWritable limits the time until a disk is writable again, whatever happened to Kamino.
const becomesWritable = 10 * time.Second

// TestQuiesceMachines freezes the disk of a booted machine, with its systemd as the guard, on ext4 and XFS.
func TestQuiesceMachines(t *testing.T) {
	l := newLab(t)
	image := l.platformImage(t, disk.Static)
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "xfs" {
				if testing.Short() {
					t.Skip("needs a program for XFS")
				}
				requireTools(t, map[string]string{"mkfs.xfs": "xfsprogs"})
			}
			on, options := l.insert(t, kind, asXFS(t, kind, image, l.imageOf(kind)), "")
			// systemd-nspawn takes the right to lock memory away, which systemd of a node has.
			on.spawn = exec.Command("systemd-nspawn", append(options, "--capability=CAP_IPC_LOCK", "--boot", notForOnline)...)
			on.start(t)
			on.sh(t, aDisk)
			t.Run("moment", func(t *testing.T) { testMoment(t, on) })
			t.Run("lost", func(t *testing.T) { testLost(t, on) })
			if failed := on.sh(t, "systemctl --failed --plain --no-legend; systemctl list-units --all --plain --no-legend 'kamino-*'"); failed != "" {
				t.Errorf("units are left: %s", failed)
			}
			on.powerOff(t)
		})
	}
}

// asXFS copies a disk, into XFS if the kind says so.
func asXFS(t *testing.T, kind, image, to string) string {
	t.Helper()
	if kind != "xfs" {
		return copyDisk(t, image, to)
	}
	run(t, "truncate", "-s", imageSize, to)
	run(t, "mkfs.xfs", "-q", to)
	mounted(t, image, func(from string) {
		mounted(t, to, func(root string) { run(t, "cp", "-a", from+"/.", root) })
	})
	return to
}

// quiescing is a running kamino-node quiesce.
type quiescing struct {
	m          *machine
	uid, nonce string
	cmd        *exec.Cmd
	in         io.WriteCloser
	lines      chan map[string]any
	stderr     bytes.Buffer
}

func startQuiesce(t *testing.T, m *machine, flags ...string) *quiescing {
	t.Helper()
	random := make([]byte, 32)
	_, _ = rand.Read(random)
	q := &quiescing{m: m, uid: string(uuid.NewUUID()), nonce: hex.EncodeToString(random), lines: make(chan map[string]any, 100)}
	// As in a pod: with mounts of its own, and the root of the host in a directory.
	command := fmt.Sprintf("mkdir -p /run/pod && exec unshare --mount sh -c 'mount --rbind / /run/pod && exec /mnt/kamino-node quiesce --root /run/pod --nonce-name %s --nonce %s %s'",
		q.uid, q.nonce, strings.Join(flags, " "))
	q.cmd = exec.CommandContext(t.Context(), m.shell[0], append(slices.Clone(m.shell[1:]), command)...)
	q.cmd.Stderr = &q.stderr
	out, err := q.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if q.in, err = q.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := q.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(q.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				line = map[string]any{"state": lines.Text()}
			}
			q.lines <- line
		}
	}()
	return q
}

// await returns the line of a state; nil at the end of the output.
func (q *quiescing) await(t *testing.T, state string) map[string]any {
	t.Helper()
	limit := time.After(maxWait)
	for {
		select {
		case line, open := <-q.lines:
			if !open || line["state"] == state {
				return line
			}
		case <-limit:
			t.Fatalf("waited in vain for %s", state)
		}
	}
}

// end ends a run that may be stopped or killed.
func (q *quiescing) end() {
	for _, pid := range append(q.m.processesWith(q.uid), q.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = q.cmd.Wait()
}

// processesWith returns the host's IDs of the machine's processes of kamino-node with an argument. Other tests on the host have some, too.
func (m *machine) processesWith(arg string) (pids []int) {
	namespace, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", m.leader))
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range found {
		line, err := os.ReadFile(p)
		words := strings.Split(string(line), "\x00")
		if err != nil || strings.HasSuffix(words[0], "sh") || !slices.Contains(words, arg) {
			continue
		}
		dir := filepath.Dir(p)
		if own, err := os.Readlink(dir + "/ns/pid"); err != nil || own != namespace {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// helpers returns the processes that freeze.
func (m *machine) helpers() []int { return m.processesWith("freeze") }

// testMoment: the unit of systemd freezes, and the answer ends the freeze.
func testMoment(t *testing.T, m *machine) {
	for _, answer := range []string{"accepted", "refused", ""} {
		q := startQuiesce(t, m)
		now := q.await(t, "Now")
		if now["rootFrozen"] != true || len(m.helpers()) != 1 {
			t.Fatalf("%v, helpers %v\n%s", now, m.helpers(), q.stderr.String())
		}
		if answer != "" {
			_, _ = io.WriteString(q.in, answer+"\n")
		}
		thawed := q.await(t, "Thawed")
		if err := q.cmd.Wait(); err != nil || thawed["inTime"] != (answer == "accepted") || thawed["rootDevice"] != "/dev/vda1" ||
			thawed["bootID"] != m.sh(t, "cat /proc/sys/kernel/random/boot_id") {
			t.Errorf("%q: %v, %v\n%s", answer, thawed, err, q.stderr.String())
		}
		t.Logf("%q: frozen for %v", answer, thawed["frozenFor"])
		if nonce := m.sh(t, "cat /var/lib/kamino/quiesce/*"); nonce != q.nonce {
			t.Errorf("the nonce is %q, want %q", nonce, q.nonce)
		}
	}
}

// losses are the ways to lose a run: whose processes get which signal.
var losses = []struct {
	run, helper syscall.Signal
}{
	{run: syscall.SIGKILL}, {run: syscall.SIGSTOP}, {helper: syscall.SIGKILL}, {helper: syscall.SIGSTOP},
	{syscall.SIGKILL, syscall.SIGSTOP}, {syscall.SIGSTOP, syscall.SIGSTOP}, {syscall.SIGSTOP, syscall.SIGKILL}, {syscall.SIGKILL, syscall.SIGKILL},
}

// testLost loses the run, its helper or both, while the disk is frozen and at moments before and after. The disk is writable again.
func testLost(t *testing.T, m *machine) {
	rounds := 50
	if testing.Short() {
		rounds = len(losses)
	}
	writable := 0
	for round := range rounds {
		loss := losses[round%len(losses)]
		q := startQuiesce(t, m)
		// The first rounds lose it while the disk is frozen. The others do at moments in the whole run.
		at := "frozen"
		if round < len(losses) {
			if now := q.await(t, "Now"); now["rootFrozen"] != true {
				t.Fatalf("%v\n%s", now, q.stderr.String())
			}
		} else {
			delay := time.Duration(round-len(losses)) * 40 * time.Millisecond
			at = delay.String()
			time.Sleep(delay)
		}
		send := func(pids []int, s syscall.Signal) {
			for _, pid := range pids {
				if s != 0 {
					_ = syscall.Kill(pid, s) // it may have ended
				}
			}
		}
		send(m.helpers(), loss.helper)
		send(m.processesWith(q.uid), loss.run)
		if took, ok := writes(m); ok {
			writable++
			t.Logf("round %d, %s, run %v, helper %v: writable after %.1f s", round, at, loss.run, loss.helper, took.Seconds())
		} else {
			t.Errorf("round %d, %s, run %v, helper %v: not writable for %v", round, at, loss.run, loss.helper, becomesWritable)
			run(t, "fsfreeze", "--unfreeze", m.root)
		}
		q.end()
		await(t, "the guard to go", func() bool {
			out, err := m.try("systemctl list-units --all --plain --no-legend 'kamino-quiesce-*'")
			return err == nil && strings.TrimSpace(out) == ""
		})
		// A helper that went on late would have frozen by now.
		if _, ok := writes(m); !ok {
			t.Errorf("round %d: frozen again", round)
			run(t, "fsfreeze", "--unfreeze", m.root)
		}
	}
	t.Logf("writable again in %d of %d rounds", writable, rounds)
}

// writes writes a file on the machine's disk, and reports whether that ended in time.
func writes(m *machine) (took time.Duration, ok bool) {
	begun := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err := os.Create(filepath.Join(m.root, "var/lib/written"))
		if err == nil {
			_, _ = f.WriteString("x")
			_ = f.Sync()
			_ = f.Close()
		}
	}()
	select {
	case <-done:
		return time.Since(begun), true
	case <-time.After(becomesWritable):
		return 0, false
	}
}
