package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// HoldOf returns an instance's protection from scale-in.
func (c *Recipes) HoldOf(ctx context.Context, id cloud.InstanceID) (cloud.Hold, error) {
	defer c.enter()()
	if err := c.admit(ctx, opHoldOf, string(id)); err != nil {
		return cloud.Hold{}, err
	}
	m, err := c.find(opHoldOf, id)
	if err != nil || c.config.NoHold {
		return cloud.Hold{}, err
	}
	return cloud.Protection(m.protected), nil
}

// Hold takes effect at once.
func (c *Recipes) Hold(ctx context.Context, id cloud.InstanceID, token string) error {
	return c.protect(ctx, opHold, id, token, func(bool) bool { return true })
}

// Unhold takes effect at once.
func (c *Recipes) Unhold(ctx context.Context, id cloud.InstanceID, token string) error {
	return c.protect(ctx, opUnhold, id, token, func(before bool) bool { return before })
}

// protect sets an instance's protection to the wanted value for its protection in the token.
func (c *machines) protect(ctx context.Context, op string, id cloud.InstanceID, token string, wanted func(before bool) bool) error {
	defer c.enter()()
	if err := c.admit(ctx, op, string(id)); err != nil {
		return err
	}
	if token == "" {
		return nil
	}
	before, err := cloud.ProtectedBy(phrases[op], id, token)
	if err != nil {
		return err
	}
	m, err := c.find(op, id)
	if err != nil || c.config.NoHold || m.protected == wanted(before) {
		return err
	}
	m.protected = wanted(before)
	if m.protected {
		c.record(ByCaller, EffectProtect, string(m.id))
	} else {
		c.record(ByCaller, EffectUnprotect, string(m.id))
	}
	return nil
}
