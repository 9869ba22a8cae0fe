package v1alpha1_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// prototype is the smallest valid object, as the API server sees the object: without the zero values of a Go struct.
func prototype(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"pool":    "workers",
			"version": "2026.11.21",
			"donor": map[string]any{
				"nodeName":   "workers000003",
				"providerID": "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/workers/virtualMachines/3",
			},
		},
	}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Prototype"))
	return u
}

// with sets the field at a dotted path below spec.
func with(t *testing.T, u *unstructured.Unstructured, path string, value any) *unstructured.Unstructured {
	t.Helper()
	fields := append([]string{"spec"}, strings.Split(path, ".")...)
	if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestSpecIsRefused has a case for every rule of the spec. `says` is part of the answer: a refusal by another rule tests
// nothing.
func TestSpecIsRefused(t *testing.T) {
	positive := []string{"0s", "-1s"}
	tests := []struct {
		path   string
		values []any
		says   string
	}{
		{"pool", []any{""}, "spec.pool"},
		{"pool", []any{strings.Repeat("p", 129)}, "spec.pool: Too long"},
		{"pool", []any{"-workers", "workers-", "wor kers", "wor/kers", "wörkers", "workers\n"}, "spec.pool: Invalid value"},
		{"poolID", []any{""}, "spec.poolID"},
		{"poolID", []any{"/subscriptions/" + strings.Repeat("p", 1024)}, "spec.poolID: Too long"},
		{"version", []any{
			"", "2026.13.01", "2026.00.01", "2026.11.00", "2026.11.32", "2026.1.1", "2026.11.1", "26.11.21",
			"2026-11-21", "2026.11.21-2", "2026.11.2101", "2026.11.2100", "2026.11.212", "2026.11.21022", "v2026.11.21", "2026.11.21 ", "12026.11.21",
		}, "spec.version: Invalid value"},
		{"donor.nodeName", []any{""}, "spec.donor.nodeName"},
		{"donor.nodeName", []any{strings.Repeat("n", 254)}, "spec.donor.nodeName: Too long"},
		{"donor.providerID", []any{"", "workers000003", "Azure:///x", "azure://"}, "spec.donor.providerID"},
		{"donor.providerID", []any{"azure:///" + strings.Repeat("i", 1024)}, "spec.donor.providerID: Too long"},
		{"settings.keep", []any{int64(1), int64(-1)}, "should be greater than or equal to 2"},
		{"settings.keep", []any{int64(1001)}, "should be less than or equal to 1000"},
		{"settings.azure.replicas", []any{int64(0), int64(-1)}, "should be greater than or equal to 1"},
		{"settings.azure.replicas", []any{int64(101)}, "should be less than or equal to 100"},
		{"settings.recipe.customDataFrom.name", []any{"", "A", "a/b", "-a"}, "spec.settings.recipe.customDataFrom.name"},
		{"settings.recipe.customDataFrom.key", []any{"a/b", "a b"}, "spec.settings.recipe.customDataFrom.key"},
		{"settings.donor.method", []any{"", "copy", "Clone"}, `supported values: "Copy", "InPlace"`},
		{"settings.donor", []any{
			map[string]any{"method": "InPlace", "freeze": "Never"}, map[string]any{"method": "InPlace", "workshopType": "m7i.large"},
		}, "freeze and workshopType belong to the method Copy"},
		{"settings.donor.freeze", []any{"", "Always"}, `supported values: "Auto", "Never"`},
		{"settings.donor.workshopType", []any{"m7i large", "m7i/large"}, "spec.settings.donor.workshopType"},
		{"settings", []any{map[string]any{
			"donor": map[string]any{"method": "InPlace"}, "generalize": map[string]any{"profile": "bootstrap"},
		}}, "a node of profile bootstrap is only copied, because a capture in place would delete the credential with which it joins: omit settings.donor.method"},
		{"settings.generalize.profile", []any{"", "Static", "kubeadm"}, `supported values: "static", "eks", "bootstrap"`},
		{"settings.generalize.unknownFiles", []any{"", "refuse", "Deny"}, `supported values: "Allow", "ReportDifferent", "RefuseDifferent", "Refuse"`},
		{"settings.drain.gracePeriod", []any{"-1s", "1d", "5"}, "gracePeriod must be a time such as 90s, 30m or 36h (days have no unit), and not negative"},
		{"settings.drain.timeout", anyOf(positive), "timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"},
		{"settings.outOfService.deadline", anyOf(positive), "deadline must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"},
		{"settings.outOfService.maxUnavailable", []any{int64(0), int64(-1), int64(100_001), int64(1) << 32, int64(1) << 62, "0%", "101%", "ten", "10", ""},
			"maxUnavailable must be a number from 1 to 100000, or a share from 1% to 100%"},
		{"settings.outOfService.readyTimeout", anyOf(positive), "readyTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"},
		{"settings.drain.gracePeriod", []any{"", "soon", "1d", "300"}, "spec.settings.drain.gracePeriod"},
		{"settings.drain.timeout", []any{"", "soon", "1d", "900"}, "spec.settings.drain.timeout"},
		{"settings.outOfService.deadline", []any{"", "soon", "1d", "1800"}, "spec.settings.outOfService.deadline"},
		{"settings.outOfService.readyTimeout", []any{"", "soon", "1d", "900"}, "spec.settings.outOfService.readyTimeout"},
		{"settings.drain.timeout", []any{int64(900)}, "must be of type string"},
		{"settings.drain.force", []any{"yes"}, "must be of type boolean"},
		{"settings.trial.keepFailed", []any{"-1s", "25h", "1d", ""}, "keepFailed"},
		{"settings.trial.ignoreDifferences", []any{[]any{"memory"}, []any{"label/"}, []any{"kubelet/x"}, []any{""}}, "spec.settings.trial.ignoreDifferences"},
		{"settings.trial.expect", []any{expressions("Disk", "true"), expressions("Performance", "true")}, "name is the name of a check of Kamino"},
		{"settings.trial.expect", []any{expressions("devices", "true"), expressions("", "true"), expressions("My Gpu", "true")}, "name"},
		{"settings.trial.expect", []any{expressions("Devices", ""), expressions("Devices", strings.Repeat("!", 2049))}, "expression"},
		{"settings.trial.expect", []any{append(expressions("Devices", "true"), expressions("Devices", "false")...)}, "Duplicate value"},
	}
	c := apitest.Client(t)
	for _, test := range tests {
		for _, value := range test.values {
			err := c.Create(t.Context(), with(t, prototype("refused"), test.path, value))
			switch {
			case err == nil:
				t.Errorf("%s = %q was taken", test.path, value)
				_ = c.Delete(t.Context(), prototype("refused"))
			case !apierrors.IsInvalid(err):
				t.Errorf("%s = %q: got %v, want Invalid", test.path, value, err)
			case !strings.Contains(err.Error(), test.says):
				t.Errorf("%s = %q: got %q, want it to say %q", test.path, value, err, test.says)
			}
		}
	}
}

// expressions is a list with one expression about the trial node.
func expressions(name, expression string) []any {
	return []any{map[string]any{"name": name, "expression": expression}}
}

func anyOf(texts []string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return values
}

func TestMissingFieldsAreRefused(t *testing.T) {
	c := apitest.Client(t)
	for _, path := range []string{"pool", "version", "donor", "donor.nodeName", "donor.providerID"} {
		u := prototype("missing")
		unstructured.RemoveNestedField(u.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
		err := c.Create(t.Context(), u)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+path+": Required value") {
			t.Errorf("without %s: got %v, want it to be required", path, err)
		}
	}
}

// TestSpecIsAccepted walks along the inner side of each limit.
func TestSpecIsAccepted(t *testing.T) {
	tests := map[string][]any{
		"pool":                    {"w", strings.Repeat("p", 128), "Work_ers.1-a", "2"},
		"version":                 {"2026.01.01", "2026.12.31", "0000.10.30", "9999.02.29"},
		"donor.nodeName":          {"n", strings.Repeat("n", 253)},
		"donor.providerID":        {"aws:///eu-west-1a/i-1", "gce://project/zone/name", "kind://x"},
		"settings.keep":           {int64(2), int64(1000)},
		"settings.azure.replicas": {int64(1), int64(100)},
		"settings.azure":          {map[string]any{}},
		"settings.donor": {
			map[string]any{"method": "Copy"}, map[string]any{"method": "Copy", "freeze": "Never", "workshopType": "Standard_D4s_v5"},
			map[string]any{"freeze": "Auto"}, map[string]any{"method": "InPlace"}, map[string]any{},
		},
		"settings": {
			map[string]any{"donor": map[string]any{"method": "Copy"}, "generalize": map[string]any{"profile": "bootstrap"}},
			map[string]any{"generalize": map[string]any{"profile": "bootstrap"}},
		},
		"settings.generalize.profile":        {"static", "eks", "bootstrap"},
		"settings.generalize.unknownFiles":   {"Allow", "ReportDifferent", "RefuseDifferent", "Refuse"},
		"settings.generalize.image":          {"registry.example/kamino:v1"},
		"settings.drain.gracePeriod":         {"0s", "300s", "1h30m"},
		"settings.drain.timeout":             {"1ms", "24h"},
		"settings.drain.force":               {true, false},
		"settings.outOfService.deadline":     {"1s", "45m"},
		"settings.outOfService.readyTimeout": {"1s", "45m"},
		"settings.trial.reboot":              {true, false},
		"settings.trial.ignoreDifferences": {[]any{"allocatable/*", "taint/a", "label/a", "condition/A", "driver/a", "daemonset/a/b", "speed/disk",
			"runtime/gvisor", "staticpod/a/b", "kernel/vm.max_map_count", "kubelet", "runtime", "os", "recipe", "images", "address", "clock", "openFiles",
			"certificate"}},
	}
	c := apitest.Client(t)
	for path, values := range tests {
		for _, value := range values {
			u := with(t, prototype("taken"), path, value)
			if err := c.Create(t.Context(), u); err != nil {
				t.Errorf("%s = %q was refused: %v", path, value, err)
				continue
			}
			if err := c.Delete(t.Context(), u); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNameIsLimited(t *testing.T) {
	c := apitest.Client(t)
	longest := prototype(strings.Repeat("n", 230))
	if err := c.Create(t.Context(), longest); err != nil {
		t.Errorf("a name of 230 characters was refused: %v", err)
	}
	err := c.Create(t.Context(), prototype(strings.Repeat("n", 231)))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "name must have at most 230 characters") {
		t.Errorf("a name of 231 characters: got %v, want it refused by our rule", err)
	}
}

// TestSpecIsImmutable changes each part of a spec, by update and by patch. Metadata stays free: the
// record and the proof are annotations.
func TestSpecIsImmutable(t *testing.T) {
	changes := map[string]any{
		"pool":                             "others",
		"version":                          "2026.11.22",
		"donor.nodeName":                   "workers000004",
		"donor.providerID":                 "azure:///x",
		"settings.keep":                    int64(4),
		"settings.drain.timeout":           "16m",
		"settings.drain.force":             true,
		"settings.drain.gracePeriod":       "1s",
		"settings.generalize.profile":      "bootstrap",
		"settings.generalize.image":        "other",
		"settings.generalize.unknownFiles": "Refuse",
		"settings.outOfService.deadline":   "31m",
		"settings.azure.replicas":          int64(5),
	}
	c := apitest.Client(t)
	stored := prototype("immutable")
	if err := c.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	const says = "spec is immutable"
	for path, value := range changes {
		changed := with(t, stored.DeepCopy(), path, value)
		if err := c.Update(t.Context(), changed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("update of %s: got %v, want it refused as immutable", path, err)
		}
		changed = with(t, stored.DeepCopy(), path, value)
		if err := c.Patch(t.Context(), changed, client.MergeFrom(stored)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("patch of %s: got %v, want it refused as immutable", path, err)
		}
	}

	annotated := stored.DeepCopy()
	annotated.SetAnnotations(map[string]string{v1alpha1.BegunAnnotation: "uid"})
	annotated.SetFinalizers([]string{v1alpha1.CaptureFinalizer})
	if err := c.Patch(t.Context(), annotated, client.MergeFrom(stored)); err != nil {
		t.Errorf("annotations and finalizers could not be written: %v", err)
	}
	annotated.SetFinalizers(nil)
	if err := c.Update(t.Context(), annotated); err != nil {
		t.Errorf("an update that leaves the spec alone was refused: %v", err)
	}
}

func TestStatusPhaseIsFromAClosedSet(t *testing.T) {
	c := apitest.Client(t)
	u := prototype("phases")
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	for _, phase := range v1alpha1.Phases() {
		u.Object["status"] = map[string]any{"phase": string(phase)}
		if err := c.Status().Update(t.Context(), u); err != nil {
			t.Errorf("phase %s was refused: %v", phase, err)
		}
	}
	u.Object["status"] = map[string]any{"phase": "Dancing"}
	if err := c.Status().Update(t.Context(), u); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.phase: Unsupported value") {
		t.Errorf("phase Dancing: got %v, want it refused", err)
	}
}
