// Package nodelabel writes the version of a Node's image on each Node of a pool (label kamino.dev/version). The package
// also reports the time that nodes take to join.
//
// Package nodelabel decides nothing, and no decision depends on the label: Kamino asks the cloud. The package watches the
// metadata of Nodes without the label, filtered by the API server, so heartbeats of other Nodes cost nothing. New Nodes of
// a pool cost at most one list of the pool's instances. The package lists all pools once per Refresh, because a rebuilt
// instance keeps its Node with the old label.
package nodelabel

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/process"
)

// Pace holds the intervals of the labeler; a zero field means the default.
type Pace struct {
	// Settle is the pause after the start of the process, for more urgent work. Default: 15 seconds.
	Settle time.Duration
	// Gather is the time that a new node waits for further new nodes. Default: 5 seconds.
	Gather time.Duration
	// Patience is the longest time until a node without Ready gets its label. Default: 10 minutes. A Ready node gets the
	// label at once, so that Kamino measures the join once, also after a restart.
	Patience time.Duration
	// Refresh is the time between two lists of all pools. Default: 1 hour. The first list comes after a tenth of Refresh.
	Refresh time.Duration
	// Again is the pause after an error, or longer if the cloud asks for more, and for a node without a provider ID (default: 1
	// minute). The pause for a node without an instance doubles up to Refresh.
	Again time.Duration
}

func (p Pace) orDefaults() Pace {
	for _, d := range []struct {
		field    *time.Duration
		standard time.Duration
	}{{&p.Settle, 15 * time.Second}, {&p.Gather, 5 * time.Second}, {&p.Patience, 10 * time.Minute}, {&p.Refresh, time.Hour}, {&p.Again, time.Minute}} {
		if *d.field == 0 {
			*d.field = d.standard
		}
	}
	return p
}

// Cloud has the calls of a cloud.Provider about the pools of nodes.
type Cloud interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
}

// Labeler labels nodes. Metadata and Kube need the permissions to list, watch and patch Nodes.
type Labeler struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Cloud    Cloud
	// Now is the clock; nil means time.Now.
	Now  func() time.Time
	Pace Pace
	// Instances returns a pool's instances, from a list that is younger than maxAge.
	Instances func(ctx context.Context, pool cloud.PoolID, maxAge time.Duration) ([]cloud.Instance, error)
	// Joined receives the time from the instance's creation until the node was Ready, and the label's value. The
	// labeler calls Joined once for each node that joins. Optional.
	Joined func(version string, took time.Duration)
	Log    logr.Logger

	mu sync.Mutex
	// later holds the times before which a node, by UID, or a pool needs no look.
	later map[types.UID]time.Time
	pools map[cloud.PoolID]time.Time
	// waits holds the last pause for nodes without an instance, by UID. The age of a Node does not serve: the clock of the
	// API server may differ.
	waits map[types.UID]time.Duration
}

// NeedLeaderElection lets a manager start the labeler in one process only.
func (l *Labeler) NeedLeaderElection() bool { return true }

// Start labels nodes until the context ends. Start logs errors and tries again.
func (l *Labeler) Start(ctx context.Context) error {
	pace := l.Pace.orDefaults()
	if process.Wait(ctx, pace.Settle) != nil {
		return nil
	}
	wake := make(chan struct{}, 1)
	if err := l.watch(ctx, wake); err != nil {
		return err
	}
	refresh := time.NewTimer(pace.Refresh / 10)
	defer refresh.Stop()
	due := time.NewTimer(pace.Refresh)
	defer due.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C:
			all = true
			refresh.Reset(pace.Refresh)
		case <-due.C:
		case <-wake:
			if process.Wait(ctx, pace.Gather) != nil {
				return nil
			}
			drain(wake)
		}
		next, err := l.round(ctx, pace, all)
		if err != nil && ctx.Err() == nil {
			l.Log.Error(err, "nodes got no version label", "retryAfter", pace.Again)
		}
		due.Reset(next)
	}
}

func (l *Labeler) now() time.Time {
	if l.Now == nil {
		return time.Now()
	}
	return l.Now()
}

func drain(wake <-chan struct{}) {
	select {
	case <-wake:
	default:
	}
}

// notBefore records that a node needs no look until then.
func (l *Labeler) notBefore(node types.UID, then time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.later == nil {
		l.later = map[types.UID]time.Time{}
	}
	l.later[node] = then
}

// unlisted records that the cloud does not list a node's instance, and returns the pause for the node.
func (l *Labeler) unlisted(node types.UID, pace Pace) (wait time.Duration) {
	l.mu.Lock()
	wait = min(max(2*l.waits[node], pace.Again), pace.Refresh)
	if l.waits == nil {
		l.waits = map[types.UID]time.Duration{}
	}
	l.waits[node] = wait
	l.mu.Unlock()
	l.notBefore(node, l.now().Add(wait))
	return wait
}

// interesting reports whether a node needs a look now.
func (l *Labeler) interesting(node types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.later[node].After(l.now())
}

// forget drops nodes that are gone or have their label.
func (l *Labeler) forget(node types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.later, node)
	delete(l.waits, node)
}
