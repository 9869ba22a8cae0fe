package capture

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/retention"
)

// lookCopy looks at the snapshot while it is being made, before the instance: until it is complete nothing is decided
// on the donor's power. That it is being made is the status's word, which is only believed if the cloud says so too.
func (e *Engine) lookCopy(ctx context.Context, w *world) error {
	f := &w.facts
	if w.p.Status.Phase != v1alpha1.PhaseSnapshotting || !w.held() || !f.Touched || f.Returning || f.Failed || f.Deleting {
		return nil
	}
	snapshot, err := e.Cloud.Snapshot(ctx, w.id, w.p.Name)
	if err != nil {
		return err
	}
	w.snapshot = snapshot
	w.copying = snapshot.State == cloud.Pending && snapshot.Tags[cloud.TagUID] == string(w.p.UID)
	return nil
}

// lookArtifacts reads the snapshot and the image. Neither can exist while the pod is at work, and no image is
// made while the donor is held. Both are looked for whether or not there is a proof: one that somebody removed
// must not hide what was made by it.
func (e *Engine) lookArtifacts(ctx context.Context, w *world) error {
	f := &w.facts
	if !f.Unrecorded && (!f.Touched || w.atWork()) {
		return nil
	}
	if w.held() && f.Returning {
		// The way back does not depend on it, and nothing else is done before the donor is back.
		f.Snapshot = plan.Complete
		return nil
	}
	if w.goingOff() {
		return nil
	}
	if !w.held() {
		image, err := e.Cloud.Image(ctx, w.ref())
		if err != nil {
			return err
		}
		w.image = image
		f.Image = w.artifact(image.State, image.Tags)
		f.Quarantined = image.Tags[cloud.TagQuarantined] != ""
		if f.Image == plan.Pending && !f.Failed && !f.Deleting {
			return nil // until it is complete nothing else matters
		}
	}
	if !w.copying {
		snapshot, err := e.Cloud.Snapshot(ctx, w.id, w.p.Name)
		if err != nil {
			return err
		}
		w.snapshot = snapshot
	}
	f.Snapshot = w.artifact(w.snapshot.State, w.snapshot.Tags)
	return nil
}

// atWork tells that the donor's disk is being generalized, so that there is no copy of it.
func (w *world) atWork() bool {
	f := &w.facts
	return !w.orphan && w.held() && !f.Failed && !f.Deleting && f.Power == plan.On && w.generalizing()
}

// goingOff tells that the donor is still powering itself off behind its proof, so that nobody has copied its disk yet.
// It holds for half a minute at most.
func (w *world) goingOff() bool {
	f := &w.facts
	return w.held() && f.PoweringOff && !f.Returning && !f.Failed && !f.Deleting && (f.Power == plan.On || f.Power == plan.Changing)
}

func (w *world) ref() cloud.ImageRef {
	return cloud.ImageRef{Pool: w.pool, Version: w.p.Spec.Version}
}

// artifact is ours if its tags say that it belongs to this Prototype. One that does not carry the proof that the
// Prototype carries is still ours to remove, and not to be used.
func (w *world) artifact(state cloud.State, tags map[string]string) plan.Artifact {
	switch {
	case state == cloud.Absent:
		return plan.Absent
	case tags[cloud.TagUID] != string(w.p.UID):
		return plan.Foreign
	}
	if !w.facts.Unrecorded && !w.orphan && (w.proof == nil || tags[cloud.TagProof] != w.proof.Tag()) {
		w.facts.ProofLost = true
	}
	switch state {
	case cloud.Complete:
		return plan.Complete
	case cloud.Failed:
		return plan.Broken
	case cloud.Deleting:
		return plan.Deleting
	case cloud.Pending, cloud.Absent:
	}
	return plan.Pending
}

// lookRecipe reads what the pool's recipe points at, once there is an image that it could point at, and
// then what is to be retired.
func (e *Engine) lookRecipe(ctx context.Context, w *world) error {
	f := &w.facts
	copied := f.Snapshot != plan.Absent && f.Snapshot != plan.Deleting && f.Snapshot != plan.Foreign
	if f.Image != plan.Complete || copied || f.Failed || f.Deleting {
		return nil // the snapshot goes first
	}
	var err error
	if w.recipe, err = e.Cloud.Pool(ctx, w.pool); err != nil {
		return err
	}
	if w.change, err = e.Cloud.RecipeChange(ctx, w.ref(), removesBootstrap(w.p)); err != nil {
		return err
	}
	f.Recipe = w.pointsAt()
	if f.Recipe == plan.RecipeElsewhere {
		f.Saved, err = e.lookSaved(ctx, w)
	}
	if err != nil || f.Recipe != plan.RecipeHere {
		return err
	}
	f.Growing = w.p.Spec.Settings.Recipe.NewNodes > 0 && (w.record.ScaleOut == nil || !w.record.ScaleOut.Done)
	return e.lookRetirement(ctx, w)
}

// pointsAt is what the recipe names, against this Prototype's version.
func (w *world) pointsAt() plan.Recipe {
	now := w.recipe.Recipe.Version
	switch {
	case w.change.Done:
		return plan.RecipeHere
	case now != "" && imageversion.Compare(now, w.p.Spec.Version) > 0:
		return plan.RecipeNewer
	case w.changedHands():
		return plan.RecipeChanged
	default:
		return plan.RecipeElsewhere
	}
}

// changedHands tells that somebody pointed the recipe at another image since the capture began. Their reason is not
// known here, so it is theirs to say which of the two images is meant.
func (w *world) changedHands() bool {
	before, now := w.record.Recipe, w.recipe.Recipe
	return before != "" && !strings.EqualFold(now.Image, before) && imageversion.Compare(now.Version, w.p.Spec.Version) != 0
}

func (e *Engine) lookRetirement(ctx context.Context, w *world) error {
	images, err := e.Cloud.Images(ctx, w.pool)
	if err != nil {
		return err
	}
	keep := int(w.p.Spec.Settings.Defaulted().Keep)
	if w.retire, err = e.retirable(ctx, w.pool, images, w.p.Spec.Version, keep); err != nil {
		return err
	}
	w.facts.Excess = len(w.retire) > 0
	return nil
}

// retirable lists the versions to retire. The pool's instances are counted only where some version would go:
// one that an instance was built from stays.
func (e *Engine) retirable(ctx context.Context, pool cloud.PoolID, images []cloud.Image, current string, keep int) ([]string, error) {
	retire := retention.Retired(retention.Decide(images, current, keep, nil))
	census, able := cloud.As[cloud.Census](e.Cloud)
	if len(retire) == 0 || !able {
		return retire, nil
	}
	instances, err := census.Instances(ctx, pool)
	if cloud.Is(err, cloud.Unsupported) {
		return retire, nil
	}
	if err != nil {
		return nil, err
	}
	return retention.Retired(retention.Decide(images, current, keep, retention.CountInUse(instances))), nil
}

// removesBootstrap tells whether the profile bootstraps a node once and for all.
func removesBootstrap(p *v1alpha1.Prototype) bool {
	return p.Spec.Settings.Defaulted().Generalize.Profile.Traits().RemovesBootstrap
}
