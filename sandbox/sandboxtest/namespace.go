package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var installing sync.Mutex

// Install creates Kamino's objects in the cluster from the manifests, unless they exist.
func (s *Sandbox) Install(t testing.TB) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if s.installed.Load() {
		return
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(s.manifests(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "kubectl", "apply", "--server-side", "-f", file)
	s.Must(t, "kubectl", "wait", "--for=condition=Established", "crd/prototypes.kamino.dev", "crd/nodeorders.kamino.dev", "crd/prototypepolicies.kamino.dev")
	if s.keepMachines {
		s.apply(t, s.Must(t, "kamino", "manifests", "--cloud", string(s.Facts().Cloud), "--management", ClusterNamespace))
	}
	s.installed.Store(true)
}

// manifests returns the manifests of Kamino. Where no controller deletes the Nodes of deleted instances, Kamino may; with Karpenter, it has the
// rights on Karpenter's objects.
func (s *Sandbox) manifests(t testing.TB, flags ...string) string {
	t.Helper()
	if s.keepNodes {
		flags = append(flags, "--delete-trial-nodes")
	}
	if s.ofKarpenter {
		flags = append(flags, "--karpenter")
	}
	return s.Must(t, "kamino", append([]string{"manifests"}, flags...)...)
}

// Namespaces installs Kamino once more, in a namespace for Leases and Secrets and a namespace for generalize pods. The cluster has the
// definitions and the admission policy for marks on Nodes already.
func (s *Sandbox) Namespaces(t testing.TB, engine, pods string) {
	t.Helper()
	kube, ctx := s.Kube(), t.Context()
	s.apply(t, s.manifests(t, "--namespace", engine, "--generalize-namespace", pods))
	Eventually(t, "namespace "+pods+" is ready for pods", func() (bool, string) {
		_, account := kube.CoreV1().ServiceAccounts(pods).Get(ctx, "default", metav1.GetOptions{})
		_, root := kube.CoreV1().ConfigMaps(pods).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return account == nil && root == nil, fmt.Sprint(account, root)
	})
}

// apply applies manifests of Kamino, except the definitions and the admission policy for marks on Nodes. The policy is the same for all
// namespaces, and costs time at each report of a kubelet.
func (s *Sandbox) apply(t testing.TB, manifests string) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(s.Config())
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.Object == nil || o.GetKind() == "CustomResourceDefinition" || strings.HasPrefix(o.GetName(), "kamino-node-marks.") {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if _, err := client.Resource(resource).Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "kamino", Force: true}); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
