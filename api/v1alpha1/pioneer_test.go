package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestPioneerDefaults(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), with(t, prototype("pioneer"), "pioneer", map[string]any{})); err != nil {
		t.Fatal(err)
	}
	yes := true
	want := &v1alpha1.PioneerSettings{
		Patches: v1alpha1.PatchSecurity, Hold: []string{"^kubelet$", "^kubeadm$", "^kubectl$", "^containerd", "^runc$", "^cri-"},
		Soak: &metav1.Duration{Duration: time.Hour}, OtherRebooters: v1alpha1.OtherRebootersRefuse, QuietNodes: &yes,
	}
	stored := get(t, c, "pioneer").Spec.Pioneer
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("not the documented defaults (-want +got):\n%s", diff)
	}
	for _, defaulted := range []v1alpha1.PioneerSettings{v1alpha1.PioneerSettings{}.Defaulted(), stored.Defaulted()} {
		if diff := cmp.Diff(*stored, defaulted); diff != "" {
			t.Errorf("the API server fills in other values than Defaulted (-API server +Defaulted):\n%s", diff)
		}
	}
	if err := c.Create(t.Context(), prototype("none")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, c, "none").Spec.Pioneer; got != nil {
		t.Errorf("a Prototype without a pioneer has %+v", got)
	}
}

// TestPolicyPioneerDefaults: a policy with an empty pioneer is complete.
func TestPolicyPioneerDefaults(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), with(t, policy("pioneers"), "pioneer", map[string]any{})); err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.PolicyPioneerSettings{PioneerSettings: v1alpha1.PioneerSettings{}.Defaulted(),
		CheckEvery: &metav1.Duration{Duration: 6 * time.Hour}, MaxPerWeek: 3}
	if diff := cmp.Diff(want, getPolicy(t, c, "pioneers").Spec.Pioneer); diff != "" {
		t.Errorf("not the documented defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*want, v1alpha1.PolicyPioneerSettings{}.Defaulted()); diff != "" {
		t.Errorf("Defaulted fills in other values than the API server (-API server +Defaulted):\n%s", diff)
	}
	if err := c.Create(t.Context(), policy("no-pioneers")); err != nil {
		t.Fatal(err)
	}
	if got := getPolicy(t, c, "no-pioneers").Spec.Pioneer; got != nil {
		t.Errorf("a policy without a pioneer has %+v", got)
	}
}

// invalid are the refused values of a pioneer, of a Prototype and of a policy.
type invalid struct {
	field string
	value any
	want  string
}

// TestPolicyPioneerValidation: a policy refuses what a Prototype refuses, and checks that are too frequent.
func TestPolicyPioneerValidation(t *testing.T) {
	c := apitest.Client(t)
	for _, test := range append(slices.Clone(invalidPioneers), []invalid{
		{"checkEvery", "9m", "checkEvery must be a time such as 90s, 30m or 36h (days have no unit), and at least 10m"},
		{"checkEvery", "1d", "checkEvery must be a time"},
	}...) {
		err := c.Create(t.Context(), with(t, policy("refused"), "pioneer", map[string]any{test.field: test.value}))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: %v, want %q", test.field, test.value, err, test.want)
		}
	}
	if err := c.Create(t.Context(), with(t, policy("often"), "pioneer", map[string]any{"checkEvery": "10m"})); err != nil {
		t.Error(err)
	}
}

func TestPioneerValidation(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), with(t, with(t, prototype("copied"), "settings.donor.method", "Copy"), "pioneer", map[string]any{})); err != nil {
		t.Errorf("a pioneer by copy: %v", err)
	}
	for _, test := range invalidPioneers {
		err := c.Create(t.Context(), with(t, prototype("refused"), "pioneer", map[string]any{test.field: test.value}))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: %v, want %q", test.field, test.value, err, test.want)
		}
	}
}

var invalidPioneers = []invalid{
	{"patches", "Some", `Unsupported value: "Some"`},
	{"hold", []any{"kubelet"}, "should match '^\\^'"},
	{"soak", "-1s", "soak must be a time"},
	{"minAge", "3d", "minAge must be a time"},
	{"otherRebooters", "Ignore", `Unsupported value: "Ignore"`},
}
