package cloud_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// counted counts the requests to the recipes.
type counted struct {
	cloud.PoolProvider
	families, pools int
	rootDisk        int32 // in the recipe
	missing         bool  // the pool is not found
}

func (c *counted) Family(ctx context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	c.families++
	return c.PoolProvider.Family(ctx, id)
}

func (c *counted) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	c.pools++
	pool, err := c.PoolProvider.Pool(ctx, id)
	if c.missing {
		return cloud.Pool{}, &cloud.Error{Kind: cloud.NotFound}
	}
	pool.RootDiskGB = c.rootDisk
	return pool, err
}

// molded records the spec of the last version.
type molded struct {
	*memory.ImageProvider
	asked cloud.VersionSpec
}

func (m *molded) EnsureImage(ctx context.Context, spec cloud.VersionSpec) (cloud.Image, error) {
	m.asked = spec
	return m.ImageProvider.EnsureImage(ctx, spec)
}

func halves(t *testing.T) (*memory.Cloud, cloud.PoolID, *counted, *molded, cloud.Provider) {
	t.Helper()
	memoryCloud := memory.New(memory.Config{})
	pool := memoryCloud.AddPool(memory.PoolSpec{Name: "pool1", Location: "here", MaxSize: 7, Traits: map[string]string{"generation": "V2"}})
	recipes, disks := &counted{PoolProvider: memoryCloud.Recipes()}, &molded{ImageProvider: memoryCloud.Disks()}
	return memoryCloud, pool, recipes, disks, cloud.New(cloud.DisksOf(disks), cloud.RecipesOf(recipes))
}

func TestALineIsAskedForOnce(t *testing.T) {
	memoryCloud, pool, recipes, _, joined := halves(t)
	memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
	for range 3 {
		image, err := joined.Image(t.Context(), cloud.ImageRef{Pool: pool, Version: "2026.03.01"})
		if err != nil || image.ImageRef != (cloud.ImageRef{Pool: pool, Version: "2026.03.01"}) {
			t.Errorf("%+v, %v", image, err)
		}
		images, err := joined.Images(t.Context(), pool)
		if err != nil || len(images) != 1 || images[0].ImageRef != image.ImageRef {
			t.Errorf("%+v, %v", images, err)
		}
		if joined.BuiltFrom(pool, cloud.Instance{Image: image.ID}) != "2026.03.01" || joined.BuiltFrom(pool, cloud.Instance{Image: "generic"}) != "" {
			t.Error("what an instance was built from is not read")
		}
	}
	if recipes.families != 1 || recipes.pools != 0 {
		t.Errorf("asked for %d lines and %d pools, want one line", recipes.families, recipes.pools)
	}
	if _, err := joined.Images(t.Context(), "elsewhere"); !cloud.Is(err, cloud.Unsupported) {
		t.Errorf("the line of no pool: %v", err)
	}
}

// TestVersionHasRequirementsOfPool: the last read of the pool sets the properties of the version. Only a process without a
// read requests the pool.
func TestVersionHasRequirementsOfPool(t *testing.T) {
	memoryCloud, pool, recipes, disks, joined := halves(t)
	memoryCloud.AddInstance(pool, "a")
	snapshot, err := joined.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "s", Instance: memoryCloud.InstanceIDs(pool)[0]})
	if err != nil {
		t.Fatal(err)
	}
	for n, version := range []string{"2026.03.01", "2026.03.02"} {
		spec := cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: pool, Version: version}, SnapshotID: snapshot.ID, Replicas: 4, Tags: map[string]string{"a": "b"}}
		if _, err := joined.EnsureImage(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		asked := disks.asked
		if asked.Location != "here" || asked.Nodes != 7 || asked.Traits["generation"] != "V2" || asked.Replicas != 4 || asked.Version != version ||
			asked.Tags["a"] != "b" {
			t.Errorf("asked for %+v", asked)
		}
		if recipes.pools != 1 {
			t.Errorf("version %d: the pool was looked at %d times", n+1, recipes.pools)
		}
	}
}

// TestAVersionThatTheRecipeNamesStays, for any spelling. The recipe is read at each deletion.
func TestAVersionThatTheRecipeNamesStays(t *testing.T) {
	memoryCloud, pool, recipes, _, joined := halves(t)
	for _, version := range []string{"2026.03.01", "2026.03.02"} {
		memoryCloud.AddVersion(pool, memory.VersionSpec{Version: version})
	}
	image, err := joined.Image(t.Context(), cloud.ImageRef{Pool: pool, Version: "2026.03.01"})
	if err != nil {
		t.Fatal(err)
	}
	memoryCloud.ChangeRecipe(pool, image.ID)
	for _, version := range []string{"2026.03.01", "2026.3.1", "2026.3.01"} {
		if err := joined.DeleteImage(t.Context(), cloud.ImageRef{Pool: pool, Version: version}); !cloud.Is(err, cloud.Conflict) {
			t.Errorf("deleting %s: %v, want a conflict", version, err)
		}
	}
	if err := joined.DeleteImage(t.Context(), cloud.ImageRef{Pool: pool, Version: "2026.03.02"}); err != nil {
		t.Errorf("deleting another: %v", err)
	}
	memoryCloud.ChangeRecipe(pool, "generic")
	if err := joined.DeleteImage(t.Context(), cloud.ImageRef{Pool: pool, Version: "2026.03.01"}); err != nil {
		t.Errorf("deleting it once the recipe names another: %v", err)
	}
	if recipes.pools != 5 {
		t.Errorf("the recipe was read %d times for 5 deletions", recipes.pools)
	}
	if left, err := joined.Images(t.Context(), pool); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if err := joined.DeleteImage(t.Context(), cloud.ImageRef{Pool: "memory:///pools/gone", Version: "2026.03.01"}); err != nil {
		t.Errorf("its pool is gone: %v", err)
	}
}

// TestAPoolThatIsNotFoundOnce keeps the version that its recipe names: the list of the pool's instances contradicts.
func TestAPoolThatIsNotFoundOnce(t *testing.T) {
	memoryCloud, pool, recipes, _, joined := halves(t)
	memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
	ref := cloud.ImageRef{Pool: pool, Version: "2026.03.01"}
	image, err := joined.Image(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	memoryCloud.ChangeRecipe(pool, image.ID)
	recipes.missing = true
	if err := joined.DeleteImage(t.Context(), ref); !cloud.Is(err, cloud.Unavailable) {
		t.Errorf("the deletion: %v", err)
	}
	if left, err := joined.Images(t.Context(), pool); err != nil || len(left) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestBothHalvesAreAskedBefore(t *testing.T) {
	memoryCloud, pool, _, _, joined := halves(t)
	a := memoryCloud.AddInstance(pool, "a")
	spec := cloud.PreflightSpec{Pool: pool, Instance: a, Version: "2026.03.01"}
	if found, err := joined.Preflight(t.Context(), spec); err != nil || found != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	both := cloud.Refusal{Reason: "Windows", Message: "m"}
	memoryCloud.RefusePool(pool, both)
	memoryCloud.RefuseInstance(a, both, cloud.Refusal{Reason: "EphemeralDisk", Message: "m"})
	memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
	memoryCloud.Forbid("SetRecipe", "EnsureImage")
	found, err := joined.Preflight(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]int{}
	for _, refusal := range found {
		reasons[refusal.Reason]++
	}
	if reasons["Windows"] != 1 || reasons["EphemeralDisk"] != 1 || reasons["VersionExists"] != 1 || reasons[cloud.PermissionMissing] != 2 {
		t.Errorf("found %v", reasons)
	}
}

// TestPermissionsOfBothHalves: each permission is listed once.
// TestRootDiskOfRecipe: a recipe with a smaller root disk than the version's is not changed to the version.
func TestRootDiskOfRecipe(t *testing.T) {
	for rootDisk, refused := range map[int32]bool{0: false, 30: true, 40: false} {
		memoryCloud := memory.New(memory.Config{})
		pool := memoryCloud.AddPool(memory.PoolSpec{Name: "pool1", DiskGB: 40})
		memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
		joined := cloud.New(cloud.DisksOf(memoryCloud.Disks()), cloud.RecipesOf(&counted{PoolProvider: memoryCloud.Recipes(), rootDisk: rootDisk}))
		change, err := joined.RecipeChange(t.Context(), cloud.ImageRef{Pool: pool, Version: "2026.03.01"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if is := len(change.Refusals) == 1 && change.Refusals[0].Reason == cloud.RootDiskTooLarge &&
			strings.Contains(change.Refusals[0].Message, "40 GiB, but the recipe gives new nodes 30 GiB"); is != refused {
			t.Errorf("with a root disk of %d GiB, the change is refused with %+v", rootDisk, change.Refusals)
		}
	}
}

func TestPermissionsOfBothHalves(t *testing.T) {
	_, pool, _, _, joined := halves(t)
	list, err := joined.Permissions(t.Context(), pool)
	reported := map[string]int{}
	for _, permission := range list {
		reported[permission.Action]++
	}
	if err != nil || reported["EnsureImage"] != 1 || reported["SetRecipe"] != 1 || reported["Preflight"] != 1 {
		t.Errorf("%v, %v", reported, err)
	}
}
