package cloud

// Reasons of refusals. A reason is for a group of obstacles with one kind of remedy: the refusal's message has the object, the
// obstacle and the remedy, and the providers describe each obstacle.
const (
	// PermissionMissing: the credential lacks a permission for a capture.
	PermissionMissing = "PermissionMissing"
	// ManagedElsewhere: a service or another tool owns the pool's image, and would revert a change.
	ManagedElsewhere = "ManagedElsewhere"
	// NodesWouldBeReplaced: a change of the pool's image would replace running nodes.
	NodesWouldBeReplaced = "NodesWouldBeReplaced"
	// PoolBeingDeleted: the pool, or the cluster that it belongs to, is being deleted.
	PoolBeingDeleted = "PoolBeingDeleted"
	// PoolUnsupported: Kamino cannot change the image of a pool of this kind, or with this setting.
	PoolUnsupported = "PoolUnsupported"
	// PoolNotCopyable: an instance outside the pool cannot be as the instances of the pool are.
	PoolNotCopyable = "PoolNotCopyable"
	// TemplateUnsuitable: nodes from the pool's template would not have the image, or not only the image.
	TemplateUnsuitable = "TemplateUnsuitable"
	// SystemUnsupported: the instance runs a system whose disk Kamino cannot generalize.
	SystemUnsupported = "SystemUnsupported"
	// DiskUnsupported: the donor's disk cannot become an image.
	DiskUnsupported = "DiskUnsupported"
	// RootDiskTooLarge: the donor's root disk is larger than the root disk in the recipe. New nodes from the image could not be
	// created.
	RootDiskTooLarge = "RootDiskTooLarge"
	// DonorProtected: the donor or a trial cannot be stopped or deleted.
	DonorProtected = "DonorProtected"
	// StopTerminates: the donor may not come back after it is stopped.
	StopTerminates = "StopTerminates"
	// CustomDataUnusable: the copy of customData is missing, not allowed for the pool, or too large.
	CustomDataUnusable = "CustomDataUnusable"
	// VersionExists: the pool has a version of the same name.
	VersionExists = "VersionExists"
)
