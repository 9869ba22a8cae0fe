package week

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// clusterAPISetup has MachineDeployments, with the controllers of Cluster API. The controllers need real time, so the week has fewer days.
func clusterAPISetup() setup {
	d := &deployments{copies: copies{map[types.UID]string{}}, sizes: map[string]int64{}, versions: map[string][]region.Version{}}
	s := setup{days: 4, badDay: 3, pools: []string{"amber", "birch", "cedar"}, size: 4, turns: 2, pooler: d}
	s.options = func(o *world.Options) {
		o.Cloud, o.ClusterAPI, o.KeepNodes = pool.AWS, os.Getenv(binariesVariable), true // only Cluster API deletes the Nodes of Machines
		for _, name := range s.pools {
			o.Pools = append(o.Pools, pool.Spec{Name: name, Nodes: s.size, Max: 10}.Complete())
			d.sizes[name] = int64(s.size)
		}
	}
	// The infrastructure provider makes the instances, and tries again after a fault.
	s.faults = append(faultsOfCopies(), fault.Fault{Name: "no-end", Operation: "TerminateInstances", Status: http.StatusInternalServerError, Count: 2})
	// On the fourth day the copy is taken when its donor goes.
	s.removals = map[int]moment{2: {sandboxtest.Cloud, "CreateSnapshot", ""}, 4: {sandboxtest.Cloud, createVolume, ""}}
	return s
}

// deployments are MachineDeployments.
type deployments struct {
	copies
	mu sync.Mutex
	// sizes has the autoscaler's wanted sizes of the pools.
	sizes map[string]int64
	// versions of this morning. Only the test itself uses them.
	versions map[string][]region.Version
}

func (d *deployments) wants(pool string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sizes[pool]
}

func (d *deployments) want(pool string, nodes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sizes[pool] = nodes
}

// shrink lets Cluster API choose the Machines.
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

// grow adds one to the current size.
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

// whole waits until a pool has as many Machines as its size, each with a Ready Node.
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

// state describes missing parts of a pool, or is empty.
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

// removeDonor removes the instance like a spot interruption, and then its Machine, as a MachineHealthCheck does.
func (d *deployments) removeDonor(ctx context.Context, p *v1alpha1.Prototype) error {
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
		if err != nil {
			return err
		} else if gone {
			return sandbox.Objects("machines").Delete(ctx, machines[at].GetName(), metav1.DeleteOptions{})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// assertAlways asserts that each pool has the size that its autoscaler wants, or is growing by one, and that captures mark neither pools
// nor their Machines.
func (d *deployments) assertAlways(w *week, nodes []corev1.Node, all []v1alpha1.Prototype) {
	w.Helper()
	d.assertServing(w, nodes, all)
	for _, pool := range w.pools {
		wanted := d.wants(pool)
		md, err := d.get(w.Context(), pool)
		w.must(err)
		if places := placesOf(md); places < wanted || places > wanted+1 {
			w.Fatalf("%s: pool %s is to have %d nodes, but the autoscaler wants %d", now().Format(time.DateTime), pool, places, wanted)
		}
		if left := d.marks(w, pool); len(left) > 0 {
			w.Fatalf("%s: captures of %s have left %v", now().Format(time.DateTime), pool, left)
		}
	}
}

// marks returns marks of captures on a pool and its Machines.
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

// assertEnd asserts that the pool has the autoscaler's nodes, that the objects have no marks of captures, and that no template belongs to
// a deleted version.
func (d *deployments) assertEnd(w *week, pool string) {
	w.Helper()
	w.must(d.whole(w.Context(), pool))
	d.assertMethods(w, pool)
	if left := d.marks(w, pool); len(left) > 0 {
		w.Errorf("captures have left %v", left)
	}
	md, err := d.get(w.Context(), pool)
	w.must(err)
	if places, wanted := placesOf(md), d.wants(pool); places != wanted {
		w.Errorf("pool %s is to have %d nodes, want %d", pool, places, wanted)
	}
	machines, err := sandbox.ObjectsOf(w.Context(), pool, "machines")
	w.must(err)
	instances, err := sandbox.ObjectsOf(w.Context(), pool, "awsmachines")
	w.must(err)
	if len(instances) != len(machines) || len(w.machines(pool)) != len(machines) {
		w.Errorf("pool %s has %d Machines, %d infrastructure machines and %d that run", pool, len(machines), len(instances), len(w.machines(pool)))
	}
	d.assertTemplates(w, pool)
}

func (d *deployments) show(w *week) { sandbox.LogPools(w) }

// assertTemplates asserts that each template of a capture has a version, had a version this morning, or is used by
// a MachineSet. A promotion deletes all other templates.
func (d *deployments) assertTemplates(w *week, pool string) {
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
		if !slices.ContainsFunc(versions, func(v region.Version) bool { return v.Name == version }) &&
			!slices.ContainsFunc(sets, func(s unstructured.Unstructured) bool {
				return sandboxtest.Text(s, "spec", "template", "spec", "infrastructureRef", "name") == o.GetName()
			}) {
			w.Errorf("template %s of %s is left, whose version %s was gone this morning", o.GetName(), pool, version)
		}
	}
	if copied == 0 {
		w.Errorf("pool %s has no template of a version", pool)
	}
}
