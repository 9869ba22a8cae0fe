package cloud

import "context"

// Line is a pool's series of images: what Recipes give out and Disks take. Two that are equal are one. It never changes
// in a pool's life.
type Line struct {
	// Place where the images are kept, in the words of the Disks and opaque to all others: on Azure the ID of a resource
	// group.
	Place string
	// Name of the line, unique in its place.
	Name string
}

// LineRef names a version of a line.
type LineRef struct {
	Line    Line
	Version string
}

// Mold is what a version of a line must be like, for the pool whose next instances are built from it.
type Mold struct {
	// Location where instances are built from it.
	Location string
	// Traits that it must share with them, in the words of the Disks: Pool.Traits.
	Traits map[string]string
	// Nodes is the largest number that the pool may have, for the number of replicas; 0 if nobody knows.
	Nodes int64
}

// VersionSpec asks for a version of a line, made from a snapshot.
type VersionSpec struct {
	LineRef
	Mold
	// SnapshotID of a complete snapshot.
	SnapshotID string
	Tags       map[string]string
	// Replicas in the location; 0 lets the Disks decide by the number of nodes.
	Replicas int32
	// InitializationRate is ImageSpec.InitializationRate.
	InitializationRate int32
}

// DiskSpec names a capture that is thought of, as much of it as Disks need to know.
type DiskSpec struct {
	LineRef
	Mold
	Instance InstanceID
}

// Disks is the half of a cloud that machines, disks and images belong to. It knows lines, and neither pools nor recipes.
type Disks interface {
	Machines

	// ImageID is the ID that a version of the line has, or would have once it is there: what a recipe names it by. It
	// does no I/O.
	ImageID(ref LineRef) string

	// VersionOf reads which version of the line an image is, as a recipe or an instance names it; "" if it is none.
	// latest tells that it names whatever the line's latest version is. It does no I/O.
	VersionOf(line Line, image string) (version string, latest bool)

	// Latest is the version that an image which names the latest one means now in a location; "" if there is none.
	Latest(ctx context.Context, line Line, location string) (string, error)

	// Image, Images, EnsureImage and TagImage are those of Provider, of a line.
	Image(ctx context.Context, ref LineRef) (Image, error)
	Images(ctx context.Context, line Line) ([]Image, error)
	EnsureImage(ctx context.Context, spec VersionSpec) (Image, error)
	TagImage(ctx context.Context, ref LineRef, tags map[string]string) error

	// DeleteImage starts the version's deletion. Deleting nothing is nil. Whether some recipe names it is not its
	// business: Provider's DeleteImage sees to that.
	DeleteImage(ctx context.Context, ref LineRef) error

	// PreflightDisk looks for everything that would make the work on instance, disk, snapshot and version fail later.
	// NotFound if the instance does not exist.
	PreflightDisk(ctx context.Context, spec DiskSpec) ([]Refusal, error)
}

// ImageNames is the power of Disks to tell recipes that are elsewhere how their cloud itself names an image: a Kubernetes object that
// names one for another controller has no other word for it.
type ImageNames interface {
	// NativeImage is the cloud's own name of an image in a place, from how ImageID or a recipe writes it. NotFound if it is a
	// version of a line and not there; Conflict if that is not Complete.
	NativeImage(ctx context.Context, place, image string) (string, error)

	// ImageText is how ImageID or an Instance writes an image in a place, from the cloud's own name.
	ImageText(ctx context.Context, place, native string) (string, error)
}

// Target is the image that a recipe is to name.
type Target struct {
	Pool    PoolID
	Version string
	// Image is the version's ID, by its Disks.
	Image string
}

// Recipes is the half of a cloud that pools and their recipes belong to. It knows images as texts that a recipe names,
// and nothing about disks. On some platforms the recipe is a Kubernetes object, while disks are the cloud's.
type Recipes interface {
	Pools

	// Line is the pool's series of images. Join asks once for each pool: it should cost nothing where the pool's ID tells it.
	// Unsupported if the ID is of no pool that this provider knows.
	Line(ctx context.Context, id PoolID) (Line, error)

	// Pool looks at a pool, its line and its recipe.
	Pool(ctx context.Context, id PoolID) (Pool, error)

	// PreflightRecipe looks for everything about the pool and its recipe that would make a capture fail later: a pool
	// of the wrong kind, a policy that rolls changes out, a missing permission on the recipe. Where the capture removes its
	// instance, that is a permission or a lock in the way of it, and where it grows the pool, a maximum or a quota.
	PreflightRecipe(ctx context.Context, spec PreflightSpec) ([]Refusal, error)

	// RecipeChange is that of Provider, to an image that need not exist yet.
	RecipeChange(ctx context.Context, to Target, removeBootstrap bool) (RecipeChange, error)
}

// Grouped is the power of Disks to tell recipes that are elsewhere of the cloud's own pools. On some clouds what these build nodes in is
// one, which counts and replaces its instances by itself: there they are held, removed and added to by these recipes, and nothing else. As
// the image is for others to write, that others write it is no reason to refuse.
type Grouped interface {
	Groups() Recipes
}

// LineShelf is Shelf for Disks, which know lines.
type LineShelf interface {
	// Snapshots lists the snapshots that carry TagUID in the places of the lines, each once. Name is that of
	// TagPrototype. It is a look.
	Snapshots(ctx context.Context, lines ...Line) ([]Snapshot, error)

	// DropSnapshot is that of Shelf.
	DropSnapshot(ctx context.Context, id string) error
}

// LineAuditor is Auditor for Disks: what the credential needs for instances, disks and the line's images.
type LineAuditor interface {
	Permissions(ctx context.Context, line Line) ([]Permission, error)
}
