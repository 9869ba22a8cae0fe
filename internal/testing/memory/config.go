package memory

import (
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Config is the configuration of a cloud. The zero value is a cloud without limits or delays.
type Config struct {
	// Now is the cloud's clock; time.Now if nil. If it goes back, the cloud waits until it has caught up.
	Now     func() time.Time
	Latency Latency
	// Apart separates the pools from the cloud with the disks (Objects).
	Apart bool
	Quota Quota
	// NoZoneStorage is a region without zone-redundant storage: the first attempt at a version fails, and EnsureImage
	// must use another kind of storage.
	NoZoneStorage bool
	// Instant fixes a snapshot's content at the request: Taken is true while Pending. Otherwise the cloud reads the
	// disk until the snapshot is Complete, and later writes are in the copy.
	Instant bool
	// ForbidsLaunches is a cloud that can refuse launches of a version.
	ForbidsLaunches bool
	// EndsNewestWarm is a cloud that ends the newest instances of a warm pool first.
	EndsNewestWarm bool
	// NoCopy is a cloud without captures by copy.
	NoCopy bool
	// NoHold makes pools without automatic actions, so that there is nothing to protect from.
	NoHold bool
	// NoInPlace makes pools whose donors are never powered off.
	NoInPlace bool
	// MaxImages is the limit of different images in a pool, including the recipe's image. At the limit the pool does
	// not grow for another image. 0 means no limit.
	MaxImages int
}

// Latency is the duration of the cloud's operations; zero is instant.
type Latency struct {
	// Stop is the time from the request until the instance is off.
	Stop time.Duration
	// GuestOff is the time from the guest's power-off until the cloud shows the instance as off.
	GuestOff time.Duration
	// Start is the time from the request or the creation until the guest has booted.
	Start time.Duration
	// Snapshot is the time until a snapshot is Complete.
	Snapshot time.Duration
	// Attach is the time until a copy of a disk is made and attached, or detached.
	Attach time.Duration
	// Image is the time until a version is built and replicated. Its percentage grows evenly.
	Image time.Duration
	// Delete is the time until a deleted snapshot or version is gone.
	Delete time.Duration
}

// Quota limits the number of objects in the whole cloud; zero means no limit.
type Quota struct {
	Snapshots int
	Images    int
	Instances int
}

// PoolSpec describes a new pool.
type PoolSpec struct {
	Name string
	// Capacity is the desired number of nodes. AddInstance raises it if necessary.
	Capacity int64
	// MaxSize is the largest capacity; 0 if unknown to the cloud.
	MaxSize  int64
	Location string
	Traits   map[string]string
	// Image is the recipe's first image; "generic" if empty.
	Image string
	// Latest makes the recipe name the pool's own definition instead.
	Latest bool
	// Bootstrap names the parts that prepare a generic image on each new node, for example "customData".
	Bootstrap []string
	// Unreadable names the parts of Bootstrap that the cloud never returns.
	Unreadable []string
	// Extensions names the other parts of the recipe, which always stay.
	Extensions []string
	// Owner is another tool that owns the recipe.
	Owner string
	// DiskGB is the size of the OS disk; 30 if zero.
	DiskGB   int32
	Refusals []cloud.Refusal
}

// VersionSpec describes an existing version for AddVersion.
type VersionSpec struct {
	Version string
	Tags    map[string]string
	// CreatedAt is the creation time; now if zero.
	CreatedAt time.Time
	// ExcludedFromLatest hides the version from a recipe with the pool's definition.
	ExcludedFromLatest bool
	// State is the state of the version; Complete if Absent.
	State cloud.State
}
