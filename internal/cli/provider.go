package cli

import (
	"context"
	"os"
	"time"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/drive"
)

// envNode names the node that this process's own pod runs on: it can't capture that one.
const envNode = "NODE_NAME"

// connect makes the clients that the options name.
func connect(o *Options) (*cluster.Connection, error) {
	return cluster.Connect(cluster.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, As: o.As.config(), Agent: agent()})
}

// newCloud makes the provider of the cloud that is named, or else that the cluster's nodes are in.
func newCloud(ctx context.Context, o *Options) (cloud.Provider, error) {
	described, err := chosenCloud(ctx, o)
	if err != nil {
		return nil, err
	}
	p, err := o.Clouds.Provider(ctx, described, o.Log)
	if err != nil {
		return nil, &failure{ExitUsage, err}
	}
	return p, nil
}

// chosenCloud tells which cloud it is.
func chosenCloud(ctx context.Context, o *Options) (cloud.Description, error) {
	about, err := o.Clouds.Chosen(ctx, func() (*cluster.Connection, error) { return connect(o) }, agent(), nowUTC())
	if err != nil && exitCode(err) == ExitUnexpected { // what keeps a cluster from being asked has a code of its own
		err = &failure{ExitUsage, err}
	}
	return about, err
}

// agent is what clients call themselves.
func agent() string { return "kamino/" + build.Read().Version }

// newEngine makes the engine of a command. It records events as the controller's does; they are written by the
// time that the command ends.
func newEngine(c *cluster.Connection, provider cloud.Provider, o *Options) drive.Engine {
	return drive.NewEngine(c, provider, o.drive(os.Getenv, nowUTC), o.recorder(c))
}

// drive is what the flags say of how this process drives.
func (o *Options) drive(getenv func(string) string, now func() time.Time) drive.Options {
	return drive.Options{
		Namespace: o.Namespace, PodNamespace: o.GeneralizeNamespace, Image: o.Image, AllowedImages: o.AllowedImages,
		OwnNode: getenv(envNode), MaxConcurrent: o.MaxConcurrent, Kured: o.Kured, Now: now, Log: o.Log,
	}
}

func nowUTC() time.Time { return time.Now().UTC() }
