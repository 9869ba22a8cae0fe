package cloud

// PermissionMissing is the reason of a refusal if the credential lacks a permission for a capture.
const PermissionMissing = "PermissionMissing"

// PoolAtMaximum is the reason of a refusal if the pool has its maximum size, and must grow before the donor is drained.
const PoolAtMaximum = "PoolAtMaximum"

// RootDiskTooLarge is the reason of a refusal if the donor's root disk is larger than the root disk in the recipe. New nodes
// from the image could not be created.
const RootDiskTooLarge = "RootDiskTooLarge"

// Permission is one action that a credential needs.
type Permission struct {
	// Action and Scope are in the cloud's own words.
	Action string `json:"action"`
	Scope  string `json:"scope"`
	// Allowed is true if the credential has the permission.
	Allowed bool `json:"allowed"`
	// For names the feature that needs the permission; empty if every capture needs it.
	For string `json:"for,omitempty"`
	// Remedy is how to grant the permission; empty if a role with the action is enough.
	Remedy string `json:"remedy,omitempty"`
}

// ForRemoval is the value of Permission.For for EnsureRemoved.
const ForRemoval = "a donor that does not return"

// ForTrialApart is the value of Permission.For for trials.
const ForTrialApart = "a trial next to the pool"

// ForConsole is the value of Permission.For for ConsoleOutput.
const ForConsole = "the serial console of a failed trial"
