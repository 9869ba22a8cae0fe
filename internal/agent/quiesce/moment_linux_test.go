package quiesce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

var yes, no = true, false

// patience limits a wait that only a failure makes long. A file system must be writable again within it.
const patience = 10 * time.Second

// diskSize in bytes is little more than XFS needs.
const diskSize = 320 << 20

// machine is a host whose root is a real file system on a loop device. Its sysfs calls the device a partition.
type machine struct {
	Donor
	t                *testing.T
	kind, dir, image string
	// unguarded is a host whose systemd does not thaw: only the run does.
	unguarded bool
	// atStart is called before the helper starts, and atLook with each look at the clock.
	atStart, atLook func()
	// mu guards the running helper, and the number of helpers so far.
	mu      sync.Mutex
	helper  *os.Process
	started int
	// names of the guards so far.
	names map[string]bool
	// over waits for the end of all guards.
	over sync.WaitGroup
	// waits are what the run has reported that it waits for.
	waits []string
}

// fileSystems are the supported ones, with the programs that make them.
var fileSystems = map[string][]string{"ext4": {"mkfs.ext4", "-q", "-F"}, "xfs": {"mkfs.xfs", "-q", "-f"}}

// newMachine needs the right to mount.
func newMachine(t *testing.T, kind string) *machine {
	t.Helper()
	base := t.TempDir()
	m := &machine{t: t, kind: kind, dir: filepath.Join(base, "root"), image: filepath.Join(base, "image"), names: map[string]bool{}}
	err := errors.Join(os.Mkdir(m.dir, 0o755), os.WriteFile(m.image, nil, 0o600), os.Truncate(m.image, diskSize))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{append(fileSystems[kind], m.image), {"mount", "-o", "loop", m.image, m.dir}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			if os.Getenv("CI") != "" && os.Geteuid() == 0 {
				t.Fatalf("%v: %v %s", command, err, out)
			}
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		m.over.Wait()
		m.thaw()
		// Programs that parallel tests start have copies of all descriptors for a moment.
		err := unix.Unmount(m.dir, 0)
		for end := time.Now().Add(patience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = unix.Unmount(m.dir, 0) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	var s unix.Stat_t
	if err := unix.Stat(m.dir, &s); err != nil {
		t.Fatal(err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	plantIn(t, m.dir, map[string]string{
		"proc/1/mountinfo":        fmt.Sprintf("1 0 %s / / rw - %s /dev/root rw\n%s", number, kind, ordinary),
		"sys/dev/block/" + number: "-> ../../devices/pci0/vda/vda1", "sys/devices/pci0/vda/vda1/partition": "1",
		fmt.Sprintf("proc/%d/exe", os.Getpid()): "-> /proc/self/exe", "usr/bin/env": "", "usr/sbin/fsfreeze": "",
		"proc/sys/kernel/random/boot_id": "6d4f8b6e-0000-4000-8000-000000000001\n", "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
		"var/lib/dpkg/status": installed, "var/lib/dpkg/lock-frontend": "",
	})
	if err := errors.Join(os.Mkdir(filepath.Join(m.dir, "dev"), 0o755), unix.Mknod(filepath.Join(m.dir, "dev/vda1"), unix.S_IFBLK|0o600, int(s.Dev))); err != nil {
		t.Fatal(err)
	}
	m.Donor = Donor{
		Root: m.dir, Name: order, Nonce: nonce, Kernel: Linux{start: m.start},
		Now:   func() time.Time { m.call(m.atLook); return time.Now() },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	return m
}

func (m *machine) call(hook func()) {
	if hook != nil {
		hook()
	}
}

// start does what systemd does with the unit of a guard: it runs the helper for a limited time, then the command that thaws, and
// holds the socket until then. Real systemd is in the tests of machines.
func (m *machine) start(_ context.Context, _ *tree.Tree, g guard) error {
	m.call(m.atStart)
	if want := []string{"/usr/sbin/fsfreeze", "--unfreeze", "/"}; strings.Join(g.thaw, " ") != strings.Join(want, " ") {
		m.t.Errorf("the guard thaws with %q", g.thaw)
	}
	if m.names[g.name] {
		m.t.Errorf("the name %s is used twice", g.name)
	}
	m.names[g.name] = true
	fd, err := unix.FcntlInt(g.socket.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	socket := os.NewFile(uintptr(fd), "socket")
	helper := exec.Command(os.Args[0], "freeze", m.dir)
	helper.Stdin, helper.Stdout, helper.Stderr = socket, socket, socket
	if err := helper.Start(); err != nil {
		return err
	}
	m.mu.Lock()
	m.helper, m.started = helper.Process, m.started+1
	m.mu.Unlock()
	end := time.AfterFunc(guardLimit, func() {
		_ = errors.Join(helper.Process.Signal(syscall.SIGTERM), helper.Process.Signal(syscall.SIGCONT))
	})
	kill := time.AfterFunc(guardLimit+guardStop, func() { _ = helper.Process.Kill() })
	m.over.Go(func() {
		_ = helper.Wait()
		end.Stop()
		kill.Stop()
		if !m.unguarded {
			_ = exec.Command("fsfreeze", "--unfreeze", m.dir).Run() // fails if the helper has thawed
		}
		_ = socket.Close()
	})
	return nil
}

// signal sends a signal to the helper.
func (m *machine) signal(s os.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.helper.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("signal %v: %v", s, err)
	}
}

// quiesce runs the order. moment is called when the copy may be taken, and returns the answer; nil for none. On a busy machine an answer
// can be later than a second: then the order runs again.
func (m *machine) quiesce(moment func(State) *bool) (result Result, err error) {
	m.t.Helper()
	for range 5 {
		answered := false
		answers := make(chan bool, 1)
		result, err = m.Run(m.t.Context(), answers, func(s State) {
			if s.Waiting != "" {
				m.waits = append(m.waits, s.Waiting)
				return
			}
			if answer := moment(s); answer != nil {
				answered = true
				answers <- *answer
			}
		})
		if !answered || result.Late != (message{}).late() {
			break
		}
		if err := removeNonce(opened(m.t, m.dir), m.Name); err != nil {
			m.t.Fatal(err)
		}
		clear(m.names) // systemd forgets the units of a run that is over
	}
	return result, err
}

// isFrozen asks the kernel: a second freeze of a frozen file system is refused.
func (m *machine) isFrozen() bool {
	m.t.Helper()
	fd, err := openRoot(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	defer unix.Close(fd)
	switch errno := ioctl(fd, fiFreeze); errno {
	case unix.EBUSY:
		return true
	case 0:
		_ = ioctl(fd, fiThaw)
	default:
		m.t.Errorf("freeze: %v", errno)
	}
	return false
}

func (m *machine) thaw() (wasFrozen bool) {
	fd, err := openRoot(m.dir)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return ioctl(fd, fiThaw) == 0
}

// becomesWritable fails the test unless a file can be written within the patience.
func (m *machine) becomesWritable() {
	m.t.Helper()
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(filepath.Join(m.dir, "written"), []byte("x"), 0o600) }()
	select {
	case err := <-written:
		if err != nil {
			m.t.Error(err)
		}
	case <-time.After(patience):
		m.t.Errorf("not writable for %v", patience)
		m.thaw()
		m.t.Log(<-written)
	}
	if m.isFrozen() {
		m.t.Error("frozen again")
		m.thaw()
	}
}

// nonceFile returns the content of the nonce file; empty without one.
func (m *machine) nonceFile() string {
	content, err := os.ReadFile(filepath.Join(m.dir, NonceDir, order))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Error(err)
	}
	return string(content)
}

// copyTo copies the raw disk. A frozen file system waits for it, so that only written blocks are read.
func (m *machine) copyTo(file string) {
	m.t.Helper()
	from, err := os.Open(m.image)
	if err != nil {
		m.t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(file)
	if err == nil {
		err = to.Truncate(diskSize)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	for end := int64(0); err == nil; {
		var begin int64
		if begin, err = from.Seek(end, unix.SEEK_DATA); err != nil {
			break
		}
		if end, err = from.Seek(begin, unix.SEEK_HOLE); err == nil {
			_, err = io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(from, begin, end-begin))
		}
	}
	if !errors.Is(err, unix.ENXIO) { // no more data
		m.t.Error(err)
	}
	if err := to.Close(); err != nil {
		m.t.Error(err)
	}
}

// readCopy reads files of a copy, after a replay of its journal or without one.
func (m *machine) readCopy(image string, replay bool, files ...string) map[string]string {
	m.t.Helper()
	dir := m.t.TempDir()
	options := map[string]string{"ext4": "loop,ro,noload", "xfs": "loop,ro,norecovery,nouuid"}[m.kind]
	if replay {
		options = map[string]string{"ext4": "loop", "xfs": "loop,nouuid"}[m.kind]
	}
	if out, err := exec.CommandContext(m.t.Context(), "mount", "-o", options, image, dir).CombinedOutput(); err != nil {
		m.t.Fatalf("mount the copy: %v %s", err, out)
	}
	contents := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			m.t.Error(err)
		}
		contents[file] = string(content)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		m.t.Error(err)
	}
	return contents
}

// onBoth runs a test with both file systems.
func onBoth(t *testing.T, test func(t *testing.T, m *machine)) {
	t.Helper()
	for kind := range fileSystems {
		t.Run(kind, func(t *testing.T) { test(t, newMachine(t, kind)) })
	}
}

// TestMoment: at the moment of the copy the file system is frozen, and a copy has the nonce and an unsynced file without a replay of its
// journal. The answer ends the freeze, and so does the lack of an answer. Only an accepted copy is in time.
func TestMoment(t *testing.T) {
	for name, answer := range map[string]*bool{"accepted": &yes, "refused": &no, "no answer": nil} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, m *machine) {
				unsynced := "unsynced-" + strings.Repeat(name[:1], 100)
				plantIn(t, m.dir, map[string]string{"var/lib/layer": unsynced})
				copied := m.image + ".copy"
				result, err := m.quiesce(func(s State) *bool {
					if !s.Frozen || s.NotFrozen != "" || !m.isFrozen() {
						t.Errorf("not frozen: %+v", s)
					}
					m.copyTo(copied)
					return answer
				})
				m.becomesWritable()
				holds := map[string]string{NonceDir + "/" + order: nonce + "\n", "var/lib/layer": unsynced}
				if diff := cmp.Diff(holds, m.readCopy(copied, false, slices.Collect(maps.Keys(holds))...)); diff != "" {
					t.Errorf("the copy (-want +got):\n%s", diff)
				}
				if err != nil || !result.Frozen || result.InTime != (answer == &yes) || (result.Late == "") != result.InTime {
					t.Errorf("%+v, %v", result, err)
				}
				if result.FrozenFor <= 0 || result.FrozenFor > freezeLimit {
					t.Errorf("frozen for %v", result.FrozenFor)
				}
				out, err := exec.CommandContext(t.Context(), "blkid", "-p", "-s", "UUID", "-o", "value", m.image).Output()
				if err != nil {
					t.Fatal(err)
				}
				want := Disk{
					BootID: "6d4f8b6e-0000-4000-8000-000000000001", MachineID: "0123456789abcdef0123456789abcdef",
					RootUUID: strings.TrimSpace(string(out)), FileSystem: m.kind, RootDevice: "/dev/vda1",
				}
				if diff := cmp.Diff(want, result.Disk, cmp.AllowUnexported(Disk{})); diff != "" {
					t.Errorf("the disk (-want +got):\n%s", diff)
				}
				if m.nonceFile() != nonce+"\n" || len(m.waits) > 0 {
					t.Errorf("the nonce file holds %q; waited for %q", m.nonceFile(), m.waits)
				}
			})
		})
	}
}
