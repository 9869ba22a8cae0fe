package sandboxtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Where Cluster API builds the nodes, tests look at its objects as whoever runs the management cluster does.

// ClusterNamespace has the Cluster, and all that is of it.
const ClusterNamespace = "clusters"

// Objects of a kind of Cluster API's, or of one of its providers', by the kind's plural.
func (s *Sandbox) Objects(plural string) dynamic.ResourceInterface {
	kind := schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: plural}
	switch {
	case strings.HasPrefix(plural, "aws"):
		kind.Group = "infrastructure.cluster.x-k8s.io"
	case strings.HasPrefix(plural, "azure"):
		kind.Group, kind.Version = "infrastructure.cluster.x-k8s.io", "v1beta1"
	}
	return dynamic.NewForConfigOrDie(s.Config()).Resource(kind).Namespace(ClusterNamespace)
}

// ObjectsOf a MachineDeployment: its Machines or its MachineSets.
func (s *Sandbox) ObjectsOf(ctx context.Context, pool, plural string) ([]unstructured.Unstructured, error) {
	list, err := s.Objects(plural).List(ctx, metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/deployment-name=" + pool})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Show the pools, their sets and Machines to whoever reads of a test that has failed.
func (s *Sandbox) Show(t testing.TB) {
	t.Helper()
	out := s.Run(t, nil, "kubectl", "get", "machinedeployments,machinepools,machinesets,machines", "-n", ClusterNamespace, "-o",
		`jsonpath={range .items[*]}{.kind} {.metadata.name} of {.spec.replicas} {.status.phase} {.status.nodeRef.name} {.metadata.deletionTimestamp} {.metadata.annotations}{"\n"}{end}`)
	t.Logf("%s%s", out.Stdout, out.Stderr)
}

// Text at a path of an object; empty if there is none.
func Text(o unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}

// NodeOf a Machine; empty before Cluster API knows it.
func NodeOf(m unstructured.Unstructured) string { return Text(m, "status", "nodeRef", "name") }

// Marks are the annotations by which a capture holds, pauses or removes an object, and none of which it may leave.
func Marks(o unstructured.Unstructured) []string {
	var marks []string
	for key := range o.GetAnnotations() {
		if strings.HasSuffix(key, "/kamino") || strings.HasPrefix(key, "kamino.dev/") || slices.Contains(marksOfOthers, key) {
			marks = append(marks, key)
		}
	}
	slices.Sort(marks)
	return marks
}

var marksOfOthers = []string{"cluster.x-k8s.io/skip-remediation", "cluster.x-k8s.io/delete-machine", "cluster.x-k8s.io/paused"}
