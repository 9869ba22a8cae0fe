package v1alpha1_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// order is a whole order, as the API server sees it.
func order(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"holder": map[string]any{"name": "workers-2026.11.21", "uid": "uid"}, "nodeName": "workers000003", "method": "InPlace", "token": "boot",
			"podName": "generalize-workers", "generalize": map[string]any{"profile": "static"}, "key": "a2V5",
		},
	}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeOrder"))
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
		{"holder.name", "spec.holder.name", []any{"", long(253)}},
		{"holder.kind", `supported values: "Prototype", "Replacement", "PrototypePolicy"`, []any{"Node", ""}},
		{"nodeName", "spec.nodeName", []any{"", long(253)}},
		{"token", "spec.token", []any{"", long(128)}},
		{"method", `supported values: "InPlace", "Quiesce", "Copy", "Check", "Patch", "Reboot"`, []any{"OnCopy", "inPlace", ""}},
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
	for _, path := range []string{"holder", "holder.name", "holder.uid", "nodeName", "token", "podName", "generalize", "key"} {
		o := order("refused")
		unstructured.RemoveNestedField(o.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
		if err := c.Create(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+path+": Required value") {
			t.Errorf("an order without %s: %v", path, err)
		}
	}
}

// Patches belong to the methods that read or install patches, and have words and anchored patterns only.
func TestOrderOfPatches(t *testing.T) {
	patches := map[string]any{"patches": "Security", "hold": []any{"^kubelet$"}, "minAge": "72h", "drained": true}
	c := apitest.Client(t)
	for _, test := range []struct {
		method, path string
		value        any
		says         string
	}{
		{"Check", "", nil, ""},
		{"Patch", "", nil, ""},
		{"Patch", "patches", "Sometimes", `supported values: "Security", "All"`},
		{"Patch", "hold", []any{"kubelet"}, "spec.patch.hold[0]"},
		{"Patch", "hold", []any{"^" + strings.Repeat("x", 128)}, "spec.patch.hold[0]"},
		{"Patch", "hold", slices.Repeat([]any{"^a"}, 65), "spec.patch.hold: Too many"},
		{"InPlace", "", nil, "patch belongs to the methods Check and Patch"},
		{"Reboot", "", nil, "patch belongs to the methods Check and Patch"},
	} {
		o := with(t, with(t, order("patches"), "method", test.method), "patch", runtime.DeepCopyJSON(patches))
		if test.path != "" {
			o = with(t, o, "patch."+test.path, test.value)
		}
		err := c.Create(t.Context(), o)
		switch {
		case err == nil:
			if test.says != "" {
				t.Errorf("method %s, %s = %v was accepted", test.method, test.path, test.value)
			}
			_ = c.Delete(t.Context(), o)
		case test.says == "" || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says):
			t.Errorf("method %s, %s = %v: %q, want %q", test.method, test.path, test.value, err, test.says)
		}
	}
	for method, valid := range map[string]bool{"Check": false, "Patch": false, "Reboot": true} {
		o := with(t, order("patches"), "method", method)
		err := c.Create(t.Context(), o)
		if (err == nil) != valid {
			t.Errorf("method %s without patch: %v", method, err)
		}
		_ = c.Delete(t.Context(), o)
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
		"holder.name": "another", "holder.uid": "another", "nodeName": "another", "token": "another", "podName": "another",
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
	now := &v1alpha1.NodeOrder{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), now); err != nil {
		t.Fatal(err)
	}
	if now.Spec.Token != "boot" || now.Status.Report != "{}" || now.Status.Signature != "c2ln" {
		t.Errorf("after a write of the status: %+v, %+v", now.Spec, now.Status)
	}
	for field, limit := range map[string]int{"report": 131072, "signature": 128} {
		over := order("kept")
		over.SetResourceVersion(now.ResourceVersion)
		over.Object["status"] = map[string]any{field: strings.Repeat("x", limit+1)}
		if err := c.Status().Update(t.Context(), over); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status."+field+": Too long") {
			t.Errorf("a %s of %d characters: %v", field, limit+1, err)
		}
	}
}

// A report must have the result of its order's method: a report about patches is no proof, and a proof is no report about
// patches.
func TestReportFitsTheMethod(t *testing.T) {
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := v1alpha1.OrderKey(private)
	if err != nil {
		t.Fatal(err)
	}
	patches, proof := v1alpha1.Report{Patch: json.RawMessage(`{"method":"Check"}`)}, v1alpha1.Report{Proof: &v1alpha1.Proof{}}
	both := v1alpha1.Report{Proof: proof.Proof, Patch: patches.Patch}
	for _, test := range []struct {
		method v1alpha1.OrderMethod
		report v1alpha1.Report
		valid  bool
	}{
		{v1alpha1.OrderCheck, patches, true}, {v1alpha1.OrderPatch, patches, true}, {v1alpha1.OrderReboot, patches, true},
		{v1alpha1.InPlace, patches, false}, {"", patches, false}, {v1alpha1.OrderPatch, proof, false}, {v1alpha1.InPlace, proof, true}, {"", proof, true},
		{v1alpha1.OrderCopy, proof, true}, {v1alpha1.OrderCopy, patches, false}, {v1alpha1.OrderCopy, both, false},
		{v1alpha1.InPlace, both, false}, {v1alpha1.OrderPatch, both, false}, {v1alpha1.OrderPatch, v1alpha1.Report{}, false},
	} {
		test.report.Order, test.report.Pod = "order", "pod"
		o := &v1alpha1.NodeOrder{Spec: v1alpha1.NodeOrderSpec{Method: test.method}}
		o.UID = "order"
		if o.Status, err = test.report.Sign(key); err != nil {
			t.Fatal(err)
		}
		got, err := v1alpha1.ReportOf(o, v1alpha1.OrderRecord{UID: "order", Key: public, Pod: "pod"})
		if (err == nil) != test.valid || test.valid && string(got.Patch) != string(test.report.Patch) {
			t.Errorf("method %q, report %+v: %+v %v", test.method, test.report, got, err)
		}
	}
}
