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

// ClusterNamespace is the namespace of the Cluster and all its objects, if Cluster API builds the nodes.
const ClusterNamespace = "clusters"

// Objects returns a client for a kind of Cluster API or of a provider, such as "machines".
func (s *Sandbox) Objects(plural string) dynamic.ResourceInterface {
	kind := schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: plural}
	switch {
	case strings.HasPrefix(plural, "aws"):
		kind.Group = "infrastructure.cluster.x-k8s.io"
	case strings.HasPrefix(plural, "kubeadmconfig"):
		kind.Group = "bootstrap.cluster.x-k8s.io"
	case strings.HasPrefix(plural, "azure"):
		kind.Group, kind.Version = "infrastructure.cluster.x-k8s.io", "v1beta1"
	}
	return dynamic.NewForConfigOrDie(s.Config()).Resource(kind).Namespace(ClusterNamespace)
}

// ObjectsOf lists the objects of a MachineDeployment, such as "machines" or "machinesets".
func (s *Sandbox) ObjectsOf(ctx context.Context, pool, plural string) ([]unstructured.Unstructured, error) {
	list, err := s.Objects(plural).List(ctx, metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/deployment-name=" + pool})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// LogPools logs the pools with their MachineSets and Machines, for a failed test.
func (s *Sandbox) LogPools(t testing.TB) {
	t.Helper()
	out := s.Run(t, nil, "kubectl", "get", "machinedeployments,machinepools,machinesets,machines", "-n", ClusterNamespace, "-o",
		`jsonpath={range .items[*]}{.kind} {.metadata.name} of {.spec.replicas} {.status.phase} {.status.nodeRef.name} `+
			`{.metadata.deletionTimestamp} {.metadata.annotations}{"\n"}{end}`)
	t.Logf("%s%s", out.Stdout, out.Stderr)
}

// Text is the text at a path of an object; empty if there is none.
func Text(o unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}

// NodeOf is the name of a Machine's Node; empty before Cluster API knows the Node.
func NodeOf(m unstructured.Unstructured) string { return Text(m, "status", "nodeRef", "name") }

// Marks returns the annotations of captures on an object. An ended capture leaves none.
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
