package pool

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Status is the state of a pool: nodes in the cluster, recipe and versions in the cloud.
type Status struct {
	cloud.Pool
	// Nodes and ReadyNodes are the numbers of the pool's Nodes in the cluster.
	Nodes, ReadyNodes int
	// Images are the pool's versions, oldest first.
	Images []cloud.Image
	// Err is the cloud's error for this pool; nil after success.
	Err error
}

// Attention returns the pool for the list of what needs a person; explain turns the cloud's error into words.
func (s Status) Attention(explain func(error) string) attention.Pool {
	if s.Err != nil {
		return attention.Pool{Name: s.Name, Fault: explain(s.Err), FaultKind: cloud.KindOf(s.Err)}
	}
	return attention.PoolOf(history.Of(history.Facts{Pool: s.Pool, Images: s.Images}))
}

// Statuses returns the state of the pools of the cluster's nodes, ordered by name. If only is set, Standings returns
// the state of the named pool, even without nodes. An error of the cloud is in the Standing of the pool.
func (f *Finder) Statuses(ctx context.Context, only string) ([]Status, error) {
	counted := f.Count()
	err := membership.Each(ctx, f.Cluster.Kube, f.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		counted.Add(n, of.Pool)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f.StatusesOf(ctx, counted, only)
}

// StatusesOf is Standings for a caller that has listed the nodes.
func (f *Finder) StatusesOf(ctx context.Context, counted *Count, only string) ([]Status, error) {
	pools := counted.pools
	slices.SortFunc(pools, func(a, b Status) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	if only != "" {
		resolved, err := f.Resolve(ctx, only, idsOf(pools))
		if err != nil {
			return nil, err
		}
		if pools = slices.DeleteFunc(pools, func(s Status) bool { return s.ID != resolved }); len(pools) == 0 {
			pools = []Status{f.standing(resolved)}
		}
	}
	cloud.EachPool(ctx, f.Cloud, idsOf(pools), func(ctx context.Context, i int) { pools[i].Err = f.askCloud(ctx, &pools[i]) })
	return pools, nil
}

func idsOf(pools []Status) []cloud.PoolID {
	ids := make([]cloud.PoolID, len(pools))
	for i := range pools {
		ids[i] = pools[i].ID
	}
	return ids
}

// standing returns the empty state of a pool.
func (f *Finder) standing(id cloud.PoolID) Status {
	return Status{Pool: cloud.Pool{ID: id, Name: f.Cloud.PoolName(id)}}
}

// Count counts the nodes of pools.
type Count struct {
	finder *Finder
	at     map[cloud.PoolID]int
	pools  []Status
}

// Count returns an empty count.
func (f *Finder) Count() *Count { return &Count{finder: f, at: map[cloud.PoolID]int{}} }

// Add counts a node of a pool. Add ignores a node of no pool.
func (c *Count) Add(n *corev1.Node, id cloud.PoolID) {
	if id == "" {
		return
	}
	i, known := c.at[id]
	if !known {
		i = len(c.pools)
		c.at[id], c.pools = i, append(c.pools, c.finder.standing(id))
	}
	c.pools[i].Nodes++
	if nodestate.Ready(n) {
		c.pools[i].ReadyNodes++
	}
}

// askCloud reads the pool and its versions from the cloud.
func (f *Finder) askCloud(ctx context.Context, s *Status) (err error) {
	seen, err := f.Cloud.Pool(ctx, s.ID)
	if err != nil {
		return err
	}
	s.Pool = seen
	s.Images, err = f.Cloud.Images(ctx, s.ID)
	return err
}

// LeftImage describes the image of a deleted Prototype.
type LeftImage struct {
	// Pool is the pool's name; empty if unknown.
	Pool string
	// Image is Absent if the capture left no image.
	Image cloud.Image
	// Named is true if the pool's recipe uses the image.
	Named bool
}

// Left finds the image of a deleted Prototype. An image of the same name from another capture does not match.
func (f *Finder) Left(ctx context.Context, p *v1alpha1.Prototype) (LeftImage, error) {
	nothing := cloud.Image{State: cloud.Absent}
	of, err := membership.OfPrototype(ctx, f.Cloud, p, nil)
	if err != nil || of.Pool == "" {
		return LeftImage{Image: nothing}, nil //nolint:nilerror // without a pool there is no image
	}
	left := LeftImage{Pool: f.Cloud.PoolName(of.Pool)}
	if left.Image, err = f.Cloud.Image(ctx, cloud.ImageRef{Pool: of.Pool, Version: p.Spec.Version}); err != nil {
		return left, err
	}
	if left.Image.Tags[cloud.TagUID] != string(p.UID) {
		left.Image = nothing
	}
	if left.Image.State == cloud.Complete {
		seen, err := f.Cloud.Pool(ctx, of.Pool)
		left.Named = err == nil && imageversion.Compare(seen.Recipe.Version, p.Spec.Version) == 0
	}
	return left, nil
}

// ImageLimitWarning returns a warning about the number of the pool's images after a change of the recipe to the version. The
// warning is empty far from the cloud's limit, or if the number is unknown.
func (f *Finder) ImageLimitWarning(ctx context.Context, h history.History, to string) string {
	if f.Cloud.MaxImages(h.PoolID) == 0 {
		return ""
	}
	instances, err := f.Cloud.Instances(ctx, h.PoolID)
	if err != nil {
		return ""
	}
	image, err := f.Cloud.Image(ctx, cloud.ImageRef{Pool: h.PoolID, Version: to})
	if err != nil || image.ID == "" {
		return ""
	}
	recipe := h.Recipe
	recipe.Image, recipe.Version = image.ID, to
	after := imagecount.Of(recipe, instances, f.Cloud.MaxImages(h.PoolID))
	if !after.IsNearLimit() {
		return ""
	}
	return after.Message(h.Pool, recipe, func(id cloud.InstanceID) string { return string(id) })
}
