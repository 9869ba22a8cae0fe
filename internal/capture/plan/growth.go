package plan

// The growth of a pool by a pioneer. The Prototype names no donor yet. After Bind, the added node is a donor that leaves.

// GrowthFacts is the state of the growth as one pass observed it.
type GrowthFacts struct {
	// Deleting, Failed, Refused and Queued are as in Facts.
	Deleting, Failed, Refused, Queued bool
	// Unrecorded: the record is lost, so that whether the pool has grown is unknown.
	Unrecorded bool
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

// NextGrowth returns exactly one action or one wait before the Prototype names its donor. A registered Node is always bound,
// also at the end, because the removal of a donor drains the node. The end waits for an instance in creation.
func NextGrowth(f GrowthFacts) Decision {
	switch {
	case f.Failed || f.Deleting:
		return endGrowth(f)
	case f.Instance == InstanceRemoved: // the status with the failure is lost
		return fail(AddedNodeNotJoined)
	case f.Unrecorded:
		return fail(RecordLost)
	case !f.Decided && f.Refused:
		return do(Refuse)
	case !f.Decided && f.Queued:
		return wait(ForTurn)
	case f.Decided && f.Grown && f.Registered:
		return do(Bind)
	case f.Instance == InstanceRemoving:
		return do(Remove)
	case f.Decided && f.Overdue:
		return fail(AddedNodeNotJoined)
	case !f.Grown:
		return do(Enlarge)
	default:
		return wait(ForAddedNode)
	}
}

// endGrowth ends a capture whose Prototype names no donor.
func endGrowth(f GrowthFacts) Decision {
	switch {
	case f.Instance == InstanceRemoved, !f.Decided, !f.Grown && f.Instance != InstanceRemoving:
		return do(Close)
	case f.Grown && f.Registered:
		return do(Bind)
	case f.Instance == InstanceRemoving, f.Instance == InstancePresent:
		return do(Remove)
	default:
		return wait(ForAddedNode)
	}
}
