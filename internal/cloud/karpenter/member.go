package karpenter

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// allClaims returns all NodeClaims, and remembers their names.
func (r *access) allClaims(ctx context.Context) ([]nodeClaim, error) {
	all, err := r.list(ctx, claims)
	if err != nil {
		return nil, err
	}
	found := make([]nodeClaim, len(all))
	for i := range all {
		if found[i], err = as[nodeClaim](&all[i]); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.claims)
	for _, c := range found {
		if c.Status.ProviderID != "" {
			r.claims[c.Status.ProviderID] = c.Metadata.Name
		}
	}
	return found, nil
}

// claimsOf returns the NodeClaims of a class that have an instance.
func (r *access) claimsOf(ctx context.Context, class string) (found []nodeClaim, err error) {
	all, err := r.allClaims(ctx)
	for _, c := range all {
		if c.Spec.isOf(class) && c.Status.ProviderID != "" {
			found = append(found, c)
		}
	}
	return found, err
}

// claimOf returns the NodeClaim of an instance; NotFound if there is none. A known NodeClaim costs a single read.
func (r *access) claimOf(ctx context.Context, op string, id cloud.InstanceID) (nodeClaim, error) {
	r.mu.Lock()
	name := r.claims[id]
	r.mu.Unlock()
	if name != "" {
		o, err := r.get(ctx, claims, name)
		if err == nil {
			c, err := as[nodeClaim](o)
			if err != nil || c.Status.ProviderID == id {
				return c, err
			}
		} else if !cloud.Is(err, cloud.NotFound) {
			return nodeClaim{}, err
		}
	}
	all, err := r.allClaims(ctx)
	if err != nil {
		return nodeClaim{}, err
	}
	for _, c := range all {
		if c.Status.ProviderID == id {
			return c, nil
		}
	}
	return nodeClaim{}, &cloud.Error{Kind: cloud.NotFound, Op: op, Resource: string(id), Message: "no NodeClaim has the provider ID"}
}

// PoolsOf implements cloud.PoolProvider with one list. The provider ID of a NodeClaim identifies the node, and no label of the Node.
func (r *PoolProvider) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	all, err := r.allClaims(ctx)
	switch {
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Denied): // the account of an older installation has no right
		return unknown(nodes, err), nil
	case err != nil:
		return nil, err
	}
	of := map[cloud.InstanceID]nodeClaim{}
	for _, c := range all {
		if c.Status.ProviderID != "" {
			of[c.Status.ProviderID] = c
		}
	}
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		c, known := of[node.ProviderID]
		switch {
		case !known:
			found[i].Why = "the node has the label " + labelPool + " of Karpenter, but no NodeClaim has its spec.providerID"
		case isApart(c.Metadata.Annotations):
			found[i].Why = fmt.Sprintf("%s %s of Karpenter is of a trial or workshop, not of a pool", kindClaim, c.Metadata.Name)
		case c.Spec.NodeClassRef.Kind != kindClass || c.Spec.NodeClassRef.Group != awsGroup:
			found[i].Why = fmt.Sprintf("%s %s of Karpenter has a %s: only nodes of an EC2NodeClass can be captured",
				kindClaim, c.Metadata.Name, c.Spec.NodeClassRef.Kind)
		default:
			found[i].Pool = poolOf(c.Spec.NodeClassRef.Name)
		}
	}
	return found, nil
}

// unknown says why the pools of Karpenter's nodes cannot be read.
func unknown(nodes []cloud.NodeValues, err error) []cloud.Membership {
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		found[i].Why = fmt.Sprintf("the node is one of Karpenter's, of NodePool %s, and its NodeClaim cannot be read: %v", node.Labels[labelPool], err)
	}
	return found
}

// PoolsInScope implements cloud.PoolProvider and returns all classes, except those of trials and workshops.
func (r *PoolProvider) PoolsInScope(ctx context.Context, _ ...cloud.PoolID) (found []cloud.PoolID, err error) {
	all, err := r.list(ctx, classes)
	for i := range all {
		if !isApart(all[i].GetAnnotations()) {
			found = append(found, poolOf(all[i].GetName()))
		}
	}
	return found, err
}

// ReadPool implements cloud.PoolProvider.
func (r *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	_, err := parsePool(cloud.PoolID(text))
	return cloud.PoolID(text), err == nil
}

// Instances implements cloud.PoolProvider: the NodeClaims of the class with an instance.
func (r *PoolProvider) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	ctx = cloud.EnsureReadCache(ctx)
	v, err := r.view(ctx, pool)
	if err != nil {
		return nil, err
	}
	all, err := r.claimsOf(ctx, v.name())
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	var found []cloud.Instance
	for _, c := range all {
		text, known := texts[c.Status.ImageID]
		if !known && c.Status.ImageID != "" && v.region != "" {
			if text, err = r.images.ImageText(ctx, v.region, c.Status.ImageID); err != nil {
				return nil, err
			}
			texts[c.Status.ImageID] = text
		}
		one := c.instance(pool)
		one.Image = text
		found = append(found, one)
	}
	return found, nil
}

// MaxImages implements cloud.PoolProvider.
func (r *PoolProvider) MaxImages(cloud.PoolID) int { return 0 }

// CapturesInPlace implements cloud.PoolProvider. With an interruption queue, Karpenter deletes the NodeClaim of an instance that stops.
func (r *PoolProvider) CapturesInPlace() bool { return false }

// Protection implements cloud.PoolProvider. The token is empty: no capture changes a running node.
func (r *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	_, err := r.claimOf(ctx, "read the protection of", id)
	return cloud.Protection{}, err
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (r *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return r.refuseToken(ctx, "hold", id, token)
}

// Unprotect implements cloud.PoolProvider.
func (r *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == cloud.TokenUnprotected {
		_, err := r.claimOf(ctx, "return to service", id)
		return err
	}
	return r.refuseToken(ctx, "return to service", id, token)
}

// refuseToken refuses tokens, because Protection gives none.
func (r *PoolProvider) refuseToken(ctx context.Context, op string, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	if _, err := r.claimOf(ctx, op, id); err != nil {
		return err
	}
	return &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id), Message: "Kamino protects no node of Karpenter"}
}

// CanRebuild implements cloud.PoolProvider: Karpenter replaces a node instead.
func (r *PoolProvider) CanRebuild(cloud.PoolID) bool { return false }

// EnsureRebuilt implements cloud.PoolProvider.
func (r *PoolProvider) EnsureRebuilt(_ context.Context, id cloud.InstanceID, _ string) (cloud.Rebuild, error) {
	return cloud.Rebuild{}, &cloud.Error{Kind: cloud.Unsupported, Op: "rebuild", Resource: string(id),
		Message: "Karpenter rebuilds no node in place: delete the NodeClaim, and Karpenter launches another"}
}

// ResizeWarmPool implements cloud.PoolProvider: Karpenter keeps no instances ready.
func (r *PoolProvider) ResizeWarmPool(_ context.Context, pool cloud.PoolID, _, _ cloud.WarmLimits) error {
	return &cloud.Error{Kind: cloud.NotFound, Op: "resize the warm pool of", Resource: string(pool), Message: "the pool has no warm pool"}
}
