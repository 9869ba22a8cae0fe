package pool

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/spread"
)

// Standing is how a pool stands: its nodes in the cluster, its recipe and its versions in the cloud.
type Standing struct {
	cloud.Pool
	// Nodes that the cluster has of this pool, and how many of them are Ready.
	Nodes, ReadyNodes int
	// Images are the pool's versions, oldest first.
	Images []cloud.Image
	// Err is why the cloud could not be asked about this pool; nil if it could.
	Err error
}

// parallel is how many pools are looked at in the cloud at once.
const parallel = 16

// Standings tells how the pools of the cluster's nodes stand, ordered by name; or the one that only means, which may have no
// node. What could be found is told even where the cloud could not be asked about a pool.
func (f *Finder) Standings(ctx context.Context, only string) ([]Standing, error) {
	counted := f.Count()
	if err := f.eachNode(ctx, counted.Add); err != nil {
		return nil, err
	}
	return f.StandingsOf(ctx, counted, only)
}

// StandingsOf is Standings for a caller that has listed the nodes.
func (f *Finder) StandingsOf(ctx context.Context, counted *Count, only string) ([]Standing, error) {
	pools := counted.pools
	slices.SortFunc(pools, func(a, b Standing) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	if only != "" {
		meant, err := f.Meant(ctx, only, idsOf(pools))
		if err != nil {
			return nil, err
		}
		if pools = slices.DeleteFunc(pools, func(s Standing) bool { return s.ID != meant }); len(pools) == 0 {
			pools = []Standing{f.standing(meant)}
		}
	}
	ctx = cloud.Together(ctx, f.Cloud, idsOf(pools))
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range pools {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			pools[i].Err = f.askCloud(ctx, &pools[i])
		})
	}
	wait.Wait()
	return pools, nil
}

func idsOf(pools []Standing) []cloud.PoolID {
	ids := make([]cloud.PoolID, len(pools))
	for i := range pools {
		ids[i] = pools[i].ID
	}
	return ids
}

// standing is a pool of which nothing is known yet.
func (f *Finder) standing(id cloud.PoolID) Standing {
	return Standing{Pool: cloud.Pool{ID: id, Name: f.Cloud.PoolName(id)}}
}

// Count counts the nodes of pools.
type Count struct {
	finder *Finder
	at     map[cloud.PoolID]int
	pools  []Standing
}

// Count returns a count of nodes that has none yet.
func (f *Finder) Count() *Count { return &Count{finder: f, at: map[cloud.PoolID]int{}} }

// Add counts a node of a pool. A node of no pool is not counted.
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

// askCloud fills in what the cloud knows of the pool and its versions.
func (f *Finder) askCloud(ctx context.Context, s *Standing) (err error) {
	seen, err := f.Cloud.Pool(ctx, s.ID)
	if err != nil {
		return err
	}
	s.Pool = seen
	s.Images, err = f.Cloud.Images(ctx, s.ID)
	return err
}

// Left is what is there of the version that a capture which is gone was to make.
type Left struct {
	// Pool by name; empty if it is not known.
	Pool string
	// Image is absent if the capture left none.
	Image cloud.Image
	// Named: the pool's recipe names it.
	Named bool
}

// Left looks for it. An image of the name that another capture made, or nobody, is none.
func (f *Finder) Left(ctx context.Context, p *v1alpha1.Prototype) (Left, error) {
	nothing := cloud.Image{State: cloud.Absent}
	of, err := membership.OfPrototype(ctx, f.Cloud, p, nil)
	if err != nil || of.Pool == "" {
		return Left{Image: nothing}, nil //nolint:nilerror // a capture whose pool nobody knows has made no image
	}
	left := Left{Pool: f.Cloud.PoolName(of.Pool)}
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

// CrowdAfter says what pointing the recipe at a version that may run on no node does to the number of the pool's images; empty
// if that is far from what the cloud allows, or is not known.
func (f *Finder) CrowdAfter(ctx context.Context, h history.History, to string) string {
	census, able := cloud.As[cloud.Census](f.Cloud)
	if !able || census.MaxImages(h.PoolID) == 0 {
		return ""
	}
	instances, err := census.Instances(ctx, h.PoolID)
	if err != nil {
		return ""
	}
	image, err := f.Cloud.Image(ctx, cloud.ImageRef{Pool: h.PoolID, Version: to})
	if err != nil || image.ID == "" {
		return ""
	}
	recipe := h.Recipe
	recipe.Image, recipe.Version = image.ID, to
	after := spread.Of(recipe, instances, census.MaxImages(h.PoolID))
	if !after.Near() {
		return ""
	}
	return after.Says(h.Pool, recipe, func(id cloud.InstanceID) string { return string(id) })
}
