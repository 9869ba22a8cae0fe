package cli

import (
	"context"
	"os"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/drive"
)

// envNode names the node that this process's own pod runs on: it can't capture that one.
const envNode = "NODE_NAME"

// connect makes the clients that the options name.
func connect(o *Options) (*cluster.Connection, error) {
	return cluster.Connect(cluster.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, As: o.As.config(), Agent: "kamino/" + buildInfo().Version})
}

// newCloud makes the provider. It sends nothing: a credential that is not accepted shows with the first look.
func newCloud(ctx context.Context, o *Options) (cloud.Provider, error) {
	config, err := azure.LoadConfig(azure.LoadOptions{AzureJSON: o.CloudConfig, Credential: o.AzureCredential})
	if err != nil {
		return nil, &ending{ExitUsage, err}
	}
	o.Log.V(1).Info("cloud", "credential", config.Source)
	config.OnRequest = o.OnRequest
	return azure.New(ctx, config)
}

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
