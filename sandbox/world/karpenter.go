package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/region"
)

// How nodes come to be if Karpenter builds them. Its own controllers run against the simulated AWS. Their timers are real, whatever the
// time scale.

// startKarpenter installs Karpenter's definitions, and runs its controllers.
func startKarpenter(ctx context.Context, w *World) error {
	if !w.directory.Karpenter {
		return nil
	}
	began, bin := time.Now(), w.options.Karpenter
	config := rest.CopyConfig(w.plane.Admin())
	if err := capi.InstallDefinitions(ctx, config, bin, "karpenter-aws"); err != nil {
		return err
	}
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	over, err := region.NewKarpenter(ctx, w.AWS(), objects)
	if err != nil {
		return err
	}
	w.cloud = over
	metrics, health, err := twoPorts()
	if err != nil {
		return err
	}
	command := exec.Command(filepath.Join(bin, "karpenter"))
	command.Env = append(child.With(w.Environment()), "CLUSTER_NAME="+clusterName, "CLUSTER_ENDPOINT="+w.plane.URL(),
		"SYSTEM_NAMESPACE=kube-system", "ISOLATED_VPC=true", "DISABLE_LEADER_ELECTION=true",
		fmt.Sprintf("METRICS_PORT=%d", metrics), fmt.Sprintf("HEALTH_PROBE_PORT=%d", health))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	process, err := child.Start(command, w.directory.Path("karpenter.log"))
	if err != nil {
		return fmt.Errorf("start Karpenter (`make karpenter-aws` builds it): %w", err)
	}
	w.onStop(process.Stop)
	w.serve("Karpenter", func() error {
		select {
		case <-process.Ended():
			return process.Trouble(errors.New("it exited"))
		case <-w.ctx.Done():
			return nil
		}
	})
	if err := isHealthy(ctx, process, fmt.Sprintf("http://127.0.0.1:%d/readyz", health)); err != nil {
		return err
	}
	w.progress("Karpenter: its own controllers run for cluster %s (%.1f s)", clusterName, time.Since(began).Seconds())
	return nil
}

// isHealthy waits until a process answers with 200.
func isHealthy(ctx context.Context, process *child.Process, url string) error {
	client := &http.Client{Timeout: 2 * time.Second}
	for {
		answer, err := client.Get(url) //nolint:noctx // it has a timeout
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-process.Ended():
			return process.Trouble(errors.New("the controllers of Karpenter have ended"))
		case <-ctx.Done():
			return process.Trouble(fmt.Errorf("the controllers of Karpenter are not ready: %w", context.Cause(ctx)))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// twoPorts returns two free ports.
func twoPorts() (one, other int, err error) {
	first, err := listen("Karpenter", 0)
	if err != nil {
		return 0, 0, err
	}
	defer first.Close()
	second, err := listen("Karpenter", 0)
	if err != nil {
		return 0, 0, err
	}
	defer second.Close()
	return first.Addr().(*net.TCPAddr).Port, second.Addr().(*net.TCPAddr).Port, nil
}
