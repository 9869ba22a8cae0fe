package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/audit"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// run is one run on a device.
type run struct {
	Disk
	on     Device
	result Result
	runner *generalize.Runner
}

// Run cleans the copy, and proves it by a second look at the raw device. A *generalize.Refused before the mount means that nothing was
// changed. A *DiscardError or a *generalize.UnprovenError means that the copy must not be used. The file systems are unmounted in any case.
func (d Disk) Run(ctx context.Context) (*Result, error) {
	r := &run{Disk: d}
	if err := r.Check(); err != nil {
		return nil, refusef("%v", err)
	}
	var err error
	if r.on, err = d.Kernel.Open(d); err != nil {
		return nil, err
	}
	r.result.Root = r.on.Root()
	d.logf("the root is %s", r.result.Root)
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"cleaning", r.clean},
		{"trimming", r.on.Trim},
		{"checking the file systems", r.on.Check},
		{"searching the raw device", r.searchRaw},
	} {
		if err := step.do(ctx); err != nil {
			return &r.result, interrupted(ctx, d.Device, step.name, discarded(err))
		}
	}
	return &r.result, r.on.Close()
}

// discarded turns a refusal after the mount into the end of the copy: the mount has replayed the journal.
func discarded(err error) error {
	var refused *generalize.Refused
	if errors.As(err, &refused) {
		return &DiscardError{Refused, refused.Lines()}
	}
	return err
}

// interrupted says what a signal leaves behind.
func interrupted(ctx context.Context, device, step string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted while %s: %s is unmounted, is cleaned in part, and must not be used: %w", step, device, ctx.Err())
}

// clean proves that this is the expected copy, checks that the copy is complete, and applies the rules.
func (r *run) clean(ctx context.Context) error {
	return r.on.Mounted(ctx, r.prove, func(root string) error { return r.apply(ctx, root) })
}

// prove compares the copy with the expected machine and flush, and removes the nonces.
func (r *run) prove(root string) error {
	t, err := tree.Open(root)
	if err != nil {
		return err
	}
	defer t.Close()
	if r.MachineID != "" {
		id, err := t.Read("etc/machine-id")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if found := strings.TrimSpace(string(id)); found != r.MachineID {
			return discardf(OtherDisk, "the copy has the machine ID %q, and the donor has %s. %s", generalize.Printable(found), r.MachineID,
				wrongVolume)
		}
	}
	if r.Nonce != "" {
		found, err := t.Read(quiesce.NonceDir + "/" + r.NonceName)
		if err != nil || strings.TrimSpace(string(found)) != r.Nonce {
			return discardf(StaleCopy,
				"the copy does not hold the donor's last flush, so it is discarded: /%s/%s is missing or has another content. "+
					"Take a fresh snapshot after the flush",
				quiesce.NonceDir, r.NonceName)
		}
	}
	_, err = t.Remove(quiesce.NonceDir, nil)
	return err
}

// apply checks that the copy is complete, and applies the rules.
func (r *run) apply(ctx context.Context, root string) error {
	t, err := tree.OpenMounted(root)
	if err != nil {
		return err
	}
	defer t.Close()
	if r.runner, err = r.Runner(t); err != nil {
		return err
	}
	if err := r.audit(t); err != nil {
		return err
	}
	below, release, err := host.OpenBelow(t, r.logf)
	if err != nil {
		return err
	}
	r.runner.Below = below
	r.result.Manifest, err = r.runner.Run(ctx, t)
	release()
	if m := r.result.Manifest; m != nil {
		r.logf("%d of %d rules of profile %s/%s are met", m.Met, m.Rules, m.Profile, m.ProfileVersion)
	}
	if err == nil && r.Cleaned != nil {
		r.Cleaned(t, r.result.Manifest)
	}
	return err
}

// audit refuses a copy with incomplete packages, and removes damaged images.
func (r *run) audit(t *tree.Tree) error {
	whys, err := audit.Packages(t)
	if err != nil {
		return err
	}
	if len(whys) > 0 {
		return &DiscardError{PackagesIncomplete, whys}
	}
	stores, err := generalize.Stores(t, r.runner.Profile)
	if err != nil {
		return err
	}
	found, err := audit.Images(stores)
	if err != nil {
		return err
	}
	if len(found.Whys) > 0 {
		return &DiscardError{ImagesDamaged, found.Whys}
	}
	for _, image := range found.Damaged {
		r.logf("removed the image %s, which a clone pulls again: %s", image.Name, image.Message)
	}
	r.result.RemovedImages = found.Damaged
	return found.Remove()
}

// searchRaw reads the whole device, used and free blocks, for secrets and for the donor's identities and values from before the run.
func (r *run) searchRaw(ctx context.Context) (err error) {
	o := r.result.Manifest.SearchOfImage()
	o.Owner, o.Base, o.NoLog = generalize.Owner(r.runner.Profile, r.runner.Allow...), generalize.Base(r.runner.Profile), true
	r.result.Raw, err = r.on.Search(ctx, func(image string) (*scan.Report, error) { return scan.Image(ctx, image, o) })
	if err != nil {
		return err
	}
	if r.result.Raw.Count > 0 {
		e := &generalize.UnprovenError{Reasons: generalize.Reasons{Findings: r.result.Raw.Findings, Count: r.result.Raw.Count}}
		return e
	}
	r.logf("read %d MiB of the raw device: nothing was found", r.result.Raw.Bytes>>20)
	return nil
}

func (d Disk) logf(format string, args ...any) {
	_, _ = fmt.Fprintln(d.Log, generalize.Printable(fmt.Sprintf(format, args...)))
}
