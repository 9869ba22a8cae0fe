package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const givenBack = "a protection is shown, and removed as its token says"

var holdMutants = []mutant{
	{"nothing is held", givenBack, func(_ *memory.Cloud, h *hooks) {
		h.hold = func(context.Context, cloud.InstanceID, string) error { return nil }
	}},
	{"a protection is never removed", givenBack, func(_ *memory.Cloud, h *hooks) {
		h.unhold = func(context.Context, cloud.InstanceID, string) error { return nil }
	}},
	{"everything is free afterwards", "an earlier protection stays", func(c *memory.Cloud, h *hooks) {
		h.unhold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if token == cloud.TokenProtected {
				token = cloud.TokenUnprotected
			}
			return c.Unprotect(ctx, id, token)
		}
	}},
	{"the token is that of the hold", "an earlier protection stays", func(c *memory.Cloud, h *hooks) {
		h.holdOf = func(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
			hold, err := c.Protection(ctx, id)
			hold.Token = cloud.TokenUnprotected
			return hold, err
		}
	}},
	{"an earlier protection is left as it was", "an earlier protection stays", func(c *memory.Cloud, h *hooks) {
		h.unhold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if token == cloud.TokenProtected {
				return nil
			}
			return c.Unprotect(ctx, id, token)
		}
	}},
	{"a second hold takes the first away", "holding and giving back may be repeated", func(c *memory.Cloud, h *hooks) {
		h.hold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if hold, err := c.Protection(ctx, id); err != nil || hold.Protected {
				return c.Unprotect(ctx, id, token)
			}
			return c.ProtectFromScaleIn(ctx, id, token)
		}
	}},
	{"a look removes the protection", "a look at a protection changes nothing", func(c *memory.Cloud, h *hooks) {
		h.holdOf = func(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
			hold, err := c.Protection(ctx, id)
			if hold.Protected {
				_ = c.Unprotect(ctx, id, cloud.TokenUnprotected)
			}
			return hold, err
		}
	}},
	{"a start removes the protection", "a protection outlives a stop", func(c *memory.Cloud, h *hooks) {
		h.ensureStarted = func(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
			if err := c.Unprotect(ctx, id, cloud.TokenUnprotected); err != nil {
				return "", err
			}
			return c.EnsureStarted(ctx, id)
		}
	}},
	{"a protection stops the instance", "a protection leaves the instance running, and other instances alone", func(c *memory.Cloud, h *hooks) {
		h.hold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if _, err := c.EnsureStopped(ctx, id); err != nil {
				return err
			}
			return c.ProtectFromScaleIn(ctx, id, token)
		}
	}},
	{"a protection is the whole pool's", "a protection leaves the instance running, and other instances alone", func(c *memory.Cloud, h *hooks) {
		h.hold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			for _, other := range c.World().Instances {
				if err := c.ProtectFromScaleIn(ctx, other.ID, token); err != nil {
					return err
				}
			}
			return c.ProtectFromScaleIn(ctx, id, token)
		}
	}},
	{"no token holds all the same", "without a token nothing is protected or released", func(c *memory.Cloud, h *hooks) {
		h.hold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if token == "" {
				token = cloud.TokenUnprotected
			}
			return c.ProtectFromScaleIn(ctx, id, token)
		}
	}},
	{"no token frees", "without a token nothing is protected or released", func(c *memory.Cloud, h *hooks) {
		h.unhold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if token == "" {
				token = cloud.TokenUnprotected
			}
			return c.Unprotect(ctx, id, token)
		}
	}},
	{"any token frees", "a foreign token is invalid, and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.unhold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if token != "" && token != cloud.TokenProtected {
				token = cloud.TokenUnprotected
			}
			return c.Unprotect(ctx, id, token)
		}
	}},
	{"any token holds", "a foreign token is invalid, and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.hold = func(ctx context.Context, id cloud.InstanceID, token string) error {
			if token != "" {
				token = cloud.TokenUnprotected
			}
			return c.ProtectFromScaleIn(ctx, id, token)
		}
	}},
	{"the hold of nothing is none", "the protection of a missing instance is not found", func(c *memory.Cloud, h *hooks) {
		h.holdOf = func(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
			hold, err := c.Protection(ctx, id)
			if cloud.Is(err, cloud.NotFound) {
				err = nil
			}
			return hold, err
		}
	}},
}
