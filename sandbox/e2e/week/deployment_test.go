package week

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// ofClusterAPI is the ground of MachineDeployments, with Cluster API's own controllers at work. Donors do not return there: a capture
// that fails behind the order to generalize costs its donor as well, so that more nodes are fit to be one. Those controllers take their
// own time, so that there are fewer days.
func ofClusterAPI(binaries string) ground {
	d := &deployments{meant: map[string]int64{}, pausedSince: map[string]time.Time{}, versions: map[string][]region.Version{}}
	g := ground{days: 4, badDay: 3, pools: []string{"amber", "birch", "cedar"}, size: 4, turns: 3, hands: d}
	g.options = func(o *world.Options) {
		o.Cloud, o.ClusterAPI, o.KeepNodes = pool.AWS, binaries, true // Cluster API removes the Nodes of Machines, and nobody else
		for _, name := range g.pools {
			o.Pools = append(o.Pools, pool.Spec{Name: name, Nodes: g.size, Max: 10}.Complete())
			d.meant[name] = int64(g.size)
		}
	}
	// The instances are the provider's: what befalls them there, it tries again.
	g.faults = append(faultsOfAWS(),
		fault.Fault{Name: "no-room", Operation: "RunInstances", Status: http.StatusInternalServerError, Code: "InsufficientInstanceCapacity", Count: 2},
		fault.Fault{Name: "no-end", Operation: "TerminateInstances", Status: http.StatusInternalServerError, Count: 2})
	// The second is in the midst of a removal: the place is being taken, and the Machine still waits.
	g.vanishings = map[int]moment{2: {sandboxtest.Cloud, "CreateSnapshot", ""}, 4: {sandboxtest.Management, http.MethodPatch, "cluster.x-k8s.io/paused"}}
	return g
}

// deployments are MachineDeployments.
type deployments struct {
	mu sync.Mutex
	// meant is how many nodes the autoscaler wants of each pool.
	meant map[string]int64
	// pausedSince is when a pool was first seen paused, and versions are those of this morning; they are the test's own.
	pausedSince map[string]time.Time
	versions    map[string][]region.Version
}

func (d *deployments) wants(pool string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meant[pool]
}

func (d *deployments) want(pool string, nodes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.meant[pool] = nodes
}

// shrink has Cluster API choose which Machines go.
func (d *deployments) shrink(w *week) {
	w.Helper()
	for _, pool := range w.pools {
		versions, err := sandbox.Versions(w.Context(), pool)
		w.must(err)
		d.versions[pool] = versions
	}
	each(w, w.pools, func(ctx context.Context, pool string) error {
		d.want(pool, int64(w.size))
		if _, err := sandbox.Scale(ctx, pool, control.Scale{Nodes: int64(w.size)}, func(control.Event) {}); err != nil {
			return err
		}
		return d.whole(ctx, pool)
	})
}

// grow adds a place to what there is at that moment, for Kamino adds and takes some, too.
func (d *deployments) grow(ctx context.Context, pool string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		md, err := d.get(ctx, pool)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(md.Object, placesOf(md)+1, "spec", "replicas"); err != nil {
			return err
		}
		_, err = sandbox.Objects("machinedeployments").Update(ctx, md, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := d.whole(ctx, pool); err != nil {
		return err
	}
	d.want(pool, d.wants(pool)+1)
	return nil
}

// get is the MachineDeployment of a pool.
func (d *deployments) get(ctx context.Context, pool string) (*unstructured.Unstructured, error) {
	return sandbox.Objects("machinedeployments").Get(ctx, pool, metav1.GetOptions{})
}

func placesOf(md *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(md.Object, "spec", "replicas")
	return n
}

// whole returns when a pool has as many Machines as it is meant to have, each with an instance and a Node that serves.
func (d *deployments) whole(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		state, err := d.state(ctx, pool)
		if err != nil || state == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pool %s is not whole: %s: %w", pool, state, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// state says what a pool lacks; nothing if it is whole.
func (d *deployments) state(ctx context.Context, pool string) (string, error) {
	md, err := d.get(ctx, pool)
	if err != nil {
		return "", err
	}
	machines, err := sandbox.ObjectsOf(ctx, pool, "machines")
	if err != nil {
		return "", err
	}
	nodes, err := sandbox.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	serving := 0
	for _, m := range machines {
		if slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == sandboxtest.NodeOf(m) && nodestate.Ready(&n) }) {
			serving++
		}
	}
	if want := int(placesOf(md)); len(machines) != want || serving != want {
		return fmt.Sprintf("of %d Machines %d have a Node that is Ready, want %d", len(machines), serving, want), nil
	}
	return "", nil
}

// vanish has the infrastructure provider lose the instance behind the Machine, which stays, as a spot instance goes.
func (d *deployments) vanish(ctx context.Context, p *v1alpha1.Prototype) error {
	machines, err := sandbox.ObjectsOf(ctx, p.Spec.Pool, "machines")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(machines, func(m unstructured.Unstructured) bool {
		return sandboxtest.Text(m, "spec", "providerID") == p.Spec.Donor.ProviderID
	})
	if at < 0 {
		return fmt.Errorf("instance %s has no Machine", p.Spec.Donor.ProviderID)
	}
	kind, name := sandboxtest.Text(machines[at], "spec", "infrastructureRef", "kind"), sandboxtest.Text(machines[at], "spec", "infrastructureRef", "name")
	o, err := sandbox.Objects(strings.ToLower(kind)+"s").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	over, is := sandbox.Cloud().(*region.ClusterAPI)
	if !is {
		return fmt.Errorf("%T is not Cluster API's", sandbox.Cloud())
	}
	for {
		gone, err := over.Makers()[kind].Remove(ctx, capi.Machine{UID: string(o.GetUID()), Name: name})
		if err != nil || gone {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// removalTakes is longer than a removal with its place takes, a controller that dies in it included, and pauses its pool.
const removalTakes = 45 * time.Second

// sound demands that no pool is smaller than its autoscaler wants it, nor serves with fewer nodes: a donor goes behind its successor.
// None stays paused, and no mark of a capture is on what no capture holds.
func (d *deployments) sound(w *week, nodes []corev1.Node, all []v1alpha1.Prototype) {
	w.Helper()
	for _, pool := range w.pools {
		wanted := d.wants(pool)
		md, err := d.get(w.Context(), pool)
		w.must(err)
		serving := int64(0)
		for i := range nodes {
			if w.poolOf(nodes[i].Name) == pool && nodestate.Available(&nodes[i]) {
				serving++
			}
		}
		if placesOf(md) < wanted || serving < wanted {
			w.Fatalf("%s: pool %s is meant to have %d nodes, and %d serve, where %d are wanted", now().Format(time.DateTime), pool, placesOf(md), serving, wanted)
		}
		d.pauses(w, md)
		of := func(p v1alpha1.Prototype) bool { return p.Spec.Pool == pool && !ended(&p) }
		if left := d.marks(w, pool); len(left) > 0 && !slices.ContainsFunc(all, of) && !slices.ContainsFunc(w.prototypes(), of) {
			w.Fatalf("%s: no capture of %s is in flight, which has left %v", now().Format(time.DateTime), pool, left)
		}
	}
}

// pauses demands that no pool is paused for longer than a removal takes.
func (d *deployments) pauses(w *week, md *unstructured.Unstructured) {
	w.Helper()
	since, was := d.pausedSince[md.GetName()]
	switch paused := slices.Contains(sandboxtest.Marks(*md), "cluster.x-k8s.io/paused"); {
	case !paused:
		delete(d.pausedSince, md.GetName())
	case !was:
		d.pausedSince[md.GetName()] = time.Now()
	case time.Since(since) > removalTakes:
		w.Fatalf("%s: pool %s has been paused for %s", now().Format(time.DateTime), md.GetName(), time.Since(since))
	}
}

// marks of captures that are on a pool and its Machines.
func (d *deployments) marks(w *week, pool string) []string {
	w.Helper()
	md, err := d.get(w.Context(), pool)
	w.must(err)
	machines, err := sandbox.ObjectsOf(w.Context(), pool, "machines")
	w.must(err)
	var left []string
	for _, o := range append(machines, *md) {
		for _, mark := range sandboxtest.Marks(o) {
			left = append(left, o.GetName()+": "+mark)
		}
	}
	return left
}

// judge demands that the pool has the nodes that its autoscaler wants, and those that failed captures say they leave; that nothing of a
// capture is left on its objects, and none of its templates is that of a version which is gone.
func (d *deployments) judge(w *week, pool string) {
	w.Helper()
	w.must(d.whole(w.Context(), pool))
	if left := d.marks(w, pool); len(left) > 0 {
		w.Errorf("captures have left %v", left)
	}
	md, err := d.get(w.Context(), pool)
	w.must(err)
	wanted, stays := d.wants(pool), int64(0)
	for _, p := range w.prototypes() {
		if p.Spec.Pool == pool && p.Spec.Version == w.dayName(w.days) && growthStays(&p) {
			stays++
		}
	}
	if places := placesOf(md); places < wanted || places > wanted+stays {
		w.Errorf("pool %s is meant to have %d nodes, want %d and at most %d that failed captures have left", pool, places, wanted, stays)
	}
	machines, err := sandbox.ObjectsOf(w.Context(), pool, "machines")
	w.must(err)
	instances, err := sandbox.ObjectsOf(w.Context(), pool, "awsmachines")
	w.must(err)
	if len(instances) != len(machines) || len(w.machines(pool)) != len(machines) {
		w.Errorf("pool %s has %d Machines, %d infrastructure machines and %d that run", pool, len(machines), len(instances), len(w.machines(pool)))
	}
	d.judgeTemplates(w, pool)
}

// growthStays tells whether a capture that failed before its donor was taken had its pool grow.
func growthStays(p *v1alpha1.Prototype) bool {
	record, err := v1alpha1.RecordOf(p)
	return err == nil && p.Status.Phase == v1alpha1.PhaseFailed && record.Departure != nil && record.Departure.Target > 0 && !record.Departure.Removing
}

func (d *deployments) tell(w *week) { sandbox.Show(w) }

// judgeTemplates demands that each template of a capture had its version before the last promotion, which retires what has none, or
// that a MachineSet names it.
func (d *deployments) judgeTemplates(w *week, pool string) {
	w.Helper()
	now, err := poolNow(w.Context(), pool)
	w.must(err)
	versions, err := sandbox.Versions(w.Context(), pool)
	w.must(err)
	versions = append(versions, d.versions[pool]...)
	sets, err := sandbox.ObjectsOf(w.Context(), pool, "machinesets")
	w.must(err)
	templates, err := sandbox.Objects("awsmachinetemplates").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	copied := 0
	for _, o := range templates.Items {
		if o.GetAnnotations()["kamino.dev/pool"] != now.ID {
			continue
		}
		copied++
		version := o.GetAnnotations()["kamino.dev/version"]
		if !slices.ContainsFunc(versions, func(v region.Version) bool { return v.Name == version }) && !slices.ContainsFunc(sets, func(s unstructured.Unstructured) bool {
			return sandboxtest.Text(s, "spec", "template", "spec", "infrastructureRef", "name") == o.GetName()
		}) {
			w.Errorf("template %s of %s is left, whose version %s was gone this morning", o.GetName(), pool, version)
		}
	}
	if copied == 0 {
		w.Errorf("pool %s has no template of a version", pool)
	}
}
