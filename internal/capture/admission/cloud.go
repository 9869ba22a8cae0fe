package admission

import (
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// unknown reports that the cloud does not know the donor's instance.
func (c *Case) unknown() bool {
	_, err := c.Cloud.Get()
	return cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.Unsupported)
}

// preflight returns the refusals of the provider's preflight.
func preflight(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() {
		return nil, nil
	}
	refusals, err := resultOf(c.Cloud, "refusals of the cloud")
	if c.unknown() {
		return refuse(NodeNotFound, "choose another node", "the cloud has no instance for node %s: %s", c.node(), err), nil
	}
	return slices.Clone(refusals), err
}

// recipe adds refusals of the pool that the preflight has not returned, and a refusal for a recipe that is newer than the
// version.
func recipe(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() || c.unknown() {
		return nil, nil
	}
	pool, err := resultOf(c.Recipe, "the pool")
	if err != nil {
		return nil, err
	}
	reported, _ := c.Cloud.Get()
	var refusals []cloud.Refusal
	for _, refusal := range pool.Refusals {
		if !slices.ContainsFunc(reported, func(r cloud.Refusal) bool { return r.Reason == refusal.Reason }) {
			refusals = append(refusals, refusal)
		}
	}
	if current, version := pool.Recipe.Version, c.Prototype.Spec.Version; current != "" && imageversion.Compare(current, version) > 0 {
		remedy := "if the newer version is bad, roll back first"
		if next := imageversion.Next(current); imageversion.SameDay(current, version) && next != current {
			remedy = "the default is one version per day: try again tomorrow (UTC), or set --version " + next
		}
		refusals = append(refusals, refuse(VersionOutOfOrder, remedy,
			"the recipe of pool %s names version %s, newer than %s", c.Prototype.Spec.Pool, current, version)...)
	}
	return refusals, nil
}

// images refuses a pool whose nodes are near the cloud's limit of images.
func images(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() || c.unknown() {
		return nil, nil
	}
	found, err := resultOf(c.Images, "the images of the pool")
	if err != nil || !found.Spread.IsAtLimit() {
		return nil, err
	}
	pool, err := c.Recipe.Get()
	return []cloud.Refusal{found.Warning(c.PoolName, pool.Recipe)}, err
}

// ImageLimitWarning returns a message if the pool's nodes are near the cloud's limit of images; else empty.
func (c *Case) ImageLimitWarning() string {
	found, err := c.Images.Get()
	pool, poolErr := c.Recipe.Get()
	if err != nil || poolErr != nil || !found.Spread.IsNearLimit() {
		return ""
	}
	return found.Warning(c.PoolName, pool.Recipe).Message
}
