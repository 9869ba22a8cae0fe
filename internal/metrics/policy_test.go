package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
)

// Each pass counts again: a repaired policy has no series, and an unknown reason is no label.
func TestStalledPoliciesAreCountedAnew(t *testing.T) {
	m := New(nil, registry.All()...)
	value := func(reason string) float64 { return testutil.ToFloat64(m.stalled.WithLabelValues(reason)) }
	m.PoliciesStalled(map[string]int{v1alpha1.PolicyTooManyFailures: 2, "Made up": 1})
	if value(v1alpha1.PolicyTooManyFailures) != 2 || value(OtherReason) != 1 || value(v1alpha1.PolicyNoPoolMatches) != 0 {
		t.Error("the policies are not counted by their reasons")
	}
	m.PoliciesStalled(nil)
	if value(v1alpha1.PolicyTooManyFailures) != 0 || value(OtherReason) != 0 {
		t.Error("policies that were mended are still counted")
	}
}

// A pool with a repaired refusal has no series any more.
func TestRefusedCapturesAreCountedAnew(t *testing.T) {
	m := New(nil, registry.All()...)
	m.CapturesRefused(map[[2]string]int{{"pool1", "PermissionMissing"}: 2, {"pool2", "Made up"}: 1})
	page := `
# HELP kamino_pool_capture_refused 1 while a capture of the pool is due but refused, by pool and reason.
# TYPE kamino_pool_capture_refused gauge
kamino_pool_capture_refused{pool="pool1",reason="PermissionMissing"} 1
kamino_pool_capture_refused{pool="pool2",reason="Other"} 1
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(page), "kamino_pool_capture_refused"); err != nil {
		t.Error(err)
	}
	m.CapturesRefused(nil)
	if err := testutil.CollectAndCompare(m, strings.NewReader(""), "kamino_pool_capture_refused"); err != nil {
		t.Error(err)
	}
}
