package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/apitest"
)

func TestPioneerDefaults(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), with(t, prototype("pioneer"), "pioneer", map[string]any{})); err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.PioneerSettings{
		Node: v1alpha1.PioneerTake, Patches: v1alpha1.PatchSecurity, Hold: []string{"^kubelet$", "^kubeadm$", "^kubectl$", "^containerd", "^runc$", "^cri-"},
		Soak: &metav1.Duration{Duration: time.Hour}, OtherRebooters: v1alpha1.OtherRebootersRefuse,
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

func TestPioneerValidation(t *testing.T) {
	c := apitest.Client(t)
	for _, test := range []struct {
		field string
		value any
		want  string
	}{
		{"node", "Grow", "node Grow is not supported yet: use Take"},
		{"node", "Borrow", `Unsupported value: "Borrow"`},
		{"patches", "Some", `Unsupported value: "Some"`},
		{"hold", []any{"kubelet"}, "should match '^\\^'"},
		{"soak", "-1s", "soak must be a time"},
		{"minAge", "3d", "minAge must be a time"},
		{"otherRebooters", "Ignore", `Unsupported value: "Ignore"`},
	} {
		err := c.Create(t.Context(), with(t, prototype("refused"), "pioneer", map[string]any{test.field: test.value}))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: %v, want %q", test.field, test.value, err, test.want)
		}
	}
}
