package nodejoin

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// aNode is a Ready node with so many pods.
func aNode(name, pods string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "gold"}}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// TestDifferences: new nodes are compared with Ready nodes of other images, and a comparison is valid for minutes.
func TestDifferences(t *testing.T) {
	few, unlabeled := aNode("few", "8"), aNode("unlabeled", "110")
	unlabeled.Labels = nil
	away := aNode("away", "8")
	away.Status.Conditions[0].Status = corev1.ConditionFalse
	kube := fake.NewClientset(aNode("a", "110"), aNode("b", "110"), aNode("same", "110"), few, unlabeled, away)
	now := noon
	p := &Peers{Kube: kube, Now: func() time.Time { return now }}
	reads := func() (n int) {
		for _, action := range kube.Actions() {
			if action.Matches("get", "nodes") {
				n++
			}
		}
		kube.ClearActions()
		return n
	}
	for _, c := range []struct {
		name                  string
		nodes, others, ignore []string
		after                 time.Duration
		want                  map[string]string
		reads                 int
	}{
		{"no others", []string{"few"}, []string{"a"}, nil, 0, nil, 0},
		{"others that are not Ready or gone", []string{"few"}, []string{"a", "away", "gone"}, nil, 0, nil, 3},
		{"nodes", []string{"same", "few", "away", "gone"}, []string{"a", "b"}, nil, 0, map[string]string{"few": "allocatable pods is 8"}, 6},
		{"from memory", []string{"same", "few"}, []string{"a", "b"}, nil, time.Minute, map[string]string{"few": "allocatable pods is 8"}, 0},
		{"another node", []string{"few", "unlabeled"}, []string{"a", "b"}, nil, 0,
			map[string]string{"few": "allocatable pods is 8", "unlabeled": "label tier is missing"}, 3},
		{"again", []string{"same", "few"}, []string{"a", "b"}, []string{"allocatable/*"}, 4 * time.Minute, nil, 4},
	} {
		now = now.Add(c.after)
		got, err := p.Differences(t.Context(), "cloud:///pools/pool1", c.nodes, c.others, c.ignore)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		for node, says := range c.want {
			if !strings.HasPrefix(got[node], says) {
				t.Errorf("%s: node %s: %q", c.name, node, got[node])
			}
		}
		if n := reads(); n != c.reads {
			t.Errorf("%s: %d Nodes were read, want %d", c.name, n, c.reads)
		}
	}
	now = now.Add(2 * time.Hour)
	if _, err := p.Differences(t.Context(), "", nil, nil, nil); err != nil || len(p.known) > 0 {
		t.Errorf("%d results are kept, %v", len(p.known), err)
	}
	kube.PrependReactor("get", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	if _, err := p.Differences(t.Context(), "", []string{"few"}, []string{"a", "b"}, nil); err == nil || !strings.Contains(err.Error(), "read node a: away") {
		t.Errorf("%v", err)
	}
}

// TestManyDifferences: a message has the first differences.
func TestManyDifferences(t *testing.T) {
	odd := aNode("odd", "8")
	odd.Labels = nil
	odd.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoSchedule}}
	p := &Peers{Kube: fake.NewClientset(aNode("a", "110"), aNode("b", "110"), odd), Now: func() time.Time { return noon }}
	got, err := p.Differences(t.Context(), "", []string{"odd"}, []string{"a", "b"}, nil)
	if err != nil || strings.Count(got["odd"], "; ") != maxDifferences || !strings.HasSuffix(got["odd"], "; and 1 more") {
		t.Errorf("%v, %v", got, err)
	}
}
