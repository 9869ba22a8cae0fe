package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/wording"
)

// session is a command with its clients.
type session struct {
	*Factory
	options  *Options
	cluster  *cluster.Connection
	provider cloud.Provider
	engine   runner.Engine
}

func open(ctx context.Context, f *Factory, o *Options) (*session, error) {
	return openWith(ctx, f, o, f.saysWait)
}

// openQuietly is for processes whose output nobody waits for.
func openQuietly(ctx context.Context, f *Factory, o *Options) (*session, error) {
	return openWith(ctx, f, o, func(provider cloud.Provider) cloud.Provider { return provider })
}

func openWith(ctx context.Context, f *Factory, o *Options, around func(cloud.Provider) cloud.Provider) (*session, error) {
	cluster, err := f.connect(o)
	if err != nil {
		return nil, err
	}
	native, err := f.Cloud(ctx, o)
	if err != nil {
		return nil, err
	}
	provider, err := cluster.InCluster(around(native), nil)
	if err != nil {
		return nil, err
	}
	return &session{Factory: f, options: o, cluster: cluster, provider: provider, engine: f.Engine(cluster, provider, o)}, nil
}

// connect builds the clients for the cluster. A kubeconfig without a cluster is a usage error.
func (f *Factory) connect(o *Options) (*cluster.Connection, error) {
	c, err := f.Connect(o)
	if err != nil {
		return nil, &failure{Code: ExitUsage, Err: err}
	}
	c.OnUnreadable = func(message string) { f.note("warning: %s", message) }
	c.Notify(func(text string) { f.note("%s", text) })
	return c, nil
}

// note prints a message that is no result.
func (f *Factory) note(format string, args ...any) {
	say(f.Err, format+"\n", args...)
}

// inSession runs a verb with its clients.
func inSession(f *Factory, o *Options, do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := open(cmd.Context(), f, o)
		if err != nil {
			return err
		}
		return do(cmd.Context(), s, args)
	}
}

// inLook runs a verb that only reads, and so waits while the cloud throttles.
func inLook(f *Factory, o *Options, do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return inSession(f, o, func(ctx context.Context, s *session, args []string) error {
		s.provider = f.patient(s.provider, o)
		s.engine = f.Engine(s.cluster, s.provider, o)
		return do(ctx, s, args)
	})
}

// patient returns the provider for a verb that only reads. After quietly of waiting, patient says why.
func (f *Factory) patient(provider cloud.Provider, o *Options) cloud.Provider {
	var waited time.Duration
	return cloud.Patient(provider, func(wait time.Duration) {
		if before := waited; before <= quietly && before+wait > quietly {
			f.note("The cloud throttles the credential. Kamino waits as the cloud asks, for up to %s.", wording.Duration(cmp.Or(o.Clouds.Patience, lookTime)))
		}
		waited += wait
	})
}

// within ends the context of a verb that only reads after --timeout. To a person at a terminal, it says that a verb is slow.
func (f *Factory) within(ctx context.Context, o *Options) (context.Context, func()) {
	ctx, cancel := limited(ctx, o.Clouds.Patience)
	if !f.terminal() {
		return ctx, cancel
	}
	timer := time.AfterFunc(quietly, func() { f.note("Kamino still reads the cluster and the cloud.") })
	return ctx, func() { timer.Stop(); cancel() }
}

const (
	// quietly is how long a verb waits without a word.
	quietly = 3 * time.Second
	// lookTime is the default of --timeout for verbs that only read.
	lookTime = 5 * time.Minute
)

// bindTimeout adds the flag --timeout to a verb that only reads.
func (o *Options) bindTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.Clouds.Patience, "timeout", lookTime, "how long to wait for a cloud or an API server that throttles")
}

// inCluster runs a verb that needs no cloud and no credential.
func inCluster(f *Factory, o *Options, do func(ctx context.Context, c *cluster.Connection, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.connect(o)
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}
