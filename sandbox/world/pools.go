package world

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// pools of the sandbox.
func (w *World) pools() []pool.Spec {
	w.poolsMu.Lock()
	defer w.poolsMu.Unlock()
	return slices.Clone(w.directory.Pools)
}

// makePools creates the missing pools.
func (w *World) makePools(ctx context.Context) error {
	for _, spec := range w.pools() {
		if err := w.makePool(ctx, spec); err != nil {
			return err
		}
		called := spec.In(w.directory.Cloud)
		if w.directory.ClusterAPI {
			called = string(cmp.Or(spec.Kind, pool.MachineDeployment)) + " " + spec.Name
			if spec.Kind == pool.ClusterClass {
				called = "MachineDeployment " + spec.Name + " of a ClusterClass"
			}
		}
		if w.directory.Karpenter {
			called = "EC2NodeClass and NodePool " + spec.Name
		}
		w.progress("pool %s: %s, %s at the start, profile %s", spec.Name, called, wording.Count(spec.Nodes, "node"), spec.Profile)
	}
	return nil
}

// makePool creates a pool in the cloud. An existing pool stays unchanged.
func (w *World) makePool(ctx context.Context, spec pool.Spec) error {
	customData, err := w.customData(ctx, spec)
	if err != nil {
		return fmt.Errorf("pool %s: %w", spec.Name, err)
	}
	if err := w.cloud.MakePool(ctx, spec, customData); err != nil {
		return fmt.Errorf("pool %s: %w", spec.Name, err)
	}
	return nil
}

// AddPool adds a pool to a running sandbox and returns when its nodes are Ready. The pool survives a restart.
func (w *World) AddPool(ctx context.Context, spec pool.Spec) error {
	spec, err := forSandbox(w.directory, spec.Complete())
	if err == nil {
		err = spec.Check()
	}
	if err != nil {
		return err
	}
	if _, err := w.poolNamed(spec.Name); err == nil {
		return fmt.Errorf("pool %s already exists", spec.Name)
	}
	w.poolsMu.Lock()
	w.directory.Pools = append(w.directory.Pools, spec)
	err = w.directory.Save()
	w.poolsMu.Unlock()
	if err != nil {
		return err
	}
	if err := w.makePool(ctx, spec); err != nil {
		return err
	}
	return w.awaitNodesOf(ctx, spec.Name, spec.Nodes)
}

// forSandbox completes a pool for this sandbox, and refuses pools that the sandbox cannot have.
func forSandbox(s *sandboxdir.Directory, spec pool.Spec) (pool.Spec, error) {
	if spec.Kind != "" && !s.ClusterAPI {
		return spec, fmt.Errorf("pool %s: kind=%s needs Cluster API: omit kind, or use --capi", spec.Name, spec.Kind)
	}
	if s.Karpenter {
		if spec.Profile = cmp.Or(spec.Profile, string(disk.EKS)); spec.Profile != string(disk.EKS) {
			return spec, fmt.Errorf("pool %s: profile=%s is not for Karpenter: omit the profile", spec.Name, spec.Profile)
		}
	}
	return spec.On(s.Cloud)
}

// poolNamed finds a pool by its name or by its scale set's name.
func (w *World) poolNamed(name string) (pool.Spec, error) {
	var names []string
	for _, spec := range w.pools() {
		if spec.Is(name) {
			return spec, nil
		}
		names = append(names, spec.Name)
	}
	return pool.Spec{}, fmt.Errorf("pool %s not found; pools: %s", name, strings.Join(names, ", "))
}

// Pools implements control.World.
func (w *World) Pools(ctx context.Context) ([]control.Pool, error) {
	var out []control.Pool
	for _, spec := range w.pools() {
		p, found, err := w.cloud.Pool(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", spec.Name, err)
		}
		if !found {
			continue // another call creates the pool now
		}
		for _, node := range w.nodes.nodesOf(w.cloud.Owns(spec)) {
			if w.nodes.ready(node) {
				p.Ready++
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// Scale implements control.World. It asks the cloud, as an autoscaler would, and watches the nodes.
func (w *World) Scale(ctx context.Context, name string, s control.Scale, report func(control.Event)) ([]control.Join, error) {
	spec, err := w.poolNamed(name)
	if err != nil {
		return nil, err
	}
	order := growth{world: w, spec: spec, size: s.Nodes, report: report, before: map[string]bool{}, joins: map[string]*control.Join{}}
	for _, node := range w.nodes.nodesOf(w.cloud.Owns(spec)) {
		order.before[node.Name] = true
	}
	order.began = time.Now()
	was, done, err := w.cloud.Resize(ctx, spec, s.Nodes)
	if err != nil {
		return nil, fmt.Errorf("resize pool %s: %w", spec.Name, err)
	}
	order.event(spec.Name, "size %d requested, was %d", s.Nodes, was)
	if !s.Wait {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.joinTimeout(), errPatience)
	defer cancel()
	failed, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if done != nil {
		go func() {
			// A failure of the cloud's own operation ends the wait; its success does not.
			if err := done(failed); err != nil && failed.Err() == nil {
				stop(fmt.Errorf("the cloud could not build the nodes: %w", err))
			}
		}()
	}
	err = w.nodes.until(failed, order.checkSize)
	return order.inOrder(), err
}

// growth observes a pool on the way to a size.
type growth struct {
	world  *World
	spec   pool.Spec
	size   int64
	report func(control.Event)
	began  time.Time
	before map[string]bool
	joins  map[string]*control.Join
}

func (g *growth) event(subject, format string, args ...any) {
	g.report(control.Event{Subject: subject, Text: fmt.Sprintf(format, args...), Seconds: time.Since(g.began).Seconds()})
}

// checkSize records new nodes and reports whether the pool has its size.
func (g *growth) checkSize() (bool, string) {
	nodes := g.world.nodes.nodesOf(g.world.cloud.Owns(g.spec))
	ready := 0
	for _, node := range nodes {
		if g.world.nodes.ready(node) {
			ready++
		}
		g.note(node)
	}
	state := fmt.Sprintf("pool %s has %d nodes, %d of them Ready, want %d", g.spec.Name, len(nodes), ready, g.size)
	if collisions := g.world.fleet.Collisions(); len(collisions) > 0 {
		state += "; " + collisions[len(collisions)-1].String()
	}
	// Older nodes that are not Ready do not matter here.
	joined := 0
	for _, j := range g.joins {
		if j.Ready > 0 {
			joined++
		}
	}
	return int64(len(nodes)) == g.size && joined == len(g.joins), state
}

func (g *growth) note(node *corev1.Node) {
	if g.before[node.Name] {
		return
	}
	now := time.Since(g.began).Seconds()
	join := g.joins[node.Name]
	if join == nil {
		join = &control.Join{Node: node.Name, Registered: now}
		g.joins[node.Name] = join
	}
	if join.Ready == 0 && g.world.nodes.ready(node) {
		join.Ready = now
		g.event(node.Name, "Ready")
	}
}

func (g *growth) inOrder() []control.Join {
	out := make([]control.Join, 0, len(g.joins))
	for _, j := range g.joins {
		out = append(out, *j)
	}
	slices.SortFunc(out, func(a, b control.Join) int { return strings.Compare(a.Node, b.Node) })
	return out
}
