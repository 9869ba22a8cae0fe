package chart

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Helm installs the chart into a cluster, as the command `helm` does.
type Helm struct {
	// Kubeconfig is the path of the cluster's.
	Kubeconfig string
	// Namespace of the releases. The namespace must exist.
	Namespace string
	// Timeout of each action; five minutes if zero.
	Timeout time.Duration
}

// Install installs a release. With wait, Install also waits for the pods.
func (h Helm) Install(ctx context.Context, name string, values Values, wait bool) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	chart, err := loadForAnyVersion()
	if err != nil {
		return err
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.Timeout, install.WaitStrategy = name, h.Namespace, h.timeout(), strategy(wait)
	if _, err := install.RunWithContext(ctx, chart, values); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

// Upgrade changes the values of a release; omitted values get the chart's defaults.
func (h Helm) Upgrade(ctx context.Context, name string, values Values, wait bool) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	chart, err := loadForAnyVersion()
	if err != nil {
		return err
	}
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy, upgrade.ResetValues = h.Namespace, h.timeout(), strategy(wait), true
	if _, err := upgrade.RunWithContext(ctx, name, chart, values); err != nil {
		return fmt.Errorf("upgrade %s: %w", name, err)
	}
	return nil
}

// Uninstall removes a release, and does not wait for the removal.
func (h Helm) Uninstall(name string) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(config)
	uninstall.Timeout, uninstall.WaitStrategy = h.timeout(), kube.HookOnlyStrategy
	if _, err := uninstall.Run(name); err != nil {
		return fmt.Errorf("uninstall %s: %w", name, err)
	}
	return nil
}

// loadForAnyVersion reads the chart without the required version of the API server: an API server inside a test does
// not know its version.
func loadForAnyVersion() (*chartv2.Chart, error) {
	chart, err := Load()
	if err == nil {
		chart.Metadata.KubeVersion = ""
	}
	return chart, err
}

func (h Helm) timeout() time.Duration {
	if h.Timeout == 0 {
		return 5 * time.Minute
	}
	return h.Timeout
}

func strategy(wait bool) kube.WaitStrategy {
	if wait {
		return kube.StatusWatcherStrategy
	}
	return kube.HookOnlyStrategy
}

func (h Helm) configuration() (*action.Configuration, error) {
	config := action.NewConfiguration()
	config.SetLogger(slog.NewTextHandler(io.Discard, nil))
	getter := genericclioptions.NewConfigFlags(true)
	getter.KubeConfig, getter.Namespace = &h.Kubeconfig, &h.Namespace
	if err := config.Init(getter, h.Namespace, "secret"); err != nil {
		return nil, err
	}
	return config, nil
}
