package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// changeFlags are the common flags of verbs that change a pool's versions.
type changeFlags struct {
	reason string
	dryRun bool
	format output.Format
}

func (c *changeFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the plan and all obstacles, and change nothing")
	output.Bind(cmd, &c.format, output.JSON, output.YAML)
}

// checkReason refuses a reason that does not fit into a tag.
func (c *changeFlags) checkReason() error {
	if wrong := history.CheckReason(c.reason); wrong != "" {
		return usagef("--reason: %s", wrong)
	}
	return nil
}

// change is a verb on the versions of a pool, with the pool and its history.
type change struct {
	*session
	changeFlags
	pool    *pool.Pool
	history history.History
}

// changing runs a verb on the pool of the first argument.
func changing(f *Factory, o *Options, flags *changeFlags, do func(ctx context.Context, c *change, args []string) error) func(*cobra.Command, []string) error {
	return inSession(f, o, func(ctx context.Context, s *session, args []string) error {
		p, h, err := s.lookBack(ctx, args[0], 0)
		if err != nil {
			return err
		}
		return do(ctx, &change{session: s, changeFlags: *flags, pool: p, history: h}, args)
	})
}

// writeTime limits the writes of one command.
const writeTime = 2 * time.Minute

// carryOut applies a change. An interrupt waits for the end of the steps; after a crash, the same command continues.
func (c *change) carryOut(ctx context.Context, made *recipe.Change) (recipe.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	result, err := made.Run(ctx, process.Wait)
	print.Launchable(c.Err, made.Version, result.Launchable)
	return result, err
}

// end applies a change, if there is anything to do, and reports the result.
func (c *change) end(ctx context.Context, deed print.ChangeResult, made *recipe.Change) error {
	if deed.Changed {
		if _, err := c.carryOut(ctx, made); err != nil {
			return err
		}
	}
	return print.WriteChangeResult(c.Out, c.format, deed)
}
