package cloud

import (
	"context"
	"time"
)

// InstanceID names a VM: the text of Node.spec.providerID. Compare IDs with SameInstance, because some clouds ignore
// case.
type InstanceID string

// PoolID names a pool in its cloud, for example the resource ID of a scale set.
type PoolID string

// State is the state of a snapshot or an image version.
type State string

const (
	// Absent: the object does not exist.
	Absent State = ""
	// Pending: the cloud is creating the object.
	Pending State = "Pending"
	// Complete: the object can be used.
	Complete State = "Complete"
	// Failed: the cloud gave up. Delete the object before another try.
	Failed State = "Failed"
	// Deleting: the cloud is deleting the object.
	Deleting State = "Deleting"
)

// Power is an instance's power state.
type Power string

const (
	PowerUnknown  Power = ""
	PowerRunning  Power = "Running"
	PowerStarting Power = "Starting"
	PowerStopped  Power = "Stopped" // off, whether or not the host is kept
	PowerStopping Power = "Stopping"
)

// Pool describes a pool and its recipe.
type Pool struct {
	ID       PoolID `json:"id"`
	Name     string `json:"name"`
	Location string `json:"location,omitempty"`
	// Capacity is the desired number of nodes.
	Capacity int64 `json:"capacity"`
	// MaxSize is the largest number of nodes; 0 if unknown.
	MaxSize int64 `json:"maxSize,omitempty"`
	// Traits are properties that an image of the pool must share, in the words of its ImageProvider, for example "generation":
	// "V2".
	Traits map[string]string `json:"traits,omitempty"`
	// Family is the pool's series of images.
	Family ImageFamily `json:"-"`
	Recipe Recipe      `json:"recipe"`
	// Owner is another tool that owns the recipe, for example kOps; empty if SetRecipe writes the recipe. Kamino makes
	// and tries versions, and the owner changes the recipe (RecipeChange.HandOver).
	Owner string `json:"owner,omitempty"`
	// Refusals are the reasons against any capture in the pool; empty if there are none.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Cautions are warnings in the form of refusals. They prevent no capture.
	Cautions []Refusal `json:"cautions,omitempty"`
}

// Recipe is the template of the pool's next node.
type Recipe struct {
	// Image is the recipe's image, as the cloud writes it.
	Image string `json:"image"`
	// Short is the distinctive end of Image, for people; empty if Image is short.
	Short string `json:"-"`
	// Version is set if Image is a version of the pool's image family. A PoolProvider that does not know the version leaves it empty, and
	// New asks the ImageProvider.
	Version string `json:"version,omitempty"`
	// Latest is true if the recipe names the latest version of the image family. Version is then the current latest version.
	Latest bool `json:"latest,omitempty"`
	// Bootstrap names the parts that run on each new node before the node joins, as far as the cloud reports them.
	Bootstrap []string `json:"bootstrap,omitempty"`
}

// Instance describes a VM.
type Instance struct {
	ID InstanceID `json:"id"`
	// Pool is empty if the instance does not name its pool.
	Pool  PoolID `json:"pool"`
	Power Power  `json:"power"`
	// Image is the image that the instance was built from, as in a recipe.
	Image string `json:"image,omitempty"`
	// BuiltFrom is the version of the pool's image family that the instance was built from; empty for another image. Providers
	// that do not know the version leave it empty, and New asks the ImageProvider.
	BuiltFrom string `json:"builtFrom,omitempty"`
	// Host is the required name of the instance's Node in lower case; empty if any name is possible.
	Host string `json:"host,omitempty"`
	// CreatedAt is the creation time; zero if unknown. A rebuild may leave the time unchanged.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Removing is true if the instance is being removed; false if unknown.
	Removing bool `json:"removing,omitempty"`
	// Refusals are the reasons against a capture of the instance, apart from its pool.
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Snapshot is the copy of a donor's OS disk.
type Snapshot struct {
	// Name is the caller's name.
	Name string `json:"name"`
	// ID is the cloud's ID; empty if absent.
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// Taken is true if a Pending snapshot's content is fixed, so that the instance may run again. Taken is false if the
	// cloud reads the disk until the snapshot is Complete.
	Taken bool              `json:"taken,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	// Error is the cloud's message if State is Failed.
	Error string `json:"error,omitempty"`
}

// SnapshotSpec requests a snapshot of an instance's OS disk.
type SnapshotSpec struct {
	// Name is the caller's name, unique for the capture. The provider derives a legal resource name.
	Name     string
	Instance InstanceID
	Tags     map[string]string
}

// ImageRef names a version of a pool's image family.
type ImageRef struct {
	Pool    PoolID
	Version string
}

// Image is a version of a pool's image family. An ImageProvider knows no pools and leaves Pool empty; New sets it.
type Image struct {
	ImageRef `json:"-"`
	Version  string `json:"version"`
	// ID is the cloud's ID; empty if absent.
	ID    string            `json:"id,omitempty"`
	State State             `json:"state"`
	Tags  map[string]string `json:"tags,omitempty"`
	// Percent is the cloud's replication progress, 0 to 100; 100 if Complete.
	Percent int32 `json:"percent"`
	// CreatedAt is the creation time; zero if unknown.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// SizeGB is the size of the disk; 0 if unknown.
	SizeGB int32 `json:"sizeGB,omitempty"`
	// Error is the cloud's message if State is Failed.
	Error string `json:"error,omitempty"`
}

// Tags of Kamino's snapshots and image versions. The first two are those of vmss-prototype, and Kamino reads its images
// too.
const (
	TagBuiltFrom   = "BuiltFrom"          // the donor's node name
	TagBuiltAt     = "BuiltAt"            // "2006-01-02 15:04:05.000000" in UTC
	TagPrototype   = "kamino-prototype"   // the Prototype's name
	TagUID         = "kamino-uid"         // the Prototype's UID
	TagProof       = "kamino-proof"       // v1alpha1.Proof.Tag
	TagVerified    = "kamino-verified"    // v1alpha1.Verified.Tag: the meaning of the proof
	TagQuarantined = "kamino-quarantined" // why the version must never be used; absent otherwise
	TagLineage     = "kamino-lineage"     // the version that the donor was built from; absent if unknown
	TagRolledBack  = "kamino-rolled-back" // the goal of the rollback from this version; absent otherwise
	TagOS          = "kamino-os"          // the donor's operating system, as reported by the kubelet
	TagKernel      = "kamino-kernel"      // the donor's kernel
	TagKubelet     = "kamino-kubelet"     // the version of the donor's kubelet
	TagTrial       = "kamino-trial"       // the result and the time in RFC 3339 of the version's trial; absent without a trial
	TagSuspect     = "kamino-suspect"     // why a pool rolled back automatically, until a person acknowledges the rollback
	TagWentBack    = "kamino-went-back"   // the time of the automatic rollback from the version, and of its acknowledgement, in RFC 3339; see history.Return
	TagPromotedAt  = "kamino-promoted-at" // when an automatic rollback reached the version, in RFC 3339
	TagPatchedAt   = "kamino-patched-at"  // the time of the donor's last patch in RFC 3339; absent if unknown
)

// BuiltAtLayout is the layout of TagBuiltAt.
const BuiltAtLayout = "2006-01-02 15:04:05.000000"

// ImageSpec requests an image version from a snapshot.
type ImageSpec struct {
	ImageRef
	// SnapshotID is the ID of a complete snapshot.
	SnapshotID string
	Tags       map[string]string
	// Replicas is the number of replicas in the pool's region; 0 lets the provider choose by the pool's maximum size.
	Replicas int32
	// InitializationRate is the rate in MiB/s at which the disks of running instances are filled from the version, in
	// clouds with such disks; 0 keeps the recipe's rate.
	InitializationRate int32
}

// RecipeChange is the change of a pool's recipe to an image version. People review the change, Kamino saves it and
// carries it out unchanged.
type RecipeChange struct {
	Pool    PoolID `json:"pool"`
	Version string `json:"version"`
	// From and To are the images before and after, as the cloud writes them.
	From string `json:"from"`
	To   string `json:"to"`
	// Removes are the parts that the recipe loses; empty if only the image changes.
	Removes []RecipeField `json:"removes,omitempty"`
	// Keeps are other parts, such as extensions, that stay.
	Keeps []RecipeField `json:"keeps,omitempty"`
	// Adds are the parts that the recipe gets back, and Missing the lost parts that are not available. Only a RecipeRestorer
	// sets these fields. An Unreadable part in Adds is restored as the cloud returned it, perhaps incompletely.
	Adds    []RecipeField `json:"adds,omitempty"`
	Missing []RecipeField `json:"missing,omitempty"`
	// Backup is the changed part of the recipe as JSON. It may contain secrets, and must be stored in a Secret only.
	Backup []byte `json:"-"`
	// Restores is the input of a RecipeRestorer's change; nil for any other change. It may contain secrets.
	Restores *Saved `json:"-"`
	// Refusals are the reasons why SetRecipe would refuse the change now, for example an upgrade policy that changes
	// running instances.
	Refusals []Refusal `json:"refusals,omitempty"`
	// HandOver is the instruction for a person if the recipe has an Owner: the message of SetRecipe's refusal, which is
	// also one of Refusals.
	HandOver string `json:"handOver,omitempty"`
	// Done is true if the recipe is already as wanted.
	Done bool `json:"done"`
}

// PreflightSpec describes a planned capture.
type PreflightSpec struct {
	// Pool is the pool of the instance.
	Pool     PoolID
	Instance InstanceID
	Version  string
	// Removes is true if the donor's instance will be removed (Remover). Grows is true if the pool will grow by one
	// before.
	Removes, Grows bool
	// RemovesBootstrap is true if the promotion will remove the bootstrap from the recipe.
	RemovesBootstrap bool
}

// Machines are the calls about instances and snapshots. An ImageProvider implements them, and a Provider passes them through.
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

	// Snapshot returns the named snapshot of the instance. An absent snapshot is no error but a State.
	Snapshot(ctx context.Context, instance InstanceID, name string) (Snapshot, error)

	// EnsureSnapshot starts the snapshot if it does not exist, and returns the snapshot in any state. EnsureSnapshot
	// never makes a second snapshot of the same name, and never changes an existing snapshot.
	EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (Snapshot, error)

	// DeleteSnapshot starts the deletion. A missing snapshot is no error.
	DeleteSnapshot(ctx context.Context, instance InstanceID, name string) error
}

// Pools are the calls about pools. A PoolProvider implements them, and a Provider passes them through.
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

	// Protection returns the protection of the instance in its pool. Store the token before calling Hold, so that a lost
	// call loses nothing. Protection returns NotFound without the instance.
	Protection(ctx context.Context, id InstanceID) (Protection, error)

	// ProtectFromScaleIn protects the instance from its pool's automatic actions until Unprotect. token is the token from Protection before.
	// Repeated calls are harmless. After success, Protection shows the instance as held. An empty token does nothing.
	ProtectFromScaleIn(ctx context.Context, id InstanceID, token string) error

	// Unprotect restores the state of the token, in spite of later changes: after success Protection returns that token. Every
	// provider accepts Unheld. An empty token does nothing. A foreign token is Invalid and changes nothing.
	Unprotect(ctx context.Context, id InstanceID, token string) error

	// SetCapacity grows the pool from one size to a larger size. SetCapacity returns Conflict if the size is not from,
	// and Refused as SetRecipe does.
	SetCapacity(ctx context.Context, id PoolID, from, to int64) error
}

// Provider is a whole cloud for the rest of Kamino. New makes a Provider from an ImageProvider and a PoolProvider, the two halves that a
// cloud implements.
type Provider interface {
	Machines
	Pools

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

	// Images returns the pool's versions, oldest first in the order of package imageversion. Without an image family there are
	// no versions.
	Images(ctx context.Context, pool PoolID) ([]Image, error)

	// EnsureImage starts making the version from the snapshot, with its prerequisites, if the version does not exist.
	// It returns the version in any state. A failed version is retried only if another kind of storage is required. No
	// recipe uses the version as "latest": a pool uses the version only after SetRecipe.
	EnsureImage(ctx context.Context, spec ImageSpec) (Image, error)

	// TagImage sets tags of a version; an empty value removes the tag. TagImage returns NotFound without the version.
	TagImage(ctx context.Context, ref ImageRef, tags map[string]string) error

	// DeleteImage starts the version's deletion. A missing version is no error. The version in the pool's recipe is
	// refused with Conflict, after a fresh read of the recipe.
	DeleteImage(ctx context.Context, ref ImageRef) error

	// RecipeChange plans the change of the pool's recipe to the version. With removeBootstrap the recipe loses its
	// bootstrap. All other parts stay.
	RecipeChange(ctx context.Context, ref ImageRef, removeBootstrap bool) (RecipeChange, error)
}
