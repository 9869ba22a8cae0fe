package cloud

import "context"

// ConsoleSize is the part of a serial console that ConsoleOutput returns, in bytes. Source: EC2, GetConsoleOutput.
const ConsoleSize = 64 << 10

// Machines are the calls about instances and snapshots.
type Machines interface {
	// SameInstance reports whether two IDs name one instance, in any spelling. SameInstance does no I/O.
	SameInstance(a, b InstanceID) bool

	// Instance returns an instance; NotFound if there is none.
	Instance(ctx context.Context, id InstanceID) (Instance, error)

	// EnsureStopped powers off a running instance, keeping its host, network and address, and returns the current
	// state. Repeated calls are harmless.
	EnsureStopped(ctx context.Context, id InstanceID) (Power, error)

	// EnsureStarted starts a stopped instance and returns the current state.
	EnsureStarted(ctx context.Context, id InstanceID) (Power, error)

	// Restart restarts the operating system of a running instance, which keeps its host, disk and addresses. Restart returns when the
	// cloud has accepted the restart: a later call restarts the instance again.
	Restart(ctx context.Context, id InstanceID) error

	// ConsoleOutput returns the end of the instance's serial console, at most ConsoleSize bytes; empty before the first
	// output. Any program of the instance writes to the console. ConsoleOutput returns Unsupported if the cloud keeps no
	// console of the instance, and NotFound without the instance.
	ConsoleOutput(ctx context.Context, id InstanceID) (string, error)

	// Snapshot returns the named snapshot of the instance. An absent snapshot is no error but a State.
	Snapshot(ctx context.Context, instance InstanceID, name string) (Snapshot, error)

	// EnsureSnapshot starts the snapshot if it does not exist, and returns the snapshot in any state. EnsureSnapshot
	// never makes a second snapshot of the same name, and never changes an existing snapshot.
	//
	// With InUse the instance stays as it is, and the content of the snapshot is fixed when the call returns: later writes of
	// the guest are not in the snapshot. EnsureSnapshot returns Invalid for a snapshot with InUse without owner and end.
	EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (Snapshot, error)

	// DeleteSnapshot starts the deletion. A missing snapshot is no error.
	DeleteSnapshot(ctx context.Context, instance InstanceID, name string) error

	// DropSnapshot starts the deletion of a snapshot by ID, for snapshots of forgotten captures. A missing snapshot is
	// no error.
	DropSnapshot(ctx context.Context, id string) error
}

// Pools are the calls about pools and the instances of pools.
type Pools interface {
	// PoolsOf returns the pool of each node, in the order of the nodes, or why the node has no pool, which is no error.
	// After an error nothing is known about any node. Ask once for all nodes, because a cloud may handle many nodes in
	// one request. All spellings of an instance give one spelling of its pool. PoolsOf changes nothing.
	PoolsOf(ctx context.Context, nodes []NodeValues) ([]Membership, error)

	// PoolName returns the pool's name from its ID without I/O.
	PoolName(id PoolID) string

	// SetRecipe carries out the change, and changes no running instance. SetRecipe returns Conflict if the recipe has
	// changed since the change was made. It returns nil only if the answer to the write, or a read afterwards, shows the
	// wanted recipe.
	//
	// SetRecipe returns Refused if the pool's policy would update running instances. The provider checks the policy
	// together with the write, so that no other client can change the policy between.
	SetRecipe(ctx context.Context, change RecipeChange) error

	// CapturesInPlace reports whether donors can be powered off for captures in place. If not, the pool might replace them, and
	// Protection has an empty token. CapturesInPlace does no I/O.
	CapturesInPlace() bool

	// Protection returns the protection of the instance in its pool. Store the token before calling ProtectFromScaleIn,
	// so that a lost call loses nothing. Protection returns NotFound without the instance.
	Protection(ctx context.Context, id InstanceID) (Protection, error)

	// ProtectFromScaleIn protects the instance from its pool's automatic actions until Unprotect. token is the token of
	// Protection before. Repeated calls are harmless. After success, Protection shows the instance as protected. An empty
	// token does nothing.
	ProtectFromScaleIn(ctx context.Context, id InstanceID, token string) error

	// Unprotect restores the state of the token, in spite of later changes: after success Protection returns that token.
	// Every provider accepts TokenUnprotected. An empty token does nothing. A foreign token is Invalid and changes
	// nothing.
	Unprotect(ctx context.Context, id InstanceID, token string) error

	// Instances returns the pool's instances with ID, pool, protection, refusals, Image and BuiltFrom. Power may be
	// PowerUnknown, because some clouds report power only for single instances. CreatedAt may be the time of the
	// request. Instances returns NotFound without the pool. It changes nothing.
	Instances(ctx context.Context, pool PoolID) ([]Instance, error)

	// MaxImages returns the limit of different images in the pool, including the recipe's image; 0 without a limit. A
	// pool at the limit cannot grow. MaxImages does no I/O.
	MaxImages(pool PoolID) int

	// PoolsInScope returns the pools next to the given pools (on Azure: in the same resource groups), including the
	// given pools, each once. The instances need not be nodes of this cluster. PoolsInScope changes nothing. Within
	// WithReadCache, later reads of the recipes of these pools may use the result of the list.
	PoolsInScope(ctx context.Context, pools ...PoolID) ([]PoolID, error)

	// ReadPool parses a pool's full ID as a person or the cloud's tool writes it; false for any other text. ReadPool
	// does no I/O and does not check whether the pool exists.
	ReadPool(text string) (PoolID, bool)

	// Permissions returns the permissions that Kamino needs for the pool, as far as the cloud knows whether they are
	// granted. Permissions returns Denied if the credential may not list its own permissions. It changes nothing.
	Permissions(ctx context.Context, pool PoolID) ([]Permission, error)

	// RestoreChange plans the restoration of saved parts: the old image, unless it is a version of the pool, and each
	// lost part. Later additions to the recipe stay. SetRecipe carries out the change; its Version is empty.
	//
	// A part neither saved completely nor given is in Missing, and the recipe stays without it. RestoreChange returns
	// Invalid for a backup of another cloud or pool, or for unusable given parts. It changes nothing.
	RestoreChange(ctx context.Context, pool PoolID, saved Saved) (RecipeChange, error)

	// ResizeWarmPool changes the limits of the pool's warm pool. The cloud itself ends surplus instances of the warm pool, and never a
	// node: also no instance that has just left the warm pool. ResizeWarmPool returns Conflict, before any change, unless the limits are
	// those of from, and NotFound without a warm pool.
	ResizeWarmPool(ctx context.Context, pool PoolID, from, to WarmLimits) error

	// CanRebuild reports whether the provider supports EnsureRebuilt for instances of the pool. If not, EnsureRebuilt returns Unsupported.
	// CanRebuild does no I/O.
	CanRebuild(pool PoolID) bool

	// EnsureRebuilt rebuilds the instance in place: with the pool's current recipe and an OS disk of the recipe's image.
	// Name, address and ID stay; the OS disk's content is lost. An instance that was built from the version, or is being
	// rebuilt, is left alone.
	//
	// EnsureRebuilt returns the progress. It returns Conflict, before any change, if the pool's recipe does not name the
	// version, and NotFound without the instance. The guest is not asked: cordon and drain first.
	EnsureRebuilt(ctx context.Context, id InstanceID, version string) (Rebuild, error)
}

// TrialBuilder has the calls about trials. A trial builds an instance from a version before its promotion.
type TrialBuilder interface {
	// PreflightTrial returns every obstacle to a trial apart from the version: a missing permission, an exhausted
	// quota, a pool that cannot be copied. Nil means no obstacle. The version need not exist.
	PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error)

	// Trial returns the state of a trial. A trial that never began, or whose pool is deleted, is Absent without error.
	Trial(ctx context.Context, spec TrialSpec) (Trial, error)

	// Trials returns the unfinished trials in the places of the pools, also of pools that are gone. It reads the cloud's own
	// records, because the process that began a trial may be gone. Each spec is complete for reading and ending the trial, except RemoveBootstrap and
	// other tags than those of OwnerTags. Trials changes nothing.
	Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error)

	// EnsureTrial begins the trial if it does not exist, and returns its state. Before EndTrial it never builds a
	// second instance for a spec, even if the first is gone. EnsureTrial returns NotFound without the version, and
	// Conflict for an incomplete version.
	//
	// EnsureTrial returns Refused for a pool that cannot be copied, and QuotaExceeded if the cloud reports missing room
	// at once.
	EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error)

	// EndTrial starts to remove everything of the trial. EndTrial returns Deleting, or Absent after the removal.
	//
	// Repeated calls are harmless. EndTrial does nothing for a trial that never began.
	EndTrial(ctx context.Context, spec TrialSpec) (State, error)
}

// WorkshopBuilder has the calls about workshops. A workshop is an instance that is built as the pool would build the next one, but
// belongs to no pool. A capture by copy cleans the copy of its donor's disk on a workshop, and throws the workshop away.
type WorkshopBuilder interface {
	// CanBuildWorkshops reports whether the provider has workshops. If not, there is never a workshop, and PreflightWorkshop and
	// EnsureWorkshop return Unsupported. CanBuildWorkshops does no I/O.
	CanBuildWorkshops() bool

	// PreflightWorkshop returns every obstacle to a workshop, as PreflightTrial does to a trial. Nil means no obstacle.
	PreflightWorkshop(ctx context.Context, spec WorkshopSpec) ([]Refusal, error)

	// Workshop returns the state of a workshop, in the form of a trial. A workshop that never began, or whose pool is
	// deleted, is Absent without error.
	Workshop(ctx context.Context, spec WorkshopSpec) (Trial, error)

	// Workshops returns the unfinished workshops in the places of the pools, also of pools that are gone, from the cloud's own records. Each spec is complete for
	// reading and ending the workshop, with the tags of OwnerTags. Trials never lists a workshop. Workshops changes nothing.
	Workshops(ctx context.Context, pools ...PoolID) ([]WorkshopSpec, error)

	// EnsureWorkshop begins the workshop if it does not exist, and returns its state. Before EndWorkshop it never builds a
	// second instance for a spec, even if the first is gone. Kamino attaches no disk at the launch: a machine that boots
	// with the copy of another root may boot the copy.
	//
	// EnsureWorkshop returns Invalid without owner and end, Refused for a pool that cannot be copied, and QuotaExceeded if
	// the cloud reports missing room at once.
	EnsureWorkshop(ctx context.Context, spec WorkshopSpec) (Trial, error)

	// EndWorkshop starts to remove the instance, in any power state. EndWorkshop returns Deleting, or Absent after the
	// removal. A copy that the instance has stays, and is attached no longer after the removal. Repeated calls are harmless.
	EndWorkshop(ctx context.Context, spec WorkshopSpec) (State, error)
}

// DiskCopier has the calls about copies of donors' disks: from a snapshot to a further disk of a workshop, and from this disk to
// a snapshot for an image.
type DiskCopier interface {
	// CanCopyDisks reports whether the provider has copies. If not, there is never a copy, and EnsureAttached and
	// EnsureCopySnapshot return Unsupported. CanCopyDisks does no I/O.
	CanCopyDisks() bool

	// CopiesOnRequest reports whether captures by copy are for users who ask for them: what a snapshot of a disk in use holds is
	// not documented, and unverified. CopiesOnRequest does no I/O.
	CopiesOnRequest() bool

	// Copy returns the state of a copy. An absent copy is no error but a State.
	Copy(ctx context.Context, spec CopySpec) (DiskCopy, error)

	// EnsureAttached makes a disk from the snapshot if the copy does not exist, where the instance is, and attaches the disk to
	// the instance. It returns the state in any case. The disk is encrypted as the snapshot is. EnsureAttached never makes a second
	// copy of a name before EndCopy, even if the first is gone. Once the copy is attached, the snapshot may be deleted.
	//
	// EnsureAttached returns Invalid without order, owner and end, NotFound without the instance or the snapshot, and
	// Conflict unless the instance is running and the snapshot is Complete. A machine that is off could boot the copy.
	EnsureAttached(ctx context.Context, spec CopySpec) (DiskCopy, error)

	// EnsureDetached takes the copy from its instance, and keeps the copy. The guest is not asked: the copy must not be
	// mounted. EnsureDetached returns the state; without a copy it does nothing.
	EnsureDetached(ctx context.Context, spec CopySpec) (DiskCopy, error)

	// EnsureCopySnapshot is EnsureSnapshot for the copy instead of the OS disk of the instance in the SnapshotSpec. Snapshot and
	// DeleteSnapshot find it as a snapshot of that instance: the donor. EnsureImage accepts it as one of the donor's disk.
	//
	// EnsureCopySnapshot returns NotFound without the copy, Conflict unless the copy is Complete and a disk of no instance, and Invalid
	// unless it is the proven disk.
	EnsureCopySnapshot(ctx context.Context, spec CopySpec, snapshot SnapshotSpec) (Snapshot, error)

	// EndCopy starts to delete the copy, and detaches the copy before. EndCopy returns Deleting, or Absent after the deletion.
	// Repeated calls are harmless. If the guest keeps the disk busy, the deletion waits for the end of the instance.
	EndCopy(ctx context.Context, spec CopySpec) (State, error)
}

// Versions are the calls about the recipe and the image versions of a pool. Both halves of a cloud answer together.
type Versions interface {
	// Pool returns a pool with its recipe.
	Pool(ctx context.Context, id PoolID) (Pool, error)

	// BuiltFrom returns the version of the pool's image family that an instance was built from; empty for another image.
	// BuiltFrom does no I/O: it reads the image of the given instance.
	BuiltFrom(pool PoolID, instance Instance) string

	// Preflight returns every obstacle in the cloud that would make a capture fail later: a wrong kind of pool or
	// instance, a missing permission, an existing name or version, an exhausted quota. Nil means no obstacle. Both
	// halves are asked.
	Preflight(ctx context.Context, spec PreflightSpec) ([]Refusal, error)

	// Image returns one version with its progress. An absent version is no error but a State.
	Image(ctx context.Context, ref ImageRef) (Image, error)

	// Images returns the pool's versions, oldest first in the order of package imageversion. Without an image family
	// there are no versions.
	Images(ctx context.Context, pool PoolID) ([]Image, error)

	// EnsureImage starts making the version from the snapshot, with its prerequisites, if the version does not exist.
	// It returns the version in any state. A failed version is retried only if another kind of storage is required. No
	// recipe uses the version as "latest": a pool uses the version only after SetRecipe.
	EnsureImage(ctx context.Context, spec ImageSpec) (Image, error)

	// TagImage sets tags of a version; an empty value removes the tag. TagImage returns NotFound without the version.
	TagImage(ctx context.Context, ref ImageRef, tags map[string]string) error

	// AllowLaunches lets the cloud launch instances from a Complete version, or refuse every launch of any client. Running
	// instances stay. The version in the pool's recipe is not forbidden but a Conflict, after a fresh read of the recipe.
	// AllowLaunches does nothing where Image.Launches is always empty, and else returns NotFound without the version.
	AllowLaunches(ctx context.Context, ref ImageRef, allow bool) error

	// DeleteImage starts the version's deletion. A missing version is no error. The version in the pool's recipe is
	// refused with Conflict, after a fresh read of the recipe.
	DeleteImage(ctx context.Context, ref ImageRef) error

	// Snapshots returns the snapshots with TagUID in the places of the pools' snapshots, each once, also of forgotten
	// captures. Name is the value of TagPrototype. Snapshots changes nothing.
	Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error)

	// Copies returns the copies of donors' disks in the places of the pools' snapshots, each once, also of forgotten captures. Each spec is
	// complete for all calls but EnsureAttached, with the tags of OwnerTags. Copies changes nothing.
	Copies(ctx context.Context, pools ...PoolID) ([]CopySpec, error)

	// RecipeChange plans the change of the pool's recipe to the version. With removeBootstrap the recipe loses its
	// bootstrap. All other parts stay.
	RecipeChange(ctx context.Context, ref ImageRef, removeBootstrap bool) (RecipeChange, error)
}

// Provider is a whole cloud, for the programs that pass it on. A package that uses a cloud declares an interface with the few
// methods that it calls; a Provider has all. New makes a Provider from an ImageProvider and a PoolProvider, the two halves that
// a cloud implements. Intercept and InCluster decorate a Provider.
type Provider struct {
	Machines
	Pools
	TrialBuilder
	WorkshopBuilder
	DiskCopier
	Versions
}

// CanCopy reports whether the provider supports captures by copy, without I/O.
func (p Provider) CanCopy() bool { return p.CanBuildWorkshops() && p.CanCopyDisks() }
