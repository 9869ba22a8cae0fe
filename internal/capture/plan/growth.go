package plan

// The growth of a pool by a pioneer. The Prototype names no donor yet. After Bind, the added node is a donor that leaves.

// GrowthFacts is the state of a pool that grows by the donor.
type GrowthFacts struct {
	// Awaited: the Prototype names no donor yet.
	Awaited bool
	// Decided: the record has the target size of the pool.
	Decided bool
	// Grown: the size of the pool is the target size.
	Grown bool
	// Registered: a Node has joined the pool since the decision, and no other holder has reserved the Node.
	Registered bool
	// Instance is the instance without a Node that the pool has got since the decision.
	Instance AddedInstance
	// Overdue: the added node has exceeded its timeout to register.
	Overdue bool
}

// AddedInstance is the instance of an added node before its Node exists.
type AddedInstance string

const (
	NoInstance       AddedInstance = ""
	InstancePresent  AddedInstance = "present"
	InstanceRemoving AddedInstance = "removing" // the record names the instance for its removal
	InstanceRemoved  AddedInstance = "removed"
)

// grow decides before the Prototype names its donor. A registered Node is always bound,
// also at the end, because the removal of a donor drains the node. The end waits for an instance in creation.
func grow(f Facts) Decision {
	switch {
	case f.Failed || f.Deleting:
		return endGrowth(f)
	case f.Growth.Instance == InstanceRemoved: // the status with the failure is lost
		return fail(AddedNodeNotJoined)
	case f.Unrecorded:
		return fail(RecordLost)
	case !f.Growth.Decided && f.Refused:
		return do(Refuse)
	case !f.Growth.Decided && f.Queued:
		return wait(ForTurn)
	case f.Growth.Decided && f.Growth.Grown && f.Growth.Registered:
		return do(Bind)
	case f.Growth.Instance == InstanceRemoving:
		return do(Remove)
	case f.Growth.Decided && f.Growth.Overdue:
		return fail(AddedNodeNotJoined)
	case !f.Growth.Grown:
		return do(Enlarge)
	default:
		return wait(ForAddedNode)
	}
}

// endGrowth ends a capture whose Prototype names no donor.
func endGrowth(f Facts) Decision {
	switch {
	case f.Growth.Instance == InstanceRemoved, !f.Growth.Decided, !f.Growth.Grown && f.Growth.Instance != InstanceRemoving:
		return do(Close)
	case f.Growth.Grown && f.Growth.Registered:
		return do(Bind)
	case f.Growth.Instance == InstanceRemoving, f.Growth.Instance == InstancePresent:
		return do(Remove)
	default:
		return wait(ForAddedNode)
	}
}
