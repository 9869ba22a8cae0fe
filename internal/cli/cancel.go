package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/drive"
)

func newCancelCommand(f *Factory, o *Options) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "cancel PROTOTYPE",
		Short: "Stop a capture: give its node back, and leave nothing behind",
		Long: `Delete a Prototype whose capture has not ended, and follow until its node is back in service and nothing is
left behind: no snapshot, no half-made image version, no lock. A version that was complete before stays, and it is
said what can be done with it.

Deleting the Prototype with kubectl does the same where a controller runs. This command does the work itself
where none does. A Prototype that has ended is a record, and is left alone.`,
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
	p, err := drive.Cancel(within, s.cluster, name)
	if err != nil {
		return orCutShort(within, err, "Whether the Prototype is marked for deletion is unknown: run the same command again")
	}
	return s.followAway(within, p)
}

// followAway follows a Prototype that is being deleted until it is gone.
func (s *session) followAway(ctx context.Context, p *v1alpha1.Prototype) error {
	fl := s.follower(p)
	fl.UntilGone = true
	_, err := fl.Run(ctx)
	again := fmt.Sprintf("Prototype %s stays marked for deletion: `kamino cancel %s` or a controller goes on with it.", p.Name, p.Name)
	if err == nil {
		ctx := context.WithoutCancel(ctx)
		_, err := fmt.Fprintf(s.Out, "Prototype %s is gone, and %s; node %s %s.\n",
			p.Name, s.versionLeft(ctx, p), p.Spec.Donor.NodeName, drive.NodeNow(ctx, s.cluster, p.Spec.Donor.NodeName))
		return err
	}
	return cutShort(err, ". "+again)
}

// versionLeft says what is there of the version that a capture which is gone was to make, from a look at the cloud.
func (s *session) versionLeft(ctx context.Context, p *v1alpha1.Prototype) string {
	left, err := s.pools().Left(ctx, p)
	name, version := left.Pool, p.Spec.Version
	switch {
	case err != nil:
		return fmt.Sprintf("whether version %s was made can't be told (%s): see `kamino history %s`", version, explain(err), name)
	case left.Named:
		return fmt.Sprintf("its version %s stays, for the recipe of pool %s names it: `kamino rollback %s` goes back", version, name, name)
	}
	switch left.Image.State {
	case cloud.Deleting:
		return fmt.Sprintf("the cloud is deleting version %s, the last of its capture", version)
	case cloud.Pending, cloud.Failed:
		return fmt.Sprintf("version %s is left, which is %s: `kamino retire %s %s` deletes it once the cloud is done with it", version, left.Image.State, name, version)
	case cloud.Complete:
		return fmt.Sprintf("its version %s stays, which was complete before: `kamino promote %s %s` points the pool at it, `kamino retire %s %s` deletes it",
			version, name, version, name, version)
	case cloud.Absent:
	}
	return "nothing of its capture is left"
}
