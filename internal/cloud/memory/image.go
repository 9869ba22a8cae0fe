package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// Texts of a cloud that has no zone-redundant storage, and of one that fails for no reason.
const (
	errZoneStorage = "detail:ZRS is not supported in this region"
	errReplication = "ReplicationJobFailed: the replication of the version failed"
)

// image is a version of a pool's definition.
type image struct {
	pool    *pool
	version string
	number  number
	id      string
	state   cloud.State
	tags    map[string]string
	err     string
	// created is when the version was asked for; started when this attempt at it began.
	created, started time.Time
	took             time.Duration
	percent          int32 // where it stopped, unless Pending
	zoneStorage      bool
	excluded         bool
	seeded           bool
	source           *snapshot
	disk             disk
}

func (c *Cloud) findImage(p *pool, n number) *image {
	i := slices.IndexFunc(c.images, func(v *image) bool { return v.pool == p && v.number == n })
	if i < 0 {
		return nil
	}
	return c.images[i]
}

// version finds pool and number of a reference, and the image if there is one.
func (c *Cloud) version(ctx context.Context, op string, ref cloud.ImageRef) (*pool, number, *image, error) {
	resource := versionID(ref.Pool, ref.Version)
	if err := c.admit(ctx, op, resource); err != nil {
		return nil, number{}, nil, err
	}
	p, err := c.findPool(op, ref.Pool)
	if err != nil {
		return nil, number{}, nil, err
	}
	n, ok := parseVersion(ref.Version)
	if !ok {
		return nil, number{}, nil, refused(cloud.Invalid, op, resource, "InvalidParameter",
			fmt.Sprintf("version %q is not three numbers with dots between them", ref.Version))
	}
	return p, n, c.findImage(p, n), nil
}

func (c *Cloud) progress(v *image) int32 {
	if v.state != cloud.Pending || v.took <= 0 {
		return v.percent
	}
	return int32(99 * c.at.Sub(v.started) / v.took)
}

func (c *Cloud) imageView(v *image) cloud.Image {
	return cloud.Image{
		ImageRef: cloud.ImageRef{Pool: v.pool.id, Version: v.version}, Version: v.version, ID: v.id, State: v.state,
		Tags: maps.Clone(v.tags), Percent: c.progress(v), CreatedAt: v.created, SizeGB: v.disk.sizeGB, Error: v.err,
	}
}

// Image looks at a version. One that only failed for its kind of storage counts as absent: EnsureImage
// replaces it.
func (c *Cloud) Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
	defer c.enter()()
	p, _, v, err := c.version(ctx, opImage, ref)
	if err != nil {
		return cloud.Image{}, err
	}
	if v == nil || v.replaceable() {
		return cloud.Image{ImageRef: cloud.ImageRef{Pool: p.id, Version: ref.Version}, Version: ref.Version}, nil
	}
	return c.imageView(v), nil
}

// replaceable tells that only the kind of storage was wrong.
func (v *image) replaceable() bool { return v.state == cloud.Failed && v.err == errZoneStorage }

// Images lists the pool's versions.
func (c *Cloud) Images(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error) {
	defer c.enter()()
	if err := c.admit(ctx, opImages, string(id)); err != nil {
		return nil, err
	}
	p, err := c.findPool(opImages, id)
	if err != nil {
		return nil, err
	}
	var list []cloud.Image
	for _, v := range c.versions(p) {
		list = append(list, c.imageView(v))
	}
	return list, nil
}

// versions of a pool, oldest first.
func (c *Cloud) versions(p *pool) []*image {
	var list []*image
	for _, v := range c.images {
		if v.pool == p {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *image) int { return imageversion.Compare(a.version, b.version) })
	return list
}

// EnsureImage builds the version on zone-redundant storage first. Where the region has none the attempt
// fails, the next call clears it away, and the one after builds it on local storage.
func (c *Cloud) EnsureImage(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
	defer c.enter()()
	p, n, v, err := c.version(ctx, opEnsureImage, spec.ImageRef)
	if err != nil {
		return cloud.Image{}, err
	}
	if v != nil && v.replaceable() {
		c.forget(v)
		p.localStorage = true
		c.record(ByCaller, EffectDeleteImage, v.id)
		return cloud.Image{ImageRef: cloud.ImageRef{Pool: p.id, Version: spec.Version}, Version: spec.Version}, nil
	}
	if v != nil {
		return c.imageView(v), nil
	}
	source, err := c.source(spec)
	if err != nil {
		return cloud.Image{}, err
	}
	if limit := c.config.Quota.Images; limit > 0 && len(c.images) >= limit {
		return cloud.Image{}, refused(cloud.QuotaExceeded, opEnsureImage, versionID(p.id, spec.Version),
			"OperationNotAllowed", fmt.Sprintf("the quota of %d image versions is used up", limit))
	}
	if !p.defined {
		p.defined = true
		c.record(ByCaller, EffectDefine, string(p.id))
	}
	next := &image{
		pool: p, version: spec.Version, number: n, id: versionID(p.id, spec.Version), state: cloud.Pending,
		tags: maps.Clone(spec.Tags), created: c.at, started: c.at, took: c.config.Latency.Image,
		zoneStorage: !p.localStorage, excluded: true, source: source, disk: source.disk,
	}
	c.images = append(c.images, next)
	c.record(ByCaller, EffectImage, next.id)
	c.replicate(next)
	return c.imageView(next), nil
}

func (c *Cloud) source(spec cloud.ImageSpec) (*snapshot, error) {
	resource := versionID(spec.Pool, spec.Version)
	s := c.findSnapshot(func(s *snapshot) bool { return s.id == spec.SnapshotID })
	if s == nil {
		return nil, refused(cloud.NotFound, opEnsureImage, resource, "SourceNotFound",
			fmt.Sprintf("the source snapshot %q does not exist", spec.SnapshotID))
	}
	if s.state != cloud.Complete {
		return nil, refused(cloud.Conflict, opEnsureImage, resource, "SourceNotReady",
			fmt.Sprintf("the source snapshot %s is %s, not Complete", s.name, s.state))
	}
	return s, nil
}

// replicate lets an attempt come to its end: soon if the storage is wrong, half-way if the cloud is to fail
// it, else when its time is over.
func (c *Cloud) replicate(v *image) {
	if v.zoneStorage && c.config.NoZoneStorage {
		c.after(v.took/10, func() { c.failImage(v, errZoneStorage) })
		return
	}
	if c.failing.images > 0 {
		c.failing.images--
		c.after(v.took/2, func() { c.failImage(v, errReplication) })
		return
	}
	c.after(v.took, func() {
		if v.state == cloud.Pending {
			v.state, v.percent = cloud.Complete, 100
		}
	})
}

func (c *Cloud) failImage(v *image, text string) {
	if v.state == cloud.Pending {
		v.percent = c.progress(v)
		v.state, v.err = cloud.Failed, text
	}
}

func (c *Cloud) forget(v *image) {
	c.images = slices.DeleteFunc(c.images, func(other *image) bool { return other == v })
}

// TagImage is done when it returns.
func (c *Cloud) TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error {
	defer c.enter()()
	_, _, v, err := c.version(ctx, opTagImage, ref)
	if err != nil {
		return err
	}
	resource := versionID(ref.Pool, ref.Version)
	if v == nil || v.replaceable() || v.state == cloud.Deleting {
		return refused(cloud.NotFound, opTagImage, resource, "ResourceNotFound", "the version does not exist, or not for long")
	}
	next := maps.Clone(v.tags)
	if next == nil {
		next = map[string]string{}
	}
	for key, value := range tags {
		if value == "" {
			delete(next, key)
		} else {
			next[key] = value
		}
	}
	if !maps.Equal(next, v.tags) {
		v.tags = next
		c.record(ByCaller, EffectTagImage, v.id)
	}
	return nil
}

// DeleteImage takes Latency.Delete.
func (c *Cloud) DeleteImage(ctx context.Context, ref cloud.ImageRef) error {
	defer c.enter()()
	p, n, v, err := c.version(ctx, opDeleteImage, ref)
	if err != nil {
		return err
	}
	if used, ok := parseVersion(c.recipeVersion(p)); ok && used == n {
		return refused(cloud.Conflict, opDeleteImage, versionID(ref.Pool, ref.Version), "InUse",
			"the pool's recipe names this version; point the pool at another one first")
	}
	if v == nil || v.state == cloud.Deleting {
		return nil
	}
	v.percent = c.progress(v)
	v.state, v.err = cloud.Deleting, ""
	c.record(ByCaller, EffectDeleteImage, v.id)
	c.after(c.config.Latency.Delete, func() { c.forget(v) })
	return nil
}

// AddVersion adds a version that was there before. An unknown pool, a version that exists or is not three
// numbers is a mistake of the test and panics.
func (c *Cloud) AddVersion(id cloud.PoolID, spec VersionSpec) {
	defer c.enter()()
	ref := cloud.ImageRef{Pool: id, Version: spec.Version}
	p, n, v, err := c.version(context.Background(), opImage, ref)
	if err != nil {
		panic(err)
	}
	if v != nil {
		panic(fmt.Sprintf("memory: %s exists", v.id))
	}
	if spec.State == cloud.Absent {
		spec.State = cloud.Complete
	}
	if spec.CreatedAt.IsZero() {
		spec.CreatedAt = c.at
	}
	p.defined = true
	next := &image{
		pool: p, version: spec.Version, number: n, id: versionID(p.id, spec.Version), state: spec.State,
		tags: maps.Clone(spec.Tags), created: spec.CreatedAt, excluded: spec.ExcludedFromLatest, seeded: true,
		disk: disk{generalized: true, power: cloud.PowerStopped, sizeGB: p.spec.DiskGB},
	}
	switch spec.State {
	case cloud.Complete:
		next.percent = 100
	case cloud.Failed:
		next.err = errReplication
	case cloud.Absent, cloud.Pending, cloud.Deleting:
	}
	c.images = append(c.images, next)
}
