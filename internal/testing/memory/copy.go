package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	opCopy               = "Copy"
	opCopies             = "Copies"
	opEnsureAttached     = "EnsureAttached"
	opEnsureDetached     = "EnsureDetached"
	opEnsureCopySnapshot = "EnsureCopySnapshot"
	opEndCopy            = "EndCopy"
)

// copyCalls are the writes that a copy of a disk in use needs.
var copyCalls = []string{opEnsureSnapshot, opEnsureAttached, opEnsureDetached, opEnsureCopySnapshot, opEndCopy}

// diskCopy is a copy of a donor's disk.
type diskCopy struct {
	name  string
	state cloud.State
	tags  map[string]string
	err   string
	// disk is the donor's at the snapshot. A guest may have generalized the copy since.
	disk disk
	// instance has the copy as a further disk if isAttached.
	instance   cloud.InstanceID
	isAttached bool
}

func (d *diskCopy) id() string { return "memory:///copies/" + d.name }

func (d *diskCopy) view() cloud.DiskCopy {
	view := cloud.DiskCopy{ID: d.id(), State: d.state, IsAttached: d.isAttached, Error: d.err}
	if d.isAttached {
		view.Device.Serial = d.name
	}
	return view
}

// findCopy returns the copy of a name; nil without a copy.
func (c *machines) findCopy(name string) *diskCopy {
	if i := slices.IndexFunc(c.copies, func(d *diskCopy) bool { return d.name == name }); i >= 0 {
		return c.copies[i]
	}
	return nil
}

// CanCopyDisks implements cloud.ImageProvider.
func (c *ImageProvider) CanCopyDisks() bool { return !c.config.NoCopy }

// CopiesOnRequest implements cloud.ImageProvider.
func (c *ImageProvider) CopiesOnRequest() bool { return false }

// Copy implements cloud.ImageProvider.
func (c *ImageProvider) Copy(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	defer c.enter()()
	if err := c.admit(ctx, opCopy, spec.Name); err != nil {
		return cloud.DiskCopy{}, err
	}
	if d := c.findCopy(spec.Name); d != nil {
		return d.view(), nil
	}
	return cloud.DiskCopy{}, nil
}

// Copies implements cloud.ImageProvider.
func (c *ImageProvider) Copies(ctx context.Context, families ...cloud.ImageFamily) ([]cloud.CopySpec, error) {
	defer c.enter()()
	if err := c.admit(ctx, opCopies, ""); err != nil || len(families) == 0 {
		return nil, err
	}
	var found []cloud.CopySpec
	for _, d := range c.copies {
		found = append(found, cloud.CopySpec{Name: d.name, Instance: d.instance, Tags: cloud.OwnerTags(d.tags)})
	}
	return found, nil
}

// EnsureAttached implements cloud.ImageProvider. The copy is attached after Latency.Attach.
func (c *ImageProvider) EnsureAttached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	defer c.enter()()
	switch err := c.admit(ctx, opEnsureAttached, spec.Name); {
	case err != nil:
		return cloud.DiskCopy{}, err
	case c.config.NoCopy:
		return cloud.DiskCopy{}, noCopy(opEnsureAttached, spec.Name)
	}
	d := c.findCopy(spec.Name)
	switch {
	case d != nil && d.isAttached && !sameInstance(d.instance, spec.Instance):
		return cloud.DiskCopy{}, refused(cloud.Conflict, opEnsureAttached, spec.Name, "DiskInUse", fmt.Sprintf("the copy is a disk of %s", d.instance))
	case d != nil && (d.isAttached || d.state != cloud.Complete):
		return d.view(), nil
	}
	m, err := c.find(opEnsureAttached, spec.Instance)
	switch {
	case err != nil:
		return cloud.DiskCopy{}, err
	case m.power != cloud.PowerRunning || m.removing:
		return cloud.DiskCopy{}, refused(cloud.Conflict, opEnsureAttached, spec.Name, "NotRunning",
			fmt.Sprintf("%s is %s, and could boot from the copy", m.id, m.power))
	case d == nil:
		if d, err = c.makeCopy(spec); err != nil {
			return cloud.DiskCopy{}, err
		}
	}
	c.attach(d, m)
	return d.view(), nil
}

// makeCopy makes a copy from its snapshot.
func (c *machines) makeCopy(spec cloud.CopySpec) (*diskCopy, error) {
	s := c.findSnapshot(func(s *snapshot) bool { return s.id == spec.SnapshotID })
	switch {
	case s == nil:
		return nil, refused(cloud.NotFound, opEnsureAttached, spec.Name, "SnapshotNotFound", fmt.Sprintf("there is no snapshot %q", spec.SnapshotID))
	case s.state != cloud.Complete:
		return nil, refused(cloud.Conflict, opEnsureAttached, spec.Name, "SnapshotNotReady", fmt.Sprintf("snapshot %s is %s, not Complete", s.name, s.state))
	}
	d := &diskCopy{name: spec.Name, tags: maps.Clone(spec.Tags), disk: s.disk}
	c.copies = append(c.copies, d)
	c.record(ByCaller, EffectCopy, d.name)
	return d, nil
}

// attach makes a copy a disk of a running machine.
func (c *machines) attach(d *diskCopy, m *instance) {
	d.state, d.instance = cloud.Pending, m.id
	fails := c.failing.copies > 0
	if fails {
		c.failing.copies--
	}
	c.after(c.config.Latency.Attach, func() {
		switch {
		case d.state != cloud.Pending:
		case fails:
			d.state, d.err = cloud.Failed, "InternalExecutionError: the disk was not made"
		default:
			d.state, d.isAttached = cloud.Complete, m.power == cloud.PowerRunning && !m.gone
			if d.isAttached {
				c.record(ByCaller, EffectAttach, d.name)
			}
		}
	})
}

// EnsureDetached implements cloud.ImageProvider. The copy is free after Latency.Attach.
func (c *ImageProvider) EnsureDetached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	defer c.enter()()
	if err := c.admit(ctx, opEnsureDetached, spec.Name); err != nil {
		return cloud.DiskCopy{}, err
	}
	d := c.findCopy(spec.Name)
	if d == nil {
		return cloud.DiskCopy{}, nil
	}
	if d.isAttached && d.state == cloud.Complete {
		c.detach(d)
	}
	return d.view(), nil
}

func (c *machines) detach(d *diskCopy) {
	d.state = cloud.Pending
	c.record(ByCaller, EffectDetach, d.name)
	c.after(c.config.Latency.Attach, func() {
		d.isAttached = false
		if d.state == cloud.Pending {
			d.state = cloud.Complete
		}
	})
}

// EnsureCopySnapshot implements cloud.ImageProvider.
func (c *ImageProvider) EnsureCopySnapshot(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
	defer c.enter()()
	switch err := c.scope(ctx, opEnsureCopySnapshot, shot.Instance, shot.Name); {
	case err != nil:
		return cloud.Snapshot{}, err
	case c.config.NoCopy:
		return cloud.Snapshot{}, noCopy(opEnsureCopySnapshot, spec.Name)
	}
	if s := c.findSnapshot(named(shot.Name)); s != nil {
		return s.view(), nil
	}
	d := c.findCopy(spec.Name)
	switch {
	case d == nil:
		return cloud.Snapshot{}, refused(cloud.NotFound, opEnsureCopySnapshot, spec.Name, "DiskNotFound", "the copy does not exist")
	case d.state != cloud.Complete || d.isAttached:
		return cloud.Snapshot{}, refused(cloud.Conflict, opEnsureCopySnapshot, spec.Name, "DiskInUse",
			fmt.Sprintf("the copy is %s, and a disk of a machine: %t", d.state, d.isAttached))
	case spec.Proven != "" && spec.Proven != d.id():
		return cloud.Snapshot{}, refused(cloud.Invalid, opEnsureCopySnapshot, spec.Name, "OtherDisk", "the proof is of disk "+spec.Proven)
	}
	content := d.disk
	content.power, content.id = cloud.PowerStopped, d.id() // a disk of no machine
	return c.takeSnapshot(opEnsureCopySnapshot, shot, content, true)
}

// EndCopy implements cloud.ImageProvider. The copy is gone after Latency.Delete.
func (c *ImageProvider) EndCopy(ctx context.Context, spec cloud.CopySpec) (cloud.State, error) {
	defer c.enter()()
	if err := c.admit(ctx, opEndCopy, spec.Name); err != nil {
		return cloud.Absent, err
	}
	d := c.findCopy(spec.Name)
	switch {
	case d == nil:
		return cloud.Absent, nil
	case d.state == cloud.Deleting || d.state == cloud.Pending:
	case d.isAttached:
		c.detach(d)
	default:
		d.state, d.err = cloud.Deleting, ""
		c.record(ByCaller, EffectEndCopy, d.name)
		c.after(c.config.Latency.Delete, func() {
			c.copies = slices.DeleteFunc(c.copies, func(other *diskCopy) bool { return other == d })
		})
	}
	if c.findCopy(spec.Name) == nil {
		return cloud.Absent, nil
	}
	return cloud.Deleting, nil
}

// copiesOf returns the copies that are disks of a machine.
func (c *machines) copiesOf(m *instance) (found []*diskCopy) {
	for _, d := range c.copies {
		if d.isAttached && d.instance == m.id {
			found = append(found, d)
		}
	}
	return found
}

// free detaches the copies of a machine that is gone.
func (c *machines) free(m *instance) {
	for _, d := range c.copiesOf(m) {
		d.isAttached = false
	}
}

// CleanCopy generalizes a copy, as a pod on the workshop does. The result is false unless the copy is attached.
func (c *controls) CleanCopy(name string) bool {
	defer c.enter()()
	d := c.findCopy(name)
	if d == nil || !d.isAttached {
		return false
	}
	d.disk.generalized = true
	c.record(ByGuest, EffectGeneralize, d.name)
	return true
}

// FailCopies makes the next n copies fail.
func (c *controls) FailCopies(n int) {
	defer c.enter()()
	c.failing.copies = n
}
