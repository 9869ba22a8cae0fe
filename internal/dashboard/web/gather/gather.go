// Package gather reads the facts of the dashboard from a cluster and its cloud. The package only reads.
package gather

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/pool"
)

// reportLength is the time of the report on the page.
const reportLength = 30 * 24 * time.Hour

// Gatherer reads a cluster.
type Gatherer struct {
	Finder *pool.Finder
	// Cluster names the cluster on the page; empty if unknown.
	Cluster string
	// Explain turns an error into a sentence.
	Explain func(error) string
	// Lease reads whether a process works on captures.
	Lease func(context.Context) (attention.Lease, error)
	Now   func() time.Time
}

// Gather reads all facts once. An error of the cloud is in the section of the pool.
func (g *Gatherer) Gather(ctx context.Context) (dashboard.View, error) {
	pools, err := g.Finder.All(ctx)
	if err != nil {
		return dashboard.View{}, err
	}
	facts := dashboard.Facts{Now: g.Now(), Cluster: g.Cluster}
	if facts.Policies, err = g.Finder.Cluster.Policies(ctx); err != nil {
		facts.Troubles = append(facts.Troubles, "The policies are unknown: "+g.Explain(err))
	}
	if facts.Events, err = g.Finder.Events(ctx); err != nil {
		facts.Troubles = append(facts.Troubles, "The events are unknown: "+g.Explain(err))
	}
	if facts.Lease, err = g.Lease(ctx); err != nil {
		facts.Troubles = append(facts.Troubles, "Whether a process works on captures is unknown: "+g.Explain(err))
	}
	ids := slices.Sorted(maps.Keys(pools))
	facts.Pools = make([]dashboard.PoolFacts, len(ids))
	cloud.EachPool(ctx, g.Finder.Cloud, ids, func(ctx context.Context, i int) { facts.Pools[i] = g.pool(ctx, pools[ids[i]]) })
	if ctx.Err() != nil {
		return dashboard.View{}, fmt.Errorf("the cluster or the cloud takes too long: %w", context.Cause(ctx))
	}
	return dashboard.Of(facts), nil
}

func (g *Gatherer) pool(ctx context.Context, p *pool.Pool) dashboard.PoolFacts {
	facts := dashboard.PoolFacts{Prototypes: p.Prototypes}
	facts.Nodes, facts.Ready = p.Ready()
	finder := *g.Finder
	finder.Uncounted = nil // the versions show that their nodes are unknown
	past, err := finder.Past(ctx, p, 0)
	if err != nil {
		facts.History = history.History{Pool: finder.Cloud.PoolName(p.ID), PoolID: p.ID}
		facts.Trouble, facts.TroubleKind = "The cloud did not describe the pool: "+g.Explain(err), cloud.KindOf(err)
		return facts
	}
	facts.History, facts.Joins, facts.Capacity = past.History, past.Joins, past.Capacity
	facts.Changes = pool.Changes(past.History, p.Prototypes)
	facts.Report = report.Of(finder.FactsOf(past, p, g.Now().Add(-reportLength)))
	return facts
}
