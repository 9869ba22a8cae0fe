package capture

// Each type below has the engine's methods for one kind of object.
type (
	// eventRecorder records events and logs for users.
	eventRecorder struct{ *Engine }
	// prototypes reads Prototypes, and keeps the last one for the next pass.
	prototypes struct{ *Engine }
	// donorReservation manages the reservation of the donor: the Lease, the record, the scale-in protection and the
	// deadlines.
	donorReservation struct{ *Engine }
	// replacements removes leaving donors: the pool grows by a replacement, and the instance is removed with its Node.
	replacements struct{ *Engine }
	// drain evicts the pods of the donor.
	drain struct{ *Engine }
	// orders creates, reads and removes the NodeOrder with its key, and copies the pod's report.
	orders struct{ *Engine }
	// ruleReader reads the user's own rules.
	ruleReader struct{ *Engine }
	// pods creates, reads and removes the pod on the donor.
	pods struct{ *Engine }
	// artifacts reads the snapshot and the image version.
	artifacts struct{ *Engine }
	// promotion lets the recipe name the version: save the removed parts, write the recipe, retire versions, grow the
	// pool.
	promotion struct{ *Engine }
	// trials builds nodes from a version, and judges the version.
	trials struct{ *Engine }
	// failures turns final refusals of a cloud into the failure of the capture.
	failures struct{ *Engine }
	// preflight gathers all facts for the admission of a capture.
	preflight struct{ *Engine }
	// leftovers finds and removes the objects of captures that are gone.
	leftovers struct{ *Engine }
)
