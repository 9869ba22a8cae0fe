package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
)

const (
	// maxListings limits the lists of instances in one pass that only serve to count Nodes.
	maxListings = 10
	// maxNamed limits the Nodes that a message names.
	maxNamed = 3
)

// verifySums corrects the counts of pools whose Nodes would block a rollback. Any client can create Nodes that are not Ready,
// so each instance of the cloud counts once. unlisted names Nodes of pools without a list.
func (d *joinTracker) verifySums(ctx context.Context, sums map[cloud.PoolID]nodecache.Summary,
	now time.Time) (_ map[cloud.PoolID]nodecache.Summary, unlisted string) {
	if !anyUnhealthy(d.watches, sums) {
		return sums, ""
	}
	verified, asked, lines := maps.Clone(sums), 0, []string(nil)
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[id]
		if sum.Ready*100 >= (sum.Nodes-sum.Arriving)*joinhealth.Healthy {
			continue
		}
		list := d.PoolCache.LastInstances(id)
		if !list.answers(now, pollInterval) && asked < maxListings {
			asked++
			list, list.Err = d.PoolCache.Instances(ctx, id, pollInterval)
		}
		if list.Err != nil || list.At.IsZero() {
			lines = append(lines, d.describeUnlisted(id, list.Err))
			continue
		}
		seen := nodejoin.Observation{Now: now, Instances: list.Instances, Nodes: d.Nodes.Of(id), Same: d.Cloud.SameInstance}
		if t := d.watches[id]; t != nil {
			seen.WithoutKubelet = t.without
		}
		counted := nodejoin.Count(seen)
		verified[id] = nodecache.Summary{Nodes: counted.Nodes, Ready: counted.Ready, Arriving: counted.Arriving, Youngest: sum.Youngest}
	}
	return verified, strings.Join(lines, "; ")
}

// anyUnhealthy reports whether too few Nodes are Ready for a rollback of a watched pool, if all Nodes are genuine.
func anyUnhealthy(watches map[cloud.PoolID]*watchedPool, sums map[cloud.PoolID]nodecache.Summary) bool {
	for _, t := range watches {
		if raw := *t; raw.version != "" {
			raw.compare(sums)
			if raw.unhealthy() {
				return true
			}
		}
	}
	return false
}

// describeUnlisted names the pool's Nodes that are not Ready. err is the error of the list of instances; nil if no list was
// requested yet.
func (d *joinTracker) describeUnlisted(id cloud.PoolID, err error) string {
	var names []string
	for _, node := range d.Nodes.Of(id) {
		if !nodestate.Ready(node) {
			names = append(names, node.Name)
		}
	}
	message := fmt.Sprintf("not Ready in pool %s are %s", d.Cloud.PoolName(id), someNames(names))
	if err == nil {
		return message
	}
	return fmt.Sprintf("%s, and the cloud did not list their instances: %s", message, err)
}

// someNames joins the first names, and the number of further names.
func someNames(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
