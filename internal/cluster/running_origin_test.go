package cluster_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/internal/cluster"
)

func machineNode(name, of string, created time.Time) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec: corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + name}}
	if of != "" {
		cluster, ofPool := strings.CutSuffix(of, " by a pool")
		n.Annotations = map[string]string{"cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": "fleet",
			"cluster.x-k8s.io/cluster-name": cluster}
		if ofPool { // of a MachinePool without Machines
			delete(n.Annotations, "cluster.x-k8s.io/machine")
			n.Annotations["cluster.x-k8s.io/owner-kind"], n.Annotations["cluster.x-k8s.io/owner-name"] = "MachinePool", "workers"
		}
	}
	return n
}

// TestAFewNodesDoNotChooseTheCluster: the kubelet of a Node can write the Machine annotations of the Node.
func TestAFewNodesDoNotChooseTheCluster(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		of    []string
		young int // the number of young nodes at the end of the list
		want  string
	}{
		"all":                           {of: []string{"prod", "prod", "prod"}, want: "prod"},
		"most":                          {of: []string{"prod", "prod", ""}, want: "prod"},
		"half":                          {of: []string{"prod", "prod", "", ""}},
		"one lies":                      {of: []string{"prod", "prod", "evil"}, want: "prod"},
		"none":                          {of: []string{"", ""}},
		"no nodes":                      {},
		"some have just joined":         {of: []string{"prod", "prod", "", "", ""}, young: 3, want: "prod"},
		"all have, and one says so":     {of: []string{"prod", "", ""}, young: 3, want: "prod"},
		"a new one lies":                {of: []string{"", "", "evil"}, young: 1},
		"new ones are of a few already": {of: []string{"", "", "prod", "prod"}, young: 2},
		"no Machines":                   {of: []string{"prod by a pool", "prod by a pool", "prod"}, want: "prod"},
		"two halves":                    {of: []string{"a", "b"}},
	} {
		kube := fake.NewClientset()
		for i, of := range c.of {
			created := now.Add(-time.Hour)
			if i >= len(c.of)-c.young {
				created = now.Add(-time.Minute)
			}
			if err := kube.Tracker().Add(machineNode(string(rune('a'+i)), of, created)); err != nil {
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
		if have := cluster.MostlyOf(seen, now); have != want {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
}
