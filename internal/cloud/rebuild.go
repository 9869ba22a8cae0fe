package cloud

// Rebuild is the progress of an instance's rebuild.
type Rebuild struct {
	// State is Pending during the rebuild, and Complete once the instance runs from a disk of the version.
	State State
	// Trouble is the cloud's message if the last attempt failed. The call that returned it has started another attempt.
	Trouble string
}
