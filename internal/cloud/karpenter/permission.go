package karpenter

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// needs are all required rights.
var needs = []apiserver.Right{
	right(pools, "list", ""),
	right(claims, "get list", ""),
	right(classes, "get list patch", ""),
	right(claims, "create patch delete", cloud.ForTrialApart),
	right(classes, "create delete", cloud.ForTrialApart),
	right(claims, "create patch delete", cloud.ForCopy),
	right(classes, "create delete", cloud.ForCopy),
}

func right(kind schema.GroupVersionResource, verbs, feature string) apiserver.Right {
	return apiserver.Right{GroupResource: kind.GroupResource(), Verbs: strings.Fields(verbs), For: feature}
}

// Rules returns the rules of the account's ClusterRole.
func Rules() []rbacv1.PolicyRule { return apiserver.Rules(needs) }

// Permissions implements cloud.PoolProvider.
func (r *access) Permissions(ctx context.Context, _ cloud.PoolID) (all []cloud.Permission, err error) {
	_, account, err := r.clients()
	if err != nil {
		return nil, err
	}
	review, err := apiserver.ReviewOf(ctx, account.AuthorizationV1(), metav1.NamespaceDefault)
	if err != nil {
		return nil, err
	}
	for _, need := range needs {
		for _, verb := range need.Verbs {
			allowed, err := review.Allows(ctx, need, verb, metav1.NamespaceDefault)
			if err != nil {
				return nil, err
			}
			all = append(all, need.Permission(verb, "the cluster", giveRights, allowed))
		}
	}
	return all, nil
}

// refuseRights returns the refusal of missing rights for a feature. The feature of all captures is empty.
func (r *access) refuseRights(ctx context.Context, feature string) ([]cloud.Refusal, error) {
	all, err := r.Permissions(ctx, "")
	if err != nil {
		return nil, err
	}
	var lack []string
	for _, p := range all {
		if !p.Allowed && p.For == feature {
			lack = append(lack, p.Action)
		}
	}
	if len(lack) == 0 {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the account may not %s", strings.Join(lack, ", ")), giveRights)}, nil
}

// PreflightRecipe implements cloud.PoolProvider.
func (r *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	v, err := r.view(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	lack, err := r.refuseRights(ctx, "")
	if err != nil {
		return nil, err
	}
	found := append(v.refusals(), lack...)
	found = refuse(!spec.Copies, found, cloud.StopTerminates, "set settings.donor.method to Copy", "Karpenter deletes a node whose instance stops")
	c, err := r.claimOf(ctx, opRead, spec.Instance)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return refuse(true, found, reasonElsewhere, "choose a node of a NodeClaim", "instance %s has no NodeClaim", spec.Instance), nil
	case err != nil:
		return nil, err
	}
	return refuse(c.Metadata.DeletionTimestamp != nil, found, reasonElsewhere, "choose another node",
		"Karpenter is removing %s %s", kindClaim, c.Metadata.Name), nil
}
