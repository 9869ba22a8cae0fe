package cloud

import (
	"context"
	"time"
)

// InstanceID names one VM: the text of Node.spec.providerID. Two IDs that differ only in case are equal
// in a cloud that says so; use the provider's SameInstance to compare.
type InstanceID string

// PoolID names a pool in its cloud, such as a scale set's resource ID.
type PoolID string

// State is how far a snapshot or an image version is.
type State string

const (
	// Absent: it does not exist.
	Absent State = ""
	// Pending: the cloud works on it.
	Pending State = "Pending"
	// Complete: it can be used.
	Complete State = "Complete"
	// Failed: the cloud gave up; it must be deleted before another try.
	Failed State = "Failed"
	// Deleting: it is on its way out.
	Deleting State = "Deleting"
)

// Power is an instance's power state.
type Power string

const (
	PowerUnknown  Power = ""
	PowerRunning  Power = "Running"
	PowerStarting Power = "Starting"
	PowerStopped  Power = "Stopped" // off, whether or not its host is kept
	PowerStopping Power = "Stopping"
)

// Pool is what a cloud tells of a pool and its recipe.
type Pool struct {
	ID       PoolID `json:"id"`
	Name     string `json:"name"`
	Location string `json:"location,omitempty"`
	// Capacity is the number of nodes that the pool is meant to have.
	Capacity int64 `json:"capacity"`
	// MaxSize is the largest number of nodes that the pool may have; 0 if the cloud doesn't know.
	MaxSize int64 `json:"maxSize,omitempty"`
	// Traits that an image of this pool must share, in the words of the Disks that make it, such as "generation": "V2".
	Traits map[string]string `json:"traits,omitempty"`
	// Line is the pool's series of images.
	Line   Line   `json:"-"`
	Recipe Recipe `json:"recipe"`
	// Owner is who else writes the recipe, such as kOps: versions of the pool are made and tried, and whoever that is points the
	// pool at them (RecipeChange.HandOver). Empty where SetRecipe does.
	Owner string `json:"owner,omitempty"`
	// Refusals: why no node of this pool can be captured. Empty if one can.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Cautions are what stands in no capture's way, and yet is to be known, in the form of refusals.
	Cautions []Refusal `json:"cautions,omitempty"`
}

// Recipe is what the pool's next node is built from.
type Recipe struct {
	// Image that the recipe names, as the cloud writes it.
	Image string `json:"image"`
	// Short is the end of Image that tells it from others of its cloud, for people; empty where Image is short itself.
	Short string `json:"-"`
	// Version, if Image is a version of this pool's own line; else empty. Recipes that can't tell leave it empty, and
	// Join has the Disks read the image.
	Version string `json:"version,omitempty"`
	// Latest tells that the recipe names the definition ("whatever is latest") and Version is what that means today.
	Latest bool `json:"latest,omitempty"`
	// Bootstrap names what runs on each new node before it joins, as far as the cloud shows it.
	Bootstrap []string `json:"bootstrap,omitempty"`
}

// Instance is what a cloud tells of one VM.
type Instance struct {
	ID InstanceID `json:"id"`
	// Pool is empty where the instance itself does not tell whose it is.
	Pool  PoolID `json:"pool"`
	Power Power  `json:"power"`
	// Image that it was built from, written as a recipe's is.
	Image string `json:"image,omitempty"`
	// BuiltFrom is the version of the pool's own line that the instance was built from; empty if it came from another
	// image. Whoever can't tell leaves it empty, and Join has the Disks read the image.
	BuiltFrom string `json:"builtFrom,omitempty"`
	// Host is the name that the cloud has the instance's Node bear, in lower case; empty where its Node may have any name.
	Host string `json:"host,omitempty"`
	// CreatedAt is when the cloud made it; zero if it does not say. A rebuild may leave it as it was.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Removing tells that it is being removed for good; false where the cloud does not say.
	Removing bool `json:"removing,omitempty"`
	// Refusals: why this instance cannot be captured, whatever its pool is.
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Snapshot is the copy of a donor's OS disk.
type Snapshot struct {
	// Name as the caller gave it.
	Name string `json:"name"`
	// ID in the cloud; empty if absent.
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// Taken tells of one that is Pending that what it holds is settled: the instance may run again, and change its disk. Where
	// the cloud reads the disk until the snapshot is Complete, it is false.
	Taken bool              `json:"taken,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	// Error is the cloud's own text when State is Failed.
	Error string `json:"error,omitempty"`
}

// SnapshotSpec asks for a snapshot of an instance's OS disk.
type SnapshotSpec struct {
	// Name is the caller's, unique for the capture; the provider derives a legal resource name from it.
	Name     string
	Instance InstanceID
	Tags     map[string]string
}

// ImageRef names a version of a pool's line.
type ImageRef struct {
	Pool    PoolID
	Version string
}

// Image is a version of a pool's line. Disks, which know no pools, leave the pool out, and Join fills it in.
type Image struct {
	ImageRef `json:"-"`
	Version  string `json:"version"`
	// ID in the cloud; empty if absent.
	ID    string            `json:"id,omitempty"`
	State State             `json:"state"`
	Tags  map[string]string `json:"tags,omitempty"`
	// Percent is the cloud's own word on the replication, 0 to 100; 100 when Complete.
	Percent int32 `json:"percent"`
	// CreatedAt is when the cloud made it; zero if it does not say.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// SizeGB of the disk; 0 if the cloud does not say.
	SizeGB int32 `json:"sizeGB,omitempty"`
	// Error is the cloud's own text when State is Failed.
	Error string `json:"error,omitempty"`
}

// Tags that Kamino puts on snapshots and image versions. The first two are those of the Python original,
// so that its history and ours are read the same way.
const (
	TagBuiltFrom   = "BuiltFrom"          // the donor's node name
	TagBuiltAt     = "BuiltAt"            // "2006-01-02 15:04:05.000000" in UTC
	TagPrototype   = "kamino-prototype"   // the Prototype's name
	TagUID         = "kamino-uid"         // the Prototype's UID
	TagProof       = "kamino-proof"       // v1alpha1.Proof.Tag
	TagVerified    = "kamino-verified"    // v1alpha1.Verified.Tag: what the proof stands for
	TagQuarantined = "kamino-quarantined" // why the version must never be used; absent otherwise
	TagLineage     = "kamino-lineage"     // the version that the donor itself was built from; absent if none is known
	TagRolledBack  = "kamino-rolled-back" // the version that a rollback went to from this one; absent otherwise
	TagOS          = "kamino-os"          // the donor's operating system, as its kubelet calls it
	TagKernel      = "kamino-kernel"      // the donor's kernel
	TagKubelet     = "kamino-kubelet"     // the version of the donor's kubelet
	TagTrial       = "kamino-trial"       // what a trial of the version has come to: its result, and when, in RFC 3339; absent if it was not tried
	TagSuspect     = "kamino-suspect"     // why a pool went back from the version by itself, until a person has acknowledged it
	TagWentBack    = "kamino-went-back"   // when a pool went back from the version by itself, in RFC 3339, and when a person acknowledged it; history.Return
	TagPromotedAt  = "kamino-promoted-at" // when a pool that went back by itself came to the version, in RFC 3339
	TagPatchedAt   = "kamino-patched-at"  // when the donor was last patched, in RFC 3339; absent if its Node does not say
)

// BuiltAtLayout is the form of TagBuiltAt.
const BuiltAtLayout = "2006-01-02 15:04:05.000000"

// ImageSpec asks for an image version made from a snapshot.
type ImageSpec struct {
	ImageRef
	// SnapshotID of a complete snapshot.
	SnapshotID string
	Tags       map[string]string
	// Replicas in the pool's region; 0 lets the provider decide by the pool's maximum size.
	Replicas int32
	// InitializationRate at which the disks of instances are filled from the version, in MiB/s, where the cloud fills them while
	// they run; 0 leaves it as the recipe has it.
	InitializationRate int32
}

// RecipeChange is what pointing a pool at an image version does. It is made by a look, shown to people,
// saved, and then carried out as it stands.
type RecipeChange struct {
	Pool    PoolID `json:"pool"`
	Version string `json:"version"`
	// From and To are the image before and after, as the cloud writes them.
	From string `json:"from"`
	To   string `json:"to"`
	// Removes is what the recipe loses. Empty if it only changes its image.
	Removes []Part `json:"removes,omitempty"`
	// Keeps are extensions and the like that stay.
	Keeps []Part `json:"keeps,omitempty"`
	// Adds is what the recipe gets back, and Missing what it had lost and does not get back, because nobody has it.
	// Only a change of a Restorer has them. What is Unreadable of Adds comes back as the cloud gave it out, which may not be all of it.
	Adds    []Part `json:"adds,omitempty"`
	Missing []Part `json:"missing,omitempty"`
	// Backup is the part of the recipe that changes, as the cloud gives it out (JSON). It may hold
	// secrets: it goes into a Secret and nowhere else.
	Backup []byte `json:"-"`
	// Restores is what a change of a Restorer gives back; nil for any other. It may hold secrets, too.
	Restores *Saved `json:"-"`
	// Refusals: why SetRecipe would not carry the change out as things stand now, such as an upgrade policy by which
	// the cloud would change running instances with it.
	Refusals []Refusal `json:"refusals,omitempty"`
	// HandOver is what a person has to do where the pool's recipe has an Owner: the message of the refusal that SetRecipe ends with
	// then, which is one of Refusals.
	HandOver string `json:"handOver,omitempty"`
	// Done tells that the recipe already is as the change wants it.
	Done bool `json:"done"`
}

// PreflightSpec names a capture that is thought of.
type PreflightSpec struct {
	// Pool of the instance.
	Pool     PoolID
	Instance InstanceID
	Version  string
	// Removes tells that the instance is going to be removed from the pool (Remover), and Grows that the pool is to grow by one
	// before.
	Removes, Grows bool
	// RemovesBootstrap tells that the promotion is to take out of the recipe what bootstraps a generic image.
	RemovesBootstrap bool
}

// Machines are the calls about single instances and the copies of their disks. They are the Disks' own, and a
// Provider has them as they are.
type Machines interface {
	// SameInstance tells whether two IDs name one instance, however they are written. It does no I/O.
	SameInstance(a, b InstanceID) bool

	// Instance looks at an instance. NotFound if it does not exist.
	Instance(ctx context.Context, id InstanceID) (Instance, error)

	// EnsureStopped powers a running instance off (its host, network and address are kept) and returns
	// the state as it is now. Repeating it while the instance stops is harmless.
	EnsureStopped(ctx context.Context, id InstanceID) (Power, error)

	// EnsureStarted starts a stopped instance and returns the state as it is now.
	EnsureStarted(ctx context.Context, id InstanceID) (Power, error)

	// Snapshot looks at the snapshot that the name stands for in the instance's scope. An absent one is
	// not an error: its State says so.
	Snapshot(ctx context.Context, instance InstanceID, name string) (Snapshot, error)

	// EnsureSnapshot starts the snapshot unless it exists, whatever its state, and returns it. It never
	// makes a second one of the same name, and never changes one that is there.
	EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (Snapshot, error)

	// DeleteSnapshot starts its deletion. Deleting nothing is nil.
	DeleteSnapshot(ctx context.Context, instance InstanceID, name string) error
}

// Pools are the calls about pools that the Recipes have for themselves, and a Provider has them as they are.
type Pools interface {
	// PoolsOf tells of each node which pool it belongs to, in the order of the nodes, or why it belongs to none: that
	// is no error. An error means that the cloud could not be asked, and nothing is known of any. A cloud that must
	// be asked takes many nodes in one request, so that a caller asks once for all that it has, and never one by one.
	// All ways to write one instance lead to one way to write its pool. It is a look.
	PoolsOf(ctx context.Context, nodes []NodeValues) ([]Membership, error)

	// PoolName is the pool's own name, from its ID alone.
	PoolName(id PoolID) string

	// SetRecipe carries the change out and starts no change of any running instance. It returns
	// Conflict if the recipe is no longer what the change was made from, and nil only when the answer to the
	// write, or a read afterwards, shows the recipe as wanted. A pool whose own policy would bring running instances up
	// to the write is Refused with the reason, whenever that policy was set: the provider looks at it
	// with the write, and not before, and nobody can change it in between.
	SetRecipe(ctx context.Context, change RecipeChange) error

	// HoldOf looks at how the instance stands to its pool. The token is kept before Hold is called, so that no lost call
	// loses what was there. NotFound if the instance does not exist.
	HoldOf(ctx context.Context, id InstanceID) (Hold, error)

	// Hold has the pool leave the instance alone until Unhold. The token is what HoldOf gave before. Repeating it is
	// harmless; after nil, HoldOf shows the instance as held. With an empty token it does nothing and is nil.
	Hold(ctx context.Context, id InstanceID, token string) error

	// Unhold has the instance stand to its pool as the token says, whatever was done since: after nil, HoldOf gives that
	// token. Every provider takes Unheld. With an empty token it does nothing and is nil; one that is none of the
	// provider's is Invalid, and changes nothing.
	Unhold(ctx context.Context, id InstanceID, token string) error

	// SetCapacity grows the pool from one size to a larger one. Conflict if its size is not `from`;
	// Refused as SetRecipe is, for it is a write of the same thing.
	SetCapacity(ctx context.Context, id PoolID, from, to int64) error
}

// Provider is a whole cloud, as all of Kamino sees it: by pools. Join makes one of two halves, Disks and Recipes, which
// are what somebody writes for a cloud.
type Provider interface {
	Machines
	Pools

	// Pool looks at a pool and its recipe.
	Pool(ctx context.Context, id PoolID) (Pool, error)

	// BuiltFrom is the version of the pool's line that an instance was built from; empty if it came from another image.
	// It does no I/O: the image is read off the instance as it was seen.
	BuiltFrom(pool PoolID, instance Instance) string

	// Preflight looks for everything in the cloud that would make a capture fail later: a pool or
	// instance of the wrong kind, a missing permission, a name that is taken, a used-up quota, a version
	// that exists. Nil means that nothing was found. Both halves are asked.
	Preflight(ctx context.Context, spec PreflightSpec) ([]Refusal, error)

	// Image looks at one version, with its progress. An absent one is not an error: its State says so.
	Image(ctx context.Context, ref ImageRef) (Image, error)

	// Images lists the pool's versions, oldest first in the order of package imageversion. No line means no versions.
	Images(ctx context.Context, pool PoolID) ([]Image, error)

	// EnsureImage starts making the version from the snapshot, with whatever must be there first, unless
	// the version exists, whatever its state, and returns it. A failed version is retried here only where
	// the failure means that another kind of storage must be used. The version is never what "latest"
	// means: a pool uses it only when its recipe names it.
	EnsureImage(ctx context.Context, spec ImageSpec) (Image, error)

	// TagImage sets tags of a version; an empty value removes the tag. NotFound if the version is absent.
	TagImage(ctx context.Context, ref ImageRef, tags map[string]string) error

	// DeleteImage starts the version's deletion. Deleting nothing is nil. A version that the pool's
	// recipe names is refused with Conflict: the recipe is read right before.
	DeleteImage(ctx context.Context, ref ImageRef) error

	// RecipeChange tells what pointing the pool at the version does. With removeBootstrap, what
	// bootstraps a generic image leaves the recipe; everything else in it always stays.
	RecipeChange(ctx context.Context, ref ImageRef, removeBootstrap bool) (RecipeChange, error)
}
