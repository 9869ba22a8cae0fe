package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/policyfile"
)

// policySource is where a command's policies come from.
type policySource struct {
	// name of one policy of the cluster; all of them if it is empty.
	name string
	// file with PrototypePolicies that need not exist in the cluster.
	file string
	// pools that an empty policy is made up for.
	pools []string
}

func (p *policySource) bind(f *Factory, o *Options, cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.name, "policy", "", "`name` of a policy of the cluster (default: all policies)")
	cmd.Flags().StringVarP(&p.file, "filename", "f", "", "`file` with policies to evaluate instead of the policies in the cluster")
	_ = cmd.RegisterFlagCompletionFunc("policy", completePolicies(f, o))
	before(cmd, p.check)
}

// check finds a contradiction.
func (p *policySource) check() error {
	given := 0
	for _, is := range []bool{p.name != "", p.file != "", len(p.pools) > 0} {
		if is {
			given++
		}
	}
	if given > 1 {
		return usagef("use only one of --policy, --filename and --pool")
	}
	return nil
}

// in is the source in the session's cluster.
func (p *policySource) in(s *session) *drive.Policies {
	return &drive.Policies{Cluster: s.cluster, Pools: s.pools(), Name: p.name, File: p.file, MadeUp: p.pools}
}

// policies that the source names. Those that exist nowhere have no UID.
func (s *session) policies(ctx context.Context, from policySource) ([]v1alpha1.PrototypePolicy, error) {
	policies, err := from.in(s).Read(ctx)
	return policies, misused(err)
}

// misused is a file that is not as it must be as a wrong usage.
func misused(err error) error {
	var invalid *policyfile.Invalid
	if errors.As(err, &invalid) {
		return &failure{ExitUsage, err}
	}
	return err
}

// decider makes decisions from what the cluster says now.
func (s *session) decider(ctx context.Context) (*policy.Decider, error) {
	return drive.NewDecider(ctx, s.cluster, s.provider, s.engine, s.options.drive(s.Getenv, s.Now))
}
