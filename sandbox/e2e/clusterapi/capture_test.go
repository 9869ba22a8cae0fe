package clusterapi

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// own is what of a node's disk is one node's: identity and credential.
var own = []string{"etc/machine-id", "etc/ssh/ssh_host_ed25519_key", "var/lib/kubelet/pki/kubelet-client-current.pem", "var/lib/kubelet/pki/kubelet.key", "var/lib/cloud/data/instance-id"}

func (g *ground) ownOf(m machine.Status) map[string]string {
	g.Helper()
	out := map[string]string{}
	for _, file := range own {
		content, err := os.ReadFile(filepath.Join(m.Disk, file))
		if err != nil || len(content) == 0 {
			g.Fatalf("/%s of %s: %d bytes, %v", file, m.Node, len(content), err)
		}
		out[file] = string(content)
	}
	return out
}

// TestCapture is one from the order to the recipe of before: with a trial on a Machine of its own, nodes that join by what the kubeadm
// provider makes for each, and a donor that does not return.
func TestCapture(t *testing.T) {
	g := eachGround(t, "captured")
	donor, asDonor := g.nodes[0], g.ownOf(g.nodes[0])
	g.must(sandbox.Patch(t.Context(), donor.Node, control.Patch{Reboot: true}, func(control.Event) {}))
	packages := sandbox.MachinesOf(t, g.pool)[0].Packages

	g.runs(0, []string{"builds its next nodes from version ", "does not return", "Provisioned: Passed", "Identity: Passed"},
		"capture", donor.Node, "--max-concurrent", "100", "--namespace", g.own, "--trial", string(v1alpha1.TrialApart), "--soak", "1s")
	g.whole(2)
	g.donorGone()
	g.neighbourStays()
	p := g.prototype()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || p.Spec.Settings.Generalize.Profile != v1alpha1.ProfileBootstrap {
		t.Fatalf("the Prototype is %+v", p)
	}
	for _, m := range sandbox.MachinesOf(t, g.pool) {
		if g.builtFrom(m) != "" {
			t.Errorf("node %s, which ran before the promotion, was built from %s", m.Node, m.Image)
		}
	}

	clone := g.grows()
	if g.builtFrom(clone) != p.Spec.Version || !maps.Equal(clone.Packages, packages) || clone.Boots != 1 {
		t.Errorf("node %s was built from %s, with packages %v, and booted %d times", clone.Node, clone.Image, clone.Packages, clone.Boots)
	}
	for file, content := range g.ownOf(clone) {
		if content == asDonor[file] {
			t.Errorf("node %s has its donor's /%s", clone.Node, file)
		}
	}
	g.whole(3)
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), clone.Node, metav1.GetOptions{})
	g.must(err)
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule {
			t.Errorf("the clone takes no pods: %+v", taint)
		}
	}
	if seen := sandbox.Fleet().Collisions(); len(seen) > 0 {
		t.Error(seen[0].String())
	}
	if history := sandbox.Must(t, "kamino", "history", g.pool); !strings.Contains(history, p.Spec.Version) || !strings.Contains(history, "current") {
		t.Errorf("the history does not tell of version %s:\n%s", p.Spec.Version, history)
	}

	// A copy is the next donor, the pool goes back, and gets its own template again.
	version := p.Spec.Version
	g.runs(0, []string{"builds its next nodes from version "}, append(append([]string{}, "capture", clone.Node), g.order("--version", version+"02")[2:]...)...)
	g.runs(0, []string{version + "02", version}, "rollback", g.pool, "--reason", "for the test", "--namespace", g.own)
	if back := g.grows(); g.builtFrom(back) != version {
		t.Errorf("after the way back, node %s was built from %s", back.Node, back.Image)
	}
	g.runs(0, nil, "restore", g.pool, "--yes", "--version", version, "--namespace", g.own)
	if template := sandboxtest.Text(*g.sized(), "spec", "template", "spec", "infrastructureRef", "name"); template != g.pool {
		t.Errorf("the pool names template %s, and not its own", template)
	}
	if generic := g.grows(); g.builtFrom(generic) != "" || generic.Image != donor.Image {
		t.Errorf("after the recipe was restored, node %s was built from %s", generic.Node, generic.Image)
	}
	g.whole(5)
	g.neighbourStays()
}

// TestNoCommandOutlivesAWrite is a capture of which each command dies with a write to the cloud or to the management cluster, before and
// after its effect. What comes of it is what comes of any other.
func TestNoCommandOutlivesAWrite(t *testing.T) {
	eachGround(t, "killed").diesAtEachWrite()
}

// diesAtEachWrite has the first node captured so.
func (g *ground) diesAtEachWrite() {
	g.Helper()
	t := g.T
	said := sandbox.EachDiesWithItsWrite(t, g.own, g.order()...)
	if want := "builds its next nodes from version "; !strings.Contains(said, want) {
		t.Fatalf("the last command does not say %q:\n%s", want, said)
	}
	g.whole(2)
	g.donorGone()
	g.neighbourStays()
	if versions, err := sandbox.Versions(t.Context(), g.pool); err != nil || len(versions) != 1 || !versions[0].Complete {
		t.Errorf("the pool has the versions %+v: %v", versions, err)
	}
	if clone := g.grows(); g.builtFrom(clone) != g.prototype().Spec.Version {
		t.Errorf("node %s was built from %s", clone.Node, clone.Image)
	}
}
