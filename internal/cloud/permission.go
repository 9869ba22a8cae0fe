package cloud

import "context"

// PermissionMissing is the reason of a refusal if the credential lacks a permission for a capture.
const PermissionMissing = "PermissionMissing"

// PoolAtMaximum is the reason of a refusal if the pool has its maximum size, and must grow before the donor is drained.
const PoolAtMaximum = "PoolAtMaximum"

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

// ForRemoval is the value of Permission.For for removing instances (Remover).
const ForRemoval = "a donor that does not return"

// Values of Permission.For for trials (TrialRunner), by the place of the trial node.
const (
	ForTrialApart  = "a trial next to the pool"
	ForTrialInPool = "a trial in the pool"
)

// PermissionChecker is the power to list the needed permissions. PermissionChecker is optional: use As.
type PermissionChecker interface {
	// Permissions returns the permissions that Kamino needs for the pool, without those of which the cloud does not know whether
	// they are granted. Permissions returns Denied if the credential
	// may not list its own permissions. It changes nothing.
	Permissions(ctx context.Context, pool PoolID) ([]Permission, error)
}
