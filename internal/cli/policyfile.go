package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/policy/policyfile"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/runner"
)

// policySource is the source of a command's policies.
type policySource struct {
	// name of one policy of the cluster; empty means all policies.
	name string
	// file with PrototypePolicies; the policies need not exist in the cluster.
	file string
	// pools of an empty default policy.
	pools []string
}

func (p *policySource) bind(f *Factory, o *Options, cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.name, "policy", "", "`name` of a policy of the cluster (default: all policies)")
	cmd.Flags().StringVarP(&p.file, "filename", "f", "", "`file` with policies to evaluate instead of the policies in the cluster")
	_ = cmd.RegisterFlagCompletionFunc("policy", completePolicies(f, o))
	output.Before(cmd, p.check)
}

// check refuses contradicting flags.
func (p *policySource) check() error {
	if named := p.name != ""; named && p.file != "" || (named || p.file != "") && len(p.pools) > 0 {
		return usagef("use only one of --policy, --filename and --pool")
	}
	return nil
}

// in is the source in the session's cluster.
func (p *policySource) in(s *session) *runner.Policies {
	return &runner.Policies{Cluster: s.cluster, Pools: s.pools(), Name: p.name, File: p.file, MadeUp: p.pools}
}

// policies returns the policies of the source. Policies that are not in the cluster have no UID.
func (s *session) policies(ctx context.Context, from policySource) ([]v1alpha1.PrototypePolicy, error) {
	policies, err := from.in(s).Read(ctx)
	return policies, misused(err)
}

// misused turns an invalid file into a usage error.
func misused(err error) error {
	var invalid *policyfile.Invalid
	if errors.As(err, &invalid) {
		return &failure{Code: ExitUsage, Err: err}
	}
	return err
}

// decider returns a Decider with the current state of the cluster, and the look at the nodes.
func (s *session) decider(ctx context.Context) (*policy.Decider, *membership.Cluster, error) {
	return runner.NewDecider(ctx, s.cluster, s.provider, s.engine, s.options.processOptions(s.Getenv, s.Now))
}
