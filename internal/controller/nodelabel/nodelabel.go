// Package nodelabel writes on each Node of a pool which version it was built from (label kamino.dev/version),
// and tells whoever counts how many instances run each version and how long nodes took to join.
//
// It decides nothing about versions or nodes, and nothing else rests on the label: whoever must know asks the
// cloud. The Nodes that have no label yet are watched, by their metadata and filtered by the API server, so
// that the heartbeats of all others cost nothing. One that appears costs one list of its pool's instances,
// however many of the pool appeared with it. Once in a while all pools are listed, because an instance that was
// rebuilt keeps its Node and with it an old label.
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
)

// Pace is how long the labeler waits; a zero field stands for what it says.
type Pace struct {
	// Settle is how long it leaves a process alone that has just begun, which has more urgent things to look at:
	// 15 seconds.
	Settle time.Duration
	// Gather is how long a new node waits for others to come with it: 5 seconds.
	Gather time.Duration
	// Patience is how long a node may take to be Ready before it is labelled all the same: 10 minutes. Until
	// then it is not, so that its joining is measured once, and survives a restart of this process.
	Patience time.Duration
	// Refresh is the time between two looks at all pools: 1 hour. The first one comes after a tenth of it.
	Refresh time.Duration
	// Again is when a pool is asked again after an error, and no sooner than the cloud said, and a node looked at
	// again that has no provider ID: 1 minute. A node that its cloud does not list waits that long too, and then
	// twice as long each time, up to Refresh: one that was just made appears soon, and one whose instance is gone
	// would be asked about for ever.
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

// Labeler labels nodes. Metadata and Kube must be able to list, watch and patch Nodes.
type Labeler struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	// Cloud must be a cloud.InstanceLister too; without it Start does nothing.
	Cloud cloud.Provider
	// Now is the clock; time.Now if nil.
	Now  func() time.Time
	Pace Pace
	// Counted is told how many instances of a pool were built from each version, VersionGeneric included,
	// whenever they were listed. Nil for nobody.
	Counted func(pool cloud.PoolID, byVersion map[string]int)
	// Listed is told the pool's instances themselves at the same moment, and must not keep them. Nil for nobody.
	Listed func(pool cloud.PoolID, instances []cloud.Instance)
	// Joined is told how long a node took from its instance's creation until it was Ready, and the value of its
	// label; once for each node that joined while this runs. Nil for nobody.
	Joined func(version string, took time.Duration)
	Log    logr.Logger

	mu sync.Mutex
	// later are nodes that are of no interest before a moment, by UID; pools likewise.
	later map[types.UID]time.Time
	pools map[cloud.PoolID]time.Time
	// waits are for how long nodes that their cloud does not list were left alone last, by UID. The node's age would not do:
	// the API server's clock need not be this one.
	waits map[types.UID]time.Duration
}

// NeedLeaderElection makes a manager start this in one process only.
func (l *Labeler) NeedLeaderElection() bool { return true }

// Start labels until the context ends. What fails is logged and tried again.
func (l *Labeler) Start(ctx context.Context) error {
	census, able := cloud.As[cloud.InstanceLister](l.Cloud)
	if !able {
		l.Log.Info("this cloud cannot list a pool's instances, so that nodes are not labelled with their version")
		<-ctx.Done()
		return nil
	}
	pace := l.Pace.orDefaults()
	if !pause(ctx, pace.Settle) {
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
			if !pause(ctx, pace.Gather) {
				return nil
			}
			drain(wake)
		}
		next, err := l.round(ctx, census, pace, all)
		if err != nil && ctx.Err() == nil {
			l.Log.Error(err, "nodes are not labelled with their version", "retryAfter", pace.Again)
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

// pause tells whether the context outlived it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func drain(wake <-chan struct{}) {
	select {
	case <-wake:
	default:
	}
}

// notBefore says that a node is of no interest until then.
func (l *Labeler) notBefore(node types.UID, then time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.later == nil {
		l.later = map[types.UID]time.Time{}
	}
	l.later[node] = then
}

// unlisted says that the cloud does not list a node's instance, and tells for how long that leaves it alone.
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

// interesting tells whether a node may be looked at now.
func (l *Labeler) interesting(node types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.later[node].After(l.now())
}

// forget drops nodes that are gone, or labelled.
func (l *Labeler) forget(node types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.later, node)
	delete(l.waits, node)
}
