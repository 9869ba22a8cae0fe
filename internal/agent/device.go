package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cli/output"
)

// copyFlags are the flags for a copy of a disk on a device.
type copyFlags struct {
	device, machineRoot string
	offline.Expected
	// dir is set in the program's own mount namespace.
	dir string
	// snapshot is the cloud's ID of the snapshot that the volume was made from, for a capture's order.
	snapshot string
}

func (c *copyFlags) on() bool {
	return c.device != "" || c.Expected != offline.Expected{} || c.dir != ""
}

func (c *copyFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.device, "device", "", "block device with a copy of the disk, instead of --root")
	flags.StringVar(&c.Serial, "serial", "", "with --device: refuse another serial number or volume ID")
	flags.StringVar(&c.MachineID, "machine-id", "", "with --device: discard the copy of a machine with another ID")
	flags.StringVar(&c.RootUUID, "root-uuid", "", "with --device: UUID of the root file system (default: the only candidate)")
	flags.StringVar(&c.NonceName, "nonce-name", "", "with --nonce: name of the file in /"+quiesce.NonceDir)
	flags.StringVar(&c.Nonce, "nonce", "", "with --device: discard a copy without this content in the file, which proves the last flush")
	flags.StringVar(&c.machineRoot, "machine-root", "/",
		"with --device, in a pod: root directory of the machine whose programs check the file systems")
	flags.StringVar(&c.dir, "mount-dir", "", "directory for mounts, in a mount namespace of its own")
	flags.StringVar(&c.snapshot, "snapshot", "", "with --order: ID of the snapshot that the volume was made from")
	hide(flags, "mount-dir", "snapshot")
}

// endedError is the end of the enclosed program, which has printed its error.
type endedError struct{ code int }

func (e *endedError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// doDevice cleans a copy on a device: the program runs itself again in a mount namespace of its own.
func (g *generalizeFlags) doDevice(ctx context.Context) error {
	if err := g.checkDevice(); err != nil {
		return err
	}
	if g.copy.dir != "" || !g.e.Devices.Mounts() {
		return g.cleanDevice(ctx)
	}
	code, err := offline.Enclose(ctx, func(dir string) []string { return append(slices.Clone(g.e.args), "--mount-dir", dir) }, g.e.Out, g.e.Err)
	if err == nil && code != exit.Done {
		return &endedError{code}
	}
	return err
}

// checkDevice refuses flags that contradict --device.
func (g *generalizeFlags) checkDevice() error {
	switch {
	case g.copy.device == "" && g.copy.snapshot == "": // a capture knows only the serial number
		return exit.Usagef("--serial, --machine-id, --root-uuid and --nonce need --device")
	case g.root != "" || g.live.on || g.confirmRoot:
		return exit.Usagef("--device excludes --root, --live and --confirm-root")
	case (g.copy.snapshot == "") != (g.live.order.Name == "") || g.copy.snapshot != "" && (g.copy.Serial == "" || g.rules.Profile == ""):
		return exit.Usagef("--order needs --snapshot, --serial and --profile; captures set these flags")
	case g.dryRun:
		return exit.Usagef("--device excludes --dry-run: the mount already replays the journal; use a second volume from the same snapshot")
	}
	if err := g.copy.Check(); err != nil {
		return exit.Usagef("%w", err)
	}
	root := g.run
	root.root = cmp.Or(g.copy.device, g.copy.Serial) // checks the other flags
	return errors.Join(root.check(g.copy.snapshot != ""), g.rules.Check())
}

// cleanDevice does the work, in the mount namespace.
func (g *generalizeFlags) cleanDevice(ctx context.Context) error {
	d := offline.Disk{Kernel: g.e.Devices, Device: g.copy.device, Expected: g.copy.Expected, MachineRoot: g.copy.machineRoot, Log: g.e.Err, Dir: g.copy.dir}
	d.Runner = func(t *tree.Tree) (*generalize.Runner, error) {
		profile, err := g.rules.LoadForTree(t)
		r := g.runnerWith(profile)
		r.Subject = g.copySubject()
		return r, err
	}
	if g.live.order.Name != "" {
		return g.cleanForOrder(ctx, d)
	}
	result, err := d.Run(ctx)
	if ctx.Err() != nil {
		return &exit.Failure{Code: exit.Interrupted, Err: err}
	}
	if result == nil || result.Manifest == nil {
		return err
	}
	if g.manifest != "" {
		content, failed := result.Manifest.Encode()
		if failed == nil {
			failed = os.WriteFile(g.manifest, content, 0o600)
		}
		err = errors.Join(err, failed)
	}
	return errors.Join(err, printCopy(g.e.Out, g.format, result))
}

// copySubject names the Prototype and the copy of an order; empty for people.
func (g *generalizeFlags) copySubject() generalize.RunSubject {
	s := generalize.RunSubject{Prototype: g.live.prototype, UID: types.UID(g.live.uid)}
	if g.copy.snapshot != "" {
		s.Copy = &v1alpha1.CopiedDisk{Snapshot: g.copy.snapshot, Device: g.copy.Serial}
	}
	return s
}

// cleanForOrder carries out the order of a capture, and reports the proof or its absence on the NodeOrder.
func (g *generalizeFlags) cleanForOrder(ctx context.Context, d offline.Disk) error {
	g.live.order.Access.Host, g.live.order.Access.Port = g.e.Getenv("KUBERNETES_SERVICE_HOST"), g.e.Getenv("KUBERNETES_SERVICE_PORT")
	profile, err := g.rules.Load()
	if err != nil {
		return err
	}
	return disk.GeneralizeCopy(ctx, d, g.live.order, g.copySubject(), profile)
}

// printCopy writes the result for a copy.
func printCopy(w io.Writer, format output.Format, r *offline.Result) error {
	if format.Machine() {
		return output.Value(w, format, r)
	}
	if err := printManifest(w, format, r.Manifest); err != nil {
		return err
	}
	for _, image := range r.RemovedImages {
		fmt.Fprintf(w, "Removed the damaged image %s: %s\n", generalize.Printable(image.Name), generalize.Printable(image.Message))
	}
	if r.Raw != nil {
		fmt.Fprintf(w, "The raw device was read, %d MiB: %d found\n", r.Raw.Bytes>>20, r.Raw.Count)
	}
	_, err := fmt.Fprintf(w, "The root was %s\n", r.Root)
	return err
}
