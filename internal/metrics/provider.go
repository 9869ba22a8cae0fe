package metrics

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// resultOK is the value of label result for a successful call; other values are the kinds of errors.
const resultOK = "OK"

// Provider counts and times the calls to a provider, optional interfaces included. Methods without I/O (SameInstance,
// PoolName, BuiltFrom, ReadPool, MaxImages) are not counted.
func (m *Metrics) Provider(next cloud.Provider) cloud.Provider {
	return &counted{Provider: next, metrics: m}
}

// counted is a provider with counted calls. The embedded provider answers methods without I/O; a test checks that all other
// methods are counted.
type counted struct {
	cloud.Provider
	metrics *Metrics
}

// Decorated implements cloud.Decorator.
func (c *counted) Decorated() cloud.Provider { return c.Provider }

// measure makes a call, and records the result under the name of the method.
func measure[T any](c *counted, op string, call func() (T, error)) (T, error) {
	start := time.Now()
	value, err := call()
	c.metrics.callTimes.WithLabelValues(op).Observe(time.Since(start).Seconds())
	result := resultOK
	if err != nil {
		result = string(cloud.KindOf(err))
	}
	c.metrics.calls.WithLabelValues(op, result).Inc()
	return value, err
}

// measureAlone is measure for a call that returns only an error.
func measureAlone(c *counted, op string, call func() error) error {
	_, err := measure(c, op, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (c *counted) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	return measure(c, "Instance", func() (cloud.Instance, error) { return c.Provider.Instance(ctx, id) })
}

func (c *counted) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return measure(c, "EnsureStopped", func() (cloud.Power, error) { return c.Provider.EnsureStopped(ctx, id) })
}

func (c *counted) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return measure(c, "EnsureStarted", func() (cloud.Power, error) { return c.Provider.EnsureStarted(ctx, id) })
}

func (c *counted) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	return measure(c, "Protection", func() (cloud.Protection, error) { return c.Provider.Protection(ctx, id) })
}

func (c *counted) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return measureAlone(c, "ProtectFromScaleIn", func() error { return c.Provider.ProtectFromScaleIn(ctx, id, token) })
}

func (c *counted) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	return measureAlone(c, "Unprotect", func() error { return c.Provider.Unprotect(ctx, id, token) })
}

func (c *counted) Snapshot(ctx context.Context, instance cloud.InstanceID, name string) (cloud.Snapshot, error) {
	return measure(c, "Snapshot", func() (cloud.Snapshot, error) { return c.Provider.Snapshot(ctx, instance, name) })
}

func (c *counted) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	return measure(c, "EnsureSnapshot", func() (cloud.Snapshot, error) { return c.Provider.EnsureSnapshot(ctx, spec) })
}

func (c *counted) DeleteSnapshot(ctx context.Context, instance cloud.InstanceID, name string) error {
	return measureAlone(c, "DeleteSnapshot", func() error { return c.Provider.DeleteSnapshot(ctx, instance, name) })
}

func (c *counted) Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
	return measure(c, "Image", func() (cloud.Image, error) { return c.Provider.Image(ctx, ref) })
}

func (c *counted) Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error) {
	return measure(c, "Images", func() ([]cloud.Image, error) { return c.Provider.Images(ctx, pool) })
}

func (c *counted) EnsureImage(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
	return measure(c, "EnsureImage", func() (cloud.Image, error) { return c.Provider.EnsureImage(ctx, spec) })
}

func (c *counted) TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error {
	return measureAlone(c, "TagImage", func() error { return c.Provider.TagImage(ctx, ref, tags) })
}

func (c *counted) DeleteImage(ctx context.Context, ref cloud.ImageRef) error {
	return measureAlone(c, "DeleteImage", func() error { return c.Provider.DeleteImage(ctx, ref) })
}

func (c *counted) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	return measure(c, "PoolsOf", func() ([]cloud.Membership, error) { return c.Provider.PoolsOf(ctx, nodes) })
}

func (c *counted) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	return measure(c, "Pool", func() (cloud.Pool, error) { return c.Provider.Pool(ctx, id) })
}

func (c *counted) Preflight(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	return measure(c, "Preflight", func() ([]cloud.Refusal, error) { return c.Provider.Preflight(ctx, spec) })
}

func (c *counted) RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error) {
	return measure(c, "RecipeChange", func() (cloud.RecipeChange, error) { return c.Provider.RecipeChange(ctx, ref, removeBootstrap) })
}

func (c *counted) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	return measureAlone(c, "SetRecipe", func() error { return c.Provider.SetRecipe(ctx, change) })
}

func (c *counted) SetCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error {
	return measureAlone(c, "SetCapacity", func() error { return c.Provider.SetCapacity(ctx, id, from, to) })
}
