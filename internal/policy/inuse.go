package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// Reasons of condition InUse (docs/reference/prototype.md).
const (
	inUseCurrent     = "Current"
	inUseOther       = "OtherImage"
	inUseQuarantined = "VersionQuarantined"
	inUseDeleted     = "VersionDeleted"
	inUseNotWatched  = "PoolNotWatched"
)

// reportInUse sets condition InUse of ended captures from the last answers of the cloud, without further requests.
func reportInUse(ctx context.Context, d *Decider, w *observed) error {
	var failed []error
	for id, prototypes := range w.prototypes {
		look, watched := d.PoolCache.Last(id), d.pools[id] != nil
		for i := range prototypes {
			p := &prototypes[i]
			if !p.Status.Terminal() || p.Status.Image == nil || len(p.Unreadable) > 0 || p.DeletionTimestamp != nil {
				continue
			}
			condition := inUse(p, look)
			if !watched {
				condition = unknownUse(p)
			}
			if watched && !look.Known() || !watched && d.Policies != nil {
				continue
			}
			failed = append(failed, setInUse(ctx, d.Client, p, condition, metav1.NewTime(w.now)))
		}
	}
	return errors.Join(failed...)
}

// setInUse writes the condition after a change. A conflict waits for the next pass.
func setInUse(ctx context.Context, c client.Client, p *v1alpha1.Prototype, is metav1.Condition, now metav1.Time) error {
	is.Type, is.ObservedGeneration, is.LastTransitionTime = v1alpha1.ConditionInUse, p.Generation, now
	after := p.DeepCopy()
	if is.Status == "" || !meta.SetStatusCondition(&after.Status.Conditions, is) {
		return nil
	}
	err := c.Status().Patch(ctx, after, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}))
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("write condition %s of prototype %s: %w", v1alpha1.ConditionInUse, p.Name, err)
}

// inUse compares the version of an ended capture with the recipe of its pool.
func inUse(p *v1alpha1.Prototype, look PoolLook) metav1.Condition {
	pool, version := p.Spec.Pool, p.Spec.Version
	same := func(other string) bool { return other != "" && imageversion.Compare(other, version) == 0 }
	if same(look.Pool.Recipe.Version) {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: inUseCurrent,
			Message: fmt.Sprintf("the recipe of pool %s names version %s", pool, version)}
	}
	no := metav1.Condition{Status: metav1.ConditionFalse, Reason: inUseOther, Message: fmt.Sprintf("the recipe of pool %s names another image", pool)}
	at := slices.IndexFunc(look.Images, func(i cloud.Image) bool { return same(i.Version) })
	switch {
	case at < 0, look.Images[at].State == cloud.Deleting, look.Images[at].State == cloud.Absent:
		no.Reason, no.Message = inUseDeleted, fmt.Sprintf("version %s no longer exists", version)
	case look.Images[at].Tags[cloud.TagQuarantined] != "":
		no.Reason, no.Message = inUseQuarantined, fmt.Sprintf("version %s is quarantined, and the recipe of pool %s names another image", version, pool)
	}
	return no
}

// unknownUse replaces an earlier condition in a pool without a policy; without an earlier condition, the status is empty.
func unknownUse(p *v1alpha1.Prototype) (c metav1.Condition) {
	if meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionInUse) != nil {
		c.Status, c.Reason = metav1.ConditionUnknown, inUseNotWatched
		c.Message = fmt.Sprintf("no policy watches pool %s: run `kamino history %s`", p.Spec.Pool, p.Spec.Pool)
	}
	return c
}
