package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolAnnotation on a Node names its pool of Objects.
const PoolAnnotation = "memory/pool"

// linesPlace is the place of images of Objects' pools.
const linesPlace = "memory:///lines/"

// Objects are PoolProvider apart from the cloud of the disks, as with Cluster API: a pool has a revision, and a Node's
// annotation names its pool. Instances name neither pool nor version. A recipe's image is an ID of the ImageProvider.
type Objects struct{ *PoolProvider }

// familyOf returns the image family of a pool.
func (c *pools) familyOf(id cloud.PoolID) cloud.ImageFamily {
	family := familyOf(id)
	if c.config.Apart {
		family.Place = linesPlace
	}
	return family
}

// instanceID returns the ID of a new instance of a pool.
func (c *pools) instanceID(id cloud.PoolID, name string) cloud.InstanceID {
	if c.config.Apart {
		return cloud.InstanceID(machinePrefix + familyOf(id).Name + "-" + strings.ToLower(name))
	}
	return instanceID(id, name)
}

// reportedVersion returns the version that an instance reports.
func (c *pools) reportedVersion(p *pool) string {
	if c.config.Apart {
		return ""
	}
	return c.recipeVersion(p)
}

// PoolsOf reads the annotations.
func (c *Objects) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPoolsOf, ""); err != nil {
		return nil, err
	}
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		name := node.Annotations[PoolAnnotation]
		if name == "" || !isInstance(node.ProviderID) {
			found[i].Why = "the node has no annotation " + PoolAnnotation + " that names a pool of this cluster"
			continue
		}
		found[i].Pool = poolID(name)
	}
	return found, nil
}

// Pool returns a pool without its recipe's version.
func (c *Objects) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPool, id)
	if err != nil {
		return cloud.Pool{}, err
	}
	return c.poolView(p, cloud.Recipe{Image: p.recipe.image, Bootstrap: slices.Clone(p.recipe.bootstrap)}), nil
}

// objectRevision is the content of an object's backup, with the revision of the read.
type objectRevision struct {
	Pool     cloud.PoolID        `json:"pool"`
	Revision int64               `json:"revision"`
	Image    string              `json:"image"`
	Removes  []cloud.RecipeField `json:"removes,omitempty"`
}

// RecipeChange implements cloud.PoolProvider.
func (c *Objects) RecipeChange(ctx context.Context, to cloud.Target, removeBootstrap bool) (cloud.RecipeChange, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opRecipeChange, to.Pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	if _, ok := parseVersion(to.Version); !ok {
		return cloud.RecipeChange{}, refused(cloud.Invalid, opRecipeChange, string(to.Pool), "InvalidParameter", fmt.Sprintf("%q is no version", to.Version))
	}
	change := p.recipeChange(to, removeBootstrap)
	if !change.Done {
		change.Backup, err = json.Marshal(objectRevision{p.id, p.revision, p.recipe.image, change.Removes})
	}
	return change, err
}

// SetRecipe writes an object at its revision, and loses against a concurrent write.
func (c *Objects) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	defer c.enter()()
	if change.Restores != nil {
		return c.restore(ctx, change)
	}
	p, err := c.admitPool(ctx, opSetRecipe, change.Pool)
	if err != nil {
		return err
	}
	v, resource := c.imageByID(change.To), string(p.id)
	switch {
	case v == nil:
		return refused(cloud.NotFound, opSetRecipe, resource, "ImageNotFound", change.To+" does not exist")
	case v.version != change.Version:
		return refused(cloud.Invalid, opSetRecipe, resource, "InvalidParameter", fmt.Sprintf("%q is not version %s", change.To, change.Version))
	case p.carriedOut(change):
		return nil
	case v.state != cloud.Complete:
		return refused(cloud.Conflict, opSetRecipe, resource, "ImageNotReady", fmt.Sprintf("version %s is %s, not Complete", v.version, v.state))
	case c.written(p, change):
		return refused(cloud.Conflict, opSetRecipe, resource, "Conflict", "the object has been modified: look again")
	}
	return c.promote(p, v, change)
}

// written reports whether the object was written since the change was made.
func (c *Objects) written(p *pool, change cloud.RecipeChange) bool {
	var seen objectRevision
	if change.Backup != nil {
		return json.Unmarshal(change.Backup, &seen) != nil || seen.Revision != p.revision || p.recipe.image != change.From
	}
	return p.changedSince(change)
}

// Instances implements cloud.PoolProvider. The machines' objects name their pool.
func (c *Objects) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	list, err := c.PoolProvider.Instances(ctx, id)
	for i := range list {
		list[i].Pool = id
	}
	return list, err
}

// CanRebuild implements cloud.PoolProvider, as with Cluster API.
func (c *Objects) CanRebuild(cloud.PoolID) bool { return false }

// EnsureRebuilt implements cloud.PoolProvider.
func (c *Objects) EnsureRebuilt(_ context.Context, id cloud.InstanceID, _ string) (cloud.Rebuild, error) {
	return cloud.Rebuild{}, refused(cloud.Unsupported, opEnsureRebuilt, string(id), "NoRebuild", "a machine is replaced, not rebuilt")
}

// ResizeWarmPool implements cloud.PoolProvider.
func (c *Objects) ResizeWarmPool(_ context.Context, id cloud.PoolID, _, _ cloud.WarmLimits) error {
	return refused(cloud.NotFound, opResizeWarmPool, string(id), "NoWarmPool", "the pool has no warm pool")
}

// imageByID returns the image of a recipe's ID; nil if there is none.
func (c *imageStore) imageByID(id string) *image {
	if i := slices.IndexFunc(c.images, func(v *image) bool { return v.id == id }); i >= 0 {
		return c.images[i]
	}
	return nil
}
