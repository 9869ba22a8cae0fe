package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// snapshot is a copy of a disk. Names are unique in the whole cloud, as in a resource group.
type snapshot struct {
	name  string
	id    string
	state cloud.State
	tags  map[string]string
	err   string
	disk  disk
	// instant is true if later writes to the disk do not affect the copy.
	instant bool
}

// disk is the donor's state at the moment of the copy.
type disk struct {
	instance    cloud.InstanceID
	id          string
	bootID      string
	power       cloud.Power
	generalized bool
	sizeGB      int32
}

// clean reports whether the copied disk was generalized and its machine was off.
func (d disk) clean() bool { return d.generalized && d.power == cloud.PowerStopped }

func (c *machines) findSnapshot(match func(*snapshot) bool) *snapshot {
	if i := slices.IndexFunc(c.snapshots, match); i >= 0 {
		return c.snapshots[i]
	}
	return nil
}

func named(name string) func(*snapshot) bool {
	return func(s *snapshot) bool { return s.name == name }
}

func (s *snapshot) view() cloud.Snapshot {
	return cloud.Snapshot{Name: s.name, ID: s.id, State: s.state, Taken: s.instant && s.state == cloud.Pending, Tags: maps.Clone(s.tags), Error: s.err}
}

// scope checks that the instance's ID belongs to this cloud. The instance need not exist.
func (c *machines) scope(ctx context.Context, op string, id cloud.InstanceID, name string) error {
	if err := c.admit(ctx, op, name); err != nil {
		return err
	}
	if !isInstance(id) {
		return refused(cloud.Unsupported, op, name, "ForeignInstance", fmt.Sprintf("%s is no instance of this cloud", id))
	}
	if name == "" {
		return refused(cloud.Invalid, op, name, "InvalidParameter", "a snapshot needs a name")
	}
	return nil
}

// Snapshot returns a snapshot.
func (c *ImageProvider) Snapshot(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
	defer c.enter()()
	if err := c.scope(ctx, opSnapshot, id, name); err != nil {
		return cloud.Snapshot{}, err
	}
	if s := c.findSnapshot(named(name)); s != nil {
		return s.view(), nil
	}
	return cloud.Snapshot{Name: name}, nil
}

// spoil marks the disk and its unfinished copies as written.
func (c *machines) spoil(m *instance) {
	m.generalized = false
	for _, s := range c.snapshots {
		if s.disk.instance == m.id && s.state == cloud.Pending && !s.instant {
			s.disk.generalized = false
		}
	}
}

// EnsureSnapshot copies the disk at this moment. The copy is Complete after Latency.Snapshot.
func (c *ImageProvider) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	have, err := c.snapshotAfter(ctx, spec, func(*instance) (cloud.Snapshot, error) { return cloud.Snapshot{}, nil })
	if err != nil || have.State != cloud.Absent {
		return have, err
	}
	if err := spec.Begin(ctx); err != nil { // without the lock: BeforeCopy may use the cloud
		return cloud.Snapshot{}, err
	}
	return c.snapshotAfter(ctx, spec, func(m *instance) (cloud.Snapshot, error) {
		return c.takeSnapshot(opEnsureSnapshot, spec, disk{
			instance: m.id, id: diskOf(m.id), power: m.power, generalized: m.generalized, bootID: bootID(m.id, m.boots), sizeGB: m.diskGB,
		}, c.config.Instant || spec.InUse)
	})
}

// snapshotAfter returns the snapshot if it exists, and else what take makes of its instance.
func (c *ImageProvider) snapshotAfter(ctx context.Context, spec cloud.SnapshotSpec, take func(*instance) (cloud.Snapshot, error)) (cloud.Snapshot, error) {
	defer c.enter()()
	if err := c.scope(ctx, opEnsureSnapshot, spec.Instance, spec.Name); err != nil {
		return cloud.Snapshot{}, err
	}
	if s := c.findSnapshot(named(spec.Name)); s != nil {
		return s.view(), nil
	}
	m, err := c.find(opEnsureSnapshot, spec.Instance)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	return take(m)
}

// takeSnapshot starts a snapshot of a disk.
func (c *machines) takeSnapshot(op string, spec cloud.SnapshotSpec, of disk, instant bool) (cloud.Snapshot, error) {
	if limit := c.config.Quota.Snapshots; limit > 0 && len(c.snapshots) >= limit {
		return cloud.Snapshot{}, refused(cloud.QuotaExceeded, op, spec.Name, "OperationNotAllowed",
			fmt.Sprintf("the quota of %d snapshots is used up", limit))
	}
	s := &snapshot{name: spec.Name, id: snapshotPrefix + spec.Name, state: cloud.Pending, tags: maps.Clone(spec.Tags), instant: instant, disk: of}
	c.snapshots = append(c.snapshots, s)
	c.record(ByCaller, EffectSnapshot, s.name)
	outcome := cloud.Complete
	if c.failing.snapshots > 0 {
		c.failing.snapshots--
		outcome = cloud.Failed
	}
	c.after(c.config.Latency.Snapshot, func() { c.finishSnapshot(s, outcome) })
	return s.view(), nil
}

func (c *machines) finishSnapshot(s *snapshot, outcome cloud.State) {
	if s.state != cloud.Pending {
		return
	}
	s.state = outcome
	if outcome == cloud.Failed {
		s.err = "InternalExecutionError: the copy of the disk was not finished"
	}
}

// DeleteSnapshot takes Latency.Delete. An unfinished version of the snapshot fails.
func (c *ImageProvider) DeleteSnapshot(ctx context.Context, id cloud.InstanceID, name string) error {
	defer c.enter()()
	if err := c.scope(ctx, opDeleteSnapshot, id, name); err != nil {
		return err
	}
	s := c.findSnapshot(named(name))
	if s != nil {
		c.discard(s)
	}
	return nil
}

func (c *machines) discard(s *snapshot) {
	if s.state == cloud.Deleting {
		return
	}
	s.state, s.err = cloud.Deleting, ""
	c.record(ByCaller, EffectDeleteSnapshot, s.name)
	for _, v := range c.images {
		if v.state == cloud.Pending && v.source == s {
			c.failImage(v, "SourceNotFound: the source snapshot was deleted before the version was complete")
		}
	}
	c.after(c.config.Latency.Delete, func() {
		c.snapshots = slices.DeleteFunc(c.snapshots, func(other *snapshot) bool { return other == s })
	})
}

const (
	opSnapshots    = "Snapshots"
	opDropSnapshot = "DropSnapshot"
)

// Snapshots implements cloud.ImageProvider.
func (c *ImageProvider) Snapshots(ctx context.Context, _ ...cloud.ImageFamily) ([]cloud.Snapshot, error) {
	defer c.enter()()
	if err := c.admit(ctx, opSnapshots, ""); err != nil {
		return nil, err
	}
	var found []cloud.Snapshot
	for _, s := range c.snapshots {
		if s.tags[cloud.TagUID] != "" {
			view := s.view()
			view.Name = s.tags[cloud.TagPrototype]
			found = append(found, view)
		}
	}
	return found, nil
}

// DropSnapshot implements cloud.ImageProvider.
func (c *ImageProvider) DropSnapshot(ctx context.Context, id string) error {
	defer c.enter()()
	if err := c.admit(ctx, opDropSnapshot, id); err != nil {
		return err
	}
	if s := c.findSnapshot(func(s *snapshot) bool { return s.id == id }); s != nil {
		c.discard(s)
	}
	return nil
}
