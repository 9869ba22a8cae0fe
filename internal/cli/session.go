package cli

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/clouds"
	"github.com/kamino-dev/kamino/internal/cli/known"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/runner"
)

// session is a command with its clients.
type session struct {
	*Factory
	options  *Options
	cluster  *cluster.Connection
	provider cloud.Provider
	engine   runner.Engine
	// meanwhile says what the cluster knows while a verb waits for the cloud. Verbs that change something say nothing.
	meanwhile func()
}

// open opens a session. No one waits for a process that is alone.
func open(ctx context.Context, f *Factory, o *Options, alone bool) (*session, error) {
	cluster, err := f.connect(o)
	if err != nil {
		return nil, err
	}
	native, err := f.Cloud(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &session{Factory: f, options: o, cluster: cluster, meanwhile: func() {}}
	if !alone {
		native = clouds.SayWait(native, f.Now, s.sayWait)
	}
	if s.provider, err = cluster.InCluster(native, nil); err != nil {
		return nil, err
	}
	s.engine = f.Engine(cluster, s.provider, o)
	return s, nil
}

// connect builds the clients for the cluster. A kubeconfig without a cluster is a usage error.
func (f *Factory) connect(o *Options) (*cluster.Connection, error) {
	c, err := f.Connect(o)
	if err = cmp.Or(o.Fleet.CheckOne(), err); err != nil {
		return nil, &failure{Code: ExitUsage, Err: err}
	}
	c.OnUnreadable = func(message string) { f.note("warning: %s", message) }
	c.Notify(f.say)
	o.say = f.say
	return c, nil
}

func (f *Factory) say(text string) { f.note("%s", text) }

func (f *Factory) note(format string, args ...any) {
	say(f.Err, format+"\n", args...)
}

// inSession runs a verb with its clients.
func inSession(f *Factory, o *Options, do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := open(cmd.Context(), f, o, false)
		if err != nil {
			return err
		}
		return do(cmd.Context(), s, args)
	}
}

// inLook runs a verb that only reads, and so waits while the cloud throttles.
func inLook(f *Factory, o *Options, do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return inSession(f, o, func(ctx context.Context, s *session, args []string) error {
		return do(ctx, s.patient(ctx, args...), args)
	})
}

// patient lets the session wait while the cloud throttles. Meanwhile it says once what the cluster knows about the pool, or all pools.
func (s *session) patient(ctx context.Context, pool ...string) *session {
	s.meanwhile = sync.OnceFunc(func() { s.known().Say(ctx, strings.Join(pool[:min(len(pool), 1)], "")) })
	s.provider = s.options.Clouds.Patient(s.provider, s.sayWait)
	s.engine = s.Engine(s.cluster, s.provider, s.options)
	return s
}

func (s *session) sayWait(text string) {
	s.say(text)
	s.meanwhile()
}

func (s *session) known() known.Cluster {
	return known.Cluster{Connection: s.cluster, Namespace: s.options.Namespace, Now: s.Now, Note: s.note}
}

// firstWord is how long a person at a terminal waits for the first output.
const firstWord = 900 * time.Millisecond

// within ends the context of a verb that only reads after --timeout. To a person at a terminal, it says that a verb is slow.
func (f *Factory) within(ctx context.Context, o *Options) (context.Context, func()) {
	process.CollectLate()
	ctx, cancel := limited(ctx, o.Clouds.Patience)
	if !f.terminal() {
		return ctx, cancel
	}
	timer := time.AfterFunc(firstWord, func() { f.say("Kamino reads the cluster and the cloud.") })
	return ctx, func() { timer.Stop(); cancel() }
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
