package cloud

import "context"

// PermissionMissing is the reason of a preflight's refusal that the credential may not do what a capture needs.
const PermissionMissing = "PermissionMissing"

// PoolAtMaximum is the reason of a refusal that the pool is to grow before its donor is taken, and may not be larger than it is.
const PoolAtMaximum = "PoolAtMaximum"

// Permission is one thing that a credential must be allowed to do.
type Permission struct {
	// Action and Scope in the cloud's own words.
	Action string `json:"action"`
	Scope  string `json:"scope"`
	// Allowed tells whether the credential may.
	Allowed bool `json:"allowed"`
	// For says what needs it, where captures do without; empty if they don't.
	For string `json:"for,omitempty"`
	// Remedy says how the credential gets it, where a role of the cloud's that holds the action is not the way.
	Remedy string `json:"remedy,omitempty"`
}

// ForRemoval is what a Permission is for that only removing an instance needs (Remover).
const ForRemoval = "a donor that does not return"

// What a Permission is for that only a trial needs (Trialist), by where the trial node is built.
const (
	ForTrialApart  = "a trial beside the pool"
	ForTrialInPool = "a trial in the pool"
)

// Auditor is the power to list what a credential needs and whether it has it. It is optional: a caller asks with As.
type Auditor interface {
	// Permissions lists everything that Kamino may do for the pool. Denied if the credential may not list its own
	// permissions: then the calls themselves will tell. It is a look.
	Permissions(ctx context.Context, pool PoolID) ([]Permission, error)
}
