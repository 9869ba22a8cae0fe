package drive

import (
	"context"
	"errors"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// tidyTime is how long a copy that nobody came to use is given to go, by a command that may have been interrupted.
const tidyTime = 5 * time.Second

// RequestWithCopy begins a capture that keeps a copy of the pool's customData, which clouds give out to nobody.
type RequestWithCopy struct {
	CaptureRequest
	Secrets savedrecipe.Secrets
	// CustomData as it was given; nil if none was, and then a capture begins as any other.
	CustomData []byte
	// Say tells what a person should know of the copy.
	Say func(format string, args ...any)
}

// Copy is what is to be kept for the capture: nil if nothing was given, or if the recipe loses no customData with the change,
// which is said. The refusals are those that giving it back would meet.
func (k *RequestWithCopy) Copy(ctx context.Context, d Decision, change *cloud.RecipeChange) (*savedrecipe.Copy, []cloud.Refusal, error) {
	if k.CustomData == nil || change == nil {
		return nil, nil, nil
	}
	spec := d.Prototype.Spec
	if !savedrecipe.Loses(*change) {
		k.Say("This capture takes no customData out of the recipe of pool %s: nothing is kept of --custom-data.", spec.Pool)
		return nil, nil, nil
	}
	refusals, err := savedrecipe.Rehearse(ctx, k.Cloud, *change, k.CustomData)
	c := savedrecipe.NewCopy(spec.Pool, k.CustomData)
	return &c, refusals, err
}

// CopyFor is Copy for what the capture will do to the recipe. A cloud that can't be asked from here is asked by the controller,
// where one does the work.
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

// Write is Beginning.Write with the copy in place before anybody can look for it, and owned by the Prototype afterwards. A copy
// that this has made and that no Prototype came to use goes again.
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
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		if err := k.Secrets.Drop(tidy, *c); err != nil {
			k.Say("Secret %s/%s was made, and nothing came to use it: %s.", k.Secrets.Namespace, c.Name, err)
		}
	}
	return written, err
}

func uses(p *v1alpha1.Prototype, name string) bool {
	from := p.Spec.Settings.Recipe.CustomDataFrom
	return from != nil && from.Name == name
}

// own has the copy go with the Prototype. The capture does not need that, so what is in the way is only told.
func (k *RequestWithCopy) own(ctx context.Context, c savedrecipe.Copy, p *v1alpha1.Prototype) {
	if err := k.Secrets.Own(ctx, c, p); err != nil {
		k.Say("The copy of customData is kept, but does not go with Prototype %s: delete Secret %s/%s when the capture has ended (%s).", p.Name, k.Secrets.Namespace, c.Name, err)
	}
}

// Same goes on with a capture that is in flight, which must be one for the same copy: nobody can change its settings.
func (k *RequestWithCopy) Same(ctx context.Context, p *v1alpha1.Prototype) error {
	if k.CustomData == nil {
		return nil
	}
	c := savedrecipe.NewCopy(p.Spec.Pool, k.CustomData)
	if !uses(p, c.Name) {
		return cluster.Refusef("node %s is being captured already by Prototype %s, which keeps no such copy of customData, and nothing was changed: "+
			"leave --custom-data out to follow it, or stop it with `kamino cancel %s`", p.Spec.Donor.NodeName, p.Name, p.Name)
	}
	k.own(ctx, c, p)
	return nil
}
