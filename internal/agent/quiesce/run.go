package quiesce

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

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
	volume Volume
	report func(State)
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
	t, err := tree.OpenRunning(d.Root)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	r := &run{Donor: d, tree: t, report: report}
	if r.volume, err = d.Kernel.Open(t); err != nil {
		return Result{}, err
	}
	defer r.volume.Close()
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
		if errors.Is(err, ErrNotFrozen) {
			if failed++; failed < maxAttempts {
				err = nil
			}
		}
		if err = errors.Join(err, removeNonce(t, d.Name)); err != nil {
			return Result{}, err
		}
	}
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
	result.Disk = r.volume.Disk()
	if err := r.volume.Flush(); err != nil {
		return result, false, err
	}
	var g Guard
	name := r.Name
	if r.Freeze != Never {
		if r.guards++; r.guards > 1 {
			name += "-" + strconv.Itoa(r.guards)
		}
		if g, err = r.volume.Guard(ctx, name); err != nil {
			result.NotFrozen = err.Error()
		} else {
			defer g.Close()
		}
	}
	// The helper took its time to start.
	if quiet, err := r.isQuiet(); err != nil || !quiet || ctx.Err() != nil {
		return result, false, errors.Join(err, ctx.Err())
	}
	// The second flush leaves little for the freeze to write, while writers stand.
	if err := r.volume.Flush(); err != nil {
		return result, false, err
	}
	if g != nil {
		if result.NotFrozen, err = g.Freeze(); err != nil {
			return result, false, err
		}
		result.Frozen = result.NotFrozen == ""
	}
	r.report(State{Frozen: result.Frozen, NotFrozen: result.NotFrozen})
	if !result.Frozen {
		result.Late, err = r.unfrozen(ctx, answers)
	} else {
		result.FrozenFor, result.Late = g.Thaw(ctx, answers)
	}
	result.InTime = err == nil && result.Late == ""
	return result, true, err
}

// unfrozen waits for the answer without a freeze, and returns why the copy was not in time; empty if it was.
func (r *run) unfrozen(ctx context.Context, answers <-chan bool) (late string, err error) {
	if late := Late(ctx, answers); late != "" {
		return late, nil
	}
	// What began after the flush may be half on the copy.
	quiet, err := r.isQuiet()
	if err == nil && !quiet {
		late = "a program changed packages or pulled an image at the moment of the copy, and nothing was frozen"
	}
	return late, err
}
