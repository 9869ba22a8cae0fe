package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// limit is how long a run may take after its first change to the host. It is below the lifetime of an API token, so
// that the proof can still be reported.
const limit = 8 * time.Minute

// Host is a live machine with the order to generalize it.
type Host struct {
	// Root is the directory with the host's root.
	Root string
	// Runner applies the profile. Its Subject has the Prototype's name and UID, and the boot of the order.
	Runner *generalize.Runner
	// Order is the order to carry out. API reports on the order.
	Order Order
	API   *API
	// Log gets one line for each step. Write little: after the container runtime stops, no reader empties the pipe.
	Log io.Writer
	// Wait sleeps, or returns the context's error.
	Wait func(ctx context.Context, d time.Duration) error

	// frozen are the stopped processes.
	frozen []int
}

// Run carries out the whole order. After the first change Run ignores the context, because a half generalized host is
// of no use. Run returns nil after the power-off is ordered. An error before the first change is a refusal.
func (h *Host) Run(ctx context.Context) error {
	t, err := tree.OpenRunning(h.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := h.guard(ctx, t); err != nil {
		return err
	}
	bus, err := Dial(context.WithoutCancel(ctx), t)
	if err != nil {
		return refused("systemd of the host cannot be reached, so nothing could be stopped: %v", err)
	}
	defer bus.Close()
	if err := begin(t); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	stopped, err := h.stopUnits(ctx, bus)
	if err == nil {
		err = h.work(ctx, t)
	}
	if err == nil {
		return h.powerOff(ctx, t)
	}
	if unreported := h.reportFailure(ctx, err); unreported != nil && maybeProven(err) {
		// The capture may have the proof, so the disk must stay as proven until the proof is withdrawn.
		h.logf("nothing is started again, because a proof may stand: %v", unreported)
		return err
	}
	h.thaw()
	h.startAgain(ctx, bus, stopped)
	return err
}

// reportFailure reports on the order why there is no proof. The kubelet cannot report it: the pod's log and the directory of
// its termination message may already be removed.
func (h *Host) reportFailure(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := h.API.Report(ctx, h.Order, Failure(h.Runner.Subject, h.Order.UID, why, h.Runner.Now()), h.Wait)
	if err != nil {
		h.logf("why there is no proof could not be reported: %v", err)
	}
	return err
}

// maybeProven reports whether the proof may have been written despite the error.
func maybeProven(err error) bool {
	var trouble *APIError
	return errors.As(err, &trouble) && trouble.code == unreachable
}

// work runs between stopping and power-off, in this order: end or stop all writers, remove files, empty deleted files that
// are open, trim free blocks, sync, report.
func (h *Host) work(ctx context.Context, t *tree.Tree) error {
	if err := h.endContainers(ctx, t); err != nil {
		return err
	}
	// In a sandbox or a test the devices belong to the surrounding machine.
	if ownFileSystem(t) {
		if err := h.wipeSwap(ctx, t); err != nil {
			return err
		}
		if err := h.freeze(ctx, t); err != nil {
			return err
		}
	}
	h.detach(t)
	if own := ownLayer(); own != "" {
		h.Runner.Spare = append(h.Runner.Spare, own, path.Join(path.Dir(own), "work"))
	}
	below, release, err := OpenBelow(t, h.logf)
	if err != nil {
		return err
	}
	h.Runner.Below = below
	manifest, err := h.Runner.Run(ctx, t)
	release()
	h.sayResult(manifest)
	if err != nil {
		return err
	}
	facts := FactsOf(h.Runner, t, manifest, h.logf)
	if err := h.flush(t); err != nil {
		return err
	}
	report, err := facts.Report(manifest, h.Order.UID, h.Runner.Now())
	if err != nil {
		return err
	}
	if err := h.API.Report(ctx, h.Order, report, h.Wait); err != nil {
		return fmt.Errorf("the disk is generalized, but the proof could not be reported and is useless: %w", err)
	}
	h.logf("reported the proof %s", report.Proof.Tag())
	return nil
}

// sayResult logs the counts of a run; manifest is nil if the run failed early.
func (h *Host) sayResult(manifest *generalize.Manifest) {
	if manifest == nil {
		return
	}
	h.logf("%d of %d rules of profile %s/%s are met", manifest.Met, manifest.Rules, manifest.Profile, manifest.ProfileVersion)
	if s := manifest.Scan; s != nil {
		h.logf("searched %d files (%d MiB) for secrets: %d found, %d kept for a reason", s.Files, s.Bytes>>20, s.Count, s.KeptCount)
	}
	for _, id := range manifest.Unused {
		h.logf("your rule %s found nothing in three captures", id)
	}
}

func (h *Host) logf(format string, args ...any) {
	// A log without a reader must not fail the run.
	_, _ = fmt.Fprintf(h.Log, format+"\n", args...)
}

func refused(format string, args ...any) error {
	return generalize.NewRefused(fmt.Sprintf(format, args...))
}

// unless joins errors except those of the given kind.
func unless(kind error, errs ...error) error {
	var rest []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, kind) {
			rest = append(rest, err)
		}
	}
	return errors.Join(rest...)
}
