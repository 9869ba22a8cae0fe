package recipe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// cleanupTimeout limits the deletion of an unused copy, in a command that may have been interrupted.
const cleanupTimeout = 5 * time.Second

// CustomDataKeeper keeps a copy of the pool's customData for a capture. Clouds do not return customData.
type CustomDataKeeper struct {
	Secrets
	Cloud Keeper
	// CustomData is the user's file; nil without a file, and then the capture begins as any other.
	CustomData []byte
	// Say writes messages about the copy for the user.
	Say func(format string, args ...any)
}

// Copy returns the copy to keep for the capture. Nil without a file, or if no restore, workshop or trial node needs
// customData, which Copy reports. The refusals are the refusals that a restore would meet.
func (k *CustomDataKeeper) Copy(ctx context.Context, spec v1alpha1.PrototypeSpec, change *cloud.RecipeChange) (*CustomDataCopy, []cloud.Refusal, error) {
	if k.CustomData == nil || change == nil {
		return nil, nil, nil
	}
	c := NewCopy(spec.Pool, k.CustomData)
	if Loses(*change) {
		refusals, err := Rehearse(ctx, k.Cloud, *change, k.CustomData)
		return &c, refusals, err
	}
	needed, err := k.workshopNeedsCustomData(ctx, spec)
	if err == nil && !needed {
		needed, err = k.trialNeedsCustomData(ctx, spec)
	}
	if err != nil {
		return nil, nil, err
	}
	if !needed {
		k.Say("This capture removes no customData from the recipe of pool %s: Kamino keeps no copy of --custom-data.", spec.Pool)
		return nil, nil, nil
	}
	return &c, nil, nil
}

// workshopNeedsCustomData reports whether the workshop of a capture by copy needs a copy of customData.
func (k *CustomDataKeeper) workshopNeedsCustomData(ctx context.Context, spec v1alpha1.PrototypeSpec) (bool, error) {
	if !spec.Settings.CopiesDonor() {
		return false, nil
	}
	refusals, err := k.Cloud.PreflightWorkshop(ctx, cloud.WorkshopSpec{Pool: cloud.PoolID(spec.PoolID), Name: spec.Version})
	return lacksCustomData(refusals), err
}

func lacksCustomData(refusals []cloud.Refusal) bool {
	return slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return r.Reason == cloud.PoolNotCopyable })
}

// trialNeedsCustomData reports whether the trial node of the capture needs a copy of customData.
func (k *CustomDataKeeper) trialNeedsCustomData(ctx context.Context, spec v1alpha1.PrototypeSpec) (bool, error) {
	if spec.Settings.Profile().Traits().RemovesBootstrap || !spec.Settings.HasTrial() {
		return false, nil
	}
	refusals, err := k.Cloud.PreflightTrial(ctx, cloud.TrialSpec{ImageRef: refOf(spec)})
	return lacksCustomData(refusals), err
}

// CopyFor is Copy for the capture's change of the recipe. If this process cannot ask the cloud, the controller asks the
// cloud.
func (k *CustomDataKeeper) CopyFor(ctx context.Context, spec v1alpha1.PrototypeSpec, byController bool) (*CustomDataCopy, []cloud.Refusal, error) {
	if k.CustomData == nil {
		return nil, nil, nil
	}
	change, err := k.Cloud.RecipeChange(ctx, refOf(spec), spec.Settings.Profile().Traits().RemovesBootstrap)
	var fromCloud *cloud.Error
	if errors.As(err, &fromCloud) && byController {
		c := NewCopy(spec.Pool, k.CustomData)
		return &c, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return k.Copy(ctx, spec, &change)
}

func refOf(spec v1alpha1.PrototypeSpec) cloud.ImageRef {
	return cloud.ImageRef{Pool: cloud.PoolID(spec.PoolID), Version: spec.Version}
}

// Begin saves the copy, and then calls create with the key of the copy; nil without a copy. create returns a new
// Prototype, or an existing Prototype of the same node. Begin deletes a new copy that no Prototype uses.
func (k *CustomDataKeeper) Begin(ctx context.Context, c *CustomDataCopy,
	create func(*v1alpha1.SecretKey) (p *v1alpha1.Prototype, existing bool, err error)) error {
	if c == nil {
		p, existing, err := create(nil)
		if err == nil && existing {
			err = k.Same(ctx, p)
		}
		return err
	}
	made, err := k.Keep(ctx, *c)
	if err != nil {
		return err
	}
	p, existing, err := create(&v1alpha1.SecretKey{Name: c.Name})
	switch {
	case err == nil && uses(p, c.Name):
		k.own(ctx, *c, p)
		return nil
	case err == nil && existing:
		err = k.Same(ctx, p)
	}
	if made {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if err := k.Drop(tidy, *c); err != nil {
			k.Say("Kamino could not delete the unused Secret %s/%s: %s.", k.Namespace, c.Name, err)
		}
	}
	return err
}

func uses(p *v1alpha1.Prototype, name string) bool {
	from := p.Spec.Settings.Recipe.CustomDataFrom
	return from != nil && from.Name == name
}

// own sets the Prototype as the owner of the copy. The capture does not depend on the owner, so own only reports an error.
func (k *CustomDataKeeper) own(ctx context.Context, c CustomDataCopy, p *v1alpha1.Prototype) {
	if err := k.Own(ctx, c, p); err != nil {
		k.Say("The copy of customData is saved, but Prototype %s does not own the copy: delete Secret %s/%s after the capture (%s).",
			p.Name, k.Namespace, c.Name, err)
	}
}

// Same checks that a running capture uses the same copy: the settings of a capture cannot change.
func (k *CustomDataKeeper) Same(ctx context.Context, p *v1alpha1.Prototype) error {
	if k.CustomData == nil {
		return nil
	}
	c := NewCopy(p.Spec.Pool, k.CustomData)
	if !uses(p, c.Name) {
		return cluster.Refusef("node %s is already being captured by Prototype %s without this copy of customData, and nothing was changed: "+
			"omit --custom-data to follow this capture, or stop the capture with `kamino cancel %s`", p.Spec.Donor.NodeName, p.Name, p.Name)
	}
	k.own(ctx, c, p)
	return nil
}
