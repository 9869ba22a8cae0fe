package cli

import (
	"context"
	"os"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/internal/generalize"
)

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
func newEngine(c *Cluster, provider cloud.Provider, o *Options) Engine {
	engine := &capture.Engine{
		Client: c.Client, Kube: c.Kube, Cloud: provider, Namespace: o.Namespace, PodNamespace: o.podNamespace(), Image: o.Image, AllowedImages: o.AllowedImages,
		MaxConcurrent: o.MaxConcurrent, Now: nowUTC, OwnNode: os.Getenv(envNode), Log: o.Log.WithName("capture"),
		CheckRules: checkRules, Kured: o.Kured,
	}
	engine.Recorder = o.recorder(c)
	return engine
}

// checkRules says what is wrong with a user's own rules.
func checkRules(profile v1alpha1.Profile, files map[string][]byte) error {
	_, err := generalize.LoadFiles(profile, files)
	return err
}

func nowUTC() time.Time { return time.Now().UTC() }
