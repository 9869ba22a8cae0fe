package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Each pass counts anew: a policy that was mended is no longer told, and no reason of nobody's set is a label.
func TestStalledPoliciesAreCountedAnew(t *testing.T) {
	m := New(nil)
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
