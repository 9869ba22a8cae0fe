package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// Error texts of a region without zone-redundant storage, and of a random failure.
const (
	errZoneStorage = "detail:ZRS is not supported in this region"
	errReplication = "ReplicationJobFailed: the replication of the version failed"
)

// image is a version of a pool's definition.
type image struct {
	family  cloud.ImageFamily
	version string
	number  number
	id      string
	state   cloud.State
	tags    map[string]string
	err     string
	// created is when the version was requested, and started when the current attempt began.
	created, started time.Time
	took             time.Duration
	percent          int32 // the final value unless Pending
	zoneStorage      bool
	excluded         bool
	forbidden        bool
	seeded           bool
	source           *snapshot
	disk             disk
}

func (c *imageStore) findImage(family cloud.ImageFamily, n number) *image {
	i := slices.IndexFunc(c.images, func(v *image) bool { return v.family == family && v.number == n })
	if i < 0 {
		return nil
	}
	return c.images[i]
}

// version parses the version of a reference, and finds the image if there is one.
func (c *machines) version(ctx context.Context, op string, ref cloud.FamilyVersion) (number, *image, error) {
	resource := versionID(ref.Family, ref.Version)
	if err := c.admit(ctx, op, resource); err != nil {
		return number{}, nil, err
	}
	n, ok := parseVersion(ref.Version)
	if !ok {
		return number{}, nil, refused(cloud.Invalid, op, resource, "InvalidParameter",
			fmt.Sprintf("version %q is not three numbers with dots in between", ref.Version))
	}
	return n, c.findImage(ref.Family, n), nil
}

func (c *imageStore) progress(v *image) int32 {
	if v.state != cloud.Pending || v.took <= 0 {
		return v.percent
	}
	return int32(99 * c.at.Sub(v.started) / v.took)
}

func (c *imageStore) imageView(v *image) cloud.Image {
	out := cloud.Image{
		Version: v.version, ID: v.id, State: v.state,
		Tags: maps.Clone(v.tags), Percent: c.progress(v), CreatedAt: v.created, SizeGB: v.disk.sizeGB, Error: v.err,
	}
	if c.forbids && v.state == cloud.Complete {
		out.Launches = map[bool]cloud.Launches{false: cloud.LaunchesAllowed, true: cloud.LaunchesForbidden}[v.forbidden]
	}
	return out
}

// Image returns a version. A version that failed because of its kind of storage is absent, because EnsureImage replaces
// it.
func (c *ImageProvider) Image(ctx context.Context, ref cloud.FamilyVersion) (cloud.Image, error) {
	defer c.enter()()
	_, v, err := c.version(ctx, opImage, ref)
	if err != nil {
		return cloud.Image{}, err
	}
	if v == nil || v.replaceable() {
		return cloud.Image{Version: ref.Version}, nil
	}
	return c.imageView(v), nil
}

// replaceable reports whether only the kind of storage was wrong.
func (v *image) replaceable() bool { return v.state == cloud.Failed && v.err == errZoneStorage }

// Images returns the image family's versions.
func (c *ImageProvider) Images(ctx context.Context, family cloud.ImageFamily) ([]cloud.Image, error) {
	defer c.enter()()
	if err := c.admit(ctx, opImages, lineID(family)); err != nil {
		return nil, err
	}
	var list []cloud.Image
	for _, v := range c.versions(family) {
		list = append(list, c.imageView(v))
	}
	return list, nil
}

// versions returns the versions of an image family, oldest first.
func (c *imageStore) versions(family cloud.ImageFamily) []*image {
	var list []*image
	for _, v := range c.images {
		if v.family == family {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *image) int { return imageversion.Compare(a.version, b.version) })
	return list
}

// EnsureImage builds the version on zone-redundant storage first. Without such storage the attempt fails, the next call
// removes the failed version, and the call after uses local storage.
func (c *ImageProvider) EnsureImage(ctx context.Context, spec cloud.VersionSpec) (cloud.Image, error) {
	defer c.enter()()
	n, v, err := c.version(ctx, opEnsureImage, spec.FamilyVersion)
	if err != nil {
		return cloud.Image{}, err
	}
	if v != nil && v.replaceable() {
		c.forget(v)
		c.family(spec.Family).localStorage = true
		c.record(ByCaller, EffectDeleteImage, v.id)
		return cloud.Image{Version: spec.Version}, nil
	}
	if v != nil {
		return c.imageView(v), nil
	}
	source, err := c.source(spec)
	if err != nil {
		return cloud.Image{}, err
	}
	if limit := c.config.Quota.Images; limit > 0 && len(c.images) >= limit {
		return cloud.Image{}, refused(cloud.QuotaExceeded, opEnsureImage, versionID(spec.Family, spec.Version),
			"OperationNotAllowed", fmt.Sprintf("the quota of %d image versions is used up", limit))
	}
	family := c.family(spec.Family)
	if !family.defined {
		family.defined = true
		c.record(ByCaller, EffectDefine, lineID(spec.Family))
	}
	next := &image{
		family: spec.Family, version: spec.Version, number: n, id: versionID(spec.Family, spec.Version), state: cloud.Pending,
		tags: maps.Clone(spec.Tags), created: c.at, started: c.at, took: c.config.Latency.Image,
		zoneStorage: !family.localStorage, excluded: true, source: source, disk: source.disk,
	}
	c.images = append(c.images, next)
	c.record(ByCaller, EffectImage, next.id)
	c.replicate(next)
	return c.imageView(next), nil
}

func (c *machines) source(spec cloud.VersionSpec) (*snapshot, error) {
	resource := versionID(spec.Family, spec.Version)
	s := c.findSnapshot(func(s *snapshot) bool { return s.id == spec.SnapshotID })
	if s == nil {
		return nil, refused(cloud.NotFound, opEnsureImage, resource, "SourceNotFound",
			fmt.Sprintf("the source snapshot %q does not exist", spec.SnapshotID))
	}
	if s.state != cloud.Complete {
		return nil, refused(cloud.Conflict, opEnsureImage, resource, "SourceNotReady",
			fmt.Sprintf("the source snapshot %s is %s, not Complete", s.name, s.state))
	}
	if spec.Proven != "" && spec.Proven != s.disk.id {
		return nil, refused(cloud.Invalid, opEnsureImage, resource, "OtherDisk", "the proof is of disk "+spec.Proven)
	}
	return s, nil
}

// replicate schedules the end of an attempt: early for wrong storage, half-way for an injected failure, else after its
// duration.
func (c *machines) replicate(v *image) {
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

func (c *imageStore) failImage(v *image, text string) {
	if v.state == cloud.Pending {
		v.percent = c.progress(v)
		v.state, v.err = cloud.Failed, text
	}
}

func (c *imageStore) forget(v *image) {
	c.images = slices.DeleteFunc(c.images, func(other *image) bool { return other == v })
}

// TagImage takes effect at once.
func (c *ImageProvider) TagImage(ctx context.Context, ref cloud.FamilyVersion, tags map[string]string) error {
	defer c.enter()()
	_, v, err := c.version(ctx, opTagImage, ref)
	if err != nil {
		return err
	}
	resource := versionID(ref.Family, ref.Version)
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

// AllowLaunches takes effect at once.
func (c *ImageProvider) AllowLaunches(ctx context.Context, ref cloud.FamilyVersion, allow bool) error {
	defer c.enter()()
	_, v, err := c.version(ctx, opAllowLaunches, ref)
	if err != nil {
		return err
	}
	if v == nil || v.replaceable() || v.state == cloud.Deleting {
		return refused(cloud.NotFound, opAllowLaunches, versionID(ref.Family, ref.Version), "ResourceNotFound", "the version does not exist, or not for long")
	}
	if c.forbids && v.state == cloud.Complete && v.forbidden == allow {
		v.forbidden = !allow
		c.record(ByCaller, EffectAllowLaunches, v.id)
	}
	return nil
}

// DeleteImage takes Latency.Delete.
func (c *ImageProvider) DeleteImage(ctx context.Context, ref cloud.FamilyVersion) error {
	defer c.enter()()
	_, v, err := c.version(ctx, opDeleteImage, ref)
	if err != nil {
		return err
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

// AddVersion adds an existing version. An unknown pool, an existing version or an invalid version panics, because the
// test is wrong.
func (c *pools) AddVersion(id cloud.PoolID, spec VersionSpec) {
	defer c.enter()()
	p, err := c.findPool(opImage, id)
	if err != nil {
		panic(err)
	}
	n, v, err := c.version(context.Background(), opImage, cloud.FamilyVersion{Family: c.familyOf(p.id), Version: spec.Version})
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
	c.family(c.familyOf(p.id)).defined = true
	next := &image{
		family: c.familyOf(p.id), version: spec.Version, number: n, id: versionID(c.familyOf(p.id), spec.Version), state: spec.State,
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

// ImageID implements cloud.ImageProvider.
func (c *ImageProvider) ImageID(ref cloud.FamilyVersion) string {
	return versionID(ref.Family, ref.Version)
}

// VersionOf implements cloud.ImageProvider.
func (c *ImageProvider) VersionOf(family cloud.ImageFamily, image string) (version string, latest bool) {
	return versionIn(family, image)
}

func versionIn(family cloud.ImageFamily, image string) (version string, latest bool) {
	version, _ = strings.CutPrefix(image, versionID(family, ""))
	if version == image {
		version = ""
	}
	return version, image == lineID(family)
}

// Latest implements cloud.ImageProvider. There is only one location.
func (c *ImageProvider) Latest(ctx context.Context, family cloud.ImageFamily, _ string) (string, error) {
	defer c.enter()()
	if err := c.admit(ctx, opImages, lineID(family)); err != nil {
		return "", err
	}
	return c.latest(family), nil
}

func (c *imageStore) latest(family cloud.ImageFamily) string {
	for _, v := range slices.Backward(c.versions(family)) {
		if v.state == cloud.Complete && !v.excluded {
			return v.version
		}
	}
	return ""
}
