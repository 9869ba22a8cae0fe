package v1alpha1_test

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// TestHistoryStaysReadable: an ended Prototype with the fields of an earlier version is read, and its status is written, after the
// definitions of this version replaced those of the earlier one.
func TestHistoryStaysReadable(t *testing.T) {
	c := apitest.Client(t)
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	key := client.ObjectKey{Name: "prototypes.kamino.dev"}
	if err := c.Get(t.Context(), key, now); err != nil {
		t.Fatal(err)
	}
	replace := func(change func(map[string]any)) {
		t.Helper()
		live := now.DeepCopy()
		if err := c.Get(t.Context(), key, live); err != nil {
			t.Fatal(err)
		}
		versions, _, _ := unstructured.NestedSlice(now.Object, "spec", "versions")
		schema := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		change(schema)
		_ = unstructured.SetNestedSlice(live.Object, versions, "spec", "versions")
		if err := c.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	replace(func(schema map[string]any) { // the definition of before, as far as the fields are stored
		for _, part := range []string{"spec", "status"} {
			schema["properties"].(map[string]any)[part] = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		}
	})
	for name, edit := range map[string]func(*unstructured.Unstructured){
		"left": func(u *unstructured.Unstructured) {
			with(t, u, "settings.donor", map[string]any{"afterCapture": "Remove", "growFirst": true, "carryOver": map[string]any{"labels": []any{"team"}}})
			with(t, u, "settings.recipe", map[string]any{"newNodes": int64(2)})
		},
		"grown": func(u *unstructured.Unstructured) {
			with(t, u, "pioneer", map[string]any{"node": "Grow"})
			unstructured.RemoveNestedField(u.Object, "spec", "donor")
		},
	} {
		u := prototype(name)
		edit(u)
		stored := false
		for until := time.Now().Add(time.Minute); !stored && time.Now().Before(until); {
			created := u.DeepCopy()
			if err := c.Create(t.Context(), created); err == nil {
				_, recipe, _ := unstructured.NestedMap(created.Object, "spec", "settings", "recipe")
				_, node, _ := unstructured.NestedString(created.Object, "spec", "pioneer", "node")
				if stored = recipe || node; stored {
					_ = unstructured.SetNestedMap(created.Object, map[string]any{
						"phase": "Failed", "steps": []any{map[string]any{"phase": "Growing", "startedAt": "2026-03-14T12:00:00.000000Z"}},
						"donor": map[string]any{"state": "Removed"},
					}, "status")
					if err := c.Status().Update(t.Context(), created); err != nil {
						t.Fatal(err)
					}
					continue
				}
				_ = c.Delete(t.Context(), created)
			}
		}
		if !stored {
			t.Fatalf("%s: the definition of before is not in effect", name)
		}
	}
	replace(func(map[string]any) {})
	for until := time.Now().Add(time.Minute); ; { // until the definition of now is in effect
		if err := c.Create(t.Context(), with(t, prototype("probe"), "version", "x")); err != nil || time.Now().After(until) {
			break
		}
		_ = c.Delete(t.Context(), prototype("probe"))
	}
	for _, name := range []string{"left", "grown"} {
		p := get(t, c, name)
		if p.Status.Phase != v1alpha1.PhaseFailed || len(p.Status.Steps) != 1 || p.Status.Donor.State != v1alpha1.DonorRemoved || len(p.Unreadable) > 0 ||
			v1alpha1.ReplacesDonor(p) {
			t.Errorf("%s is read as %+v", name, p)
		}
		before := p.DeepCopy()
		p.Status.Progress = "as it was"
		if err := c.Status().Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
			t.Errorf("the status of %s: %v", name, err)
		}
	}
}
