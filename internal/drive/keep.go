package drive

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// cleanupTimeout limits the deletion of an unused copy, in a command that may have been interrupted.
const cleanupTimeout = 5 * time.Second

// RequestWithCopy begins a capture that keeps a copy of the pool's customData. Clouds do not return customData.
type RequestWithCopy struct {
	CaptureRequest
	Secrets savedrecipe.Secrets
	// CustomData is the user's file; nil without a file, and then the capture begins as any other.
	CustomData []byte
	// Say writes messages about the copy for the user.
	Say func(format string, args ...any)
}

// Copy returns the copy to keep for the capture. Nil without a file, or if neither a restore nor the trial node needs
// customData, which Copy reports. The refusals are the refusals that a restore would meet.
func (k *RequestWithCopy) Copy(ctx context.Context, d Decision, change *cloud.RecipeChange) (*savedrecipe.Copy, []cloud.Refusal, error) {
	if k.CustomData == nil || change == nil {
		return nil, nil, nil
	}
	spec := d.Prototype.Spec
	if !savedrecipe.Loses(*change) {
		needed, err := k.trialNeedsCustomData(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		if needed {
			c := savedrecipe.NewCopy(spec.Pool, k.CustomData)
			return &c, nil, nil
		}
		k.Say("This capture removes no customData from the recipe of pool %s: Kamino keeps no copy of --custom-data.", spec.Pool)
		return nil, nil, nil
	}
	refusals, err := savedrecipe.Rehearse(ctx, k.Cloud, *change, k.CustomData)
	c := savedrecipe.NewCopy(spec.Pool, k.CustomData)
	return &c, refusals, err
}

// trialNeedsCustomData reports whether the trial node of the capture needs a copy of customData.
func (k *RequestWithCopy) trialNeedsCustomData(ctx context.Context, spec v1alpha1.PrototypeSpec) (bool, error) {
	if spec.Settings.Profile().Traits().RemovesBootstrap || !spec.Settings.Tries() {
		return false, nil
	}
	refusals, err := k.Cloud.PreflightTrial(ctx, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: cloud.PoolID(spec.PoolID), Version: spec.Version}})
	return slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return r.Reason == cloud.PoolNotCopyable }), err
}

// CopyFor is Copy for the capture's change of the recipe. If this process cannot ask the cloud, the controller asks the
// cloud.
func (k *RequestWithCopy) CopyFor(ctx context.Context, d Decision, h Holder) (*savedrecipe.Copy, []cloud.Refusal, error) {
	if k.CustomData == nil {
		return nil, nil, nil
	}
	spec := d.Prototype.Spec
	removes := spec.Settings.Profile().Traits().RemovesBootstrap
	change, err := k.Cloud.RecipeChange(ctx, cloud.ImageRef{Pool: cloud.PoolID(spec.PoolID), Version: spec.Version}, removes)
	var fromCloud *cloud.Error
	if errors.As(err, &fromCloud) && h.Role == RoleController {
		c := savedrecipe.NewCopy(spec.Pool, k.CustomData)
		return &c, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return k.Copy(ctx, d, &change)
}

// Write is CaptureRequest.Write with a copy: the copy exists before the Prototype, and then belongs to the Prototype. Write
// deletes a new copy that no Prototype uses.
func (k *RequestWithCopy) Write(ctx context.Context, d Decision, c *savedrecipe.Copy) (Decision, error) {
	if c == nil {
		written, err := k.CaptureRequest.Write(ctx, d)
		if err == nil && written.Existing {
			err = k.Same(ctx, written.Prototype)
		}
		return written, err
	}
	made, err := k.Secrets.Keep(ctx, *c)
	if err != nil {
		return d, err
	}
	from := &v1alpha1.SecretKey{Name: c.Name}
	k.Settings.Recipe.CustomDataFrom, d.Prototype.Spec.Settings.Recipe.CustomDataFrom = from, from
	written, err := k.CaptureRequest.Write(ctx, d)
	switch {
	case err == nil && uses(written.Prototype, c.Name):
		k.own(ctx, *c, written.Prototype)
		return written, nil
	case err == nil && written.Existing:
		err = k.Same(ctx, written.Prototype)
	}
	if made {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if err := k.Secrets.Drop(tidy, *c); err != nil {
			k.Say("Kamino could not delete the unused Secret %s/%s: %s.", k.Secrets.Namespace, c.Name, err)
		}
	}
	return written, err
}

func uses(p *v1alpha1.Prototype, name string) bool {
	from := p.Spec.Settings.Recipe.CustomDataFrom
	return from != nil && from.Name == name
}

// own sets the Prototype as the owner of the copy. The capture does not depend on the owner, so own only reports an error.
func (k *RequestWithCopy) own(ctx context.Context, c savedrecipe.Copy, p *v1alpha1.Prototype) {
	if err := k.Secrets.Own(ctx, c, p); err != nil {
		k.Say("The copy of customData is saved, but Prototype %s does not own the copy: delete Secret %s/%s after the capture (%s).", p.Name, k.Secrets.Namespace, c.Name, err)
	}
}

// Same checks that a running capture uses the same copy: the settings of a capture cannot change.
func (k *RequestWithCopy) Same(ctx context.Context, p *v1alpha1.Prototype) error {
	if k.CustomData == nil {
		return nil
	}
	c := savedrecipe.NewCopy(p.Spec.Pool, k.CustomData)
	if !uses(p, c.Name) {
		return cluster.Refusef("node %s is already being captured by Prototype %s without this copy of customData, and nothing was changed: "+
			"omit --custom-data to follow this capture, or stop the capture with `kamino cancel %s`", p.Spec.Donor.NodeName, p.Name, p.Name)
	}
	k.own(ctx, c, p)
	return nil
}
