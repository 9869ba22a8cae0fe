package recipe

// The renewal of a warm pool after a promotion or a rollback: its instances have the image from when they were launched. Kamino makes the
// warm pool smaller by a few instances, and then as large as before, until none of another image is left. The cloud chooses which instances
// end, so a round that ends none of the old ones is followed by one that is twice as large. The record precedes each change, so that the
// owner's limits come back after a crash.

// The steps of a renewal, besides Done. Each step may be repeated.
const (
	// Wait: instances are entering or leaving the warm pool.
	Wait Action = "Wait"
	// Record writes the owner's limits and the next smaller size into the record.
	Record Action = "Record"
	// Shrink makes the warm pool smaller, Note records how many old instances are left, and Restore writes the owner's limits.
	Shrink  Action = "Shrink"
	Note    Action = "Note"
	Restore Action = "Restore"
	// Forget deletes the record.
	Forget Action = "Forget"
)

// limits compare the limits of a warm pool with the record.
type limits string

const (
	// ofOwner: as the owner wrote them, or without a record.
	ofOwner limits = "Owner"
	// smaller: as Kamino wrote them.
	smaller limits = "Smaller"
	// changed: another client changed them since the record.
	changed limits = "Changed"
)

// warmFacts are the observed facts of a renewal.
type warmFacts struct {
	// exists is true if the pool has a warm pool.
	exists bool
	limits limits
	// changing is true until the warm pool has the size of its limits.
	changing bool
	// old is true if instances of another image wait in the warm pool, and Kamino may renew them.
	old bool
	// recorded is true if there is a record, and noted if it has the result of its round.
	recorded, noted bool
}

// nextWarm returns the next step. Another client's change of the warm pool ends the renewal, and stays.
func nextWarm(f warmFacts) Decision {
	switch {
	case f.recorded && (!f.exists || f.limits == changed):
		return do(Forget)
	case !f.exists, !f.recorded && !f.old:
		return do(Done)
	case f.changing:
		return do(Wait)
	case f.limits == smaller && !f.noted:
		return do(Note)
	case f.limits == smaller:
		return do(Restore)
	case !f.old:
		return do(Forget)
	case !f.recorded || f.noted:
		return do(Record)
	}
	return do(Shrink)
}
