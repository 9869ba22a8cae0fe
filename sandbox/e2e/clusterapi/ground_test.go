// Package clusterapi tests, end to end, pools whose nodes Cluster API builds: its own controllers are at work, and the real command
// captures what they made. Of each trouble it demands what is true of the world afterwards.
package clusterapi

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/untried"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Exit codes of kamino's.
const (
	exitRefused = 3
	exitFailed  = 4
	exitDenied  = 5
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	binaries := os.Getenv("KAMINO_CLUSTERAPI_BIN")
	if binaries == "" {
		os.Exit(m.Run()) // each test says so
	}
	// Tests wait far more than they work. What is said on the command line wins.
	_ = flag.Set("test.parallel", "6")
	// The cloud's own Node lifecycle controller does not run: Cluster API removes the Nodes of Machines. The Cluster is made from a
	// ClusterClass, of which some of its pools are; in the week's it is not.
	os.Exit(sandboxtest.EachCloud(m, world.Options{ClusterAPI: binaries, ClusterClass: true, TimeScale: 200, KeepNodes: true}, &sandbox))
}

// namespace of the Cluster.
const namespace = sandboxtest.ClusterNamespace

// Kinds of pools, as their descriptions have them.
const (
	kindClassy      = "kind=" + string(pool.ClusterClass)
	kindMachinePool = "kind=" + string(pool.MachinePool)
)

// ground is a pool of two machines, and a namespace with what Kamino needs.
type ground struct {
	*testing.T
	// resource of the object that has the pool's size, and the label by which the pool's Machines name it.
	resource, label string
	pool            string
	own             string
	nodes           []machine.Status
	before          control.Pool
	env             []string
}

func newGround(t *testing.T, name string, more ...string) *ground {
	t.Helper()
	on(t, pool.AWS)
	return eachGround(t, name, more...)
}

// eachGround is that of a test that is run on every cloud.
func eachGround(t *testing.T, name string, more ...string) *ground {
	t.Helper()
	t.Parallel()
	return ownGround(t, name, more...)
}

// on leaves a test to one cloud: because all that it is about is Cluster API's own, or that cloud's.
func on(t *testing.T, cloud pool.Cloud) {
	t.Helper()
	if sandboxtest.Told() != cloud {
		t.Skipf("it is run on %s", cloud)
	}
}

// ownGround is that of a test that has the sandbox to itself.
func ownGround(t *testing.T, name string, more ...string) *ground {
	t.Helper()
	if sandbox == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN is not set: `make test-clusterapi` sets it")
	}
	sandbox.Install(t)
	g := &ground{T: t, pool: name, own: "kamino-" + name, resource: "machinedeployments", label: "cluster.x-k8s.io/deployment-name"}
	if slices.Contains(more, kindMachinePool) {
		g.resource, g.label = "machinepools", "cluster.x-k8s.io/pool-name"
	}
	sandbox.Namespace(t, g.own)
	if !slices.ContainsFunc(more, func(option string) bool { return strings.HasPrefix(option, "nodes=") }) {
		more = append(more, "nodes=2")
	}
	g.nodes = sandbox.Pool(t, strings.Join(append([]string{"name=" + name}, more...), ","))
	g.waits("Cluster API knows the pool's nodes", func() bool {
		return !slices.ContainsFunc(g.machines(), func(m unstructured.Unstructured) bool { return sandboxtest.NodeOf(m) == "" })
	})
	g.waits("and has written on each whose it is, which is another write", func() bool {
		return !slices.ContainsFunc(g.nodes, func(of machine.Status) bool {
			node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), of.Node, metav1.GetOptions{})
			g.must(err)
			return node.Annotations["cluster.x-k8s.io/cluster-name"] == ""
		})
	})
	g.before = g.look()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v", g.prototype())
			sandbox.Show(t)
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

// waits looks until something is so.
func (g *ground) waits(what string, is func() bool) {
	g.Helper()
	for last := time.Now().Add(2 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(last) {
			g.Fatalf("it is not so in time that %s", what)
		}
	}
}

// of is the objects of a kind in the Cluster's namespace.
func (g *ground) of(plural string) dynamic.ResourceInterface {
	return sandbox.Objects(plural)
}

// sized is the object that has the pool's size.
func (g *ground) sized() *unstructured.Unstructured {
	g.Helper()
	o, err := g.of(g.resource).Get(g.Context(), g.pool, metav1.GetOptions{})
	g.must(err)
	return o
}

// merge changes the object that has the pool's size.
func (g *ground) merge(change string) {
	g.Helper()
	_, err := g.of(g.resource).Patch(g.Context(), g.pool, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	g.must(err)
}

// machines of the pool.
func (g *ground) machines() []unstructured.Unstructured {
	g.Helper()
	return g.ofPool("machines")
}

// ofPool is the objects of a kind that are the pool's.
func (g *ground) ofPool(plural string) []unstructured.Unstructured {
	g.Helper()
	list, err := g.of(plural).List(g.Context(), metav1.ListOptions{LabelSelector: g.label + "=" + g.pool})
	g.must(err)
	return list.Items
}

// look is what there is of the pool.
func (g *ground) look() control.Pool {
	g.Helper()
	all, err := sandbox.Pools(g.Context())
	g.must(err)
	for _, p := range all {
		if p.Name == g.pool {
			return p
		}
	}
	g.Fatalf("there is no pool %s", g.pool)
	return control.Pool{}
}

// when has something happen once, when the ground's commands are about to ask the cloud for a change.
func (g *ground) when(write string, happens func()) {
	g.Helper()
	var once sync.Once
	g.env = sandbox.Gates(g.T, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		if to == sandboxtest.Cloud && sandboxtest.Write(r) == write {
			once.Do(happens)
		}
		return sandboxtest.Passage{}
	})
}

// order is how the first node is captured.
func (g *ground) order(flags ...string) []string {
	return append(untried.Capture(g.nodes[0].Node, "--max-concurrent", "100", "--namespace", g.own), flags...)
}

// tried is how the first node is captured with a short trial of its version.
func (g *ground) tried() []string {
	return []string{"capture", g.nodes[0].Node, "--max-concurrent", "100", "--namespace", g.own, "--trial", string(v1alpha1.TrialApart), "--soak", "1s"}
}

// thereAndBack ends the capture that is ordered, has a node of its version captured in turn, the pool go back, and its recipe restored:
// each time the next node tells. promoted and restored see what is special of such a pool behind the first promotion, and in the end.
func (g *ground) thereAndBack(order []string, promoted, restored func()) {
	g.Helper()
	generic := g.nodes[0].Image
	g.runs(0, []string{"builds its next nodes from version "}, order...)
	g.whole(2)
	g.donorGone()
	g.neighbourStays()
	version := g.prototype().Spec.Version
	clone := g.grows()
	if g.builtFrom(clone) != version {
		g.Errorf("node %s was built from %s", clone.Node, clone.Image)
	}
	g.whole(3)
	promoted()
	g.nodes[0] = clone
	g.capture(0, []string{"builds its next nodes from version "}, "--version", version+"02")
	g.whole(3)
	g.donorGone()
	g.neighbourStays()
	g.runs(0, []string{version + "02", version}, "rollback", g.pool, "--reason", "for the test", "--namespace", g.own)
	if back := g.grows(); g.builtFrom(back) != version {
		g.Errorf("after the way back, node %s was built from %s", back.Node, back.Image)
	}
	g.runs(0, nil, "restore", g.pool, "--yes", "--version", version, "--namespace", g.own)
	restored()
	if next := g.grows(); g.builtFrom(next) != "" || next.Image != generic {
		g.Errorf("after the recipe was restored, node %s was built from %s", next.Node, next.Image)
	}
	g.whole(5)
}

// capture of the first node ends with a code and has said all of the texts.
func (g *ground) capture(code int, says []string, flags ...string) {
	g.Helper()
	g.runs(code, says, g.order(flags...)...)
}

func (g *ground) runs(code int, says []string, args ...string) {
	g.Helper()
	got := sandbox.Run(g.T, g.env, "kamino", args...)
	if got.Code != code {
		g.Errorf("kamino %s ended with %d, want %d:\n%s%s", strings.Join(args, " "), got.Code, code, got.Stdout, got.Stderr)
	}
	for _, text := range says {
		if !strings.Contains(got.Stdout+got.Stderr, text) {
			g.Errorf("it does not say %q:\n%s%s", text, got.Stdout, got.Stderr)
		}
	}
}

// known demands that the pool, one of whose two nodes is patched, is told of by all that looks at pools, and what its doctor says besides.
// What the doctor says of others is theirs.
func (g *ground) known(besides string) {
	g.Helper()
	g.runs(0, []string{g.pool, "2/2", g.before.Image[strings.LastIndex(g.before.Image, ":")+1:]}, "status")
	g.runs(0, []string{"refused are NotPatched 1, ReadyTooShort 1", g.nodes[1].Node}, "plan", g.pool)
	doctor := sandbox.Run(g.T, g.env, "kamino", "doctor", g.pool)
	for _, says := range []string{" could be captured now, and its version would be tried on a node beside the pool", "joined with Cluster API", besides} {
		if !strings.Contains(doctor.Stdout, says) {
			g.Errorf("the doctor does not say %q:\n%s%s", says, doctor.Stdout, doctor.Stderr)
		}
	}
}

// prototype of the pool; nil if there is none.
func (g *ground) prototype() *v1alpha1.Prototype {
	g.Helper()
	var list v1alpha1.PrototypeList
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath("/apis/kamino.dev/v1alpha1/prototypes").DoRaw(context.WithoutCancel(g.Context()))
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	g.must(err)
	for i := range list.Items {
		if list.Items[i].Spec.Pool == g.pool {
			return &list.Items[i]
		}
	}
	return nil
}

// whole demands that so many nodes serve, each of one Machine of the pool's that nobody holds, and that nothing is left of a capture.
func (g *ground) whole(nodes int) {
	g.Helper()
	g.waits(fmt.Sprintf("pool %s has %d machines with nodes, and no other", g.pool, nodes), func() bool {
		of := g.machines()
		return len(of) == nodes && !slices.ContainsFunc(of, func(m unstructured.Unstructured) bool { return sandboxtest.NodeOf(m) == "" })
	})
	if now := g.look(); now.Capacity != int64(nodes) {
		g.Errorf("the pool is meant to have %d nodes, want %d", now.Capacity, nodes)
	}
	for _, m := range g.machines() {
		if marks := sandboxtest.Marks(m); len(marks) > 0 {
			g.Errorf("machine %s is still held: %v", m.GetName(), marks)
		}
		node, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), sandboxtest.NodeOf(m), metav1.GetOptions{})
		g.must(err)
		if !nodestate.Ready(node) || node.Spec.Unschedulable || node.Annotations[v1alpha1.ReservationAnnotation] != "" {
			g.Errorf("node %s does not serve: %+v, %v", node.Name, node.Spec, node.Annotations)
		}
	}
	if held, err := sandbox.Held(g.Context(), g.pool); err != nil || len(held) > 0 {
		g.Errorf("held are still %v: %v", held, err)
	}
	marks := sandboxtest.Marks(*g.sized())
	if g.resource == "machinepools" { // it is its own set, on which stays whose place was the last to be taken
		marks = slices.DeleteFunc(marks, func(key string) bool { return key == "kamino.dev/place-of" })
	}
	if len(marks) > 0 {
		g.Errorf("the pool is still paused, or loses a place: %v", marks)
	}
	if machines := sandbox.MachinesOf(g.T, g.pool); len(machines) != nodes {
		g.Errorf("the cloud has %d instances of the pool, want %d", len(machines), nodes)
	}
	pods, err := sandbox.Kube().CoreV1().Pods(g.own).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for _, pod := range pods.Items {
		g.Errorf("the pod %s is left, which is %s", pod.Name, pod.Status.Phase)
	}
	snapshots, err := sandbox.Snapshots(g.Context())
	g.must(err)
	for _, name := range snapshots {
		if strings.Contains(name, "sandbox."+g.pool) {
			g.Errorf("the snapshot %s is left", name)
		}
	}
}

// donorGone demands that the donor has left the pool with its Machine, its Node and its disk.
func (g *ground) donorGone() {
	g.Helper()
	if _, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), g.nodes[0].Node, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		g.Errorf("the Node of the donor is still there: %v", err)
	}
	if _, err := os.Stat(g.nodes[0].Disk); !os.IsNotExist(err) {
		g.Errorf("the disk of the donor is still there: %v", err)
	}
}

// neighbourStays demands that the second node is the one from before.
func (g *ground) neighbourStays() {
	g.Helper()
	now := sandbox.MachinesOf(g.T, g.pool)
	if !slices.ContainsFunc(now, func(m machine.Status) bool { return m.ID == g.nodes[1].ID && m.BootID == g.nodes[1].BootID }) {
		g.Errorf("node %s was touched", g.nodes[1].Node)
	}
}

// grows has the pool grow by one as an autoscaler would, and returns the new machine.
func (g *ground) grows() machine.Status {
	g.Helper()
	joins, err := sandbox.Scale(g.Context(), g.pool, control.Scale{Nodes: g.look().Capacity + 1, Wait: true}, func(control.Event) {})
	if err != nil || len(joins) != 1 {
		g.Fatalf("pool %s grew by %d nodes: %v", g.pool, len(joins), err)
	}
	for _, m := range sandbox.MachinesOf(g.T, g.pool) {
		if m.Node == joins[0].Node {
			return m
		}
	}
	g.Fatalf("node %s has no machine", joins[0].Node)
	return machine.Status{}
}

// builtFrom is the version that a machine was built from; empty if it was none.
func (g *ground) builtFrom(m machine.Status) string {
	g.Helper()
	version, err := sandbox.VersionOf(g.Context(), g.pool, m.Image)
	g.must(err)
	return version
}
