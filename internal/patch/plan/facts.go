package plan

// Facts is the state of a reserved node during its patch, as one pass observed it. The values are few, so that tests can
// enumerate all reachable states.
type Facts struct {
	// Ending: the holder is deleted, or has failed elsewhere. Nothing new begins.
	Ending bool
	// Failure is the recorded failure; empty without a failure.
	Failure Reason

	Lock Lock
	Node Node
	// Off: the machine is off, and the holder does not start it.
	Off bool
	// Cordoned: the node takes no new pods. Drained: no pod is left to evict.
	Cordoned, Drained bool

	// Unhealthy: before the order of the patch, a DaemonSet is not Ready on the node, although healthy on other nodes.
	Unhealthy bool

	// Order is the recorded order. The record has the boot ID of the patch, which is the token of both orders.
	Order Order
	// OrderLeft: the NodeOrder or its key exists.
	OrderLeft bool
	// Pod is the pod of the order. PodKnown: the record has the UID of the pod.
	Pod      Pod
	PodKnown bool
	// Reported: the pod has signed a report of the patch that the record does not have yet.
	Reported bool
	// Result is the recorded report of the patch.
	Result Result
	// LevelQuarantined: the patch level of the report has failed on an earlier node.
	LevelQuarantined bool
	// LevelRecorded: the record says that the patch level failed on this node.
	LevelRecorded bool
	// Rebooted: the kubelet reports another boot than the recorded boot.
	Rebooted bool

	// PendingMarked, PatchedMarked and FailedMarked: the annotations of the Node show a pending reboot, the finished
	// patch, or the failed patch.
	PendingMarked, PatchedMarked, FailedMarked bool

	// Soaked: the node was Ready in service for the demanded time, with healthy DaemonSets.
	Soaked bool
	// Overdue: the current phase has exceeded its time: drain, patch, reboot or soak.
	Overdue bool
}

// Lock is the holder of the Node.
type Lock string

const (
	Unlocked Lock = ""
	Ours     Lock = "ours"
	Theirs   Lock = "theirs"
)

// Node is the state of the Node object.
type Node string

const (
	NodeGone     Node = ""
	NodeNotReady Node = "notReady"
	NodeReady    Node = "ready"
)

// Order is the method of the recorded order.
type Order string

const (
	NoOrder     Order = ""
	PatchOrder  Order = "patch"
	RebootOrder Order = "reboot"
)

// Pod is the state of the pod on the node.
type Pod string

const (
	NoPod     Pod = ""
	PodActive Pod = "active"
	PodFailed Pod = "failed" // ended without a report, or cannot start
	PodStuck  Pod = "stuck"  // has not started in time
)

// Result is the content of the report of a patch.
type Result string

const (
	NoResult   Result = ""
	Current    Result = "current"    // nothing was to install, and no reboot is pending
	Patched    Result = "patched"    // everything is installed, and the package manager is healthy
	Incomplete Result = "incomplete" // some package failed, or the package manager is not healthy
	Refused    Result = "refused"    // the order was not carried out, and nothing was installed
)

// hasLevel reports whether the record has the patch level on the disk.
func (f Facts) hasLevel() bool { return f.Result == Patched || f.Result == Incomplete }

// mustMarkFailed reports whether a patch failed, or ended without a report.
func (f Facts) mustMarkFailed() bool {
	switch {
	case f.Order == NoOrder, f.Node == NodeGone:
		return false
	case f.Result == NoResult, f.Result == Incomplete:
		return true
	case f.Result == Patched:
		return f.Failure.Blames() || f.Failure == LevelQuarantined
	}
	return false
}

// mustMarkPending reports whether the disk has packages that the node has not booted.
func (f Facts) mustMarkPending() bool {
	return f.Node != NodeGone && f.hasLevel() && !f.Rebooted
}
