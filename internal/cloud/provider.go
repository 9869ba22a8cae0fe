package cloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// New makes a provider from two halves, which may be of different clouds. Image families connect the halves, and a pool's image family
// is read once. The joined provider never deletes a version that a recipe names.
func New(disks ImageProvider, recipes PoolProvider) Provider {
	j := &joined{disks: disks, recipes: recipes}
	return Provider{Machines: joinedMachines{disks.Machines}, Pools: joinedPools{recipes.Pools, j}, TrialBuilder: joinedTrials{recipes.TrialBuilder, j},
		WorkshopBuilder: joinedWorkshops{recipes.WorkshopBuilder, j}, DiskCopier: joinedCopies{disks.DiskCopier}, Versions: j}
}

// joined answers what needs both halves.
type joined struct {
	disks   ImageProvider
	recipes PoolProvider

	// families are by PoolID. requirements are by PoolID from the last read of the pool. sizes are of images in GiB, by ImageRef.
	families, requirements, sizes sync.Map
}

// family returns the pool's image family, read once.
func (j *joined) family(ctx context.Context, id PoolID) (ImageFamily, error) {
	if known, found := j.families.Load(id); found {
		return known.(ImageFamily), nil
	}
	family, err := j.recipes.Family(ctx, id)
	if err == nil {
		j.families.Store(id, family)
	}
	return family, err
}

func (j *joined) ref(ctx context.Context, ref ImageRef) (FamilyVersion, error) {
	family, err := j.family(ctx, ref.Pool)
	return FamilyVersion{family, ref.Version}, err
}

// Pool implements Versions.
func (j *joined) Pool(ctx context.Context, id PoolID) (Pool, error) {
	pool, err := j.recipes.Pool(ctx, id)
	if err != nil {
		return Pool{}, err
	}
	j.families.Store(id, pool.Family)
	j.requirements.Store(id, ImageRequirements{Location: pool.Location, Traits: pool.Traits, Nodes: max(pool.MaxSize, pool.Capacity),
		RootDiskGB: pool.RootDiskGB})
	if pool.Recipe.Version == "" {
		pool.Recipe.Version, pool.Recipe.Latest = j.disks.VersionOf(pool.Family, pool.Recipe.Image)
	}
	if pool.Warm != nil {
		for i := range pool.Warm.Instances {
			one := &pool.Warm.Instances[i]
			one.BuiltFrom, _ = j.disks.VersionOf(pool.Family, one.Image)
		}
	}
	if pool.Recipe.Latest {
		pool.Recipe.Version, err = j.disks.Latest(ctx, pool.Family, pool.Location)
	}
	return pool, err
}

// requirementsOf returns the requirements for a version of the pool, from the last read.
func (j *joined) requirementsOf(ctx context.Context, id PoolID) (ImageRequirements, error) {
	if known, found := j.requirements.Load(id); found {
		return known.(ImageRequirements), nil
	}
	if _, err := j.Pool(ctx, id); err != nil {
		return ImageRequirements{}, err
	}
	known, _ := j.requirements.Load(id)
	return known.(ImageRequirements), nil
}

// BuiltFrom implements Versions.
func (j *joined) BuiltFrom(id PoolID, instance Instance) string {
	if instance.BuiltFrom != "" {
		return instance.BuiltFrom
	}
	family, err := j.family(context.Background(), id)
	if err != nil {
		return ""
	}
	version, _ := j.disks.VersionOf(family, instance.Image)
	return version
}

// Preflight implements Versions. Both halves share one read cache. A reason of the pool is not repeated for its
// instance, except missing permissions.
func (j *joined) Preflight(ctx context.Context, spec PreflightSpec) ([]Refusal, error) {
	ctx = EnsureReadCache(ctx)
	found, err := j.recipes.PreflightRecipe(ctx, spec)
	if err != nil {
		return nil, err
	}
	pool, err := j.Pool(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	requirements, err := j.requirementsOf(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	ofDisk, err := j.disks.PreflightDisk(ctx, DiskSpec{FamilyVersion: FamilyVersion{pool.Family, spec.Version}, ImageRequirements: requirements,
		Instance: spec.Instance, Copies: spec.Copies, WorkshopType: cmp.Or(spec.WorkshopType, pool.InstanceType)})
	if err != nil {
		return nil, err
	}
	ofPool := len(found)
	for _, refusal := range ofDisk {
		reported := slices.ContainsFunc(found[:ofPool], func(r Refusal) bool { return r.Reason == refusal.Reason })
		if !reported || refusal.Reason == PermissionMissing {
			found = append(found, refusal)
		}
	}
	return RefusalsFor(spec.Copies, found), nil
}

// Image implements Versions.
func (j *joined) Image(ctx context.Context, ref ImageRef) (Image, error) {
	at, err := j.ref(ctx, ref)
	if err != nil {
		return Image{}, err
	}
	image, err := j.disks.Image(ctx, at)
	if image.SizeGB > 0 {
		j.sizes.Store(ref, image.SizeGB)
	}
	return image.withPool(ref.Pool), err
}

// withPool sets the fields that an ImageProvider does not know.
func (i Image) withPool(pool PoolID) Image {
	i.ImageRef = ImageRef{}
	if i.Version != "" {
		i.ImageRef = ImageRef{pool, i.Version}
	}
	return i
}

// Images implements Versions.
func (j *joined) Images(ctx context.Context, pool PoolID) ([]Image, error) {
	family, err := j.family(ctx, pool)
	if err != nil {
		return nil, err
	}
	images, err := j.disks.Images(ctx, family)
	for i := range images {
		images[i] = images[i].withPool(pool)
	}
	return images, err
}

// EnsureImage implements Versions.
func (j *joined) EnsureImage(ctx context.Context, spec ImageSpec) (Image, error) {
	at, err := j.ref(ctx, spec.ImageRef)
	if err != nil {
		return Image{}, err
	}
	requirements, err := j.requirementsOf(ctx, spec.Pool)
	if err != nil {
		return Image{}, err
	}
	image, err := j.disks.EnsureImage(ctx, VersionSpec{FamilyVersion: at, ImageRequirements: requirements, SnapshotID: spec.SnapshotID, Proven: spec.Proven,
		Tags: spec.Tags, Replicas: spec.Replicas, InitializationRate: spec.InitializationRate})
	return image.withPool(spec.Pool), err
}

// TagImage implements Versions.
func (j *joined) TagImage(ctx context.Context, ref ImageRef, tags map[string]string) error {
	at, err := j.ref(ctx, ref)
	if err != nil {
		return err
	}
	return j.disks.TagImage(ctx, at, tags)
}

// AllowLaunches implements Versions.
func (j *joined) AllowLaunches(ctx context.Context, ref ImageRef, allow bool) error {
	at, err := j.ref(ctx, ref)
	if err == nil && !allow {
		err = j.refuseNamed(ctx, ref, "forbid launches of")
	}
	if err != nil {
		return err
	}
	return j.disks.AllowLaunches(ctx, at, allow)
}

// DeleteImage implements Versions.
func (j *joined) DeleteImage(ctx context.Context, ref ImageRef) error {
	at, err := j.ref(ctx, ref)
	if err == nil {
		err = j.refuseNamed(ctx, ref, "delete")
	}
	if err != nil {
		return err
	}
	return j.disks.DeleteImage(ctx, at)
}

// refuseNamed refuses to take the version away from a recipe that names it. The recipe of a deleted pool names no version.
func (j *joined) refuseNamed(ctx context.Context, ref ImageRef, op string) error {
	pool, err := j.Pool(ctx, ref.Pool)
	switch {
	case Is(err, NotFound): // an answer of the pool's list contradicts
		if _, err := j.recipes.Instances(ctx, ref.Pool); !Is(err, NotFound) && !Is(err, Unsupported) {
			return &Error{Kind: Unavailable, Op: op, Resource: "image version " + ref.Version, Err: err,
				Message: fmt.Sprintf("the recipe of pool %s cannot be read, so it may name the version", ref.Pool)}
		}
		return nil
	case err == nil && pool.Recipe.Version != "" && sameVersion(pool.Recipe.Version, ref.Version):
		return &Error{Kind: Conflict, Op: op, Resource: "image version " + ref.Version + " of pool " + pool.Name,
			Message: fmt.Sprintf("the recipe of pool %s names the version: let the recipe name another image first", pool.Name)}
	}
	return err
}

// sameVersion compares two versions number by number.
func sameVersion(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return slices.EqualFunc(x, y, func(m, n string) bool {
		return m == n || strings.TrimLeft(m, "0") == strings.TrimLeft(n, "0")
	})
}

// RecipeChange implements Versions.
func (j *joined) RecipeChange(ctx context.Context, ref ImageRef, removeBootstrap bool) (RecipeChange, error) {
	at, err := j.ref(ctx, ref)
	if err != nil {
		return RecipeChange{}, err
	}
	change, err := j.recipes.RecipeChange(ctx, Target{Pool: ref.Pool, Version: ref.Version, Image: j.disks.ImageID(at)}, removeBootstrap)
	if err != nil || change.Done {
		return change, err
	}
	refusal, err := j.refuseRoot(ctx, ref)
	if refusal != nil && !slices.ContainsFunc(change.Refusals, func(r Refusal) bool { return r.Reason == refusal.Reason }) {
		change.Refusals = append(change.Refusals, *refusal)
	}
	return change, err
}

// refuseRoot returns the refusal of an image whose disk is larger than the root disk in the recipe; nil otherwise. A recipe
// without a size costs no request.
func (j *joined) refuseRoot(ctx context.Context, ref ImageRef) (*Refusal, error) {
	requirements, err := j.requirementsOf(ctx, ref.Pool)
	if err != nil || requirements.RootDiskGB == 0 {
		return nil, err
	}
	if _, known := j.sizes.Load(ref); !known {
		if _, err := j.Image(ctx, ref); err != nil {
			return nil, err
		}
	}
	size, _ := j.sizes.Load(ref)
	has, gives := int32(0), requirements.RootDiskGB
	if size != nil {
		has = size.(int32) // the map holds only sizes
	}
	if has <= gives {
		return nil, nil
	}
	refusal := Refuse(RootDiskTooLarge, fmt.Sprintf("pool %s: version %s has a root disk of %d GiB, but the recipe gives new nodes %d GiB, "+
		"and the cloud would not create them", j.recipes.PoolName(ref.Pool), ref.Version, has, gives),
		fmt.Sprintf("set the root disk of the recipe to at least %d GiB, or use a version with at most %d GiB", has, gives))
	return &refusal, nil
}

// joinedTrials names the images of trials, which only the ImageProvider knows.
type joinedTrials struct {
	TrialBuilder
	both *joined
}

// joinedPools adds what the ImageProvider knows of the instances and permissions of a pool.
type joinedPools struct {
	Pools
	both *joined
}

// Instances implements Pools: the PoolProvider lists the instances, and the ImageProvider finds the versions.
func (p joinedPools) Instances(ctx context.Context, pool PoolID) ([]Instance, error) {
	list, err := p.Pools.Instances(ctx, pool)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].BuiltFrom = p.both.BuiltFrom(pool, list[i])
	}
	return list, nil
}

// Snapshots implements Versions.
func (j *joined) Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error) {
	families, err := j.familiesOf(ctx, pools)
	if err != nil {
		return nil, err
	}
	return j.disks.Snapshots(ctx, families...)
}

// familiesOf returns the image families of pools that are there.
func (j *joined) familiesOf(ctx context.Context, pools []PoolID) (families []ImageFamily, err error) {
	for _, pool := range pools {
		family, err := j.family(ctx, pool)
		switch {
		case Is(err, NotFound): // other pools have the same place
		case err != nil:
			return nil, err
		default:
			families = append(families, family)
		}
	}
	return families, nil
}

// Permissions implements Pools: the permissions of both halves, each once.
func (p joinedPools) Permissions(ctx context.Context, pool PoolID) ([]Permission, error) {
	ctx = EnsureReadCache(ctx)
	all, err := p.Pools.Permissions(ctx, pool)
	if err != nil {
		return nil, err
	}
	family, err := p.both.family(ctx, pool)
	if err != nil {
		return nil, err
	}
	list, err := p.both.disks.Permissions(ctx, family)
	if err != nil {
		return nil, err
	}
	for _, permission := range list {
		if !slices.Contains(all, permission) {
			all = append(all, permission)
		}
	}
	return all, nil
}
