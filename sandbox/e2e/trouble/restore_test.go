package trouble

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// TestWhatAPoolLostComesBack: a pool's first capture is given a copy of its customData, which no cloud gives out. With it
// the restoration brings the scale set back to what it was, and the next node is built from the same bytes as the first,
// although the copy's own Secret went with the Prototype and the command was killed twice on its way.
func TestWhatAPoolLostComesBack(t *testing.T) {
	g := newGround(t, "name=restore,nodes=2")
	set, was, born := g.pool.ScaleSet(), g.recipe(), g.spec(g.nodes[0])
	file := filepath.Join(t.TempDir(), "cloud-init.yaml")
	writeFile(t, file, string(born.CustomData))

	dry := g.capture(g.nodes[0], "--custom-data", file, "--dry-run")
	dry.ends(t, 0)
	if !dry.told("the copy of customData that was given (" + cloud.Digest(born.CustomData) + ")") {
		t.Errorf("the dry run does not tell of the copy")
	}
	if g.secrets("-custom-data-") != nil {
		t.Error("the dry run made a Secret")
	}
	g.capture(g.nodes[0], "--custom-data", file).ends(t, 0)
	p := g.prototype()
	copied := g.secret(p.Spec.Settings.Recipe.CustomDataFrom.Name)
	if owners := copied.OwnerReferences; len(owners) != 1 || owners[0].UID != p.UID || !slices.Equal(copied.Data["customData"], born.CustomData) {
		t.Errorf("the copy is owned by %v, and is it the file's? %t", owners, slices.Equal(copied.Data["customData"], born.CustomData))
	}
	g.must(g.objects().Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	eventually(t, "the copy goes with its Prototype", func() (bool, string) {
		left := g.secrets("-custom-data-")
		return left == nil, fmt.Sprint(left)
	})
	if child := g.grown(3); strings.Contains(string(child.CustomData), "provision.sh") || slices.ContainsFunc(child.Extensions, named("vmssCSE")) {
		t.Fatalf("a node of the version still bootstraps: %q, %v", child.CustomData, child.Extensions)
	}

	// What nobody saved is asked for; customData is not.
	lacking := g.start("restore", set, "--yes")
	lacking.ends(t, 3, "PartMissing: the cloud never gave out all of extension vmssCSE", "--protected-settings-from vmssCSE=SECRET[/KEY]")
	if strings.Contains(lacking.stderr.String(), "--custom-data-from") {
		t.Error("customData is asked for, though a copy was kept")
	}
	_, err := sandbox.Kube().CoreV1().Secrets(g.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cse"}, StringData: map[string]string{"protectedSettings": `{"commandToExecute": "/bin/bash /opt/azure/containers/provision.sh"}`},
	}, metav1.CreateOptions{})
	g.must(err)

	// Killed as its write arrives, which is lost, and as the write has had its effect.
	gate, lost := g.cloudGate(), g.recipe()
	restore := func() *child { return g.start("restore", set, "--yes", "--protected-settings-from", "vmssCSE=cse") }
	killed := func(order func(method, path string, then func())) {
		started := make(chan *child, 1)
		order(http.MethodPatch, "/virtualMachineScaleSets/", func() { (<-started).kill() })
		c := restore()
		started <- c
		<-c.exited
	}
	killed(gate.instead)
	if diff := cmp.Diff(lost, g.recipe()); diff != "" {
		t.Errorf("a write that never came changed the scale set (-before +after):\n%s", diff)
	}
	killed(gate.after)
	again := restore()
	again.ends(t, 0)
	if diff := cmp.Diff(was, g.recipe()); diff != "" {
		t.Errorf("the scale set is not what it was (-was +is):\n%s", diff)
	}
	last := restore()
	last.ends(t, 0)
	if !last.told("has all of Secret") {
		t.Errorf("once more it says:\n%s", &last.stdout)
	}

	child := g.grown(4)
	for _, s := range []*fleet.Spec{&born, &child} {
		slices.SortFunc(s.Extensions, func(a, b fleet.Extension) int { return strings.Compare(a.Name, b.Name) })
	}
	if diff := cmp.Diff(born.Extensions, child.Extensions); diff != "" || !slices.Equal(born.CustomData, child.CustomData) || born.Image != child.Image {
		t.Errorf("a new node is built from image %s with customData %q, the first was from %s with %q; extensions (-first +new):\n%s",
			child.Image, child.CustomData, born.Image, born.CustomData, diff)
	}
}

func named(name string) func(fleet.Extension) bool {
	return func(e fleet.Extension) bool { return e.Name == name }
}

// recipe is the scale set's document without its size, in an order that does not matter. An empty tag is as good as none.
func (g *ground) recipe() map[string]any {
	g.Helper()
	document := g.scaleSet()
	delete(document, "sku")
	if tags, _ := document["tags"].(map[string]any); tags["kamino-bootstrap-removed"] == "" {
		delete(tags, "kamino-bootstrap-removed")
	}
	extensions, _ := at(document, "properties", "virtualMachineProfile", "extensionProfile", "extensions").([]any)
	slices.SortFunc(extensions, func(a, b any) int {
		return strings.Compare(fmt.Sprint(at(a.(map[string]any), "name")), fmt.Sprint(at(b.(map[string]any), "name")))
	})
	return document
}

// spec is what the cloud built a node's machine from, which it tells nobody.
func (g *ground) spec(node string) fleet.Spec {
	g.Helper()
	for _, s := range sandbox.Cloud().Specs() {
		if s.ComputerName == node {
			return s
		}
	}
	g.Fatalf("node %s has no machine", node)
	return fleet.Spec{}
}

// grown makes the pool larger by a node, and tells what that was built from.
func (g *ground) grown(to int) fleet.Spec {
	g.Helper()
	known := sandbox.Cloud().Specs()
	sandbox.Must(g.T, "kamino-sandbox", "scale", g.pool.Name, fmt.Sprint(to), "--wait")
	for _, s := range sandbox.Cloud().Specs() {
		if strings.EqualFold(s.Pool, g.pool.ScaleSet()) && !slices.ContainsFunc(known, func(k fleet.Spec) bool { return k.ID == s.ID }) {
			return s
		}
	}
	g.Fatalf("the pool has no new node at size %d", to)
	return fleet.Spec{}
}

func (g *ground) secret(name string) *corev1.Secret {
	g.Helper()
	secret, err := sandbox.Kube().CoreV1().Secrets(g.namespace).Get(g.Context(), name, metav1.GetOptions{})
	g.must(err)
	return secret
}

// secrets of the ground's namespace whose names have a part.
func (g *ground) secrets(part string) (names []string) {
	g.Helper()
	list, err := sandbox.Kube().CoreV1().Secrets(g.namespace).List(g.Context(), metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	g.must(err)
	for _, s := range list.Items {
		if strings.Contains(s.Name, part) {
			names = append(names, s.Name)
		}
	}
	return names
}
