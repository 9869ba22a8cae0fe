package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestOnlyOwnLabelsAreWritten: no caller can write a label by which other programs select nodes.
func TestOnlyOwnLabelsAreWritten(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "1"}}
	for key, own := range map[string]bool{
		v1alpha1.VersionLabel: true, v1alpha1.TrialKey: true, "node-restriction.kubernetes.io/kamino-donor": false,
		"kubernetes.io/os": false, "kamino.dev": false,
		"kamino.dev.example.com/a": false, "": false,
	} {
		for name, write := range map[string]func(*fake.Clientset) error{
			"Label": func(k *fake.Clientset) error { return Label(t.Context(), k, n.Name, n.UID, key, "x") },
			"Release": func(k *fake.Clientset) error {
				return Release(t.Context(), k, n, v1alpha1.Reservation{}, &Marks{Labels: map[string]string{key: "x"}})
			},
		} {
			kube := fake.NewClientset(n.DeepCopy())
			err := write(kube)
			writes := slices.DeleteFunc(kube.Actions(),
				func(a clienttesting.Action) bool { return a.GetVerb() == "get" || a.GetResource().Resource != "nodes" })
			if (err == nil) != own || (len(writes) > 0) != own {
				t.Errorf("%s of %q: %v after the writes %v", name, key, err, writes)
			}
		}
	}
}
