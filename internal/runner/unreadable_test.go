package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// weirdObject has one field that no client can decode.
func weirdObject(kind, name, path string, value any) *unstructured.Unstructured {
	object := map[string]any{"spec": map[string]any{}}
	if kind == "Prototype" {
		object["spec"] = map[string]any{"pool": "elsewhere", "version": "2026.03.03",
			"donor": map[string]any{"nodeName": "none", "providerID": "memory:///pools/elsewhere/instances/1"}}
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	u.SetName(name)
	_ = unstructured.SetNestedField(u.Object, value, strings.Split(path, ".")...) // of what is in the way, the field above
	return u
}

// definitions changes the API server's checks of Kamino's objects; lax disables the checks.
func (a *alertEnv) definitions(lax bool) {
	a.Helper()
	scheme := runtime.NewScheme()
	a.must(apiextensionsv1.AddToScheme(scheme))
	api, err := client.New(apitest.Server(a), client.Options{Scheme: scheme})
	a.must(err)
	shipped, err := apitest.Definitions()
	a.must(err)
	for _, wanted := range shipped {
		seen := &apiextensionsv1.CustomResourceDefinition{}
		a.must(api.Get(a.Context(), client.ObjectKeyFromObject(wanted), seen))
		seen.Spec = *wanted.Spec.DeepCopy()
		if lax {
			for i := range seen.Spec.Versions {
				v := &seen.Spec.Versions[i]
				v.Subresources, v.AdditionalPrinterColumns = nil, nil
				v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
			}
		}
		a.must(api.Update(a.Context(), seen))
	}
	// The API server follows a moment later.
	for look := 0; ; look++ {
		probe := weirdObject("PrototypePolicy", "probe", "spec.settings", int64(7))
		err := a.api.Create(a.Context(), probe, client.DryRunAll)
		if (err == nil) == lax {
			return
		}
		if look == 600 {
			a.Fatalf("the definitions do not change: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestControllerWorksWithUnreadableObjects: the controller reports objects of an older definition, and works on
// other objects.
func TestControllerWorksWithUnreadableObjects(t *testing.T) {
	a := newAlarmed(t)
	a.definitions(true)
	values := []any{int64(1) << 32, "seven", []any{int64(7)}, map[string]any{"a": "b"}, 1.5, true}
	for kind, paths := range map[string][]string{
		"PrototypePolicy": {"spec.settings.outOfService.maxUnavailable", "spec.settings.keep", "spec.selection.minReadyTime", "spec.schedule",
			"spec.rollback.mode", "status.pools", "status.nextRun"},
		"Prototype": {"spec.settings.outOfService.maxUnavailable", "spec.settings.trial", "spec.settings.drain.timeout", "status.steps",
			"status.trial.attempt", "status.image"},
	} {
		for i, path := range paths {
			for j, value := range values {
				a.must(a.api.Create(t.Context(), weirdObject(kind, fmt.Sprintf("weird-%d-%d", i, j), path, value)))
			}
		}
	}
	a.definitions(false)
	a.pool("one", true, nil)
	good := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "good"}}
	good.Spec.Pools.Names, good.Spec.Schedule.Cron = []string{"one"}, "0 3 1 1 *"
	a.must(a.api.Create(t.Context(), good))
	a.run()

	for look := 0; ; look++ {
		missing := a.unreported()
		if missing == "" {
			break
		}
		if look == 600 {
			t.Fatal(missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
	prototypes := &v1alpha1.PrototypeList{}
	a.must(a.api.List(t.Context(), prototypes))
	for _, p := range prototypes.Items {
		if len(p.Unreadable) > 0 && p.Status.Phase != "" {
			t.Errorf("Prototype %s, which cannot be read (%s), is in phase %s", p.Name, p.Unreadable, p.Status.Phase)
		}
	}
}

// unreported is the missing work of the controller; empty if complete.
func (a *alertEnv) unreported() string {
	a.Helper()
	p, policy, good := &v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}, &v1alpha1.PrototypePolicy{}
	a.must(a.api.Get(a.Context(), client.ObjectKey{Name: "weird-0-0"}, p))
	a.must(a.api.Get(a.Context(), client.ObjectKey{Name: "weird-0-0"}, policy))
	a.must(a.api.Get(a.Context(), client.ObjectKey{Name: "good"}, good))
	for what, conditions := range map[string][]metav1.Condition{"the Prototype": p.Status.Conditions, "the policy": policy.Status.Conditions} {
		if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled); c == nil || c.Reason != v1alpha1.PolicyUnreadable ||
			!strings.Contains(c.Message, "maxUnavailable is 4294967296") {
			return fmt.Sprintf("%s says %+v", what, c)
		}
	}
	if len(good.Status.Pools) != 1 || good.Status.Pools[0].Decision == nil {
		return fmt.Sprintf("the good policy has decided nothing: %+v", good.Status)
	}
	events, err := kubernetes.NewForConfigOrDie(apitest.Server(a)).EventsV1().Events("default").List(a.Context(), metav1.ListOptions{})
	a.must(err)
	warned := map[string]bool{}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && e.Reason == v1alpha1.PolicyUnreadable && e.Regarding.Name == "weird-0-0" {
			warned[e.Regarding.Kind] = true
		}
	}
	if !warned["Prototype"] || !warned["PrototypePolicy"] {
		return fmt.Sprintf("events: %v", warned)
	}
	return ""
}
