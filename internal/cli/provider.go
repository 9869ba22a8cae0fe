package cli

import (
	"context"
	"os"
	"time"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/drive"
)

// envNode names the node that this process's own pod runs on: it can't capture that one.
const envNode = "NODE_NAME"

// connect makes the clients that the options name.
func connect(o *Options) (*cluster.Connection, error) {
	return cluster.Connect(cluster.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, As: o.As.config(), Agent: "kamino/" + build.Read().Version})
}

// newCloud makes the provider of the cloud that is named, or else that the cluster's nodes are in. To the cloud it sends
// nothing: a credential that is not accepted shows with the first look.
func newCloud(ctx context.Context, o *Options) (cloud.Provider, error) {
	described, err := chosenCloud(ctx, o)
	if err != nil {
		return nil, err
	}
	config := cloud.Config{File: o.CloudConfig, Options: map[string]string{}}
	for flag, value := range o.CloudOptions {
		config.Options[flag] = *value
	}
	if tell := o.OnRequest; tell != nil {
		config.OnRequest = func(class string, status int, throttled bool) { tell(described.Name, class, status, throttled) }
	}
	p, source, err := described.New(ctx, config)
	if err != nil {
		return nil, &ending{ExitUsage, err}
	}
	o.Log.V(1).Info("cloud", "name", described.Name, "credential", source)
	return p, nil
}

// chosenCloud tells which cloud it is.
func chosenCloud(ctx context.Context, o *Options) (cloud.Description, error) {
	about, err := registry.All().Choose(o.Cloud, func() ([]string, error) {
		c, err := connect(o)
		if err != nil {
			return nil, err
		}
		return c.ProviderIDs(ctx, enoughNodes)
	})
	if err != nil && exitCode(err) == ExitUnexpected { // what keeps a cluster from being asked has a code of its own
		err = &ending{ExitUsage, err}
	}
	return about, err
}

// enoughNodes tell which cloud a cluster is in.
const enoughNodes = 100

// newEngine makes the engine of a command. It records events as the controller's does; they are written by the
// time that the command ends.
func newEngine(c *cluster.Connection, provider cloud.Provider, o *Options) drive.Engine {
	return drive.NewEngine(c, provider, o.drive(os.Getenv, nowUTC), o.recorder(c))
}

// drive is what the flags say of how this process drives.
func (o *Options) drive(getenv func(string) string, now func() time.Time) drive.Options {
	return drive.Options{
		Namespace: o.Namespace, PodNamespace: o.podNamespace(), Image: o.Image, AllowedImages: o.AllowedImages,
		OwnNode: getenv(envNode), MaxConcurrent: o.MaxConcurrent, Kured: o.Kured, Now: now, Log: o.Log,
	}
}

func nowUTC() time.Time { return time.Now().UTC() }
