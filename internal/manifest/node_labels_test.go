package manifest

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// TestEngineWritesOfNode: its own labels, annotations and the cordon, but no other labels or taints. Other
// accounts are not limited.
func TestEngineWritesOfNode(t *testing.T) {
	admin := apitest.Client(t)
	for _, object := range documents(t, Options{}) {
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			create := object.DeepCopy()
			if err := admin.Create(t.Context(), create); apierrors.IsAlreadyExists(err) {
				continue
			} else if err != nil {
				t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
			t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(t.Context()), create) })
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"kubernetes.io/os": "linux", "kamino.dev/version": "1"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "example.com/mine", Effect: corev1.TaintEffectNoSchedule}}
	if err := admin.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(t.Context()), node) })
	config := rest.CopyConfig(apitest.Server(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kamino-system:kamino-engine"}
	engine, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		_, err := engine.CoreV1().Nodes().Patch(t.Context(), "n", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused := []struct{ name, body, says string }{
		{"a label of the kubelet's gate", `{"metadata":{"labels":{"node-restriction.kubernetes.io/kamino-donor":"true"}}}`, "no labels"},
		{"another tool's label", `{"metadata":{"labels":{"example.com/a":"b"}}}`, "no labels"},
		{"another value", `{"metadata":{"labels":{"kubernetes.io/os":"windows"}}}`, "no labels"},
		{"a label removed", `{"metadata":{"labels":{"kubernetes.io/os":null}}}`, "no labels"},
		{"all labels removed", `{"metadata":{"labels":null}}`, "no labels"},
		{"one that only begins alike", `{"metadata":{"labels":{"kamino.dev":"x"}}}`, "no labels"},
		{"out of load balancers", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"true"}}}`, "no labels"},
		{"another label on the node of a trial", `{"metadata":{"labels":{"kamino.dev/trial":"x","node.kubernetes.io/other":"true"}}}`, "no labels"},
		{"a taint", `{"spec":{"taints":[{"key":"example.com/mine","effect":"NoSchedule"},{"key":"a","effect":"NoExecute"}]}}`, "no taints"},
		{"a taint removed", `{"spec":{"taints":null}}`, "no taints"},
	}
	waitForPolicy(t, "kamino-node-labels", func(int) error { return patch(refused[0].body) })
	for _, test := range refused {
		if err := patch(test.body); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for name, body := range map[string]string{
		"its label":                          `{"metadata":{"labels":{"kamino.dev/version":"2","kamino.dev/trial":"x"}}}`,
		"its label removed":                  `{"metadata":{"labels":{"kamino.dev/version":null}}}`,
		"an annotation":                      `{"metadata":{"annotations":{"kamino.dev/reservation":"x"}}}`,
		"a trial node out of load balancers": `{"metadata":{"labels":{"kamino.dev/trial":"x","node.kubernetes.io/exclude-from-external-load-balancers":"true"}}}`,
		"the cordon":                         `{"spec":{"unschedulable":true}}`,
		"nothing":                            `{}`,
	} {
		if err := patch(body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := node.DeepCopy()
	other.Labels["example.com/a"] = "b"
	if err := admin.Update(t.Context(), other); err != nil {
		t.Errorf("an administrator is refused: %v", err)
	}
}
