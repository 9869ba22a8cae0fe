package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func getPolicy(t *testing.T, c client.Client, name string) *v1alpha1.PrototypePolicy {
	t.Helper()
	p := &v1alpha1.PrototypePolicy{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPolicyDefaults: an empty spec is complete, with the defaults of the page.
func TestPolicyDefaults(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), policy("empty")); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.PrototypePolicySpec{
		Patched:       v1alpha1.PatchedSettings{Preset: v1alpha1.PresetKured},
		Selection:     v1alpha1.SelectionSettings{MinReadyTime: &metav1.Duration{Duration: time.Hour}, MinCandidates: 1},
		Settings:      v1alpha1.Settings{}.Defaulted(),
		Rollback:      v1alpha1.RollbackSettings{Mode: v1alpha1.RollbackAutomatic, JoinTimeout: metav1.Duration{Duration: 14 * time.Minute}},
		MaxConcurrent: 1,
		Failures:      v1alpha1.FailureSettings{Limit: 3, Backoff: &metav1.Duration{Duration: time.Hour}},
	}
	if diff := cmp.Diff(want, getPolicy(t, c, "empty").Spec); diff != "" {
		t.Errorf("not the documented defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, v1alpha1.PrototypePolicySpec{}.Defaulted()); diff != "" {
		t.Errorf("Defaulted fills in other values than the API server (-API server +Defaulted):\n%s", diff)
	}
	if diff := cmp.Diff(want, want.Defaulted()); diff != "" {
		t.Errorf("Defaulted is not idempotent:\n%s", diff)
	}

	typed := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "typed"}}
	if err := c.Create(t.Context(), typed); err != nil {
		t.Fatalf("an empty Go struct was refused: %v", err)
	}
	if diff := cmp.Diff(want, typed.Spec); diff != "" {
		t.Errorf("spec from a Go struct (-want +got):\n%s", diff)
	}
}

// TestPolicyDefaultsFillGaps sets one value of each group: its neighbours are filled in, and it stays.
func TestPolicyDefaultsFillGaps(t *testing.T) {
	c := apitest.Client(t)
	u := with(t, policy("gaps"), "selection.maxImageAge", "720h")
	with(t, u, "failures.limit", int64(5))
	with(t, u, "settings.keep", int64(4))
	with(t, u, "patched", map[string]any{"mostRecentPatch": "example.com/patched", "rebootPending": "example.com/pending"})
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.PrototypePolicySpec{
		Patched:   v1alpha1.PatchedSettings{MostRecentPatch: "example.com/patched", RebootPending: "example.com/pending"},
		Selection: v1alpha1.SelectionSettings{MaxImageAge: metav1.Duration{Duration: 720 * time.Hour}},
		Settings:  v1alpha1.Settings{Keep: 4},
		Failures:  v1alpha1.FailureSettings{Limit: 5},
	}.Defaulted()
	if diff := cmp.Diff(want, getPolicy(t, c, "gaps").Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestZeroIsAChoice: zero as a minimum and as a back-off is possible, also for a Go client.
func TestZeroIsAChoice(t *testing.T) {
	c := apitest.Client(t)
	p := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "zero"}}
	p.Spec.Selection.MinReadyTime, p.Spec.Failures.Backoff = &metav1.Duration{}, &metav1.Duration{}
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got := getPolicy(t, c, "zero").Spec.Defaulted()
	if got.Selection.MinReadyTime.Duration != 0 || got.Failures.Backoff.Duration != 0 {
		t.Errorf("zeros became %s and %s", got.Selection.MinReadyTime.Duration, got.Failures.Backoff.Duration)
	}
}

func TestAnnotationsOfPresets(t *testing.T) {
	for _, test := range []struct {
		settings        v1alpha1.PatchedSettings
		patch, pendings string
	}{
		{v1alpha1.PatchedSettings{}, "weave.works/kured-most-recent-reboot-needed", "weave.works/kured-reboot-in-progress"},
		{v1alpha1.PatchedSettings{Preset: v1alpha1.PresetKured}, "weave.works/kured-most-recent-reboot-needed", "weave.works/kured-reboot-in-progress"},
		{v1alpha1.PatchedSettings{Preset: v1alpha1.PresetKamino}, "kamino.dev/patched-at", "kamino.dev/reboot-pending"},
		{v1alpha1.PatchedSettings{MostRecentPatch: "a", RebootPending: "b"}, "a", "b"},
	} {
		if patch, pending := test.settings.Annotations(); patch != test.patch || pending != test.pendings {
			t.Errorf("%+v names %s and %s", test.settings, patch, pending)
		}
	}
}

// aReport is a status as the controller writes it.
func aReport() v1alpha1.PrototypePolicyStatus {
	at := metav1.NewTime(time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC))
	pool := v1alpha1.PoolStatus{
		Name: "workers", ID: "/a/workers", CurrentVersion: "2026.11.21", ImageBuiltAt: &at, NewestPatch: &at, Nodes: 3, Candidates: 1,
		Refusals: []v1alpha1.RefusalCount{{Reason: "NotReady", Count: 2}}, Donor: "workers000003",
		Decision:   &v1alpha1.PoolDecision{Reason: "UpToDate", Message: "nothing new"},
		LastResult: &v1alpha1.CaptureResult{Prototype: "workers-2026.11.21", Version: "2026.11.21", Result: v1alpha1.PhaseSucceeded, At: &at},
		NextRun:    &at,
	}
	namesake := v1alpha1.PoolStatus{Name: "workers", ID: "/b/workers"}
	return v1alpha1.PrototypePolicyStatus{
		ObservedGeneration: 1, PoolCount: 2, NextRun: &at, Pools: []v1alpha1.PoolStatus{pool, namesake},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: v1alpha1.PolicyWatching, Message: "2 pools are watched",
			LastTransitionTime: at}},
	}
}

// TestPolicyWithoutPoolsShowsZero: zero is a number, and kubectl's column shows zero.
func TestPolicyWithoutPoolsShowsZero(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), policy("nobody")); err != nil {
		t.Fatal(err)
	}
	p := getPolicy(t, c, "nobody")
	before := p.DeepCopy()
	p.Status = v1alpha1.PrototypePolicyStatus{ObservedGeneration: 1}
	if err := c.Status().Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PrototypePolicy"))
	if err := c.Get(t.Context(), client.ObjectKey{Name: "nobody"}, stored); err != nil {
		t.Fatal(err)
	}
	if count, found, err := unstructured.NestedInt64(stored.Object, "status", "poolCount"); count != 0 || !found || err != nil {
		t.Errorf("status.poolCount: %d, there %t, %v", count, found, err)
	}
}

// TestPolicyStatus: the status is written apart from the spec, and holds two pools with one name, but none twice.
func TestPolicyStatus(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), policy("report")); err != nil {
		t.Fatal(err)
	}
	p := getPolicy(t, c, "report")
	p.Spec.Suspend = true
	p.Status = aReport()
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got := getPolicy(t, c, "report")
	if got.Spec.Suspend {
		t.Error("an account that reports may not suspend")
	}
	inUTC := cmp.Transformer("UTC", func(t metav1.Time) time.Time { return t.UTC() })
	if diff := cmp.Diff(aReport(), got.Status, inUTC); diff != "" {
		t.Errorf("status (-written +read):\n%s", diff)
	}
	got.Status.Pools[1] = got.Status.Pools[0]
	if err := c.Status().Update(t.Context(), got); !apierrors.IsInvalid(err) {
		t.Errorf("one pool twice: %v", err)
	}
	got = getPolicy(t, c, "report")
	got.Status.Pools[0].LastResult.Result = "Undecided"
	if err := c.Status().Update(t.Context(), got); !apierrors.IsInvalid(err) {
		t.Errorf("a result that is none: %v", err)
	}
}

// TestPolicyColumns reads the table that `kubectl get protopolicy` prints.
func TestPolicyColumns(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), policy("columns")); err != nil {
		t.Fatal(err)
	}
	p := getPolicy(t, c, "columns")
	p.Status = aReport()
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	table := tableOf(t.Context(), t, "prototypepolicies", "columns")
	got := map[string]any{}
	var usual []string
	for i, column := range table.ColumnDefinitions {
		got[column.Name] = table.Rows[0].Cells[i]
		if column.Priority == 0 {
			usual = append(usual, column.Name)
		}
	}
	delete(got, "Age")
	want := map[string]any{
		"Name": "columns", "Pools": 2.0, "Ready": "True", "Reason": "Watching", "Suspended": false, "Next run": "2026-11-22T02:00:00Z",
		"Dry run": false, "Message": "2 pools are watched",
	}
	for name, value := range want {
		if number, ok := got[name].(int64); ok {
			got[name] = float64(number)
		}
		if diff := cmp.Diff(value, got[name]); diff != "" {
			t.Errorf("column %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Pools", "Ready", "Reason", "Suspended", "Next run", "Age"}, usual); diff != "" {
		t.Errorf("columns without -o wide (-want +got):\n%s", diff)
	}
}
