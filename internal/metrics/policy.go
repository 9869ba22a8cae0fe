package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy"
)

var captureRefusedDesc = gauge("pool_capture_refused", "1 while a capture of the pool is due but refused, by pool and reason.", "pool", "reason")

var policyStalledDesc = gauge("policy_stalled", "1 while a policy waits for a user to fix the cause in condition Stalled, by policy, pool and reason.",
	"policy", "pool", "reason")

// stalledReasons are the reasons of a policy's condition Stalled.
var stalledReasons = setOf(
	v1alpha1.PolicyNoPoolMatches, v1alpha1.PolicyPoolClaimedTwice, v1alpha1.PolicyScheduleInvalid, v1alpha1.PolicyScheduleNeverFires,
	v1alpha1.PolicyExpressionInvalid, v1alpha1.PolicyUnreadable, v1alpha1.PolicyTooManyFailures, v1alpha1.PolicyCloudUnavailable,
	v1alpha1.PolicyCurrentVersionMissing, v1alpha1.PolicyRollingBack, v1alpha1.PolicyRolledBack, v1alpha1.PolicyPreflightFailed,
)

// stalls are the stalled policies of the last pass over all policies.
type stalls struct {
	mu  sync.Mutex
	all map[policy.Stall]bool
}

// PoliciesStalled sets the stalled policies, from the last pass over all policies.
func (m *Metrics) PoliciesStalled(all map[policy.Stall]bool) {
	known := make(map[policy.Stall]bool, len(all))
	for stall := range all {
		if !stalledReasons[stall.Reason] {
			stall.Reason = OtherReason
		}
		known[stall] = true
	}
	m.stalls.mu.Lock()
	defer m.stalls.mu.Unlock()
	m.stalls.all = known
}

func (s *stalls) collect(samples chan<- prometheus.Metric) {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for stall := range all {
		samples <- prometheus.MustNewConstMetric(policyStalledDesc, prometheus.GaugeValue, 1, stall.Policy, stall.Pool, stall.Reason)
	}
}

// Results of a node's rebuild.
const (
	rebuilt    = "rebuilt"
	notRebuilt = "not_rebuilt"
)

// NodeRebuilt counts the end of a node's rebuild for a policy, with success or without.
func (m *Metrics) NodeRebuilt(success bool) {
	result := notRebuilt
	if success {
		result = rebuilt
	}
	m.rebuilds.WithLabelValues(result).Inc()
}

// refusedCaptures are the wanted and refused captures by the pool's name and the reason. A count replaces the earlier
// count.
type refusedCaptures struct {
	mu    sync.Mutex
	count map[[2]string]int
}

// CapturesRefused sets the pools with a wanted and refused capture at the last pass, by the pool's name and the reason.
// Pools with equal names, in two resource groups, share a series.
func (m *Metrics) CapturesRefused(byPoolAndReason map[[2]string]int) {
	known := map[[2]string]int{}
	for key := range byPoolAndReason {
		if !m.refusals.set[key[1]] && !choiceReasons[key[1]] && key[1] != v1alpha1.PolicyTooManyFailures {
			key[1] = OtherReason
		}
		known[key] = 1
	}
	m.refused.mu.Lock()
	defer m.refused.mu.Unlock()
	m.refused.count = known
}

func (r *refusedCaptures) collect(samples chan<- prometheus.Metric) {
	r.mu.Lock()
	count := r.count
	r.mu.Unlock()
	for key, n := range count {
		samples <- prometheus.MustNewConstMetric(captureRefusedDesc, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
}
