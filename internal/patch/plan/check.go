package plan

// CheckFacts is the state of a check for pending patches on one node in service, as one pass observed it. The NodeOrder is the
// only record of the check.
type CheckFacts struct {
	// NodeOrder: the NodeOrder of the check exists. Overdue: the NodeOrder is too old.
	Order, Overdue bool
	// Node is the node of the NodeOrder; without a NodeOrder, the node that will be asked.
	Node Node
	// Rebooted: the node runs another boot than the boot of the NodeOrder.
	Rebooted bool
	// Pod is the pod of the check. PodFailed is also the pod of an earlier NodeOrder.
	Pod Pod
	// Reported: the pod has signed a report that answers the NodeOrder.
	Reported bool
}

// The causes of a check without a report.
const (
	// CheckFailed: the pod ended without a report. CheckTimeout: the pod has not reported in time.
	CheckFailed  Reason = "CheckFailed"
	CheckTimeout Reason = "CheckTimeout"
)

// NextCheck returns one action for a check. OrderCheck creates the NodeOrder, its key and the pod. Kamino cannot read whether a
// key exists, so a NodeOrder without a pod begins again.
func NextCheck(f CheckFacts) Decision {
	switch {
	case f.Order && f.Reported:
		return do(Believe)
	case f.Node == NodeGone:
		return fail(NodeGoneAway)
	case !f.Order && f.Pod != NoPod:
		return do(DeletePod)
	case !f.Order && f.Node != NodeReady:
		return wait(ForNode)
	case !f.Order:
		return do(OrderCheck)
	case f.Rebooted:
		return fail(Interrupted)
	case f.Pod == NoPod && f.Overdue:
		return fail(CheckTimeout)
	case f.Pod == NoPod:
		return do(DeleteOrder)
	case f.Pod == PodFailed:
		return fail(CheckFailed)
	case f.Overdue:
		return fail(CheckTimeout)
	default:
		return wait(ForReport)
	}
}
