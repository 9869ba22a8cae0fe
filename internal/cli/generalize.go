package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/limit"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/disk"
	"github.com/kamino-dev/kamino/internal/generalize/host"
)

// generalizeFlags is what a person, or the engine's pod, asks of kamino generalize.
type generalizeFlags struct {
	root, unknownFiles              string
	rules                           disk.Rules
	manifest                        string
	format                          print.Format
	live, dryRun, list, confirmRoot bool
	look                            bool
	allow                           []string
	prototype, uid, bootID          string
	order                           disk.Order
}

func newGeneralizeCommand(f *Factory) *cobra.Command {
	var g generalizeFlags
	cmd := &cobra.Command{
		Use:   "generalize --root DIR",
		Short: "Remove from a disk what must differ between machines",
		Long: `Remove from a directory tree (a mounted copy of a disk, or the root of a host) what must differ between
machines, by the rules of a profile, and look again whether every rule is met. The manifest of what was
found and done is left in the tree as ` + generalize.ManifestPath + `.

With --live it works on the running host that it is started on by a capture: it stops what would write
again, reports the proof on its order, and powers the host off. Do not use --live by hand.

With --look it says whether the running host that it is started on could be generalized, as far as that can be told
while it works, and changes nothing. A capture does that before it takes a node out of service.`,
		Example: `  # What would be removed, and why
  kamino generalize --list --profile static

  # Look at a mounted copy of a disk, then do it
  kamino generalize --root /mnt/disk --dry-run
  kamino generalize --root /mnt/disk

  # The same with rules of your own
  kamino generalize --root /mnt/disk --profile-file our-agents.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := g.run(cmd.Context(), f)
			if g.live || g.look {
				disk.LeaveMessage(disk.TerminationLog, err)
			}
			return classed(err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&g.root, "root", "", "directory that holds the machine's root")
	flags.StringVar((*string)(&g.rules.Profile), "profile", "", fmt.Sprintf("which rules: one of %v (default: the one that the disk is for)", v1alpha1.Profiles()))
	flags.StringVar(&g.rules.File, "profile-file", "", "file, or directory of *.yaml, with rules, agents and exemptions of your own")
	flags.StringVar(&g.rules.Digest, "rules-digest", "", "refuse other rules of your own than those with this digest, as sha256:HEX of all files one after the other")
	flags.BoolVar(&g.list, "list", false, "print the rules of the profile and do nothing")
	flags.BoolVar(&g.dryRun, "dry-run", false, "say what would be done, and change nothing")
	flags.StringSliceVar(&g.allow, "allow", nil, "rules that may be broken, by name (those that the list calls allowable)")
	flags.StringVar(&g.unknownFiles, "unknown-files", string(v1alpha1.UnknownFilesAllow), "what to do about files that neither a package nor an image nor the base system brought: Allow or Refuse")
	flags.StringVar(&g.manifest, "manifest", "", "write the manifest to this file as well")
	flags.BoolVar(&g.confirmRoot, "confirm-root", false, "work on / of the machine that this runs on, which loses its identity")
	bindOutput(cmd, &g.format, print.Table, print.JSON, print.YAML)
	completeProfiles(cmd)
	flags.BoolVar(&g.live, "live", false, "the root is that of the running host: stop its services, report, power it off")
	flags.BoolVar(&g.look, "look", false, "the root is that of the running host: say whether it could be generalized, and change nothing")
	flags.StringVar(&g.prototype, "prototype", "", "with --live: the Prototype that the run is for")
	flags.StringVar(&g.uid, "uid", "", "with --live: the UID of the Prototype")
	flags.StringVar(&g.bootID, "boot-id", "", "with --live: the only boot of the host that the run is meant for")
	flags.StringVar(&g.order.Name, "order", "", "with --live: the Order that the run carries out, as NAMESPACE/NAME")
	flags.StringVar(&g.order.UID, "order-uid", "", "with --live: the UID of the Order")
	flags.StringVar(&g.order.Files.Key, "key-file", "", "with --live: file with the key that the report is signed with")
	flags.StringVar(&g.order.Files.PodUID, "pod-uid-file", "", "with --live: file with the UID of the pod")
	flags.StringVar(&g.order.Access.TokenFile, "token-file", "", "with --live: file with the token for the API server")
	flags.StringVar(&g.order.Access.CAFile, "ca-file", "", "with --live: file with the certificates of the API server")
	return cmd
}

// classed gives an error the exit code that it knows itself to have.
func classed(err error) error {
	var knows interface{ ExitCode() int }
	if errors.As(err, &knows) {
		return &ending{knows.ExitCode(), err}
	}
	return err
}

func (g *generalizeFlags) run(ctx context.Context, f *Factory) error {
	if g.list {
		if g.rules.Profile == "" {
			g.rules.Profile = v1alpha1.ProfileStatic
		}
		profile, err := g.rules.Load()
		if err != nil {
			return err
		}
		return print.Rules(f.Out, g.format, profile)
	}
	if err := g.check(); err != nil {
		return err
	}
	root := disk.Root{Path: g.root, Running: g.live || g.look}
	if !root.Running && !g.confirmRoot && !g.dryRun {
		if err := root.Spare(); err != nil {
			return err
		}
	}
	runner := &generalize.Runner{
		Tool: build.Read().Version, Allow: g.allow, DryRun: g.dryRun, Now: f.Now, UnknownFiles: v1alpha1.UnknownFiles(g.unknownFiles),
		Subject: generalize.Subject{Prototype: g.prototype, UID: types.UID(g.uid), BootID: g.bootID},
	}
	var err error
	if runner.Profile, err = g.rules.LoadFor(root); err != nil {
		return err
	}
	switch {
	case g.live:
		g.order.Access.Host, g.order.Access.Port = f.Getenv("KUBERNETES_SERVICE_HOST"), f.Getenv("KUBERNETES_SERVICE_PORT")
		return disk.GeneralizeHost(ctx, host.Host{Root: g.root, Runner: runner, Log: f.Err}, g.order)
	case g.look:
		if err := disk.Look(root, runner); err != nil {
			return err
		}
		_, err := fmt.Fprintf(f.Out, "nothing is in the way of profile %s/%s; nothing was changed\n", runner.Profile.Name, runner.Profile.Version)
		return err
	}
	m, err := disk.Generalize(ctx, root, runner, g.manifest)
	if m == nil {
		return err
	}
	return errors.Join(err, print.Manifest(f.Out, g.format, m))
}

// check refuses flags that do not fit together.
func (g *generalizeFlags) check() error {
	o := g.order
	order := []string{g.prototype, g.uid, g.bootID, o.Name, o.UID, o.Files.Key, o.Files.PodUID, o.Access.TokenFile, o.Access.CAFile}
	switch {
	case g.root == "":
		return usagef("--root must name the directory that holds the machine's root")
	case !limit.KnownUnknownFiles(v1alpha1.UnknownFiles(g.unknownFiles)):
		return usagef("--unknown-files must be Allow or Refuse, not %q", g.unknownFiles)
	case g.live && (g.dryRun || g.manifest != "" || g.format != ""):
		return usagef("--live goes with none of --dry-run, --manifest and --output")
	case g.look && (g.live || g.dryRun || g.manifest != "" || g.format != ""):
		return usagef("--look goes with none of --live, --dry-run, --manifest and --output")
	case g.live && slices.Contains(order, ""):
		return usagef("--live needs --prototype, --uid, --boot-id, --order, --order-uid, --key-file, --pod-uid-file, --token-file and --ca-file; captures give them")
	}
	return nil
}
