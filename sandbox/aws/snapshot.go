package aws

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// Statuses of snapshots.
const (
	snapshotPending = "pending"
	snapshotDone    = "completed"
	snapshotFailed  = "error"
)

// snapshot is a copy of a volume at the time of the request.
type snapshot struct {
	resource
	Volume      string `json:"volume"`
	Size        int64  `json:"size"`
	Description string `json:"description,omitempty"`
	Key         string `json:"key,omitempty"`
	Owner       string `json:"owner"`
	// Details, Usage and Codes are the billing of the disk.
	Details string        `json:"details,omitempty"`
	Usage   string        `json:"usage,omitempty"`
	Codes   []string      `json:"codes,omitempty"`
	State   string        `json:"state"`
	Message string        `json:"message,omitempty"`
	Asked   time.Duration `json:"asked"`
	Due     time.Duration `json:"due"`
	Done    time.Time     `json:"done"`
	// Content is the fleet's ID of the content, if different from the snapshot's ID.
	Content fleet.DiskID `json:"content,omitempty"`
	// Copied: the content exists. Fails is the reason of a failure. Hidden: clients do not see the snapshot.
	Copied bool   `json:"copied,omitempty"`
	Fails  string `json:"fails,omitempty"`
	Hidden bool   `json:"hidden,omitempty"`
}

// snapshots are copies of volumes.
type snapshots struct{ *backend }

func (s snapshots) actions() []*action {
	return []*action{
		{name: "CreateSnapshot", noun: "snapshot", handle: s.create},
		{name: "DeleteSnapshot", noun: "snapshot", handle: s.delete},
		{name: "DescribeSnapshots", noun: "snapshot", reads: true, handle: s.describe},
	}
}

func (s snapshots) turns() map[string]turn {
	return map[string]turn{"snapshot.copy": s.copy, "snapshot.end": s.end}
}

func noSnapshot(id string) *problem {
	return bad("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
}

// create asks for a snapshot. There is no client token: who asks twice has two.
func (s snapshots) create(c *call, st *state) (query.Element, error) {
	id := c.in.Get("VolumeId")
	v := st.Volumes[id]
	if v == nil || !s.sees(v) {
		return query.Element{}, noVolume(id)
	}
	switch {
	case v.Deleting:
		return query.Element{}, noVolume(id)
	case !v.Ready:
		return query.Element{}, bad("IncorrectState", "The volume '%s' is in the 'creating' state.", id)
	case v.Key != "" && s.keyDenied(v.Key):
		return query.Element{}, keyRefusal()
	}
	all, p := tagsOnly(c.in, "snapshot")
	if p != nil {
		return query.Element{}, p
	}
	snap := s.begin(st, v, c.in.Get("Description"), c.fails())
	snap.Tags = all
	s.ofRunning(c, st, snap)
	return s.element(snap), nil
}

// begin creates a snapshot of a volume with its current content.
func (s snapshots) begin(st *state, v *volume, description, fails string) *snapshot {
	now := st.moment
	snap := &snapshot{resource: s.fresh(st, "snap"), Volume: v.ID, Size: v.Size, Key: v.Key, Owner: s.config.Account, Description: description,
		State: snapshotPending, Asked: now, Due: now + s.config.Latencies.Snapshot, Fails: fails, Details: v.Details, Usage: v.Usage, Codes: v.Codes}
	if i := st.Instances[v.Instance]; i != nil && v.Device == i.RootDevice {
		if im := st.Images[i.Image]; im == nil || !im.Unbilled {
			snap.Details, snap.Usage, snap.Codes = i.Details, i.Usage, i.Codes
		}
	}
	st.Snapshots[snap.ID] = snap
	st.plan(now, "snapshot.copy", snap.ID, "")
	return snap
}

// ofRunning copies the content of a running instance's volume before the answer, because the instance goes on writing. The planned copy is
// for a server that ends meanwhile, and for an instance whose work has not ended: its disk may be in the making.
func (s snapshots) ofRunning(c *call, st *state, snap *snapshot) {
	i := st.Instances[st.Volumes[snap.Volume].Instance]
	if i == nil || i.State != running || slices.ContainsFunc(st.Events, func(e *event) bool { return e.Target == i.ID }) {
		return
	}
	st.unplan("snapshot.copy", snap.ID)
	st.plan(snap.Due, "snapshot.copy", snap.ID, "")
	id, from := snap.ID, disk(snap.Volume)
	c.after = func() error {
		err := s.config.Fleet.CopyDisk(s.lanes.Context(), disk(id), from)
		return s.store.Write(func(st *state) error {
			if snap := st.Snapshots[id]; snap != nil {
				s.copied(st, snap, err)
			}
			return nil
		})
	}
}

// launchPause is the time between two looks at a volume whose instance is being launched.
const launchPause = 100 * time.Millisecond

// copied notes the end of a copy.
func (s snapshots) copied(st *state, snap *snapshot, err error) {
	snap.Copied = true
	if err != nil {
		snap.Fails = err.Error()
	}
	st.plan(snap.Due, "snapshot.end", snap.ID, "")
}

// copy copies the content of a volume that no machine writes to. The latency comes afterwards.
func (s snapshots) copy(st *state, e event) *work {
	snap := st.Snapshots[e.Target]
	if snap == nil || snap.Copied {
		return nil
	}
	from, on := disk(snap.Volume), []string{snap.Volume}
	if v := st.Volumes[snap.Volume]; v != nil && v.Instance != "" {
		if i := st.Instances[v.Instance]; i != nil && i.State == pending { // the launch makes the content
			st.plan(e.At+launchPause, "snapshot.copy", snap.ID, "")
			return nil
		}
		on = append(on, v.Instance) // the instance may start or end meanwhile
	}
	return &work{
		on: on,
		do: func(ctx context.Context) error { return s.config.Fleet.CopyDisk(ctx, disk(e.Target), from) },
		then: func(st *state, now time.Duration, err error) {
			snap := st.Snapshots[e.Target]
			if snap == nil {
				st.plan(now, "volume.drop", e.Target, "")
				return
			}
			s.copied(st, snap, err)
		},
	}
}

func (s snapshots) end(st *state, e event) *work {
	snap := st.Snapshots[e.Target]
	if snap == nil {
		return nil
	}
	snap.State, snap.Message, snap.Done = snapshotDone, snap.Fails, s.stamp()
	if snap.Fails != "" {
		snap.State = snapshotFailed
	}
	for _, im := range st.Images {
		if im.State == imagePending && slices.ContainsFunc(im.Devices, func(d device) bool { return d.Snapshot == snap.ID }) {
			st.plan(e.At, "image.look", im.ID, "")
		}
	}
	return nil
}

// delete refuses while an image is backed by the snapshot.
func (s snapshots) delete(c *call, st *state) (query.Element, error) {
	id := c.in.Get("SnapshotId")
	snap := st.Snapshots[id]
	if snap == nil || !s.sees(snap) || snap.Owner != s.config.Account {
		return query.Element{}, noSnapshot(id)
	}
	if p := s.changeable(c, snap); p != nil {
		return query.Element{}, p
	}
	if im := backedBy(st, id); im != nil {
		return query.Element{}, bad("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s", id, im.ID)
	}
	s.remove(st, snap)
	return done(), nil
}

// remove deletes a snapshot and its content.
func (s snapshots) remove(st *state, snap *snapshot) {
	delete(st.Snapshots, snap.ID)
	if snap.Content == "" {
		st.plan(st.moment, "volume.drop", snap.ID, "")
	}
}

// backedBy is the image that uses a snapshot; nil for none.
func backedBy(st *state, snap string) *image {
	for _, im := range sorted(st.Images) {
		if im.State != imageGone && slices.ContainsFunc(im.Devices, func(d device) bool { return d.Snapshot == snap }) {
			return im
		}
	}
	return nil
}

func (s snapshots) describe(c *call, st *state) (query.Element, error) {
	all, p := byID(s.backend, st.Snapshots, c.in.Texts("SnapshotId"), noSnapshot)
	if p != nil {
		return query.Element{}, p
	}
	owners := c.in.Texts("Owner")
	all = slices.DeleteFunc(all, func(v *snapshot) bool { return v.Hidden || !ownedBy(owners, v.Owner, s.config.Account) })
	one := func(f func(*snapshot) string) func(*snapshot) []string {
		return func(v *snapshot) []string { return []string{f(v)} }
	}
	all, p = filtered(c, all, map[string]func(*snapshot) []string{
		"snapshot-id": one(func(v *snapshot) string { return v.ID }), "status": one(func(v *snapshot) string { return v.State }),
		"volume-id": one(func(v *snapshot) string { return v.Volume }), "owner-id": one(func(v *snapshot) string { return v.Owner }),
		"description": one(func(v *snapshot) string { return v.Description }),
	}, func(v *snapshot) map[string]string { return v.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "snapshotSet", all, 5, 1000, s.element)
}

// ownedBy reports whether an owner is in the list; an empty list matches all owners.
func ownedBy(asked []string, owner, self string) bool {
	if len(asked) == 0 {
		return true
	}
	return slices.Contains(asked, owner) || owner == self && slices.Contains(asked, "self") || owner != self && slices.Contains(asked, "amazon")
}

func (s snapshots) element(v *snapshot) query.Element {
	progress := int64(100)
	if v.State == snapshotPending {
		progress = 0
		if total := v.Due - v.Asked; total > 0 {
			progress = min(99, int64(100*(s.time.now()-v.Asked)/total))
		}
	}
	return query.Of("", query.Text("snapshotId", v.ID), query.Text("volumeId", v.Volume), query.Text("status", v.State), query.Text("statusMessage", v.Message),
		query.Date("startTime", v.Created), query.Date("completionTime", v.Done), query.Element{Name: "progress", Text: strconv.FormatInt(progress, 10) + "%"},
		query.Text("ownerId", v.Owner), query.Int("volumeSize", v.Size), query.Element{Name: "description", Text: v.Description},
		query.Bool("encrypted", v.Key != ""), query.Text("kmsKeyId", v.Key), query.Text("storageTier", "standard"), tagSet(v.Tags))
}

// keyDenied: the caller may not use a KMS key.
func (w *backend) keyDenied(key string) bool {
	return slices.ContainsFunc(w.config.DeniedKeys, func(denied string) bool { return strings.HasSuffix(key, denied) })
}

func keyRefusal() *problem {
	return bad("KMSKeyNotAccessibleFault",
		"The specified KMS key is not accessible: the ciphertext refers to a customer master key that does not exist, or which you do not have access to.")
}
