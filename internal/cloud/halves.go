package cloud

import "context"

// ImageFamily is a pool's series of images, from PoolProvider to ImageProvider. Equal values are the same image family. A pool's image family never changes.
type ImageFamily struct {
	// Place is where the images are stored, in the words of the ImageProvider: on Azure the ID of a resource group.
	Place string
	// Name is the image family's name, unique in its place.
	Name string
}

// FamilyVersion names a version of an image family.
type FamilyVersion struct {
	Family  ImageFamily
	Version string
}

// ImageRequirements has the requirements for a version of an image family from the pool whose instances will use it.
type ImageRequirements struct {
	// Location is where instances are built.
	Location string
	// Traits are the required properties, in the words of the ImageProvider: Pool.Traits.
	Traits map[string]string
	// Nodes is the largest number of nodes in the pool, for the number of replicas; 0 if unknown.
	Nodes int64
	// RootDiskGB is the size of the root disk in the recipe: Pool.RootDiskGB.
	RootDiskGB int32
}

// VersionSpec requests a version of an image family from a snapshot.
type VersionSpec struct {
	FamilyVersion
	ImageRequirements
	// SnapshotID is the ID of a complete snapshot.
	SnapshotID string
	// Proven is ImageSpec.Proven.
	Proven string
	Tags   map[string]string
	// Replicas is the number of replicas in the location; 0 lets the ImageProvider choose by the number of nodes.
	Replicas int32
	// InitializationRate is ImageSpec.InitializationRate.
	InitializationRate int32
}

// DiskSpec describes a planned capture for ImageProvider.
type DiskSpec struct {
	FamilyVersion
	ImageRequirements
	Instance InstanceID
	// Copies is PreflightSpec.Copies, and WorkshopType the type of the workshop; empty if unknown.
	Copies       bool
	WorkshopType string
}

// ImageProvider is the half of a cloud with machines, disks and images. An ImageProvider knows image families, but no pools and
// no recipes.
type ImageProvider struct {
	Machines
	DiskCopier
	ImageStore
	PoolSupport
}

// DisksOf returns the half with the calls of one value.
func DisksOf[P interface {
	Machines
	DiskCopier
	ImageStore
	PoolSupport
}](p P) ImageProvider {
	return ImageProvider{Machines: p, DiskCopier: p, ImageStore: p, PoolSupport: p}
}

// ImageStore has the calls about the images of image families.
type ImageStore interface {
	// ImageID returns the present or future ID of a version, as recipes name the version. ImageID does no I/O.
	ImageID(ref FamilyVersion) string

	// VersionOf returns the version of the image family for an image as in a recipe or an instance; "" for other images. latest
	// is true if the image means the latest version of the image family. VersionOf does no I/O.
	VersionOf(family ImageFamily, image string) (version string, latest bool)

	// Latest returns the current latest version in a location; "" without a version.
	Latest(ctx context.Context, family ImageFamily, location string) (string, error)

	// Image, Images, EnsureImage and TagImage are as in Versions, for an image family.
	Image(ctx context.Context, ref FamilyVersion) (Image, error)
	Images(ctx context.Context, family ImageFamily) ([]Image, error)
	EnsureImage(ctx context.Context, spec VersionSpec) (Image, error)
	TagImage(ctx context.Context, ref FamilyVersion, tags map[string]string) error

	// AllowLaunches is as in Versions, which checks recipes before.
	AllowLaunches(ctx context.Context, ref FamilyVersion, allow bool) error

	// DeleteImage starts the version's deletion. A missing version is no error. DeleteImage of Versions checks recipes
	// before.
	DeleteImage(ctx context.Context, ref FamilyVersion) error

	// PreflightDisk returns every obstacle to the work on instance, disk, snapshot and version. PreflightDisk returns
	// NotFound without the instance.
	PreflightDisk(ctx context.Context, spec DiskSpec) ([]Refusal, error)

	// Snapshots is as in Versions, for the places of image families.
	Snapshots(ctx context.Context, families ...ImageFamily) ([]Snapshot, error)

	// Copies is as in Versions, for the places of image families.
	Copies(ctx context.Context, families ...ImageFamily) ([]CopySpec, error)

	// Permissions is as in Pools: the permissions for instances, disks and the image family's images.
	Permissions(ctx context.Context, family ImageFamily) ([]Permission, error)

	// NativeImage returns the cloud's own name of an image in a place, from the form of ImageID or a recipe. Kubernetes
	// objects name images so. NativeImage returns NotFound for a missing version, and Conflict for an incomplete version.
	NativeImage(ctx context.Context, place, image string) (string, error)

	// ImageText returns the form of ImageID or an Instance from the cloud's own name of an image in a place.
	ImageText(ctx context.Context, place, native string) (string, error)
}

// PoolSupport has the calls for a PoolProvider of another package, whose objects do not describe the instances.
type PoolSupport interface {
	// Groups returns the cloud's own pools that a controller builds its nodes in; empty without such pools. The cloud
	// replaces instances there.
	Groups() PoolProvider

	// InstancesOf reads many instances in few requests. Missing instances are left out, and Power may be unknown.
	InstancesOf(ctx context.Context, ids []InstanceID) (map[InstanceID]Instance, error)

	// MaxModels returns the limit of different images of the instances of a pool, as Pools.MaxImages; 0 without a limit.
	// MaxModels does no I/O.
	MaxModels() int
}

// Target is the wanted image of a recipe.
type Target struct {
	Pool    PoolID
	Version string
	// Image is the version's ID from its ImageProvider.
	Image string
}

// PoolProvider is the half of a cloud with pools and recipes. A PoolProvider knows images only as texts, and no disks. On some
// platforms a recipe is a Kubernetes object, while the disks are the cloud's.
type PoolProvider struct {
	Pools
	TrialBuilder
	WorkshopBuilder
	Recipes
}

// RecipesOf returns the half with the calls of one value.
func RecipesOf[P interface {
	Pools
	TrialBuilder
	WorkshopBuilder
	Recipes
}](p P) PoolProvider {
	return PoolProvider{Pools: p, TrialBuilder: p, WorkshopBuilder: p, Recipes: p}
}

// IsEmpty reports whether there are no pools of this kind.
func (p PoolProvider) IsEmpty() bool { return p == PoolProvider{} }

// Recipes are the calls about the recipes of pools.
type Recipes interface {
	// Family returns the pool's series of images. The joined provider asks once for each pool, so Family should need no I/O if the ID is
	// enough. Family returns Unsupported for an unknown ID.
	Family(ctx context.Context, id PoolID) (ImageFamily, error)

	// Pool returns a pool with its image family and recipe.
	Pool(ctx context.Context, id PoolID) (Pool, error)

	// PreflightRecipe returns every obstacle in the pool and its recipe to a capture: a wrong kind of pool, a policy
	// that rolls changes out, a missing permission.
	PreflightRecipe(ctx context.Context, spec PreflightSpec) ([]Refusal, error)

	// RecipeChange is as in Versions, for an image that need not exist yet.
	RecipeChange(ctx context.Context, to Target, removeBootstrap bool) (RecipeChange, error)
}
