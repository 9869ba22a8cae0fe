package cli

import (
	"context"
	"os"
	"time"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
)

// envNode names the node of this process's pod: the process cannot capture that node.
const envNode = "NODE_NAME"

// connect builds the clients for the options.
func connect(o *Options) (*cluster.Connection, error) {
	return cluster.Connect(cluster.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, As: o.As.Config(), Agent: agent()})
}

// newCloud builds the provider of the named cloud, or of the cloud of the cluster's nodes.
func newCloud(ctx context.Context, o *Options) (cloud.Provider, error) {
	described, err := chosenCloud(ctx, o)
	if err != nil {
		return cloud.Provider{}, err
	}
	p, err := o.Clouds.Provider(ctx, described, o.Log)
	if err != nil {
		return p, &failure{Code: ExitUsage, Err: err}
	}
	return p, nil
}

// chosenCloud returns the selected cloud.
func chosenCloud(ctx context.Context, o *Options) (cloud.Description, error) {
	about, err := o.Clouds.Chosen(ctx, func() (*cluster.Connection, error) {
		c, err := connect(o)
		if err == nil && o.say != nil {
			c.Notify(o.say)
		}
		return c, err
	}, agent(), nowUTC())
	if err != nil && exitCode(err) == ExitUnexpected { // an unreachable cluster has its own exit code
		err = &failure{Code: ExitUsage, Err: err}
	}
	return about, err
}

// agent is the user agent of clients.
func agent() string { return "kamino/" + build.Read().Version }

// newEngine returns the engine of a command. The engine records events as the controller's engine does, and the command
// flushes the events at its end.
func newEngine(c *cluster.Connection, provider cloud.Provider, o *Options) runner.Engine {
	return runner.NewEngine(c, provider, o.processOptions(os.Getenv, nowUTC), o.recorder(c))
}

// processOptions returns the options for package drive.
func (o *Options) processOptions(getenv func(string) string, now func() time.Time) runner.Options {
	return runner.Options{
		Namespace: o.Namespace, PodNamespace: o.GeneralizeNamespace, Image: o.Image, AllowedImages: o.AllowedImages, CustomData: o.CustomData,
		OwnNode: getenv(envNode), MaxConcurrent: o.MaxConcurrent, Kured: o.Kured, Now: now, Log: o.Log,
	}
}

func nowUTC() time.Time { return time.Now().UTC() }
