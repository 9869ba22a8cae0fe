package trouble

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
)

// capacityOf a scale set's document.
func capacityOf(scaleSet map[string]any) int {
	n, _ := at(scaleSet, "sku", "capacity").(float64)
	return int(n)
}

// instanceOf is the number of a node's instance, in its pool.
func (g *ground) instanceOf(node string) string { return path.Base(g.machine(node).ID) }

// recipes are what the cloud's machines are built by, of the pool, with what no GET shows.
func (g *ground) recipes() map[string]fleet.Spec {
	out := map[string]fleet.Spec{}
	for _, spec := range sandbox.Cloud().Specs() {
		if g.pool.Is(path.Base(spec.Pool)) {
			out[path.Base(spec.ID)] = spec
		}
	}
	return out
}

// others are the nodes of the pool that were not there when the ground was made.
func (g *ground) others() []string {
	g.Helper()
	var out []string
	for _, m := range sandbox.MachinesOf(g.T, g.pool.Name) {
		if m.Node != "" && !slices.Contains(g.nodes, m.Node) {
			out = append(out, m.Node)
		}
	}
	return out
}

// serves demands that a node is Ready, that pods may go there, and that nothing of a capture is on it.
func (g *ground) serves(name string) {
	g.Helper()
	state := ""
	if !soon(func() bool {
		n, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), name, metav1.GetOptions{})
		if err != nil {
			state = err.Error()
			return false
		}
		state = "spec " + g.text(n.Spec) + ", annotations " + g.text(n.Annotations)
		for _, key := range []string{v1alpha1.ReservationAnnotation, v1alpha1.ScaleDownDisabledAnnotation} {
			if _, found := n.Annotations[key]; found {
				return false
			}
		}
		return nodestate.Ready(n) && !n.Spec.Unschedulable
	}) {
		g.Errorf("node %s does not serve: %s", name, state)
	}
}

// left demands that a donor is gone for good, with all that it had, that the pool is meant to have as many nodes as it is
// said to, which serve, and that all nodes but the donor are as they were.
func (g *ground) left(before sight, donor, instance string, nodes int) {
	g.Helper()
	_, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), donor, metav1.GetOptions{})
	if !soon(func() bool {
		_, err = sandbox.Kube().CoreV1().Nodes().Get(g.Context(), donor, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}) {
		g.Errorf("node %s is still there: %v", donor, err)
	}
	if vm := get(g, g.scaleSetPath()+"/virtualMachines/"+instance); vm != nil {
		g.Errorf("its instance is still there: %v", at(vm, "properties", "provisioningState"))
	}
	g.nodes = slices.DeleteFunc(slices.Clone(g.nodes), func(name string) bool { return name == donor })
	before.Ready = slices.DeleteFunc(slices.Clone(before.Ready), func(name string) bool { return name == donor })
	maps.DeleteFunc(before.Nodes, func(name, _ string) bool { return name == donor })
	maps.DeleteFunc(before.Boots, func(name string, _ int) bool { return name == donor })
	maps.DeleteFunc(before.Instances, func(number string, _ any) bool { return number == instance })
	before.ScaleSet = withCapacity(before.ScaleSet, nodes)
	diff := ""
	if !soon(func() bool {
		now := g.look()
		maps.DeleteFunc(now.Instances, func(number string, _ any) bool { return before.Instances[number] == nil })
		diff = cmp.Diff(before, now)
		return diff == ""
	}) {
		g.Errorf("the rest of the pool is not as it was (-before +after):\n%s", diff)
	}
	g.settled()
	newcomers := g.others()
	if len(newcomers)+len(g.nodes) != nodes {
		g.Errorf("the pool has the new nodes %v beside %v, want %d in all", newcomers, g.nodes, nodes)
	}
	for _, name := range newcomers {
		g.serves(name)
	}
}

func withCapacity(scaleSet map[string]any, nodes int) map[string]any {
	next := maps.Clone(scaleSet)
	sku, _ := scaleSet["sku"].(map[string]any)
	sku = maps.Clone(sku)
	sku["capacity"] = float64(nodes)
	next["sku"] = sku
	return next
}

// replaced demands that a capture went well whose donor does not return: the pool builds its next nodes from the donor's
// disk, by the same bootstrap as before, and has as many nodes as it had.
func (g *ground) replaced(before sight, donor, instance string) {
	g.Helper()
	p := g.prototype()
	if p.Status.Phase != v1alpha1.PhaseSucceeded || p.Spec.Donor.NodeName != donor {
		g.Errorf("prototype %s of node %s is %s", p.Name, p.Spec.Donor.NodeName, p.Status.Phase)
	}
	if d := p.Status.Donor; d == nil || d.State != v1alpha1.DonorRemoved || d.ReleasedAt == nil {
		g.Errorf("the Prototype says of its donor %+v", d)
	}
	g.bootstraps(before, p.Spec.Version)
	size := capacityOf(before.ScaleSet)
	before.ScaleSet, before.Versions = g.scaleSet(), []string{p.Spec.Version + " Succeeded"}
	for id, vm := range before.Instances {
		before.Instances[id] = withLatest(vm, false)
	}
	g.left(before, donor, instance, size)
}

// bootstraps demands that the pool's recipe builds from the version, and that it is otherwise what it was.
func (g *ground) bootstraps(before sight, version string) {
	g.Helper()
	if image := g.image(); !strings.HasSuffix(image, "/versions/"+version) {
		g.Errorf("the recipe's image is %q", image)
	}
	for _, part := range []string{"extensionProfile", "osProfile", "networkProfile"} {
		was, is := at(before.ScaleSet, "properties", "virtualMachineProfile", part), at(g.scaleSet(), "properties", "virtualMachineProfile", part)
		if diff := cmp.Diff(was, is); diff != "" || was == nil {
			g.Errorf("the recipe's %s is not what it was (-before +after):\n%s", part, diff)
		}
	}
}

// joins has the pool grow by one, and demands that the new node is a copy that has joined by itself.
func (g *ground) joins(donorWas map[string]string) {
	g.Helper()
	known := append(g.others(), g.nodes...)
	status, _ := request(g, http.MethodPatch, g.scaleSetPath(), map[string]any{"sku": map[string]any{"name": "Standard_D2s_v5", "capacity": len(known) + 1}})
	if status != http.StatusOK && status != http.StatusAccepted {
		g.Fatalf("the pool's growth was answered with %d", status)
	}
	var fresh string
	eventually(g.T, "the pool has a node more", func() (bool, string) {
		now := slices.DeleteFunc(g.others(), func(name string) bool { return slices.Contains(known, name) })
		if len(now) != 1 {
			return false, strings.Join(now, ", ")
		}
		fresh = now[0]
		n, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), fresh, metav1.GetOptions{})
		return err == nil && nodestate.Ready(n), fmt.Sprint(fresh, " is not Ready: ", err)
	})
	m, recipes := g.machine(fresh), g.recipes()
	if !strings.HasSuffix(m.Image, "/versions/"+g.prototype().Spec.Version) {
		g.Errorf("node %s was built from %s", fresh, m.Image)
	}
	if order, err := kubeadm.Find(string(recipes[path.Base(m.ID)].CustomData)); err != nil || order.Token == "" {
		g.Errorf("nothing in the recipe of node %s has it join: %v", fresh, err)
	}
	for what, value := range donorWas {
		if value == "" || value == g.identity(fresh)[what] {
			g.Errorf("node %s has its donor's %s, %q", fresh, what, value)
		}
	}
}

// identity is what tells a node from all others, as its disk has it, the credential that it joined with included.
func (g *ground) identity(node string) map[string]string {
	g.Helper()
	out := map[string]string{}
	for _, file := range []string{
		"etc/machine-id", "etc/hostname", "etc/ssh/ssh_host_ed25519_key", "var/lib/kubelet/pki/kubelet-client-current.pem", "var/lib/cloud/data/instance-id",
	} {
		content, err := os.ReadFile(filepath.Join(g.machine(node).Disk, file))
		g.must(err)
		out[file] = strings.TrimSpace(string(content))
	}
	return out
}

// seen is what a watch of nodes knows of the moment at which a donor was taken out of service.
type seen struct {
	mu sync.Mutex
	// ready nodes of the pool, the donor not counted, when the donor was cordoned; -1 before that.
	ready int
}

func (s *seen) get() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// watch looks for the moment at which a donor takes no more pods.
func (g *ground) watch(donor string) *seen {
	g.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g.Cleanup(cancel)
	nodes, err := sandbox.Kube().CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	g.must(err)
	s, ready := &seen{ready: -1}, map[string]bool{}
	go func() {
		for event := range nodes.ResultChan() {
			n, isNode := event.Object.(*corev1.Node)
			if !isNode || !g.pool.Is(path.Base(path.Dir(path.Dir(n.Spec.ProviderID)))) {
				continue
			}
			ready[n.Name] = event.Type != watch.Deleted && nodestate.Ready(n) && n.Name != donor
			if n.Name == donor && n.Spec.Unschedulable {
				maps.DeleteFunc(ready, func(_ string, is bool) bool { return !is })
				s.mu.Lock()
				s.ready = len(ready)
				s.mu.Unlock()
				cancel()
				return
			}
		}
	}()
	return s
}

// leavingGround is one of a pool whose nodes join by themselves.
func leavingGround(t *testing.T, description string) *ground {
	t.Helper()
	return newGround(t, description+",profile=bootstrap")
}
