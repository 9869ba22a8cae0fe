package trouble

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// sight is what a capture could change in a pool, all of it.
type sight struct {
	// Nodes: annotations, labels and spec of each.
	Nodes map[string]string
	// Ready nodes.
	Ready []string
	// Boots of each machine.
	Boots map[string]int
	// ScaleSet and Instances are their documents in the cloud.
	ScaleSet  map[string]any
	Instances map[string]any
	// Snapshots and Versions by name and state.
	Snapshots, Versions []string
	// Pods of Kamino's.
	Pods []string
}

func (g *ground) look() sight {
	g.Helper()
	s := sight{
		Nodes: map[string]string{}, Boots: map[string]int{}, Instances: map[string]any{},
		ScaleSet: g.scaleSet(), Snapshots: g.snapshots(), Versions: g.versions(),
	}
	for _, name := range g.nodes {
		n := g.node(name)
		s.Nodes[name] = describe(g, n)
		if nodestate.Ready(n) {
			s.Ready = append(s.Ready, name)
		}
		s.Boots[name] = g.machine(name).Boots
	}
	for _, vm := range values(g, g.scaleSetPath()+"/virtualMachines") {
		id, _ := vm["instanceId"].(string)
		s.Instances[id] = asMeant(vm)
	}
	pods, err := sandbox.Kube().CoreV1().Pods(g.namespace).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for _, pod := range pods.Items {
		s.Pods = append(s.Pods, pod.Name)
	}
	return s
}

// asMeant leaves out of an instance's document what two equal ones can differ in: a count of changes, also
// of those that were taken back, and a protection that is off or was never spoken of.
func asMeant(vm map[string]any) map[string]any {
	delete(vm, "etag")
	if properties, _ := vm["properties"].(map[string]any); properties != nil && at(properties, "protectionPolicy", "protectFromScaleIn") == false {
		delete(properties, "protectionPolicy")
	}
	return vm
}

// describe tells what of a node is not its kubelet's report. The cluster sets taints by itself while a node
// is away, some old labels a while after it has joined, and an annotation that goes by the number of nodes.
// Kamino's controller labels every node with what it was built from, whatever else it does.
func describe(g *ground, n *corev1.Node) string {
	g.Helper()
	spec := n.Spec.DeepCopy()
	spec.Taints = slices.DeleteFunc(spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	if len(spec.Taints) == 0 {
		spec.Taints = nil
	}
	labels := maps.Clone(n.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return strings.HasPrefix(key, "beta.kubernetes.io/") || key == v1alpha1.VersionLabel
	})
	annotations := maps.Clone(n.Annotations)
	delete(annotations, "node.alpha.kubernetes.io/ttl")
	raw, err := json.Marshal([]any{annotations, labels, spec})
	g.must(err)
	return string(raw)
}

func (g *ground) scaleSet() map[string]any {
	g.Helper()
	document := get(g, g.scaleSetPath())
	delete(document, "etag")
	if properties, ok := document["properties"].(map[string]any); ok {
		delete(properties, "provisioningState") // a new scale set is still said to be made for a moment
	}
	return document
}

func (g *ground) snapshots() []string {
	g.Helper()
	var out []string
	for _, s := range values(g, compute("snapshots")) {
		if name, _ := s["name"].(string); strings.Contains(name, g.pool.ScaleSet()) {
			out = append(out, name)
		}
	}
	return out
}

// versions of the pool's images, as "2026.11.21 Succeeded".
func (g *ground) versions() []string {
	g.Helper()
	var out []string
	for _, v := range values(g, g.versionsPath()) {
		name, _ := v["name"].(string)
		state, _ := at(v, "properties", "provisioningState").(string)
		out = append(out, name+" "+state)
	}
	return out
}

// image that the pool's next node is built from.
func (g *ground) image() string {
	g.Helper()
	id, _ := at(get(g, g.scaleSetPath()), "properties", "virtualMachineProfile", "storageProfile", "imageReference", "id").(string)
	return id
}

// untouched demands that nothing was changed: nothing in the pool, no request for a change, no Prototype.
func (g *ground) untouched(before sight) {
	g.Helper()
	if diff := cmp.Diff(before, g.look()); diff != "" {
		g.Errorf("something was changed (-before +after):\n%s", diff)
	}
	if writes := g.writes(); len(writes) > 0 {
		g.Errorf("the cloud was asked to change something: %s", strings.Join(writes, ", "))
	}
	if all := g.prototypes(g.Context()); len(all) > 0 {
		g.Errorf("there is a prototype %s, %s", all[0].Name, all[0].Status.Phase)
	}
}

// givenBack demands that the pool is as it was but for the boots of its donor, that nothing is left behind,
// and that the Prototypes that there are have ended. What the cluster does by itself is waited for.
func (g *ground) givenBack(before sight, donor string, boots int) {
	g.Helper()
	before.Boots[donor] += boots
	diff := ""
	if !soon(func() bool { diff = cmp.Diff(before, g.look()); return diff == "" }) {
		g.Errorf("the pool is not as it was (-before +after):\n%s", diff)
	}
	g.settled()
}

// settled demands that every Prototype has ended and holds nothing.
func (g *ground) settled() {
	g.Helper()
	for _, p := range g.prototypes(g.Context()) {
		if !ended(&p) {
			g.Errorf("prototype %s is %s, with the annotations %v and the finalizers %v", p.Name, p.Status.Phase, p.Annotations, p.Finalizers)
		}
	}
}

// ended tells whether a capture has, well or not, and nothing of it is left to do.
func ended(p *v1alpha1.Prototype) bool {
	record, err := v1alpha1.RecordOf(p)
	terminal := p.Status.Phase == v1alpha1.PhaseFailed || p.Status.Phase == v1alpha1.PhaseSucceeded
	return err == nil && terminal && record.Reservation == nil && len(p.Finalizers) == 0
}

// failed demands that the pool's only Prototype has failed for the reason.
func (g *ground) failed(reason string) {
	g.Helper()
	if f := g.prototype().Status.Failure; f == nil || f.Reason != reason {
		g.Errorf("the failure is %+v, want %s", f, reason)
	}
}

// recorded demands events of the pool's only Prototype, which are there when its command has ended.
func (g *ground) recorded(reasons ...string) {
	g.Helper()
	name := g.prototype().Name
	list, err := sandbox.Kube().EventsV1().Events(metav1.NamespaceDefault).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	var have []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "Prototype" && e.Regarding.Name == name {
			have = append(have, e.Reason)
		}
	}
	slices.Sort(have)
	slices.Sort(reasons)
	if diff := cmp.Diff(reasons, have); diff != "" {
		g.Errorf("events of prototype %s (-want +got):\n%s", name, diff)
	}
}

// captured demands that the pool's next nodes are copies of the donor, which is back as it was after one
// boot, and that nothing but the version is left.
func (g *ground) captured(before sight, donor string) {
	g.Helper()
	p := g.prototype()
	if p.Status.Phase != v1alpha1.PhaseSucceeded || p.Spec.Donor.NodeName != donor {
		g.Errorf("prototype %s of node %s is %s", p.Name, p.Spec.Donor.NodeName, p.Status.Phase)
	}
	if image := g.image(); !strings.HasSuffix(image, "/versions/"+p.Spec.Version) {
		g.Errorf("the recipe's image is %q", image)
	}
	before.ScaleSet, before.Versions = g.scaleSet(), []string{p.Spec.Version + " Succeeded"}
	// An instance tells whether it is of its scale set's latest model, which now none is.
	for id, vm := range before.Instances {
		before.Instances[id] = withLatest(vm, false)
	}
	g.givenBack(before, donor, 1)
	if asked := count(g.writes(), "snapshot put"); asked != 1 {
		g.Errorf("%d snapshots were asked for: %v", asked, g.writes())
	}
}

// withLatest is an instance's document with another word on whether it is of the latest model.
func withLatest(document any, latest bool) any {
	vm, _ := document.(map[string]any)
	if properties, _ := vm["properties"].(map[string]any); properties != nil {
		properties["latestModelApplied"] = latest
	}
	return vm
}
