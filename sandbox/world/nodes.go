package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/sandbox/control"
)

// nodeWatch caches all Nodes, and signals changes.
type nodeWatch struct {
	lister corelisters.NodeLister
	// since is the start of this sandbox: older conditions come from an earlier run.
	since time.Time
	bell  *broadcast
}

// watchNodes returns when the Nodes are at hand. The watch lives as long as the second context.
func watchNodes(ctx, life context.Context, client kubernetes.Interface, since time.Time) (*nodeWatch, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	watch := &nodeWatch{lister: nodes.Lister(), since: since.Truncate(time.Second), bell: newBell()}
	ring := func(any) { watch.bell.ring() }
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: ring, UpdateFunc: func(_, _ any) { watch.bell.ring() }, DeleteFunc: ring,
	}); err != nil {
		return nil, err
	}
	factory.Start(life.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return nil, errors.New("the cluster's nodes cannot be watched")
	}
	return watch, nil
}

// all Nodes.
func (n *nodeWatch) all() []*corev1.Node {
	nodes, _ := n.lister.List(labels.Everything())
	return nodes
}

// nodesOf returns the Nodes of a pool.
func (n *nodeWatch) nodesOf(own func(*corev1.Node) bool) []*corev1.Node {
	return slices.DeleteFunc(n.all(), func(node *corev1.Node) bool { return !own(node) })
}

// ready: the node is Ready, with a heartbeat since the start of this sandbox.
func (n *nodeWatch) ready(node *corev1.Node) bool {
	c := readyCondition(node)
	return c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(n.since)
}

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// lookEvery bounds how often a wait looks again.
const lookEvery = 20 * time.Millisecond

// until calls look after each change of a Node, and returns when look succeeds. If the context ends before, the error
// contains the last state.
func (n *nodeWatch) until(ctx context.Context, look func() (found bool, state string)) error {
	for {
		rung := n.bell.next()
		found, state := look()
		if found {
			return nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", state, context.Cause(ctx))
		}
		// Many Nodes change at once: one call after many changes is enough.
		time.Sleep(lookEvery)
	}
}

// awaitNodes waits for every machine that has power to have a Ready node.
func (w *World) awaitNodes(ctx context.Context) error { return w.awaitNodesOf(ctx, "", 0) }

// awaitNodesOf waits for all nodes of a pool, and for at least this number; without a pool, for the nodes of all
// pools.
func (w *World) awaitNodesOf(ctx context.Context, pool string, least int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.joinTimeout(), errPatience)
	defer cancel()
	said := 0
	w.progress("waiting for the nodes to be Ready")
	return w.nodes.until(ctx, func() (bool, string) {
		machines, err := w.Machines(ctx)
		if err != nil {
			return false, err.Error()
		}
		if pool != "" {
			machines = slices.DeleteFunc(machines, func(m control.Machine) bool { return m.Pool != pool })
		}
		ready, wanted, missing := readiness(machines)
		if ready != said && ready > 0 && (wanted < 20 || ready == wanted) {
			said = ready
			w.progress("nodes: %d of %d Ready", ready, wanted)
		}
		return ready == wanted && wanted >= least, fmt.Sprintf("%d of %d nodes are Ready, not %s (see %s)",
			ready, wanted, missing, w.directory.Path("sandbox.log"))
	})
}

// readiness counts Ready nodes and machines that should have a Ready node. missing names a machine without a Ready
// node.
func readiness(machines []control.Machine) (ready, wanted int, missing string) {
	for _, m := range machines {
		if m.Power == "off" || m.State == stateHung {
			continue
		}
		wanted++
		if m.Ready == string(corev1.ConditionTrue) {
			ready++
		} else {
			missing = m.Instance
		}
	}
	return ready, wanted, missing
}

var errPatience = errors.New("the time limit for the simulated cloud has passed")

// joinTimeout is how long machines may take to join: the limit of a slow cloud, plus reserves for a busy laptop.
func (w *World) joinTimeout() time.Duration {
	return w.clock.Real(30*time.Minute) + 3*time.Minute
}
