package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/policy"
)

// Each pass counts again: a repaired policy has no series, and an unknown reason is no label.
func TestStalledPoliciesAreReplaced(t *testing.T) {
	m := New(nil, registry.All()...)
	m.PoliciesStalled(map[policy.Stall]bool{
		{Policy: "all", Pool: "pool1", Reason: v1alpha1.PolicyTooManyFailures}: true,
		{Policy: "all", Pool: "pool2", Reason: v1alpha1.PolicyTooManyFailures}: true,
		{Policy: "gpu", Reason: "Made up"}:                                     true,
	})
	page := `
# HELP kamino_policy_stalled 1 while a policy waits for a user to fix the cause in condition Stalled, by policy, pool and reason.
# TYPE kamino_policy_stalled gauge
kamino_policy_stalled{policy="all",pool="pool1",reason="TooManyFailures"} 1
kamino_policy_stalled{policy="all",pool="pool2",reason="TooManyFailures"} 1
kamino_policy_stalled{policy="gpu",pool="",reason="Other"} 1
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(page), "kamino_policy_stalled"); err != nil {
		t.Error(err)
	}
	m.PoliciesStalled(nil)
	if err := testutil.CollectAndCompare(m, strings.NewReader(""), "kamino_policy_stalled"); err != nil {
		t.Error(err)
	}
}

// A pool with a repaired refusal has no series any more.
func TestRefusedCapturesAreReplaced(t *testing.T) {
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
