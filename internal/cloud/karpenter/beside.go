package karpenter

import (
	"context"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A cluster with Karpenter has Auto Scaling groups too, for example for Karpenter itself. Without a node of Karpenter, this package sends
// no request.

// WithReasons returns the description with the reasons of this package.
func WithReasons(d cloud.Description) cloud.Description {
	if d.Name != cloudName {
		return d
	}
	d.Reasons = append(slices.Clone(d.Reasons), Reasons()...)
	return d
}

// cloudName is the name of the cloud whose instances have an EC2NodeClass.
const cloudName = "aws"

// Describe returns a cloud's description for a cluster that may have nodes of Karpenter. Other clouds stay as they are.
func Describe(d cloud.Description, connect func() (*rest.Config, error)) cloud.Description {
	if d.Name != cloudName {
		return d
	}
	halves := d.NewHalves
	d = WithReasons(d)
	d.New = func(ctx context.Context, c cloud.Config) (cloud.Provider, string, error) {
		images, groups, source, err := halves(ctx, c)
		if err != nil {
			return cloud.Provider{}, "", err
		}
		return cloud.New(images, cloud.RecipesOf(&beside{groups, New(images, connect)})), source, nil
	}
	return d
}

// beside implements cloud.PoolProvider for groups and classes. The embedded provider is that of the groups; it says what the cloud can do
// at all. PreflightRecipe refuses captures in place of Karpenter's nodes.
type beside struct {
	cloud.PoolProvider
	own *PoolProvider
}

// of returns the provider of a pool.
func (b *beside) of(id cloud.PoolID) cloud.PoolProvider {
	if IsPool(id) {
		return cloud.RecipesOf(b.own)
	}
	return b.PoolProvider
}

// ofInstance returns the provider of an instance.
func (b *beside) ofInstance(ctx context.Context, id cloud.InstanceID) cloud.PoolProvider {
	if b.own.has(ctx, id) {
		return cloud.RecipesOf(b.own)
	}
	return b.PoolProvider
}

// has reports whether an instance has a NodeClaim. Before any node of Karpenter has shown up, there is none.
func (r *access) has(ctx context.Context, id cloud.InstanceID) bool {
	r.mu.Lock()
	name, connected := r.claims[id], r.objects != nil
	r.mu.Unlock()
	if name != "" || !connected {
		return name != ""
	}
	_, err := r.claimOf(ctx, opRead, id)
	return err == nil
}

// isOurs reports whether a node is one of Karpenter's. Karpenter labels each node that registers.
func isOurs(n cloud.NodeValues) bool {
	_, found := n.Labels[labelPool]
	return found || n.Labels[coreGroup+"/registered"] == "true"
}

// split separates pools of this package from groups.
func split(all []cloud.PoolID) (own, groups []cloud.PoolID) {
	for _, id := range all {
		if IsPool(id) {
			own = append(own, id)
		} else {
			groups = append(groups, id)
		}
	}
	return own, groups
}

// both asks each provider for its pools.
func both[T any](ctx context.Context, all []cloud.PoolID, ofOwn, ofGroups func(context.Context, ...cloud.PoolID) ([]T, error)) ([]T, error) {
	own, groups := split(all)
	var found []T
	if len(groups) > 0 {
		list, err := ofGroups(ctx, groups...)
		if err != nil {
			return nil, err
		}
		found = list
	}
	if len(own) > 0 {
		list, err := ofOwn(ctx, own...)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

func (b *beside) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	var own, others []cloud.NodeValues
	for _, n := range nodes {
		if isOurs(n) {
			own = append(own, n)
		} else {
			others = append(others, n)
		}
	}
	ofOwn, err := b.own.PoolsOf(ctx, own)
	if err != nil {
		return nil, err
	}
	ofOthers, err := b.PoolProvider.PoolsOf(ctx, others)
	if err != nil {
		return nil, err
	}
	found := make([]cloud.Membership, 0, len(nodes))
	for _, n := range nodes {
		from := &ofOthers
		if isOurs(n) {
			from = &ofOwn
		}
		found, *from = append(found, (*from)[0]), (*from)[1:]
	}
	return found, nil
}

func (b *beside) PoolName(id cloud.PoolID) string { return b.of(id).PoolName(id) }

func (b *beside) MaxImages(id cloud.PoolID) int { return b.of(id).MaxImages(id) }

func (b *beside) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	return b.of(change.Pool).SetRecipe(ctx, change)
}

func (b *beside) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	return b.ofInstance(ctx, id).Protection(ctx, id)
}

func (b *beside) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return b.ofInstance(ctx, id).ProtectFromScaleIn(ctx, id, token)
}

func (b *beside) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	return b.ofInstance(ctx, id).Unprotect(ctx, id, token)
}

func (b *beside) CanRebuild(pool cloud.PoolID) bool { return b.of(pool).CanRebuild(pool) }

func (b *beside) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	return b.ofInstance(ctx, id).EnsureRebuilt(ctx, id, version)
}

func (b *beside) ResizeWarmPool(ctx context.Context, pool cloud.PoolID, from, to cloud.WarmLimits) error {
	return b.of(pool).ResizeWarmPool(ctx, pool, from, to)
}

func (b *beside) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	return b.of(pool).Instances(ctx, pool)
}

func (b *beside) PoolsInScope(ctx context.Context, of ...cloud.PoolID) ([]cloud.PoolID, error) {
	return both(ctx, of, b.own.PoolsInScope, b.PoolProvider.PoolsInScope)
}

func (b *beside) ReadPool(text string) (cloud.PoolID, bool) {
	return b.of(cloud.PoolID(strings.TrimSpace(text))).ReadPool(text)
}

func (b *beside) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	return b.of(pool).Permissions(ctx, pool)
}

func (b *beside) RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return b.of(pool).RestoreChange(ctx, pool, saved)
}

func (b *beside) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return b.of(spec.Pool).PreflightTrial(ctx, spec)
}

func (b *beside) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return b.of(spec.Pool).Trial(ctx, spec)
}

func (b *beside) Trials(ctx context.Context, of ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	return both(ctx, of, b.own.Trials, b.PoolProvider.Trials)
}

func (b *beside) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return b.of(spec.Pool).EnsureTrial(ctx, spec)
}

func (b *beside) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return b.of(spec.Pool).EndTrial(ctx, spec)
}

func (b *beside) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	return b.of(spec.Pool).PreflightWorkshop(ctx, spec)
}

func (b *beside) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	return b.of(spec.Pool).Workshop(ctx, spec)
}

func (b *beside) Workshops(ctx context.Context, of ...cloud.PoolID) ([]cloud.WorkshopSpec, error) {
	return both(ctx, of, b.own.Workshops, b.PoolProvider.Workshops)
}

func (b *beside) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	return b.of(spec.Pool).EnsureWorkshop(ctx, spec)
}

func (b *beside) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	return b.of(spec.Pool).EndWorkshop(ctx, spec)
}

func (b *beside) Family(ctx context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	return b.of(id).Family(ctx, id)
}

func (b *beside) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	return b.of(id).Pool(ctx, id)
}

func (b *beside) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	return b.of(spec.Pool).PreflightRecipe(ctx, spec)
}

func (b *beside) RecipeChange(ctx context.Context, to cloud.Target, removeBootstrap bool) (cloud.RecipeChange, error) {
	return b.of(to.Pool).RecipeChange(ctx, to, removeBootstrap)
}
