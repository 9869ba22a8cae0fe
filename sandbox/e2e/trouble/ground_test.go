package trouble

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/untried"
)

// ground is where a test takes place: a pool, and a namespace with what Kamino needs.
type ground struct {
	*testing.T
	pool      pool.Spec
	nodes     []string
	namespace string
	// env is what its children get on top of the sandbox's environment.
	env []string
	// mark is when the ground was ready.
	mark time.Time
	// children that were started.
	children []*child
}

// newGround makes the ground of a test that runs in parallel with others.
func newGround(t *testing.T, description string) *ground {
	t.Helper()
	t.Parallel()
	g := ownGround(t, description)
	g.namespace = "kamino-" + g.pool.Name
	sandbox.Namespace(t, g.namespace)
	return g
}

// ownGround makes the ground of a test that has the sandbox to itself, in Kamino's usual namespace.
func ownGround(t *testing.T, description string) *ground {
	t.Helper()
	sandbox.Install(t)
	spec, err := pool.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{T: t, pool: spec, namespace: v1alpha1.DefaultNamespace}
	for _, m := range sandbox.Pool(t, description) {
		g.nodes = append(g.nodes, m.Node)
	}
	g.scaleSet() // the oldest request that the cloud remembers is older than the mark, until it forgets some
	g.mark = time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			g.abandon()
		}
	})
	return g
}

func (g *ground) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// start runs kamino on the ground, and does not wait.
func (g *ground) start(args ...string) *child {
	g.Helper()
	c := start(g.T, g.env, "kamino", append(args, "--namespace", g.namespace)...)
	g.children = append(g.children, c)
	return c
}

// capture runs a capture of a node, and does not wait. It waits for no other test's donor, either.
func (g *ground) capture(node string, flags ...string) *child {
	g.Helper()
	return g.start(append(untried.Capture(node, "--max-concurrent", "100"), flags...)...)
}

// today is the version of a test with several captures, which midnight must not come between.
var today = "--version=" + imageversion.Of(time.Now())

// objects is a client for Prototypes.
func (g *ground) objects() dynamic.ResourceInterface {
	g.Helper()
	c, err := dynamic.NewForConfig(sandbox.Config())
	g.must(err)
	return c.Resource(v1alpha1.GroupVersion.WithResource("prototypes"))
}

// prototypes of the ground's pool, in the order of their names.
func (g *ground) prototypes(ctx context.Context) []v1alpha1.Prototype {
	g.Helper()
	list, err := g.objects().List(ctx, metav1.ListOptions{})
	g.must(err)
	var items []v1alpha1.Prototype
	for i := range list.Items {
		p := v1alpha1.Prototype{}
		g.must(runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &p))
		if p.Spec.Pool == g.pool.ScaleSet() {
			items = append(items, p)
		}
	}
	slices.SortFunc(items, func(a, b v1alpha1.Prototype) int { return strings.Compare(a.Name, b.Name) })
	return items
}

// prototype is the only one of the pool.
func (g *ground) prototype() *v1alpha1.Prototype {
	g.Helper()
	all := g.prototypes(g.Context())
	if len(all) != 1 {
		g.Fatalf("there are %d prototypes of pool %s, want 1", len(all), g.pool.Name)
	}
	return &all[0]
}

// reaches waits until the only Prototype of the pool is as it should be.
func (g *ground) reaches(what string, is func(*v1alpha1.Prototype) bool) {
	g.Helper()
	eventually(g.T, what, func() (bool, string) {
		all := g.prototypes(g.Context())
		if len(all) != 1 {
			return false, "there is no prototype yet"
		}
		return is(&all[0]), "prototype " + all[0].Name + " is " + string(all[0].Status.Phase)
	})
}

// machine behind a node.
func (g *ground) machine(node string) machine.Status {
	g.Helper()
	for _, m := range sandbox.MachinesOf(g.T, g.pool.Name) {
		if m.Node == node {
			return m
		}
	}
	g.Fatalf("node %s has no machine", node)
	return machine.Status{}
}

// node as it is now.
func (g *ground) node(name string) *corev1.Node {
	g.Helper()
	n, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), name, metav1.GetOptions{})
	g.must(err)
	return n
}

// patchNode changes a node as a person would.
func (g *ground) patchNode(name string, change func(*corev1.Node)) {
	g.Helper()
	nodes := sandbox.Kube().CoreV1().Nodes()
	eventually(g.T, "change node "+name, func() (bool, string) {
		n := g.node(name)
		change(n)
		_, err := nodes.Update(g.Context(), n, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			g.Fatal(err)
		}
		return err == nil, "others change it all the time"
	})
}

// age lets a capture find that it has held its donor for longer than it has, so that a time limit is over
// when the test wants it to be, however slow the machine is. The reservation stands in two places; the Node's
// counts while it is there, so it is the last one to be changed.
func (g *ground) age(donor string, by time.Duration) {
	g.Helper()
	eventually(g.T, "age the record", func() (bool, string) {
		object, err := g.objects().Get(g.Context(), g.prototype().Name, metav1.GetOptions{})
		g.must(err)
		annotations := object.GetAnnotations()
		var record v1alpha1.Record
		g.must(json.Unmarshal([]byte(annotations[v1alpha1.RecordAnnotation]), &record))
		record.Reservation.ReservedAt = metav1.NewTime(record.Reservation.ReservedAt.Add(-by))
		annotations[v1alpha1.RecordAnnotation] = g.text(record)
		object.SetAnnotations(annotations)
		_, err = g.objects().Update(g.Context(), object, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			g.Fatal(err)
		}
		return err == nil, "others change it all the time"
	})
	g.patchNode(donor, func(n *corev1.Node) {
		reservation, err := v1alpha1.ReservationOf(n.Annotations)
		if err != nil || reservation == nil {
			g.Fatalf("node %s is not reserved: %v", donor, err)
		}
		reservation.ReservedAt = metav1.NewTime(reservation.ReservedAt.Add(-by))
		n.Annotations[v1alpha1.ReservationAnnotation] = g.text(reservation)
	})
}

func (g *ground) text(value any) string {
	g.Helper()
	text, err := json.Marshal(value)
	g.must(err)
	return string(text)
}

// freeLease takes the Lease from a holder that is dead, as half a minute would.
func (g *ground) freeLease() {
	g.Helper()
	err := sandbox.Kube().CoordinationV1().Leases(g.namespace).Delete(g.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		g.must(err)
	}
}

// abandon clears what a failed test leaves in the way of the others: captures that hold donors.
func (g *ground) abandon() {
	ctx := context.Background()
	_ = sandbox.Kube().CoordinationV1().Leases(g.namespace).Delete(ctx, v1alpha1.LeaseName, metav1.DeleteOptions{})
	for _, p := range g.prototypes(ctx) {
		g.Logf("prototype %s is %s, %+v", p.Name, p.Status.Phase, p.Status.Failure)
		_, _ = g.objects().Patch(ctx, p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = g.objects().Delete(ctx, p.Name, metav1.DeleteOptions{})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
