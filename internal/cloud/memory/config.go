package memory

import (
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Config is what a cloud is made of. The zero value is a cloud without limits that does everything at once.
type Config struct {
	// Now is the cloud's clock; time.Now if nil. If it goes back, the cloud stands still until it has
	// caught up.
	Now     func() time.Time
	Latency Latency
	// Apart makes the pools objects apart from the cloud that has the disks (Objects).
	Apart bool
	Quota Quota
	// NoZoneStorage makes the region one without zone-redundant storage: a pool's first attempt at an
	// image version fails for it, and EnsureImage must come back with another kind.
	NoZoneStorage bool
	// Instant settles what a snapshot holds when it is asked for: it is Taken while it is Pending. Else the cloud reads the disk
	// until the snapshot is Complete, and what is written meanwhile is in the copy.
	Instant bool
	// NoHold makes the pools do nothing by themselves that an instance could be held from.
	NoHold bool
	// MaxImages is from how many images the instances of a pool may have been built, its recipe's included; a pool
	// whose next instance would be of one more does not grow. 0 is no limit.
	MaxImages int
}

// Latency is how long the cloud takes for work that it reports as under way; zero is no time at all.
type Latency struct {
	// Stop is from the order to power off until the instance is off.
	Stop time.Duration
	// GuestOff is from the guest's own power-off until the cloud shows the instance as off.
	GuestOff time.Duration
	// Start is from the order to start, or from creation, until the guest has booted.
	Start time.Duration
	// Snapshot is until a snapshot can be used.
	Snapshot time.Duration
	// Image is until a version is built and replicated; its percentage grows evenly with it.
	Image time.Duration
	// Delete is until a deleted snapshot or version is gone.
	Delete time.Duration
}

// Quota limits what there may be at one time in the whole cloud; zero is no limit.
type Quota struct {
	Snapshots int
	Images    int
	Instances int
}

// PoolSpec describes a pool to add.
type PoolSpec struct {
	Name string
	// Capacity that the pool is meant to have, counted up by AddInstance where that makes it more.
	Capacity int64
	// MaxSize is the largest capacity; 0 for one that the cloud does not know.
	MaxSize  int64
	Location string
	Traits   map[string]string
	// Image that the recipe names at first; "generic" if empty.
	Image string
	// Latest makes the recipe name the pool's own definition instead.
	Latest bool
	// Bootstrap names what prepares a generic image on each new node, such as "customData".
	Bootstrap []string
	// Unreadable names the part of Bootstrap that the cloud never gives out.
	Unreadable []string
	// Extensions names what else the recipe holds and always keeps.
	Extensions []string
	// Owner is who else writes the recipe.
	Owner string
	// DiskGB is the size of the OS disk; 30 if zero.
	DiskGB   int32
	Refusals []cloud.Refusal
}

// VersionSpec describes an image version that was there before Kamino looked.
type VersionSpec struct {
	Version string
	Tags    map[string]string
	// CreatedAt; now if zero.
	CreatedAt time.Time
	// ExcludedFromLatest hides the version from a recipe that names the definition.
	ExcludedFromLatest bool
	// State; Complete if Absent.
	State cloud.State
}
