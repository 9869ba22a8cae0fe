package quiesce

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// lookInterval is the time between two looks at a node that is not quiet.
const lookInterval = time.Second

// maxAttempts is how often a run tries to freeze. On a busy disk the last flush can take longer than the helper waits, and leaves less
// to the next flush.
const maxAttempts = 3

// run is a run of a Donor.
type run struct {
	Donor
	tree   *tree.Tree
	disk   Disk
	report func(State)
	// root is a descriptor of the root directory, opened before the freeze. beside are those of the boot partitions.
	root   int
	beside []int
	// said is what the run reported last that it waits for.
	said string
	// guards is the number of units that the run has asked for. Each has a name of its own, because systemd may still know the last one.
	guards int
}

// Run quiesces the node. It reports what it waits for, and then once that the copy may be taken. A value on answers says
// whether the cloud has accepted the copy; without one the moment ends after a second. The moment is over when Run returns.
//
// A *RefusedError or *BusyError means that nothing was changed. After any error no copy may be used.
func (d Donor) Run(ctx context.Context, answers <-chan bool, report func(State)) (Result, error) {
	if err := CheckNonce(d.Name, d.Nonce); err != nil {
		return Result{}, err
	}
	d.Wait = cmp.Or(d.Wait, DefaultWait)
	if d.start == nil {
		d.start = func(ctx context.Context, t *tree.Tree, g guard) error { return g.start(ctx, t) }
	}
	t, err := tree.OpenRunning(d.Root)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	r := &run{Donor: d, tree: t, report: report}
	if r.disk, err = diskOf(t); err != nil {
		return Result{}, err
	}
	if err := r.open(); err != nil {
		return Result{}, err
	}
	defer r.close()
	began := d.Now()
	for failed := 0; ; {
		if err := r.awaitQuiet(ctx, began); err != nil {
			return Result{}, err
		}
		if d.Begin != nil {
			if err := d.Begin(ctx); err != nil {
				return Result{}, err
			}
		}
		if err := leaveNonce(t, d.Name, d.Nonce); err != nil {
			return Result{}, err
		}
		result, done, err := r.moment(ctx, answers)
		if done && err == nil {
			return result, nil
		}
		if errors.Is(err, errNotFrozen) {
			if failed++; failed < maxAttempts {
				err = nil
			}
		}
		if err = errors.Join(err, removeNonce(t, d.Name)); err != nil {
			return Result{}, err
		}
	}
}

// open opens the directories that the run flushes and thaws.
func (r *run) open() (err error) {
	if r.root, err = openRoot(r.Root); err != nil {
		return err
	}
	for _, dir := range r.disk.beside {
		fd, err := openRoot(filepath.Join(r.Root, dir))
		if err != nil {
			r.close()
			return err
		}
		r.beside = append(r.beside, fd)
	}
	return nil
}

func (r *run) close() {
	for _, fd := range append(r.beside, r.root) {
		_ = unix.Close(fd)
	}
}

// flush writes all that is in memory to the disk.
func (r *run) flush() error {
	for _, fd := range append(r.beside, r.root) {
		if err := unix.Syncfs(fd); err != nil {
			return fmt.Errorf("flush the root file system: %w", err)
		}
	}
	return nil
}

// awaitQuiet waits until the node is quiet.
func (r *run) awaitQuiet(ctx context.Context, began time.Time) error {
	for {
		now := r.Now()
		s, err := look(r.tree, now)
		if err != nil {
			return err
		}
		busy := s.busy()
		if len(busy) == 0 {
			return nil
		}
		if text := strings.Join(busy, "; "); text != r.said {
			r.said = text
			r.report(State{Waiting: text})
		}
		waited := now.Sub(began)
		if waited >= r.Wait {
			return &BusyError{For: busy, Waited: waited.Round(time.Second)}
		}
		if err := r.Sleep(ctx, min(lookInterval, r.Wait-waited)); err != nil {
			return err
		}
	}
}

// isQuiet looks once more.
func (r *run) isQuiet() (bool, error) {
	s, err := look(r.tree, r.Now())
	return err == nil && len(s.busy()) == 0, err
}

// moment flushes, freezes, and lets the copy be taken. It is not done if the node was no longer quiet right before.
func (r *run) moment(ctx context.Context, answers <-chan bool) (result Result, done bool, err error) {
	result.Disk = r.disk
	if err := r.flush(); err != nil {
		return result, false, err
	}
	var h *hold
	name := r.Name
	if r.Freeze != Never {
		if r.guards++; r.guards > 1 {
			name += "-" + strconv.Itoa(r.guards)
		}
		if h, err = prepare(ctx, r.tree, r.root, name, r.start); err != nil {
			result.NotFrozen = err.Error()
		} else {
			defer h.close()
		}
	}
	// The helper took its time to start.
	if quiet, err := r.isQuiet(); err != nil || !quiet || ctx.Err() != nil {
		return result, false, errors.Join(err, ctx.Err())
	}
	// The second flush leaves little for the freeze to write, while writers stand.
	if err := r.flush(); err != nil {
		return result, false, err
	}
	if h != nil {
		if result.NotFrozen, err = h.freeze(); err != nil {
			return result, false, err
		}
		result.Frozen = result.NotFrozen == ""
	}
	r.report(State{Frozen: result.Frozen, NotFrozen: result.NotFrozen})
	if !result.Frozen {
		result.Late, err = r.unfrozen(ctx, answers)
	} else {
		m := h.until(ctx, answers)
		result.FrozenFor, result.Late = m.took, m.late()
	}
	result.InTime = err == nil && result.Late == ""
	return result, true, err
}

// unfrozen waits for the answer without a freeze, and returns why the copy was not in time; empty if it was.
func (r *run) unfrozen(ctx context.Context, answers <-chan bool) (late string, err error) {
	m := message{}
	select {
	case yes := <-answers:
		m.answer = msgRefused
		if yes {
			m.answer = msgAccepted
		}
	case <-ctx.Done():
		m.answer = msgRefused
	case <-time.After(answerLimit):
	}
	if late := m.late(); late != "" {
		return late, nil
	}
	// What began after the flush may be half on the copy.
	quiet, err := r.isQuiet()
	if err == nil && !quiet {
		late = "a program changed packages or pulled an image at the moment of the copy, and nothing was frozen"
	}
	return late, err
}

// diskOf identifies the disk, or refuses it.
func diskOf(t *tree.Tree) (Disk, error) {
	mounts, err := mountsOfHost(t)
	if err != nil {
		return Disk{}, err
	}
	root, dev, beside, err := judgeDisk(mounts, func(number string) (device, error) { return deviceOf(t, number) })
	if err != nil {
		return Disk{}, err
	}
	var s unix.Stat_t
	if err := unix.Stat(t.Dir(), &s); err != nil {
		return Disk{}, err
	}
	if number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev)); number != root.Device {
		return Disk{}, refusef("%s is on device %s, and the root file system of the host is on device %s: --root must name the root of the host",
			t.Dir(), number, root.Device)
	}
	d := Disk{FileSystem: root.Kind, RootDevice: "/dev/" + dev.name, beside: beside}
	f, err := t.OpenFile("dev/"+dev.name, os.O_RDONLY, 0)
	if err != nil {
		return d, fmt.Errorf("open the root device: %w", err)
	}
	d.RootUUID, err = readUUID(root.Kind, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return d, fmt.Errorf("read the superblock of %s: %w", d.RootDevice, err)
	}
	for _, id := range []struct {
		path string
		into *string
	}{{"proc/sys/kernel/random/boot_id", &d.BootID}, {"etc/machine-id", &d.MachineID}} {
		text, err := t.Read(id.path)
		if errors.Is(err, fs.ErrNotExist) {
			return d, refusef("the host has no /%s, and a copy of its disk could not be recognized: run systemd-machine-id-setup", id.path)
		}
		if err != nil {
			return d, err
		}
		*id.into = string(bytes.TrimSpace(text))
	}
	return d, nil
}
