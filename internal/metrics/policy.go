package metrics

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// stalledReasons are those of a policy's condition Stalled.
var stalledReasons = []string{
	v1alpha1.PolicyNoPoolMatches, v1alpha1.PolicyPoolClaimedTwice, v1alpha1.PolicyScheduleInvalid, v1alpha1.PolicyScheduleNeverFires,
	v1alpha1.PolicyExpressionInvalid, v1alpha1.PolicyTooManyFailures, v1alpha1.PolicyCloudUnavailable,
	v1alpha1.PolicyCurrentVersionMissing, v1alpha1.PolicyPreflightFailed,
}

// PoliciesStalled takes over how many policies are stalled for each reason, at the last pass over all of them.
func (m *Metrics) PoliciesStalled(byReason map[string]int) {
	counted := 0
	for _, reason := range stalledReasons {
		m.stalled.WithLabelValues(reason).Set(float64(byReason[reason]))
		counted += byReason[reason]
	}
	all := 0
	for _, n := range byReason {
		all += n
	}
	m.stalled.WithLabelValues(OtherReason).Set(float64(all - counted))
}
