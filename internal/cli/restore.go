package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/recipe"
)

const restoreHelp = `Restore what the pool's recipe had before a promotion: the base image, customData, and the bootstrap extensions with their
settings. Kamino saved these fields in a Secret in its namespace, and without --version or --prototype the command uses the latest one.

The cloud never returns secret fields: the protected settings of extensions, and customData on some clouds. Kamino could save them only if you passed
customData to the capture with --custom-data or --custom-data-from. The command lists what is missing and refuses to run until you pass each missing
field as a Secret in Kamino's namespace. --incomplete goes on without them, but new nodes may then fail to join.

The command shows the changes first, and asks on a terminal. Later additions to the recipe stay, and running nodes don't change: the command refuses
a pool whose upgrade policy would replace them, and a pool with a running capture. Suspend the pool's policy first, because the next capture points
the recipe at its own image again.`

type restoreFlags struct {
	changeFlags
	recipe.RestoreRequest
	protected []string
	yes       bool
}

// complete reads the flags of extensions.
func (r *restoreFlags) complete() error {
	if r.Version != "" && r.Prototype != "" {
		return usagef("use only one of --version and --prototype")
	}
	r.Protected = map[string]string{}
	for _, text := range r.protected {
		extension, secret, named := strings.Cut(text, "=")
		if !named || extension == "" || secret == "" {
			return usagef("--protected-settings-from %s must name an extension and a Secret, such as bootstrap=pool1-bootstrap", text)
		}
		r.Protected[extension] = secret
	}
	return nil
}

func newRestoreCommand(f *Factory, o *Options) *cobra.Command {
	flags := &restoreFlags{}
	cmd := &cobra.Command{
		Use:   "restore POOL",
		Short: "Undo a pool's first capture: restore the fields that the recipe lost",
		Long:  restoreHelp,
		Example: `  kamino restore pool1 --dry-run
  kamino restore pool1 --custom-data-from pool1-data --protected-settings-from bootstrap=pool1-join`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: changing(f, o, &flags.changeFlags, func(ctx context.Context, c *change, _ []string) error { return c.restore(ctx, flags) }),
	}
	flags.bind(cmd)
	cmd.Flags().StringVar(&flags.Version, "version", "", "restore the fields that were lost with this `version`")
	cmd.Flags().StringVar(&flags.Prototype, "prototype", "", "restore the fields that were lost with this `Prototype`, which may be deleted")
	cmd.Flags().StringVar(&flags.CustomData, "custom-data-from", "", "`SECRET[/KEY]` in Kamino's namespace with customData (key: customData)")
	cmd.Flags().StringSliceVar(&flags.protected, "protected-settings-from", nil,
		"`EXTENSION=SECRET[/KEY]`: Secret in Kamino's namespace with the extension's protected settings as JSON (key: protectedSettings)")
	cmd.Flags().BoolVar(&flags.Incomplete, "incomplete", false, "omit missing fields")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "skip the confirmation")
	_ = cmd.RegisterFlagCompletionFunc("version", completeVersions(f, o))
	output.Before(cmd, flags.complete)
	return cmd
}

func (c *change) restore(ctx context.Context, flags *restoreFlags) error {
	found, err := recipe.PlanRestoration(ctx, c.provider, c.secrets(), c.history, c.pool.Prototypes, flags.RestoreRequest)
	if err != nil {
		return err
	}
	r := print.Restore{
		Pool: c.history.Pool, Secret: c.options.Namespace + "/" + found.Saved.Secret, SavedAt: found.Saved.SavedAt, Prototype: found.Saved.Prototype,
		Version: found.Saved.Version, Change: found.Change, DryRun: flags.dryRun, Refusals: found.Refusals, Others: found.Others,
	}
	if len(r.Refusals) > 0 {
		if err := print.WriteRestore(c.Out, flags.format, r); err != nil {
			return err
		}
		return refusal(fmt.Sprintf("cannot restore the recipe of pool %s", r.Pool), r.Refusals)
	}
	if !r.Change.Done && !flags.dryRun {
		if !flags.yes && !c.agreed(strings.Join(print.RestorePlan(r), "\n")) {
			return refusedf("not confirmed, and nothing was changed: --yes skips the confirmation")
		}
		if _, err := c.carryOut(ctx, recipe.OfRestoration(r.Change, c.provider, r.Pool)); err != nil {
			return fmt.Errorf("the recipe of pool %s is not restored: %w", r.Pool, err)
		}
		r.Changed = true
	}
	return print.WriteRestore(c.Out, flags.format, r)
}

// secrets are the Secrets that store lost parts of recipes.
func (s *session) secrets() recipe.Secrets {
	return recipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
}
