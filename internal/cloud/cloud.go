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

// Launches says whether a cloud launches instances from an image version.
type Launches string

const (
	LaunchesAllowed   Launches = "Allowed"
	LaunchesForbidden Launches = "Forbidden"
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
	// RootDiskGB is the size of the root disk in the recipe, in GiB; 0 if unknown, or if the size of the image applies.
	RootDiskGB int32 `json:"rootDiskGB,omitempty"`
	// InstanceType is the type of a workshop as the recipe has it, in the words of the cloud; empty if unknown.
	InstanceType string `json:"-"`
	// RootDisks are the drivers of the root disks of all machines that the recipe may launch; nil if unknown.
	RootDisks []string `json:"-"`
	// Traits are properties that an image of the pool must share, in the words of its ImageProvider, for example "generation":
	// "V2".
	Traits map[string]string `json:"traits,omitempty"`
	// Family is the pool's series of images.
	Family ImageFamily `json:"-"`
	Recipe Recipe      `json:"recipe"`
	// Owner is another tool that owns the recipe, for example kOps; empty if SetRecipe writes the recipe. Kamino makes
	// and tries versions, and the owner changes the recipe (RecipeChange.HandOver).
	Owner string `json:"owner,omitempty"`
	// Warm is the pool's warm pool; nil without one.
	Warm *WarmPool `json:"warm,omitempty"`
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
	// Disk is the ID of the OS disk; empty if unknown.
	Disk string `json:"-"`
	// Type is the instance type, and Zone the zone as in the label topology.kubernetes.io/zone; empty if unknown.
	Type string `json:"-"`
	Zone string `json:"-"`
	// Recipe is equal for instances that were built from recipes that differ at most in the image; empty if unknown.
	Recipe string `json:"-"`
	// Host is the required name of the instance's Node in lower case; empty if any name is possible.
	Host string `json:"host,omitempty"`
	// SystemUUID and Addresses are the system UUID and the private addresses of a trial's instance, if the cloud returns
	// them with the instance.
	SystemUUID string   `json:"systemUUID,omitempty"`
	Addresses  []string `json:"addresses,omitempty"`
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
	Taken bool              `json:"copied,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	// Error is the cloud's message if State is Failed.
	Error string `json:"error,omitempty"`
	// HeldBy is what keeps the cloud from deleting the snapshot of a disk in use, and Release the command that ends it; empty without
	// such a thing. Only Snapshots sets both.
	HeldBy  string `json:"-"`
	Release string `json:"-"`
	// Origin is set by Snapshots of InCluster only.
	Origin Origin `json:"-"`
}

// SnapshotSpec requests a snapshot of an instance's OS disk.
type SnapshotSpec struct {
	// Name is the caller's name, unique for the capture. The provider derives a legal resource name.
	Name     string
	Instance InstanceID
	// InUse copies the disk while the guest may write to it. TagUID, TagOrder and TagEndsAt are then required, because
	// the snapshot holds the donor's secrets.
	InUse bool
	// BeforeCopy, if set, is called after every read, so that only the request for the snapshot follows. An error of BeforeCopy ends
	// EnsureSnapshot without this request. For a snapshot that exists, BeforeCopy is not called.
	BeforeCopy func(ctx context.Context) error
	Tags       map[string]string
}

// Begin calls BeforeCopy. For providers.
func (s SnapshotSpec) Begin(ctx context.Context) error {
	if s.BeforeCopy == nil {
		return nil
	}
	return s.BeforeCopy(ctx)
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
	// Launches says whether the cloud launches instances from a Complete version; empty if AllowLaunches has no effect.
	Launches Launches `json:"launches,omitempty"`
	// Percent is the cloud's replication progress, 0 to 100; 100 if Complete.
	Percent int32 `json:"percent"`
	// CreatedAt is the creation time; zero if unknown.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// SizeGB is the size of the disk; 0 if unknown.
	SizeGB int32 `json:"sizeGB,omitempty"`
	// Error is the cloud's message if State is Failed.
	Error string `json:"error,omitempty"`
	// Origin is set by Images of InCluster only.
	Origin Origin `json:"-"`
}

// Tags of Kamino's snapshots and image versions. The first two are those of vmss-prototype, and Kamino reads its images
// too.
const (
	TagBuiltFrom    = "BuiltFrom"             // the donor's node name
	TagBuiltAt      = "BuiltAt"               // "2006-01-02 15:04:05.000000" in UTC
	TagPrototype    = "kamino-prototype"      // the Prototype's name
	TagUID          = "kamino-uid"            // the Prototype's UID
	TagCluster      = "kamino-cluster"        // the ID of the cluster: the UID of namespace kube-system; absent on what earlier versions made
	TagProof        = "kamino-proof"          // v1alpha1.Proof.Tag
	TagVerified     = "kamino-verified"       // v1alpha1.Verified.Tag: the meaning of the proof
	TagQuarantined  = "kamino-quarantined"    // why the version must never be used; absent otherwise
	TagLineage      = "kamino-lineage"        // the version that the donor was built from; absent if unknown
	TagCleared      = "kamino-cleared"        // the quarantined versions that the version descends from, and may be used in spite of
	TagRolledBackTo = "kamino-rolled-back-to" // the goal of the rollback from this version; absent otherwise
	TagOS           = "kamino-os"             // the donor's operating system, as reported by the kubelet
	TagKernel       = "kamino-kernel"         // the donor's kernel
	TagKubelet      = "kamino-kubelet"        // the version of the donor's kubelet
	TagRuntime      = "kamino-runtime"        // the donor's container runtime
	TagImages       = "kamino-images"         // the number of container images that the donor's kubelet reported; absent if unknown
	TagContents     = "kamino-contents"       // v1alpha1.ContentsDigest of the version's list of contents; absent without a list
	TagTrial        = "kamino-trial"          // the result and the time in RFC 3339 of the version's trial; absent without a trial
	TagSuspect      = "kamino-suspect"        // why a pool rolled back automatically, until a person acknowledges the rollback
	// TagRolledBackAt is the time of the automatic rollback from the version, and of its acknowledgement, in RFC 3339; see
	// history.AutoRollback.
	TagRolledBackAt = "kamino-rolled-back-at"
	TagPromotedAt   = "kamino-promoted-at" // when an automatic rollback reached the version, in RFC 3339
	TagPatchedAt    = "kamino-patched-at"  // the time of the donor's last patch in RFC 3339; absent if unknown
	TagPatchLevel   = "kamino-patch-level" // the donor's patch level; absent if unknown
	TagOrder        = "kamino-order"       // the UID of the NodeOrder that a copy of a disk in use belongs to
	// TagEndsAt is the time in RFC 3339 after which no capture needs a workshop, or a copy of a disk in use.
	TagEndsAt = "kamino-ends-at"
	// TagPool is the pool of a trial or workshop, on what is made for it. The pool may be gone.
	TagPool = "kamino-pool"
	// TagWorkshop is the name of a workshop, on its instance. Policies of clouds allow the attachment of disks by it.
	TagWorkshop = "kamino-workshop-name"
)

// BuiltAtLayout is the layout of TagBuiltAt.
const BuiltAtLayout = "2006-01-02 15:04:05.000000"

// ImageSpec requests an image version from a snapshot.
type ImageSpec struct {
	ImageRef
	// SnapshotID is the ID of a complete snapshot.
	SnapshotID string
	// Proven is the ID of the disk that was proven, as in Instance and DiskCopy: EnsureImage refuses a snapshot of any other disk.
	// Empty for any disk.
	Proven string
	Tags   map[string]string
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
	// Adds are the parts that the recipe gets back, and Missing the lost parts that are not available. Only RestoreChange
	// sets these fields. An Unreadable part in Adds is restored as the cloud returned it, perhaps incompletely.
	Adds    []RecipeField `json:"adds,omitempty"`
	Missing []RecipeField `json:"missing,omitempty"`
	// Backup is the changed part of the recipe as JSON. It may contain secrets, and must be stored in a Secret only.
	Backup []byte `json:"-"`
	// Restores is the input of RestoreChange; nil for any other change. It may contain secrets.
	Restores *Saved `json:"-"`
	// Refusals are the reasons why SetRecipe would refuse the change now, for example an upgrade policy that changes
	// running instances.
	Refusals []Refusal `json:"refusals,omitempty"`
	// HandOver is the instruction for a person if the recipe has an Owner: the message of SetRecipe's refusal, which is
	// also one of Refusals.
	HandOver string `json:"handOver,omitempty"`
	// Later is what another tool does with running nodes after the change; empty if no tool does anything.
	Later string `json:"later,omitempty"`
	// Done is true if the recipe is already as wanted.
	Done bool `json:"done"`
}

// PreflightSpec describes a planned capture.
type PreflightSpec struct {
	// Pool is the pool of the instance.
	Pool     PoolID
	Instance InstanceID
	Version  string
	// RemovesBootstrap is true if the promotion will remove the bootstrap from the recipe.
	RemovesBootstrap bool
	// Copies is true if the donor's disk will be copied while it is in use. The donor stays in service, so that nothing that
	// only prevents a stop or a return of the donor is an obstacle. WorkshopType is WorkshopSpec.InstanceType.
	Copies       bool
	WorkshopType string
}
