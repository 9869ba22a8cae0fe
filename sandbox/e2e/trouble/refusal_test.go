package trouble

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/nodestate"
)

// refuses demands that a capture of a node is refused with the sentences, and that nothing is changed; with
// a dry run, and without.
func (g *ground) refuses(node string, code int, says ...string) {
	g.Helper()
	before := g.look()
	g.capture(node, "--dry-run").ends(g.T, code, says...)
	g.capture(node).ends(g.T, code, append(says, "nothing was changed")...)
	g.untouched(before)
}

func TestUnknownNode(t *testing.T) {
	g := newGround(t, "name=unknown,nodes=2")
	g.refuses("k8s-unknown-nobody", 3, "there is no node k8s-unknown-nobody", "`kubectl get nodes`")
}

func TestNodeThatIsNotReady(t *testing.T) {
	g := newGround(t, "name=notready,nodes=3")
	node := g.nodes[1]
	g.must(sandbox.Hang(t.Context(), node))
	eventually(t, "the node is not Ready", func() (bool, string) { return !nodestate.Ready(g.node(node)), "it is Ready" })
	g.refuses(node, 3, "node "+node+" is not Ready", "choose another, or mend it")
}

func TestWindowsNode(t *testing.T) {
	g := newGround(t, "name=win,nodes=2,windows")
	g.refuses(g.nodes[0], 3, g.pool.ScaleSet()+" runs Windows", "only Linux nodes can be captured")
}

func TestNodeThatSaysItRunsWindows(t *testing.T) {
	g := newGround(t, "name=winlabel,nodes=2")
	g.patchNode(g.nodes[0], func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" })
	g.refuses(g.nodes[0], 3, "node "+g.nodes[0]+" runs windows", "choose a node of a Linux pool")
}

func TestControlPlaneNode(t *testing.T) {
	g := newGround(t, "name=master,nodes=2")
	g.patchNode(g.nodes[0], func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" })
	g.refuses(g.nodes[0], 3, "node "+g.nodes[0]+" is of the control plane", "choose a worker node")
}

func TestNodeOfNoScaleSet(t *testing.T) {
	g := newGround(t, "name=stranger,nodes=2")
	subscription := "azure:///subscriptions/" + sandbox.Facts().SubscriptionID
	for name, c := range map[string]struct{ id, sentence string }{
		"stranger-none":   {"", "has no spec.providerID"},
		"stranger-lone":   {subscription + "/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/lone", "scale set"},
		"stranger-aws":    {"aws:///eu-central-1a/i-0123456789abcdef0", "not the provider ID of an Azure VM"},
		"stranger-broken": {"azure://nonsense", "see spec.providerID of the node"},
	} {
		_, err := sandbox.Kube().CoreV1().Nodes().Create(t.Context(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: c.id}}, metav1.CreateOptions{})
		g.must(err)
		g.refuses(name, 3, "node "+name, c.sentence)
	}
}

func TestNodeWhoseInstanceIsGone(t *testing.T) {
	g := newGround(t, "name=ghost,nodes=2")
	ghost := g.node(g.nodes[0]).DeepCopy()
	ghost.ObjectMeta = metav1.ObjectMeta{Name: "ghost", Labels: maps.Clone(ghost.Labels)}
	ghost.Spec.ProviderID = ghost.Spec.ProviderID + "77"
	nodes := sandbox.Kube().CoreV1().Nodes()
	_, err := nodes.Create(t.Context(), ghost, metav1.CreateOptions{})
	g.must(err)
	eventually(t, "the node is Ready", func() (bool, string) {
		now := g.node("ghost")
		now.Status = ghost.Status
		_, err := nodes.UpdateStatus(t.Context(), now, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	g.refuses("ghost", 3, "the cloud does not know the instance of node ghost")
}

func TestPoolsOfTheWrongKind(t *testing.T) {
	for name, c := range map[string]struct{ pool, sentence, remedy string }{
		"ephemeral OS disks":          {"name=ephemeral,nodes=2,ephemeral", "has an ephemeral OS disk", "capture"},
		"automatic upgrades":          {"name=automatic,nodes=2,upgrade-policy=Automatic", "is Automatic", "Manual"},
		"rolling upgrades":            {"name=rolling,nodes=2,upgrade-policy=Rolling", "is Rolling", "Manual"},
		"automatic OS image upgrades": {"name=osupgrade,nodes=2,os-upgrade", "automatic OS image upgrades", "set enableAutomaticOSUpgrade to false"},
		"AKS":                         {"name=aks,nodes=2,aks", "belongs to AKS", "AKS"},
		"confidential VMs":            {"name=secret,nodes=2,security=ConfidentialVM", "confidential VMs", "captured"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t, c.pool)
			g.refuses(g.nodes[0], 3, g.pool.ScaleSet(), c.sentence, c.remedy)
		})
	}
}

func TestOnlyReadyNodeOfItsPool(t *testing.T) {
	g := newGround(t, "name=alone,nodes=2")
	// The other one takes no pods.
	g.patchNode(g.nodes[1], func(n *corev1.Node) { n.Spec.Unschedulable = true })
	g.refuses(g.nodes[0], 3, "node "+g.nodes[0]+" is the only one of pool "+g.pool.ScaleSet(), "grow the pool by one first")
}

func TestPoolCapturedTodayAlready(t *testing.T) {
	g := newGround(t, "name=today,nodes=2")
	before := g.look()
	g.capture(g.nodes[0], today).ends(t, 0)
	g.captured(before, g.nodes[0])
	g.recorded("NoWayBack", "Reserved", "Generalized", "Released", "Promoting", "Promoted")

	now, asked := g.look(), len(g.writes())
	for _, node := range g.nodes {
		second := g.capture(node, today)
		second.ends(t, 3, "pool "+g.pool.ScaleSet()+" was captured as version ", "Prototype "+g.prototype().Name, "nothing was changed")
	}
	g.givenBack(now, g.nodes[0], 0)
	if again := len(g.writes()); again != asked {
		t.Errorf("the cloud was asked to change something: %v", g.writes()[asked:])
	}
}

func TestAnotherCaptureOfThePoolInFlight(t *testing.T) {
	g := newGround(t, "name=inflight,nodes=3")
	before := g.look()
	publishing := g.hold(g.cloudGate(), http.MethodPut, "/versions/")
	first := g.capture(g.nodes[0])
	publishing.await(g)

	now, asked := g.look(), len(g.writes())
	g.capture(g.nodes[1]).ends(t, 3, "another capture of pool "+g.pool.ScaleSet()+" is in flight",
		"Prototype "+g.prototype().Name+" captures node "+g.nodes[0], "nothing was changed", "kamino cancel "+g.prototype().Name)
	if again := g.look(); !slices.Equal(again.Ready, now.Ready) || again.Nodes[g.nodes[1]] != now.Nodes[g.nodes[1]] || len(g.writes()) != asked {
		t.Errorf("something was changed: %+v, %v", again, g.writes()[asked:])
	}
	publishing.letGo()
	first.ends(t, 0)
	g.captured(before, g.nodes[0])
}
