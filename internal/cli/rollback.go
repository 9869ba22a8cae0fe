package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/replace"
	"github.com/kamino-dev/kamino/internal/rollback"
	"github.com/kamino-dev/kamino/internal/rollback/plan"
	"github.com/kamino-dev/kamino/internal/spread"
	"github.com/kamino-dev/kamino/internal/wording"
)

const rollbackHelp = `Point the pool's recipe at an earlier version, and quarantine the one that it leaves, so that no capture and no
rollback uses it again. Nodes that run stay as they are; those that run the bad version are named.

Without --to the pool goes to the version that "kamino history" calls prior. The quarantine is written first: if
the command is cut short in between, the same command again goes on, and "kamino history" shows until then that the
recipe names a quarantined version. Once it is done, the same command again changes nothing; to go further back,
name the version.

With --to a newer version that is not quarantined (see "kamino release"), a rollback is taken back. The older version
is not quarantined then.

With --replace-nodes the nodes that run the bad version are then rebuilt from the version that the pool went to:
each is cordoned, drained with regard to budgets, given a new disk, waited for, and put back into service, as many
at a time as --max-unavailable allows; nodes that are not Ready count too, and those to be rebuilt go first. It may
be interrupted: the same command again goes on. A node that can't be drained is given back as it is; one that does
not come back stays cordoned and stops the rest. For an outage, --all-at-once --accept-outage rebuilds all of them
at the same time and drains none. It needs more permissions than a capture; "kamino doctor" names them.

Refused while a capture of the pool is in flight: it would point the recipe at its own version afterwards.`

// changeFlags are what the verbs that change a history have in common.
type changeFlags struct {
	reason string
	dryRun bool
	format print.Format
}

func (c *changeFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say what would be done and what is in the way, and change nothing")
	bindOutput(cmd, &c.format, print.JSON, print.YAML)
}

func (c *changeFlags) complete(checksReason bool) error {
	if wrong := history.CheckReason(c.reason); wrong != "" && checksReason {
		return usagef("--reason: %s", wrong)
	}
	return nil
}

func newRollbackCommand(f *Factory, o *Options) *cobra.Command {
	var flags changeFlags
	var replacing replaceFlags
	var to string
	cmd := &cobra.Command{
		Use:   "rollback POOL",
		Short: "Point a pool at its prior version, and quarantine the one that it leaves",
		Long:  rollbackHelp,
		Example: `  kamino rollback pool1 --dry-run
  kamino rollback pool1 --reason "nodes lose their network after an hour"
  kamino rollback pool1 --to 2026.03.02
  kamino rollback pool1 --replace-nodes --max-unavailable 3`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.reason == "" && !cmd.Flags().Changed("reason") {
				flags.reason = "rolled back on " + f.Now().UTC().Format(time.DateOnly)
			}
			if err := errors.Join(flags.complete(true), replacing.check()); err != nil {
				return err
			}
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			return s.rollback(cmd.Context(), args[0], to, flags, replacing)
		},
	}
	flags.bind(cmd)
	replacing.bind(cmd)
	cmd.Flags().StringVar(&to, "to", "", "`version` to go to (default: the prior one)")
	cmd.Flags().StringVar(&flags.reason, "reason", "", "why the version is bad, for whoever finds it quarantined (default: the day)")
	_ = cmd.RegisterFlagCompletionFunc("to", completeVersions(f, o))
	return cmd
}

func (s *session) rollback(ctx context.Context, name, to string, flags changeFlags, replacing replaceFlags) error {
	p, h, err := s.lookBack(ctx, name, 0)
	if err != nil {
		return err
	}
	if replacing.nodes && !replace.Able(s.provider) {
		return refusedf("this cloud can't rebuild nodes, and nothing was changed: leave --replace-nodes out")
	}
	r, refusals := h.Rollback(to, flags.reason)
	if refusals != nil {
		return refusal(fmt.Sprintf("pool %s can't be rolled back", h.Pool), refusals)
	}
	deed := print.Deed{
		Verb: "rollback", Pool: h.Pool, Version: r.From, To: r.To, Quarantined: r.Tags[cloud.TagQuarantined],
		DryRun: flags.dryRun, Nodes: r.Nodes, Changed: !r.Done && !flags.dryRun, Lines: rollbackLines(r, flags.dryRun, replacing),
	}
	if note := s.imagesAfter(ctx, p.ID, h.Recipe, r.To); note != "" {
		deed.Lines = append(deed.Lines, note)
	}
	if !r.Done {
		// What can fail without having changed anything is tried first.
		change, err := s.provider.RecipeChange(ctx, cloud.ImageRef{Pool: p.ID, Version: r.To}, false)
		if err != nil {
			return err
		}
		if len(change.Refusals) > 0 {
			return refusal(fmt.Sprintf("pool %s can't be rolled back", h.Pool), change.Refusals)
		}
	}
	if deed.Changed {
		if err := s.rollBack(ctx, p.ID, r); err != nil {
			return err
		}
	}
	if replacing.nodes && !flags.dryRun {
		return s.replaceNodes(ctx, p.ID, deed, flags, replacing)
	}
	return print.WriteDeed(s.Out, flags.format, deed)
}

// writeTime is how long the writes of one command may take together.
const writeTime = 2 * time.Minute

// carryOut has a change of the pool's versions and recipe made. An interrupt does not come between its steps; a crash may, and
// the same command goes on from there.
func (s *session) carryOut(ctx context.Context, c *rollback.Change) (rollback.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	return c.Run(ctx, pause)
}

// rollBack quarantines, then points the recipe at the version.
func (s *session) rollBack(ctx context.Context, pool cloud.PoolID, r history.Rollback) error {
	result, err := s.carryOut(ctx, rollback.Of(r, s.provider, pool))
	switch {
	case err == nil:
		return nil
	case result.Did == plan.Point || result.Did == plan.Stop:
		return &ending{exitCode(err), fmt.Errorf("the recipe of pool %s still names version %s%s, so that new nodes are still built from it; "+
			"run the same command again once this is mended: %s", r.Pool, r.From, although(r.Tags), explain(err))}
	}
	return fmt.Errorf("pool %s is not rolled back: %w", r.Pool, err)
}

func although(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	return ", which is quarantined now"
}

func rollbackLines(r history.Rollback, dryRun bool, replacing replaceFlags) []string {
	if r.Done {
		already := fmt.Sprintf("Pool %s is rolled back already: its recipe names version %s, and version %s is quarantined.", r.Pool, r.To, r.From)
		if replacing.nodes {
			return []string{already, replacing.line(r, dryRun)}
		}
		return []string{
			already,
			fmt.Sprintf("If version %s is bad too, name the one to go to: kamino rollback %s --to VERSION", r.To, r.Pool),
		}
	}
	is, builds := "is quarantined", "builds its next nodes from version %s now"
	if dryRun {
		is, builds = "would be quarantined", "would build its next nodes from version %s"
	}
	var lines []string
	if why := r.Tags[cloud.TagQuarantined]; why != "" {
		lines = append(lines, fmt.Sprintf("Version %s %s: %s", r.From, is, why))
	}
	lines = append(lines, fmt.Sprintf("Pool %s "+builds+".", r.Pool, r.To))
	if replacing.nodes {
		return append(lines, replacing.line(r, dryRun))
	}
	return append(lines, nodesLine(r.From, r.Nodes))
}

// nodesLine says which nodes a verb leaves as they are.
func nodesLine(version string, nodes []string) string {
	switch {
	case nodes == nil:
		return fmt.Sprintf("Which nodes run version %s is not known.", version)
	case len(nodes) == 0:
		return fmt.Sprintf("No node runs version %s.", version)
	case len(nodes) == 1:
		return fmt.Sprintf("1 node runs version %s and stays as it is: %s", version, nodes[0])
	default:
		return fmt.Sprintf("%d nodes run version %s and stay as they are: %s", len(nodes), version, wording.Names(nodes))
	}
}

// imagesAfter says what a rollback to a version that no node runs does to the number of the pool's images; empty if
// that is far from what the cloud allows, or is not known.
func (s *session) imagesAfter(ctx context.Context, pool cloud.PoolID, recipe cloud.Recipe, to string) string {
	census, able := cloud.As[cloud.Census](s.provider)
	if !able || census.MaxImages() == 0 {
		return ""
	}
	instances, err := census.Instances(ctx, pool)
	if err != nil {
		return ""
	}
	image, err := s.provider.Image(ctx, cloud.ImageRef{Pool: pool, Version: to})
	if err != nil || image.ID == "" {
		return ""
	}
	recipe.Image, recipe.Version = image.ID, to
	after := spread.Of(recipe, instances, census.MaxImages())
	if !after.Near() {
		return ""
	}
	return capital(after.Says(s.provider.PoolName(pool), recipe, func(id cloud.InstanceID) string { return string(id) })) + "."
}
