// Package inspectnode inspects a running host for `kamino generalize --look`: a donor, or another node for the comparison of
// files with the donor. It changes nothing on the host.
package inspectnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/generalize/scan"
	patchdisk "github.com/kamino-dev/kamino/internal/agent/patch/disk"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// Options are the settings of an inspection. The zero value inspects a donor without a comparison.
type Options struct {
	// Summarize is a file for the summary of the files of unknown origin; otherwise the host is inspected as a donor.
	Summarize string
	// CompareWith is NODE=SUMMARY of another node. SummaryKeyFile is the file with the key of both summaries.
	CompareWith, SummaryKeyFile string
	// PatchedByKamino also refuses a host that Kamino cannot patch. The value says whether other tools may install patches; empty
	// without a patch.
	PatchedByKamino v1alpha1.OtherRebooters
}

// Run inspects the host. An error is a refusal of the donor, or says why no inspection was possible.
func (o Options) Run(ctx context.Context, out io.Writer, root disk.Root, runner *generalize.Runner) error {
	var key []byte
	if o.SummaryKeyFile != "" {
		var err error
		if key, err = os.ReadFile(o.SummaryKeyFile); err != nil {
			return fmt.Errorf("--summary-key-file: %w", err)
		}
	}
	if o.Summarize != "" {
		summary, err := disk.Summarize(ctx, root, runner, key)
		if err != nil {
			return err
		}
		text, err := summary.MarshalText()
		if err != nil {
			return err
		}
		return os.WriteFile(o.Summarize, text, 0o600)
	}
	name, text, _ := strings.Cut(o.CompareWith, "=")
	if runner.PeerName = name; text != "" {
		var err error
		if runner.Peer, err = scan.ReadSummary(text, key); err != nil {
			return exit.Usagef("--compare-with: %w", err)
		}
	}
	note, err := disk.Preflight(ctx, root, runner)
	if err = errors.Join(o.checkPatch(root), err); err != nil {
		return err
	}
	if note != "" {
		disk.LeaveMessage(disk.TerminationLog, note)
		fmt.Fprintln(out, generalize.Printable(note))
	}
	_, err = fmt.Fprintf(out, "nothing is in the way of profile %s/%s; nothing was changed\n", runner.Profile.Name, runner.Profile.Version)
	return err
}

// checkPatch refuses a pioneer that Kamino cannot patch, and a pioneer with another tool that installs patches: the tool would
// change the packages between the patch and the capture.
func (o Options) checkPatch(root disk.Root) error {
	if o.PatchedByKamino == "" {
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
	if o.PatchedByKamino == v1alpha1.OtherRebootersAllow {
		return nil
	}
	found, err := patchdisk.Patchers(t)
	if err != nil || len(found) == 0 {
		return err
	}
	return exit.Refusedf("%s also installs patches (%s). Run `%s` on the node, or set pioneer.otherRebooters: Allow", found[0].Name, found[0].Unit, patchdisk.Remedy(found))
}
