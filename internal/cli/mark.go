package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/rollback"
)

// versionCommand is a verb on one version of a pool.
func versionCommand(f *Factory, o *Options, cmd *cobra.Command, flags *changeFlags, needsReason bool,
	do func(s *session, ctx context.Context, pool, version string, flags changeFlags) error) *cobra.Command {
	cmd.Args = cobra.ExactArgs(2)
	cmd.ValidArgsFunction = completePoolVersions(f, o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.complete(needsReason); err != nil {
			return err
		}
		s, err := open(cmd.Context(), f, o)
		if err != nil {
			return err
		}
		return do(s, cmd.Context(), args[0], args[1], *flags)
	}
	flags.bind(cmd)
	return cmd
}

func newQuarantineCommand(f *Factory, o *Options) *cobra.Command {
	flags := &changeFlags{}
	cmd := versionCommand(f, o, &cobra.Command{
		Use:   "quarantine POOL VERSION",
		Short: "Mark a version as never to be used: by no capture and no rollback",
		Long: `Mark a version as never to be used. No capture points a recipe at it, and no rollback goes to it. It is not
deleted: nodes that run it stay as they are, and retention retires it in its turn.

The version that the recipe names is refused: "kamino rollback" quarantines that one and points the pool at another.`,
		Example: `  kamino quarantine pool1 2026.03.02 --reason "kernel panics under load"`,
	}, flags, true, func(s *session, ctx context.Context, pool, version string, flags changeFlags) error {
		return s.mark(ctx, "quarantine", pool, flags, func(h history.History) (history.Mark, []cloud.Refusal) {
			return h.Quarantine(version, flags.reason)
		})
	})
	cmd.Flags().StringVar(&flags.reason, "reason", "", "why it must not be used; needed")
	return cmd
}

func newReleaseCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "release POOL VERSION",
		Short: "Lift a version's quarantine",
		Long: `Lift a version's quarantine: a rollback may go to it again. The recipe stays as it is.

To take a rollback back, release the version and name it: kamino rollback POOL --to VERSION.`,
		Example: `  kamino release pool1 2026.03.02`,
	}, &changeFlags{}, false, func(s *session, ctx context.Context, pool, version string, flags changeFlags) error {
		return s.mark(ctx, "release", pool, flags, func(h history.History) (history.Mark, []cloud.Refusal) {
			return h.Release(version)
		})
	})
}

func newRetireCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "retire POOL VERSION",
		Short: "Delete an old version",
		Long: `Delete a version of the pool's image. Captures do that by themselves with versions beyond --keep; this is for one
that should go earlier.

Refused for the version that the recipe names, for the one that a rollback goes to, for one that a capture is
making, and where the recipe names none of the versions, so that these can't be told from the others. Nodes that
were built from the version keep running.`,
		Example: `  kamino retire pool1 2026.02.01 --dry-run`,
	}, &changeFlags{}, false, (*session).retire)
}

// mark quarantines or releases.
func (s *session) mark(ctx context.Context, verb, pool string, flags changeFlags, decide func(history.History) (history.Mark, []cloud.Refusal)) error {
	p, h, err := s.lookBack(ctx, pool, 0)
	if err != nil {
		return err
	}
	m, refusals := decide(h)
	if refusals != nil {
		return refusal(fmt.Sprintf("pool %s: %s is refused", h.Pool, verb), refusals)
	}
	deed := print.Deed{
		Verb: verb, Pool: m.Pool, Version: m.Version, Quarantined: m.Tags[cloud.TagQuarantined], DryRun: flags.dryRun,
		Changed: !m.Done && !flags.dryRun, Nodes: m.Nodes, Lines: markLines(m, flags.dryRun),
	}
	if deed.Changed {
		if _, err := s.carryOut(ctx, rollback.OfMark(m, s.provider, p.ID)); err != nil {
			return err
		}
	}
	return print.WriteDeed(s.Out, flags.format, deed)
}

func markLines(m history.Mark, dryRun bool) []string {
	why, is := m.Tags[cloud.TagQuarantined], "is"
	switch {
	case m.Done:
		is = "is already"
	case dryRun:
		is = "would be"
	}
	if why == "" {
		return []string{fmt.Sprintf("Version %s of pool %s %s free to be used.", m.Version, m.Pool, is)}
	}
	lines := []string{
		fmt.Sprintf("Version %s of pool %s %s quarantined: %s", m.Version, m.Pool, is, why),
		nodesLine(m.Version, m.Nodes),
	}
	if m.Prior == "" {
		lines = append(lines, fmt.Sprintf("No version is left that a rollback of pool %s could go to.", m.Pool))
	}
	return lines
}

func (s *session) retire(ctx context.Context, pool, version string, flags changeFlags) error {
	p, h, err := s.lookBack(ctx, pool, 0)
	if err != nil {
		return err
	}
	r, refusals := h.Retire(version)
	if refusals != nil {
		return refusal(fmt.Sprintf("version %s of pool %s can't be retired", version, h.Pool), refusals)
	}
	is := "is being deleted"
	if flags.dryRun && !r.Done {
		is = "would be deleted"
	}
	deed := print.Deed{
		Verb: "retire", Pool: r.Pool, Version: r.Version, DryRun: flags.dryRun, Changed: !r.Done && !flags.dryRun, Nodes: r.Nodes,
		Lines: []string{fmt.Sprintf("Version %s of pool %s %s.", r.Version, r.Pool, is), nodesLine(r.Version, r.Nodes)},
	}
	if r.Forgets {
		deed.Lines = append(deed.Lines, fmt.Sprintf("Its quarantine goes with it: a node that was built from version %s, or patched before that was captured, may become a donor.", r.Version))
	}
	if deed.Changed {
		if _, err := s.carryOut(ctx, rollback.OfRetirement(r, s.provider, p.ID)); err != nil {
			return err
		}
	}
	return print.WriteDeed(s.Out, flags.format, deed)
}

// pause waits, or returns why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
