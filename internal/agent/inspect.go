package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	patchdisk "github.com/kamino-dev/kamino/internal/agent/patch/disk"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// inspection are the flags of kamino-node inspect. Without a comparison the host is inspected as a donor.
type inspection struct {
	run
	// summarize is a file for the summary of the files of unknown origin, for the comparison of a donor with this host.
	summarize string
	// compareWith is NODE=SUMMARY of another node. summaryKeyFile is the file with the key of both summaries.
	compareWith, summaryKeyFile string
	// patchedByKamino also refuses a host that Kamino cannot patch. The value says whether other tools may install patches; empty
	// without a patch.
	patchedByKamino v1alpha1.OtherRebooters
	// copied also refuses a host whose disk cannot be copied while it runs.
	copied bool
}

func newInspectCommand(e Environment) *cobra.Command {
	o := inspection{run: run{e: e}}
	cmd := &cobra.Command{
		Use:   "inspect --root DIR",
		Short: "Check whether a running host can be generalized",
		Long: `Check whether the disk of a running host can be generalized, and change nothing. A capture runs this command on a donor
before the node leaves service. The exit code is 0 if nothing is in the way, and 3 if a capture would be refused.`,
		Example: `  # On a node, as root
  kamino-node inspect --root /`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := o.do(cmd.Context())
			disk.LeaveError(disk.TerminationLog, err)
			return exit.Classed(exit.InLines(err))
		},
	}
	o.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.summarize, "summarize", "", "write a summary of the files of unknown origin to this `file`")
	flags.StringVar(&o.compareWith, "compare-with", "", "NODE=SUMMARY of another node of the pool; an empty summary means a failed inspection")
	flags.StringVar(&o.summaryKeyFile, "summary-key-file", "", "with --summarize or --compare-with: file with the key of the summary")
	flags.StringVar((*string)(&o.patchedByKamino), "patched-by-kamino", "", "refuse a host that Kamino cannot patch; Refuse or Allow other tools that install patches")
	flags.BoolVar(&o.copied, "copied", false, "refuse a host whose disk cannot be copied while it runs")
	hide(flags, "summarize", "compare-with", "summary-key-file", "patched-by-kamino", "copied")
	return cmd
}

// do inspects the host. An error is a refusal of the donor, or says why no inspection was possible.
func (o *inspection) do(ctx context.Context) error {
	if err := o.check(true); err != nil {
		return err
	}
	root := disk.Root{Path: o.root, Running: true}
	runner, err := o.runner(root)
	if err != nil {
		return err
	}
	var key []byte
	if o.summaryKeyFile != "" {
		if key, err = os.ReadFile(o.summaryKeyFile); err != nil {
			return fmt.Errorf("--summary-key-file: %w", err)
		}
	}
	if o.summarize != "" {
		summary, err := disk.Summarize(ctx, root, runner, key)
		if err != nil {
			return err
		}
		text, err := summary.MarshalText()
		if err != nil {
			return err
		}
		return os.WriteFile(o.summarize, text, 0o600)
	}
	name, text, _ := strings.Cut(o.compareWith, "=")
	if runner.PeerName = name; text != "" {
		if runner.Peer, err = scan.ReadSummary(text, key); err != nil {
			return exit.Usagef("--compare-with: %w", err)
		}
	}
	note, err := disk.Preflight(ctx, root, runner)
	if err = errors.Join(o.checkCopy(root), o.checkPatch(root), err); err != nil {
		return err
	}
	if note != "" {
		disk.LeaveMessage(disk.TerminationLog, note)
		fmt.Fprintln(o.e.Out, generalize.Printable(note))
	}
	_, err = fmt.Fprintf(o.e.Out, "nothing is in the way of profile %s/%s; nothing was changed\n", runner.Profile.Name, runner.Profile.Version)
	return err
}

// checkCopy refuses a disk that cannot be copied while it runs: before the capture, and before a workshop costs money.
func (o *inspection) checkCopy(root disk.Root) error {
	if !o.copied {
		return nil
	}
	t, err := root.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	return quiesce.CheckDisk(t)
}

// checkPatch refuses a pioneer that Kamino cannot patch, and a pioneer with another tool that installs patches: the tool would
// change the packages between the patch and the capture.
func (o *inspection) checkPatch(root disk.Root) error {
	if o.patchedByKamino == "" {
		return nil
	}
	t, err := root.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	switch why, err := patchdisk.Unpatchable(t); {
	case err != nil:
		return err
	case why != "":
		return exit.Refusedf("%s. Capture the node without --pioneer", why)
	}
	if o.patchedByKamino == v1alpha1.OtherRebootersAllow {
		return nil
	}
	found, err := patchdisk.Patchers(t)
	if err != nil || len(found) == 0 {
		return err
	}
	return exit.Refusedf("%s also installs patches (%s). Run `%s` on the node, or set pioneer.otherRebooters: Allow", found[0].Name, found[0].Unit, patchdisk.Remedy(found))
}
