package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/restore"
)

const restoreHelp = `Give the pool's recipe back what it lost when it was pointed at a version: the generic image that it named, the
extensions that bootstrap a node, with their settings, and customData. It was kept in a Secret of Kamino's namespace
before the promotion. Without a version or a Prototype the latest one counts.

What the cloud gives out to nobody was not kept. That may be customData, unless the capture was told of a copy
(--custom-data-from), and the protected settings of an extension. Give each by the name of a Secret in Kamino's
namespace; what is not given is named, and refuses the command unless --incomplete leaves it out: nodes that are built
without it may never join.

What would change is shown first, and whoever sits at a terminal is asked. What the recipe got since stays as it is.
Nodes that run are not touched; a pool whose upgrade policy would change them is refused, and so is one of which a
capture is in flight. Suspend a policy of the pool first: its next capture takes out again what came back.`

type restoreFlags struct {
	changeFlags
	restore.Wish
	protected []string
	yes       bool
}

// complete reads what is given of an extension.
func (r *restoreFlags) complete() error {
	if r.Version != "" && r.Prototype != "" {
		return usagef("--version and --prototype name the same thing: give one of them")
	}
	r.Protected = map[string]string{}
	for _, text := range r.protected {
		extension, secret, named := strings.Cut(text, "=")
		if !named || extension == "" || secret == "" {
			return usagef("--protected-settings-from %s: name an extension and a Secret, as in bootstrap=pool1-bootstrap", text)
		}
		r.Protected[extension] = secret
	}
	return nil
}

func newRestoreCommand(f *Factory, o *Options) *cobra.Command {
	flags := &restoreFlags{}
	cmd := &cobra.Command{
		Use:   "restore POOL",
		Short: "Give a pool's recipe back what it lost with its first version",
		Long:  restoreHelp,
		Example: `  kamino restore pool1 --dry-run
  kamino restore pool1 --custom-data-from pool1-custom-data --protected-settings-from bootstrap=pool1-bootstrap`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: changing(f, o, &flags.changeFlags, func(ctx context.Context, c *change, _ []string) error { return c.restore(ctx, flags) }),
	}
	flags.bind(cmd)
	cmd.Flags().StringVar(&flags.Version, "version", "", "what was lost with this `version`")
	cmd.Flags().StringVar(&flags.Prototype, "prototype", "", "what was lost with the promotion of this `Prototype`, which may be gone")
	cmd.Flags().StringVar(&flags.CustomData, "custom-data-from", "", "`SECRET[/KEY]` in Kamino's namespace that holds customData (key: customData)")
	cmd.Flags().StringSliceVar(&flags.protected, "protected-settings-from", nil, "`EXTENSION=SECRET[/KEY]` in Kamino's namespace that holds its protected settings, as JSON (key: protectedSettings)")
	cmd.Flags().BoolVar(&flags.Incomplete, "incomplete", false, "leave out what nobody gives")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("version", completeVersions(f, o))
	before(cmd, flags.complete)
	return cmd
}

func (c *change) restore(ctx context.Context, flags *restoreFlags) error {
	found, err := restore.Look(ctx, c.provider, c.secrets(), c.history, c.pool.Prototypes, flags.Wish)
	if err != nil {
		return err
	}
	r := print.Restore{
		Pool: c.history.Pool, Secret: c.options.Namespace + "/" + found.Kept.Secret, SavedAt: found.Kept.SavedAt, Prototype: found.Kept.Prototype, Version: found.Kept.Version,
		Change: found.Change, DryRun: flags.dryRun, Refusals: found.Refusals, Others: found.Others,
	}
	if len(r.Refusals) > 0 {
		if err := print.WriteRestore(c.Out, flags.format, r); err != nil {
			return err
		}
		return refusal(fmt.Sprintf("pool %s can't be given back what its recipe lost", r.Pool), r.Refusals)
	}
	if !r.Change.Done && !flags.dryRun {
		if !flags.yes && !c.agreed(strings.Join(print.RestorePlan(r), "\n")) {
			return refusedf("not done, and nothing was changed: --yes does it without a question")
		}
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
		defer cancel()
		if err := (&restore.Restoration{Cloud: c.provider, Shown: r.Change}).Run(writing, pause); err != nil {
			return fmt.Errorf("the recipe of pool %s is not restored: %w", r.Pool, err)
		}
		r.Changed = true
	}
	return print.WriteRestore(c.Out, flags.format, r)
}
