package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Protection returns an instance's protection from scale-in.
func (c *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opProtection, id)
	if err != nil || c.config.NoHold {
		return cloud.Protection{}, err
	}
	return cloud.ProtectionOf(m.protected), nil
}

// ProtectFromScaleIn takes effect at once.
func (c *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return c.protect(ctx, opProtect, id, token, func(bool) bool { return true })
}

// Unprotect takes effect at once.
func (c *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	return c.protect(ctx, opUnprotect, id, token, func(before bool) bool { return before })
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
	before, err := cloud.ParseProtection(phrase(op), id, token)
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
