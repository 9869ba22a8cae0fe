package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/rules"
)

// run are the settings of a run, and of the inspection before a run.
type run struct {
	e                  Environment
	root, unknownFiles string
	rules              disk.Rules
	allow              []string
	quiet              bool
	rootDisks          []string
}

// bind adds the flags. The flags that only a capture sets are hidden.
func (r *run) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.root, "root", "", "root directory of the machine")
	flags.StringVar((*string)(&r.rules.Profile), "profile", "", fmt.Sprintf("profile of the rules: one of %v (default: detected from the disk)",
		v1alpha1.Profiles()))
	flags.StringVar(&r.rules.File, "profile-file", "", "file, or directory of *.yaml, with your own rules, agents and exemptions")
	flags.StringVar(&r.rules.Digest, "rules-digest", "", "refuse your own rules unless sha256:HEX of all files, concatenated, matches")
	flags.StringSliceVar(&r.allow, "allow", nil, "names of rules that the disk may break (only rules that generalize --list shows as allowable)")
	flags.StringVar(&r.unknownFiles, "unknown-files", string(v1alpha1.UnknownFilesAllow),
		"action for files that no package, no image and no base system installed: Allow or Refuse")
	flags.BoolVar(&r.quiet, "quiet-nodes", false, "mask other tools that install patches")
	flags.StringSliceVar(&r.rootDisks, "root-disks", nil, "drivers of the root disks of the machines that may boot a copy, such as nvme,xen_blkfront")
	hide(flags, "rules-digest", "quiet-nodes")
	completeProfiles(cmd)
}

func hide(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.MarkHidden(name)
	}
}

func completeProfiles(cmd *cobra.Command) {
	var names []string
	for _, p := range v1alpha1.Profiles() {
		names = append(names, string(p))
	}
	output.Complete(cmd, "profile", names...)
}

// check refuses wrong flags. Only a capture compares files with another node.
func (r *run) check(compares bool) error {
	switch u := v1alpha1.UnknownFiles(r.unknownFiles); {
	case r.root == "":
		return exit.Usagef("--root must name the root directory of a machine")
	case u != v1alpha1.UnknownFilesAllow && u != v1alpha1.UnknownFilesRefuse && (!compares || !u.Compares()):
		return exit.Usagef("--unknown-files must be Allow or Refuse, not %q", r.unknownFiles)
	}
	return nil
}

// runner reads the rules for the disk.
func (r *run) runner(root disk.Root) (*generalize.Runner, error) {
	profile, err := r.rules.LoadFor(root)
	if err != nil {
		return nil, err
	}
	return r.runnerWith(profile), nil
}

func (r *run) runnerWith(profile *rules.Profile) *generalize.Runner {
	return &generalize.Runner{
		Profile: profile.RequireDisks(r.rootDisks), Tool: build.Read().Version, Allow: r.allow, Now: r.e.Now,
		UnknownFiles: v1alpha1.UnknownFiles(r.unknownFiles), Quiet: r.quiet,
	}
}

// generalizeFlags are the flags of kamino-node generalize, from a user or from a capture.
type generalizeFlags struct {
	run
	manifest                  string
	format                    output.Format
	dryRun, list, confirmRoot bool
	live                      liveFlags
	copy                      copyFlags
}

// liveFlags are the flags for the host of a capture.
type liveFlags struct {
	on                     bool
	prototype, uid, bootID string
	order                  disk.Order
}

func newGeneralizeCommand(e Environment) *cobra.Command {
	g := generalizeFlags{run: run{e: e}}
	cmd := &cobra.Command{
		Use:   "generalize --root DIR | --device DEV",
		Short: "Remove machine identity and secrets from a disk",
		Long: `Remove machine identity and secrets from a directory tree, by the rules of a profile. The tree is a mounted copy of a
disk, or the root of a host. Afterwards the command tests every rule again. A manifest of all findings and changes
stays in the tree as ` + generalize.ManifestPath + `.

With --device the disk is a copy on an attached volume, for example from a snapshot of a running machine. The command
finds the root by the device's own partition table, and replays the journal. It checks packages and images, removes
damaged images, and applies the rules. Afterwards it trims, checks the file systems, and searches the raw device. All
mounts are in a mount namespace of its own, so that nothing stays mounted, whatever ends it. Use a machine that you can
throw away, and attach the volume only after that machine has booted.

A capture runs this command with further flags, which you do not need.`,
		Example: `  # Show the rules of a profile, with reasons
  kamino-node generalize --list --profile static

  # Check a mounted copy of a disk, then generalize the copy
  kamino-node generalize --root /mnt/disk --dry-run
  kamino-node generalize --root /mnt/disk

  # The same with your own rules
  kamino-node generalize --root /mnt/disk --profile-file our-agents.yaml

  # Clean a volume made from a snapshot, and refuse any other volume or machine
  kamino-node generalize --device /dev/nvme1n1 --serial vol-0123456789abcdef0 \
    --machine-id 0123456789abcdef0123456789abcdef --root-uuid 6a7b1c1e-0c1d-4c5e-9d4e-2f6c1b3a5d7f`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := g.do(cmd.Context())
			if g.live.on {
				disk.LeaveError(disk.TerminationLog, err)
			}
			return exit.Classed(exit.InLines(err))
		},
	}
	g.bind(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&g.list, "list", false, "print the rules of the profile and exit")
	flags.BoolVar(&g.dryRun, "dry-run", false, "print all changes, and change nothing")
	flags.StringVar(&g.manifest, "manifest", "", "also write the manifest to this file")
	flags.BoolVar(&g.confirmRoot, "confirm-root", false, "generalize / of this machine; the machine loses its identity")
	output.Bind(cmd, &g.format, output.Table, output.JSON, output.YAML)
	flags.BoolVar(&g.live.on, "live", false, "root is the running host: stop services, report, power off")
	flags.StringVar(&g.live.prototype, "prototype", "", "with --live: name of the Prototype")
	flags.StringVar(&g.live.uid, "uid", "", "with --live: UID of the Prototype")
	flags.StringVar(&g.live.bootID, "boot-id", "", "with --live: boot ID that the host must have")
	flags.StringVar(&g.live.order.Name, "order", "", "with --live: the NodeOrder as NAMESPACE/NAME")
	flags.StringVar(&g.live.order.UID, "order-uid", "", "with --live: UID of the NodeOrder")
	flags.StringVar(&g.live.order.Files.Key, "key-file", "", "with --live: file with the key that signs the report")
	flags.StringVar(&g.live.order.Files.PodUID, "pod-uid-file", "", "with --live: file with the UID of the pod")
	flags.StringVar(&g.live.order.Access.TokenFile, "token-file", "", "with --live: file with the token for the API server")
	flags.StringVar(&g.live.order.Access.CAFile, "ca-file", "", "with --live: file with the certificates of the API server")
	g.copy.bind(flags)
	hide(flags, "live", "prototype", "uid", "boot-id", "order", "order-uid", "key-file", "pod-uid-file", "token-file", "ca-file")
	return cmd
}

func (g *generalizeFlags) do(ctx context.Context) error {
	if g.list {
		if g.rules.Profile == "" {
			g.rules.Profile = v1alpha1.ProfileStatic
		}
		profile, err := g.rules.Load()
		if err != nil {
			return err
		}
		return printRules(g.e.Out, g.format, profile)
	}
	if g.copy.on() {
		return g.doDevice(ctx)
	}
	if err := g.check(g.live.on); err != nil {
		return err
	}
	if err := g.checkLive(); err != nil {
		return err
	}
	root := disk.Root{Path: g.root, Running: g.live.on}
	if !root.Running && !g.confirmRoot && !g.dryRun {
		if err := root.Spare(); err != nil {
			return err
		}
	}
	runner, err := g.runner(root)
	if err != nil {
		return err
	}
	runner.DryRun, runner.Subject = g.dryRun, generalize.RunSubject{Prototype: g.live.prototype, UID: types.UID(g.live.uid), BootID: g.live.bootID}
	if g.live.on {
		g.live.order.Access.Host, g.live.order.Access.Port = g.e.Getenv("KUBERNETES_SERVICE_HOST"), g.e.Getenv("KUBERNETES_SERVICE_PORT")
		return disk.GeneralizeHost(ctx, host.Host{Root: g.root, Runner: runner, Log: g.e.Err}, g.live.order)
	}
	m, err := disk.Generalize(ctx, root, runner, g.manifest)
	if m == nil {
		return err
	}
	return errors.Join(err, printManifest(g.e.Out, g.format, m))
}

// checkLive refuses flags that contradict --live.
func (g *generalizeFlags) checkLive() error {
	o := g.live.order
	order := []string{g.live.prototype, g.live.uid, g.live.bootID, o.Name, o.UID, o.Files.Key, o.Files.PodUID, o.Access.TokenFile, o.Access.CAFile}
	switch {
	case g.live.on && (g.dryRun || g.manifest != "" || g.format != ""):
		return exit.Usagef("--live excludes --dry-run, --manifest and --output")
	case g.live.on && slices.Contains(order, ""):
		return exit.Usagef("--live needs --prototype, --uid, --boot-id, --order, --order-uid, --key-file, --pod-uid-file, --token-file and --ca-file; captures set these flags")
	}
	return nil
}
