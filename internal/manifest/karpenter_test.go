package manifest

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

var nodePools = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}

// claimText is a NodeClaim, and poolText a NodePool with budgets.
const (
	claimText = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: NAME, annotations: {MARK: "{}"}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]`
	poolText = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p, labels: {kamino.dev/guard: ""}}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
  disruption: {consolidateAfter: 30s, budgets: [{nodes: "10%"}, {nodes: "0", reasons: [Drifted]}]}`
)

// TestKarpenterAdmission: the engine deletes only NodeClaims that it created, and marks no other. A NodePool with the label kamino.dev/guard
// keeps its guard until the label goes.
func TestKarpenterAdmission(t *testing.T) {
	config := apitest.Server(t)
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"../cloud/karpenter/testdata/v1.14.1"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims"}, Verbs: []string{"get", "create", "patch", "delete"}}
	client := apitest.Client(t)
	for _, object := range documents(t, Options{KarpenterRules: []rbacv1.PolicyRule{rule}}) {
		if !strings.Contains(object.GetName(), "karpenter") {
			continue
		}
		if err := client.Create(t.Context(), object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		t.Cleanup(func() { _ = client.Delete(context.WithoutCancel(t.Context()), object) })
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kamino-system:kamino-engine", Groups: []string{"system:serviceaccounts"}}
	admin, engine := dynamic.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(as)
	claims := nodePools.GroupVersion().WithResource("nodeclaims")
	create := func(kind schema.GroupVersionResource, text string) {
		t.Helper()
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Resource(kind).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(as dynamic.Interface, kind schema.GroupVersionResource, name, body string) error {
		_, err := as.Resource(kind).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	for name, mark := range map[string]string{"serves": "example.com/mark", "trial": "kamino.dev/trial", "workshop": "kamino.dev/workshop"} {
		create(claims, strings.NewReplacer("NAME", name, "MARK", mark).Replace(claimText))
	}
	waitForPolicy(t, "kamino-karpenter", func(int) error {
		return engine.Resource(claims).Delete(t.Context(), "serves", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	if err := patch(engine, claims, "serves", `{"metadata":{"annotations":{"kamino.dev/trial":"{}"}}}`); !apierrors.IsForbidden(err) {
		t.Errorf("the engine marks a NodeClaim that serves: %v", err)
	}
	if err := engine.Resource(claims).Delete(t.Context(), "serves", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the engine deletes a NodeClaim that serves: %v", err)
	}
	for _, name := range []string{"trial", "workshop"} {
		if err := patch(engine, claims, name, `{"metadata":{"annotations":{"kamino.dev/x":""}}}`); err != nil {
			t.Errorf("the engine cannot write its NodeClaim %s: %v", name, err)
		}
		if err := engine.Resource(claims).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("the engine cannot delete its NodeClaim %s: %v", name, err)
		}
	}

	create(nodePools, poolText)
	waitForPolicy(t, "kamino-karpenter-guard", func(int) error {
		_, err := admin.Resource(nodePools).Patch(t.Context(), "p", types.MergePatchType, []byte(`{"spec":{"disruption":{"budgets":null}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	for body, allowed := range map[string]bool{
		`{"spec":{"disruption":{"budgets":[{"nodes":"10%"}]}}}`:                                                         false,
		`{"spec":{"disruption":{"budgets":[{"nodes":"0","reasons":["Drifted"],"schedule":"@daily","duration":"1h"}]}}}`: false,
		`{"spec":{"disruption":{"budgets":[{"nodes":"0","reasons":["Empty"]}]}}}`:                                       false,
		`{"spec":{"disruption":{"budgets":[{"nodes":"20%"},{"nodes":"0","reasons":["Drifted","Empty"]}]}}}`:             true,
		`{"spec":{"disruption":{"budgets":[{"nodes":"0%"}]}}}`:                                                          true,
		`{"metadata":{"labels":{"kamino.dev/guard":null}},"spec":{"disruption":{"budgets":[{"nodes":"10%"}]}}}`:         true,
	} {
		_, err := admin.Resource(nodePools).Patch(t.Context(), "p", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
