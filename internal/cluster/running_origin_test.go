package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/internal/cluster"
)

func machineNode(name, of string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + name}}
	if of != "" {
		n.Annotations = map[string]string{"cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": "fleet", "cluster.x-k8s.io/cluster-name": of}
	}
	return n
}

// TestAFewNodesDoNotChooseTheCluster: what a Node says of its Machine its own kubelet may write.
func TestAFewNodesDoNotChooseTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		of   []string
		want string
	}{
		"all":        {[]string{"prod", "prod", "prod"}, "prod"},
		"most":       {[]string{"prod", "prod", ""}, "prod"},
		"half":       {[]string{"prod", "prod", "", ""}, ""},
		"one lies":   {[]string{"prod", "prod", "evil"}, "prod"},
		"none":       {[]string{"", ""}, ""},
		"no nodes":   {nil, ""},
		"two halves": {[]string{"a", "b"}, ""},
	} {
		kube := fake.NewClientset()
		for i, of := range c.of {
			if err := kube.Tracker().Add(machineNode(string(rune('a'+i)), of)); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := (&cluster.Connection{Kube: kube}).Origins(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		want := types.NamespacedName{}
		if c.want != "" {
			want = types.NamespacedName{Namespace: "fleet", Name: c.want}
		}
		if have := cluster.MostlyOf(seen); have != want {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
}
