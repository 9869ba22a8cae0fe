package nodestate

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// problem matches conditions that report a problem when they are True. Sources: Kubernetes, node-problem-detector, EKS' node monitoring
// agent, AKS' conditions, the remedies of Cluster API.
var problem = regexp.MustCompile(`Pressure|Unavailable|Unhealthy|NotReady|Deadlock|Readonly|ReadOnly|Corrupt|Frequent|Problem|Scheduled$|Shutdown|Reboot|` +
	`Error|Fail|Fault|Fatal|Unregister|Degraded|Exhausted|Broken|Hung|Stuck|Stall|Leak|Lost|Down$|Missing|Crash|Oops|Panic|Throttl|Overload|` +
	`Timeout|Issue|Bad|Slow|Skew|OOM|OutOf|Conflict|` +
	`Invalid|Expired|Interrupt|Maintenance|Terminat|Preempt`)

// ReportsProblem reports whether a condition of this type reports a problem of the node when it is True.
func ReportsProblem(condition corev1.NodeConditionType) bool {
	return problem.MatchString(string(condition))
}
