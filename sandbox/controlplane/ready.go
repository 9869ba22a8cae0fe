package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pollEvery is short because a start takes about two seconds in all.
const pollEvery = 50 * time.Millisecond

func (c *ControlPlane) awaitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	return c.await(ctx, "the API server to be ready", func() error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// awaitControllers waits for objects that controllers create in an empty cluster. Pods need the default service
// account. Pods find the API server with the certificate.
func (c *ControlPlane) awaitControllers(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	return c.await(ctx, "the controllers to work", func() error {
		_, account := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		_, root := client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return errors.Join(account, root)
	})
}

func (c *ControlPlane) await(ctx context.Context, what string, look func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case lost := <-c.lost:
			return lost
		case <-ctx.Done():
			return fmt.Errorf("timeout while waiting for %s: %w (see %s); last error: %w", what, context.Cause(ctx), c.log.path, err)
		}
	}
}
