package runner

import (
	"context"
	"fmt"
	"net"
	"time"

	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/dashboard/web"
	"github.com/kamino-dev/kamino/internal/dashboard/web/gather"
	"github.com/kamino-dev/kamino/internal/pool"
)

// pageInterval is the least time between two looks for the controller's page.
const pageInterval = 30 * time.Second

// pages returns the server of the dashboard, or nothing if the controller has no address for the page.
func (k *Controller) pages(c *cluster.Connection, provider cloud.Provider) []ctrlmanager.Runnable {
	if k.Dashboard == "" || k.Dashboard == "0" {
		return nil
	}
	looks := gather.Gatherer{Finder: &pool.Finder{Cluster: c, Cloud: provider, Now: k.Now}, Cluster: k.ClusterName, Explain: k.Explain, Now: k.now,
		Lease: func(ctx context.Context) (attention.Lease, error) { return LeaseState(ctx, c, k.Namespace, k.now()) }}
	return []ctrlmanager.Runnable{&pageServer{
		address: k.Dashboard,
		page:    &web.Server{Look: looks.Gather, Explain: k.Explain, Interval: pageInterval, Now: time.Now, Log: k.Log.WithName("dashboard")},
	}}
}

// pageServer serves the dashboard in every replica, with or without the Lease.
type pageServer struct {
	address string
	page    *web.Server
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *pageServer) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (p *pageServer) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	return p.page.Serve(ctx, l)
}
