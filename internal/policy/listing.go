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
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/nodejoin"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

const (
	// mostListings is how many pools' instances are listed at most in one pass, only to count the pools' Nodes.
	mostListings = 10
	// mostNamed Nodes stand in a sentence.
	mostNamed = 3
)

// listing is a pool's instances as the cloud listed them, or why it did not.
type listing struct {
	at        time.Time
	instances []cloud.Instance
	err       error
}

// believe corrects the sums of pools whose Nodes would hold off a rollback. Any client that may write Nodes can make Nodes that are not
// Ready, so that only Nodes of instances that the cloud lists are counted, and each instance once. unlisted names the Nodes of the
// pools whose instances could not be listed.
func (d *prober) believe(ctx context.Context, census cloud.InstanceLister, sums map[cloud.PoolID]nodecache.Sum, now time.Time) (_ map[cloud.PoolID]nodecache.Sum, unlisted string) {
	if !d.anyUnwell(sums) {
		return sums, ""
	}
	believed, asked, told := maps.Clone(sums), 0, []string(nil)
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[id]
		if sum.Ready*100 >= (sum.Nodes-sum.Arriving)*joinhealth.Healthy {
			continue
		}
		list, known := d.listed[id]
		if (!known || now.Sub(list.at) >= censusPace) && asked < mostListings {
			asked++
			list, known = d.list(ctx, census, id, now), true
		}
		if !known || list.err != nil {
			told = append(told, d.unlistedOf(id, list.err))
			continue
		}
		seen := nodejoin.Observation{Now: now, Instances: list.instances, Nodes: d.Nodes.Of(id), Same: d.Cloud.SameInstance}
		if t := d.watches[id]; t != nil {
			seen.WithoutKubelet = t.without
		}
		counted := nodejoin.Count(seen)
		believed[id] = nodecache.Sum{Nodes: counted.Nodes, Ready: counted.Ready, Arriving: counted.Arriving, Youngest: sum.Youngest}
	}
	return believed, strings.Join(told, "; ")
}

// anyUnwell reports whether too few Nodes are Ready for a rollback of any watched pool, if all Nodes are believed.
func (d *prober) anyUnwell(sums map[cloud.PoolID]nodecache.Sum) bool {
	for _, t := range d.watches {
		if raw := *t; raw.version != "" {
			raw.compare(sums)
			if raw.unwell() {
				return true
			}
		}
	}
	return false
}

func (d *prober) list(ctx context.Context, census cloud.InstanceLister, id cloud.PoolID, now time.Time) listing {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	list := listing{at: now}
	list.instances, list.err = census.Instances(ctx, id)
	if d.listed == nil {
		d.listed = map[cloud.PoolID]listing{}
	}
	d.listed[id] = list
	return list
}

// unlistedOf names the pool's Nodes that are not Ready. err is why its instances are not known; nil if it was not asked for them yet.
func (d *prober) unlistedOf(id cloud.PoolID, err error) string {
	var names []string
	for _, node := range d.Nodes.Of(id) {
		if !nodestate.Ready(node) {
			names = append(names, node.Name)
		}
	}
	said := fmt.Sprintf("not Ready in pool %s are %s", d.Cloud.PoolName(id), someOf(names))
	if err == nil {
		return said
	}
	return fmt.Sprintf("%s, and whether the cloud has their instances is not known: %s", said, err)
}

// someOf are the first names, and how many more there are.
func someOf(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
}
