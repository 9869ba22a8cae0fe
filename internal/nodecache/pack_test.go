package nodecache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// anyNode draws a node of pool1. Its texts are sometimes equal, long, empty or the node's name.
func anyNode(t *rapid.T) *corev1.Node {
	name := rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "name")
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", "true", "linux", name, "2026-11-21T00:00:00Z", strings.Repeat("x", 300)}),
		rapid.String(),
	)
	texts := rapid.MapOfN(text, text, 0, 12)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: texts.Draw(t, "labels"), Annotations: texts.Draw(t, "annotations")}}
	if rapid.Bool().Draw(t, "reserved") {
		node.Annotations[v1alpha1.ReservationAnnotation] = text.Draw(t, "reservation")
	}
	node.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
	node.Status.Conditions = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeCondition {
		c := corev1.NodeCondition{
			Type:   corev1.NodeConditionType(rapid.SampledFrom([]string{"Ready", "DiskPressure", "Own"}).Draw(t, "type")),
			Status: corev1.ConditionStatus(rapid.SampledFrom([]string{"True", "False", "Unknown", ""}).Draw(t, "status")),
			Reason: text.Draw(t, "reason"), Message: "m", LastHeartbeatTime: metav1.Now(),
		}
		if rapid.Bool().Draw(t, "since") {
			c.LastTransitionTime = metav1.NewTime(time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0))
		}
		return c
	}), 0, 5).Draw(t, "conditions")
	return node
}

func TestWhatIsPackedIsAllThere(t *testing.T) {
	provider := memory.New(memory.Config{})
	rapid.Check(t, func(t *rapid.T) {
		node := anyNode(t)
		stripped, packed := node.DeepCopy(), node.DeepCopy()
		nodecache.Strip(stripped)
		nodecache.Pack(packed)
		before := packed.DeepCopy()
		nodecache.Pack(packed)
		if diff := cmp.Diff(before, packed); diff != "" {
			t.Fatalf("packed twice (-once +twice):\n%s", diff)
		}
		nodes := nodecache.NewNodes(provider)
		nodes.Set(packed)
		if err := nodes.Place(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range nodes.Pools() {
			if diff := cmp.Diff([]*corev1.Node{stripped}, nodes.Of(id), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("unpacked (-stripped +got):\n%s", diff)
			}
		}
		if len(nodes.Pools()) != 1 {
			t.Fatalf("pools = %v", nodes.Pools())
		}
		// The controller of Prototypes reads these values of a packed node.
		if got, want := packed.Annotations[v1alpha1.ReservationAnnotation], node.Annotations[v1alpha1.ReservationAnnotation]; got != want {
			t.Fatalf("reservation = %q, want %q", got, want)
		}
		if nodestate.Ready(packed) != nodestate.Ready(node) || packed.Status.NodeInfo.BootID != node.Status.NodeInfo.BootID {
			t.Fatalf("status = %+v", packed.Status)
		}
	})
}

// TestPackedNodesTellNews: any changed value that is packed is a change; a heartbeat is no change.
func TestPackedNodesTellNews(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	set := func(change func(*corev1.Node)) bool {
		node := wholeNode("n", "8")
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "DiskPressure", Status: corev1.ConditionFalse})
		change(node)
		nodecache.Pack(node)
		return nodes.Set(node)
	}
	same := func(*corev1.Node) {}
	set(same)
	for what, change := range map[string]func(*corev1.Node){
		"a label":           func(n *corev1.Node) { n.Labels["l"] = "1" },
		"a label's value":   func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" },
		"an annotation":     func(n *corev1.Node) { n.Annotations["kept"] = "no" },
		"a condition":       func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue },
		"a condition's age": func(n *corev1.Node) { n.Status.Conditions[1].LastTransitionTime = metav1.Now() },
		"a boot":            func(n *corev1.Node) { n.Status.NodeInfo.BootID = "c" },
	} {
		if !set(change) || !set(same) {
			t.Errorf("%s is no news", what)
		}
	}
	beat := func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Hour))
		}
		n.ResourceVersion, n.Status.Images = "8", nil
	}
	if set(beat) {
		t.Error("a heartbeat is news")
	}
}

// TestPackHasRoomForAnyNumberOfWords: words beyond the limit of the shared table are stored in each node.
func TestPackHasRoomForAnyNumberOfWords(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	const many = 30_000
	node := wholeNode("n", "8")
	for i := range many {
		node.Labels[fmt.Sprintf("label-%d", i)] = "v"
	}
	nodecache.Pack(node)
	nodes.Set(node)
	if err := nodes.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := nodes.Of(nodes.Pools()[0])[0].Labels
	if len(got) != many+2 || got["label-29999"] != "v" || got["label-0"] != "v" {
		t.Errorf("%d labels", len(got))
	}
}

// TestReservedNodesAreFoundPacked: all reserved nodes, complete and sorted by name, and no other nodes.
func TestReservedNodesAreFoundPacked(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	for name, reservation := range map[string]string{"b": "held", "a": "held too", "c": ""} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}, Annotations: map[string]string{"other": name}}}
		if reservation != "" {
			n.Annotations[v1alpha1.ReservationAnnotation] = reservation
		}
		n.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
		nodecache.Pack(n)
		nodes.Set(n)
	}
	if err := nodes.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, n := range nodes.Reserved() {
		found = append(found, n.Name+" "+n.Labels["of"]+" "+n.Annotations["other"]+" "+n.Annotations[v1alpha1.ReservationAnnotation])
	}
	if diff := cmp.Diff([]string{"a a a held too", "b b b held"}, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
