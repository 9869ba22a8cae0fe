package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cli/inspectnode"
	"github.com/kamino-dev/kamino/internal/cli/print"
)

// generalizeFlags are the flags of kamino generalize, from a user or from the generalize pod.
type generalizeFlags struct {
	root, unknownFiles              string
	rules                           disk.Rules
	manifest                        string
	format                          print.Format
	live, dryRun, list, confirmRoot bool
	look, quiet                     bool
	inspection                      inspectnode.Options
	allow                           []string
	prototype, uid, bootID          string
	order                           disk.Order
}

func newGeneralizeCommand(f *Factory) *cobra.Command {
	var g generalizeFlags
	cmd := &cobra.Command{
		Use:   "generalize --root DIR",
		Short: "Remove machine identity and secrets from a disk",
		Long: `Remove machine identity and secrets from a directory tree, by the rules of a profile. The tree is a mounted copy of a
disk, or the root of a host. Afterwards the command tests every rule again. A manifest of all findings and changes
stays in the tree as ` + generalize.ManifestPath + `.

A capture runs this command on the donor with further flags, which you do not need.`,
		Example: `  # Show the rules of a profile, with reasons
  kamino generalize --list --profile static

  # Check a mounted copy of a disk, then generalize the copy
  kamino generalize --root /mnt/disk --dry-run
  kamino generalize --root /mnt/disk

  # The same with your own rules
  kamino generalize --root /mnt/disk --profile-file our-agents.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := g.run(cmd.Context(), f)
			if g.live || g.look {
				disk.LeaveError(disk.TerminationLog, err)
			}
			return classed(exit.InLines(err))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&g.root, "root", "", "root directory of the machine")
	flags.StringVar((*string)(&g.rules.Profile), "profile", "", fmt.Sprintf("profile of the rules: one of %v (default: detected from the disk)", v1alpha1.Profiles()))
	flags.StringVar(&g.rules.File, "profile-file", "", "file, or directory of *.yaml, with your own rules, agents and exemptions")
	flags.StringVar(&g.rules.Digest, "rules-digest", "", "refuse your own rules unless sha256:HEX of all files, concatenated, matches")
	flags.BoolVar(&g.list, "list", false, "print the rules of the profile and exit")
	flags.BoolVar(&g.dryRun, "dry-run", false, "print all changes, and change nothing")
	flags.StringSliceVar(&g.allow, "allow", nil, "names of rules that the disk may break (only rules that --list shows as allowable)")
	flags.StringVar(&g.unknownFiles, "unknown-files", string(v1alpha1.UnknownFilesAllow), "action for files that no package, no image and no base system installed: Allow or Refuse")
	flags.StringVar(&g.manifest, "manifest", "", "also write the manifest to this file")
	flags.BoolVar(&g.confirmRoot, "confirm-root", false, "generalize / of this machine; the machine loses its identity")
	bindOutput(cmd, &g.format, print.Table, print.JSON, print.YAML)
	completeWords(cmd, "profile", profiles()...)
	flags.BoolVar(&g.live, "live", false, "root is the running host: stop services, report, power off")
	flags.BoolVar(&g.look, "look", false, "root is the running host: report whether the host can be generalized, and change nothing")
	flags.StringVar(&g.inspection.Summarize, "summarize", "", "with --look: write a summary of the files of unknown origin to this `file`")
	flags.StringVar(&g.inspection.CompareWith, "compare-with", "", "with --look: NODE=SUMMARY of another node of the pool; an empty summary means a failed inspection")
	flags.StringVar(&g.inspection.SummaryKeyFile, "summary-key-file", "", "with --summarize or --compare-with: file with the key of the summary")
	flags.StringVar((*string)(&g.inspection.PatchedByKamino), "patched-by-kamino", "", "with --look: refuse a host that Kamino cannot patch; Refuse or Allow other tools that install patches")
	flags.BoolVar(&g.quiet, "quiet-nodes", false, "mask other tools that install patches; with --look: refuse a host that would keep the masks")
	flags.StringVar(&g.prototype, "prototype", "", "with --live: name of the Prototype")
	flags.StringVar(&g.uid, "uid", "", "with --live: UID of the Prototype")
	flags.StringVar(&g.bootID, "boot-id", "", "with --live: boot ID that the host must have")
	flags.StringVar(&g.order.Name, "order", "", "with --live: the Order as NAMESPACE/NAME")
	flags.StringVar(&g.order.UID, "order-uid", "", "with --live: UID of the Order")
	flags.StringVar(&g.order.Files.Key, "key-file", "", "with --live: file with the key that signs the report")
	flags.StringVar(&g.order.Files.PodUID, "pod-uid-file", "", "with --live: file with the UID of the pod")
	flags.StringVar(&g.order.Access.TokenFile, "token-file", "", "with --live: file with the token for the API server")
	flags.StringVar(&g.order.Access.CAFile, "ca-file", "", "with --live: file with the certificates of the API server")
	for _, ofCaptures := range []string{"rules-digest", "live", "look", "summarize", "compare-with", "summary-key-file", "patched-by-kamino", "quiet-nodes", "prototype", "uid", "boot-id", "order", "order-uid", "key-file", "pod-uid-file", "token-file", "ca-file"} {
		_ = flags.MarkHidden(ofCaptures)
	}
	return cmd
}

// classed gives an error the exit code that the error itself names.
func classed(err error) error { return exit.Classed(err) }

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
		Tool: build.Read().Version, Allow: g.allow, DryRun: g.dryRun, Now: f.Now, UnknownFiles: v1alpha1.UnknownFiles(g.unknownFiles), Quiet: g.quiet,
		Subject: generalize.RunSubject{Prototype: g.prototype, UID: types.UID(g.uid), BootID: g.bootID},
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
		return g.inspection.Run(ctx, f.Out, root, runner)
	}
	m, err := disk.Generalize(ctx, root, runner, g.manifest)
	if m == nil {
		return err
	}
	return errors.Join(err, print.Manifest(f.Out, g.format, m))
}

// check refuses contradicting flags.
func (g *generalizeFlags) check() error {
	o := g.order
	order := []string{g.prototype, g.uid, g.bootID, o.Name, o.UID, o.Files.Key, o.Files.PodUID, o.Access.TokenFile, o.Access.CAFile}
	switch {
	case g.root == "":
		return usagef("--root must name the root directory of a machine")
	case !g.unknownFilesValid():
		return usagef("--unknown-files must be Allow or Refuse, not %q", g.unknownFiles)
	case g.live && (g.dryRun || g.manifest != "" || g.format != ""):
		return usagef("--live excludes --dry-run, --manifest and --output")
	case g.live && slices.Contains(order, ""):
		return usagef("--live needs --prototype, --uid, --boot-id, --order, --order-uid, --key-file, --pod-uid-file, --token-file and --ca-file; captures set these flags")
	case !g.look && g.inspection.Summarize+g.inspection.CompareWith+string(g.inspection.PatchedByKamino) != "":
		return usagef("--summarize, --compare-with and --patched-by-kamino need --look")
	case g.look:
		return g.checkLook()
	}
	return nil
}

func (g *generalizeFlags) checkLook() error {
	if g.live || g.dryRun || g.manifest != "" || g.format != "" {
		return usagef("--look excludes --live, --dry-run, --manifest and --output")
	}
	return nil
}

// unknownFilesValid: only a capture compares files with another node.
func (g *generalizeFlags) unknownFilesValid() bool {
	return slices.Contains([]v1alpha1.UnknownFiles{v1alpha1.UnknownFilesAllow, v1alpha1.UnknownFilesRefuse}, v1alpha1.UnknownFiles(g.unknownFiles)) ||
		v1alpha1.UnknownFiles(g.unknownFiles).Compares() && (g.live || g.look)
}
