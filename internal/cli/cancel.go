package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/runner"
)

func newCancelCommand(f *Factory, o *Options) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "cancel PROTOTYPE",
		Short: "Stop a capture, release its node, and delete the leftovers",
		Long: `Stop a capture by deleting its Prototype. The command follows until the node is in service and Kamino has deleted the snapshot, the incomplete image
version and the lock. A complete version stays, and the output shows how to promote or delete it.

If a controller runs, "kubectl delete prototype" has the same effect; without one, this command does the work. A Prototype that has ended is a record,
which the command doesn't change.`,
		Example: `  kamino cancel pool1-2026.03.09`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completePrototypes(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			return s.cancel(ctx, args[0], timeout)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop after this time; the Prototype stays marked for deletion (default: never)")
	return cmd
}

func (s *session) cancel(ctx context.Context, name string, timeout time.Duration) error {
	within, cancel := limited(ctx, timeout)
	defer cancel()
	p, err := runner.Cancel(within, s.cluster, name)
	if err != nil {
		return orCutShort(within, err, "Whether the Prototype is marked for deletion is unknown: run the same command again")
	}
	return s.followAway(within, p)
}

// donorNow is the donor with its present state.
func donorNow(ctx context.Context, s *session, p *v1alpha1.Prototype) string {
	return fmt.Sprintf("node %s %s", p.Spec.Donor.NodeName, runner.NodeNow(ctx, s.cluster, p.Spec.Donor.NodeName))
}

// followAway follows a Prototype in deletion until the object is gone.
func (s *session) followAway(ctx context.Context, p *v1alpha1.Prototype) error {
	fl := s.follower(p)
	fl.UntilGone = true
	_, err := fl.Run(ctx)
	again := fmt.Sprintf("Prototype %s stays marked for deletion: run `kamino cancel %s` to continue, or let a controller continue.", p.Name, p.Name)
	if err == nil {
		ctx := context.WithoutCancel(ctx)
		left, err := s.pools().Left(ctx, p)
		err = output.Prose(s.Out, fmt.Sprintf("Prototype %s is deleted, and %s; %s.\n",
			p.Name, print.VersionLeft(left, p.Spec.Version, err, explain), donorNow(ctx, s, p)))
		return err
	}
	return cutShort(err, ". "+again)
}
