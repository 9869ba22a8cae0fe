package v1alpha1_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/apitest"
)

// order is a whole order, as the API server sees it.
func order(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"prototype": "workers-2026.11.21", "prototypeUID": "uid", "nodeName": "workers000003", "method": "InPlace", "token": "boot",
			"podName": "generalize-workers", "generalize": map[string]any{"profile": "static"}, "key": "a2V5",
		},
	}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Order"))
	return u
}

// TestOrderIsRefused has a case for every rule that an order can break.
func TestOrderIsRefused(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n+1) }
	c := apitest.Client(t)
	for _, test := range []struct {
		path, says string
		values     []any
	}{
		{"prototype", "spec.prototype", []any{"", long(253)}},
		{"nodeName", "spec.nodeName", []any{"", long(253)}},
		{"token", "spec.token", []any{"", long(128)}},
		{"method", `supported values: "InPlace"`, []any{"OnCopy", "inPlace", ""}},
		{"podName", "spec.podName", []any{"", long(63)}},
		{"rulesDigest", "spec.rulesDigest: Too long", []any{long(128)}},
		{"key", "spec.key", []any{"", long(128)}},
		{"generalize.profile", `supported values: "static", "eks", "bootstrap"`, []any{"", "Static"}},
	} {
		for _, value := range test.values {
			err := c.Create(t.Context(), with(t, order("refused"), test.path, value))
			switch {
			case err == nil:
				t.Errorf("%s = %q was taken", test.path, value)
				_ = c.Delete(t.Context(), order("refused"))
			case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says):
				t.Errorf("%s = %q: got %q, want it to say %q", test.path, value, err, test.says)
			}
		}
	}
	for _, path := range []string{"prototype", "prototypeUID", "nodeName", "token", "podName", "generalize", "key"} {
		o := order("refused")
		unstructured.RemoveNestedField(o.Object, "spec", path)
		if err := c.Create(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+path+": Required value") {
			t.Errorf("an order without %s: %v", path, err)
		}
	}
}

// TestAnOrderIsNeverChanged: even an administrator who may update orders cannot change one, and a report arrives only by
// the status.
func TestAnOrderIsNeverChanged(t *testing.T) {
	c := apitest.Client(t)
	made := order("kept")
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), order("kept")) })
	for path, value := range map[string]any{
		"prototype": "another", "prototypeUID": "another", "nodeName": "another", "token": "another", "podName": "another",
		"generalize.profile": "bootstrap", "rulesDigest": "another", "key": "YW5vdGhlcg==",
	} {
		err := c.Update(t.Context(), with(t, made.DeepCopy(), path, value))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "an order is immutable: the engine deletes the order and creates another order") {
			t.Errorf("%s was changed: %v", path, err)
		}
	}
	both := with(t, made.DeepCopy(), "token", "another")
	both.Object["status"] = map[string]any{"report": "{}", "signature": "c2ln"}
	if err := c.Status().Update(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	now := &v1alpha1.Order{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), now); err != nil {
		t.Fatal(err)
	}
	if now.Spec.Token != "boot" || now.Status.Report != "{}" || now.Status.Signature != "c2ln" {
		t.Errorf("after a write of the status: %+v, %+v", now.Spec, now.Status)
	}
	for field, limit := range map[string]int{"report": 65536, "signature": 128} {
		over := order("kept")
		over.SetResourceVersion(now.ResourceVersion)
		over.Object["status"] = map[string]any{field: strings.Repeat("x", limit+1)}
		if err := c.Status().Update(t.Context(), over); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status."+field+": Too long") {
			t.Errorf("a %s of %d characters: %v", field, limit+1, err)
		}
	}
}
