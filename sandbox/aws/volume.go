package aws

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// volume is a disk. The fleet holds its content under the volume's ID.
type volume struct {
	resource
	Zone     string `json:"zone"`
	Size     int64  `json:"size"` // GiB
	Type     string `json:"type"`
	Snapshot string `json:"snapshot,omitempty"`
	// Key is the KMS key; empty for a volume that is not encrypted.
	Key string `json:"key,omitempty"`
	// Rate of initialization in MiB/s; 0 means lazily.
	Rate int64 `json:"rate,omitempty"`
	// Ready: the content exists. Instance and Device are the attachment.
	Ready    bool   `json:"ready"`
	Instance string `json:"instance,omitempty"`
	Device   string `json:"device,omitempty"`
	// Attachment is the state of a later attachment; empty since the launch of the instance.
	Attachment string `json:"attachment,omitempty"`
	// Temporary volumes are deleted with their instance.
	Temporary bool      `json:"temporary,omitempty"`
	Attached  time.Time `json:"attached"`
	// Details, Usage and Codes are the billing of the snapshot's disk.
	Details string   `json:"details,omitempty"`
	Usage   string   `json:"usage,omitempty"`
	Codes   []string `json:"codes,omitempty"`
	// Deleting: the volume is shown until its content is gone.
	Deleting bool `json:"deleting,omitempty"`
}

func (v *volume) state() string {
	switch {
	case v.Deleting:
		return "deleting"
	case !v.Ready:
		return "creating"
	case v.Instance != "":
		return "in-use"
	}
	return "available"
}

// volumes are disks, attached to instances or not.
type volumes struct{ *backend }

func (s volumes) actions() []*action {
	return []*action{
		{name: "CreateVolume", noun: "volume", handle: s.create},
		{name: "DeleteVolume", noun: "volume", handle: s.delete},
		{name: "DescribeVolumes", noun: "volume", reads: true, handle: s.describe},
	}
}

func (s volumes) turns() map[string]turn {
	return map[string]turn{"volume.fill": s.fill, "volume.drop": s.drop, "volume.end": s.end}
}

func noVolume(id string) *problem {
	return bad("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}

// disk is the fleet's ID for the content of a volume or a snapshot.
func disk(id string) fleet.DiskID { return fleet.DiskID(strings.ToLower(id)) }

// create creates a volume from a snapshot, or an empty volume.
func (s volumes) create(c *call, st *state) (query.Element, error) {
	made, p := st.repeated(c)
	if p != nil {
		return query.Element{}, p
	}
	if len(made) > 0 {
		return s.element(st.madeBefore(c, made[0])), nil
	}
	v := &volume{resource: s.fresh(st, "vol"), Zone: c.in.Get("AvailabilityZone"), Type: "gp2"}
	if p := s.place(v); p != nil {
		return query.Element{}, p
	}
	if v.Tags, p = tagsOnly(c.in, "volume"); p != nil {
		return query.Element{}, p
	}
	if v.Type = cmp.Or(c.in.Get("VolumeType"), v.Type); !slices.Contains(volumeTypes, v.Type) {
		return query.Element{}, bad("UnknownVolumeType", "Unsupported volume type '%s' for volume creation.", v.Type)
	}
	v.Size, _ = strconv.ParseInt(c.in.Get("Size"), 10, 64)
	if v.Key = c.in.Get("KmsKeyId"); c.in.True("Encrypted") {
		v.Key = cmp.Or(v.Key, "alias/aws/ebs")
	}
	if id := c.in.Get("SnapshotId"); id != "" {
		snap := st.Snapshots[id]
		switch {
		case snap == nil || !s.sees(snap):
			return query.Element{}, noSnapshot(id)
		case snap.State != snapshotDone:
			return query.Element{}, bad("IncorrectState", "Snapshot '%s' is not 'completed'.", id)
		case v.Size != 0 && v.Size < snap.Size:
			return query.Element{}, smaller(v.Size, snap.Size)
		}
		// Not verified on AWS, copies: a volume from a snapshot, and a snapshot of this volume, keep the billing of RHEL, SUSE and Marketplace disks.
		v.Snapshot, v.Size, v.Key, v.Details, v.Usage, v.Codes = id, max(v.Size, snap.Size), cmp.Or(v.Key, snap.Key), snap.Details, snap.Usage, snap.Codes
	}
	if v.Size == 0 {
		return query.Element{}, missing("size/snapshot")
	}
	st.Volumes[v.ID] = v
	st.plan(st.moment+s.config.Latencies.Volume, "volume.fill", v.ID, "")
	st.remember(c, v.ID)
	return s.element(v), nil
}

// volumeTypes are the types of volumes. Source: CreateVolume.
var volumeTypes = []string{"standard", "io1", "io2", "gp2", "gp3", "st1", "sc1"}

// place refuses a zone that does not exist.
func (s volumes) place(v *volume) *problem {
	switch {
	case v.Zone == "":
		return missing("availabilityZone")
	case !slices.ContainsFunc(s.config.Subnets, func(n Subnet) bool { return n.Zone == v.Zone }):
		return bad("InvalidZone.NotFound", "The zone '%s' does not exist.", v.Zone)
	}
	return nil
}

// madeBefore is the volume of an earlier request with the same client token. The answer stays the same after the volume's end.
func (st *state) madeBefore(c *call, id string) *volume {
	if v := st.Volumes[id]; v != nil {
		return v
	}
	return &volume{resource: resource{ID: id, Created: st.askedAt(c)}, Zone: c.in.Get("AvailabilityZone")}
}

func smaller(size, least int64) *problem {
	return bad("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot, expect size>= %dGB", size, least)
}

// fill copies a snapshot's content into an unattached volume.
func (s volumes) fill(st *state, e event) *work {
	v := st.Volumes[e.Target]
	if v == nil || v.Ready {
		return nil
	}
	if v.Key != "" && s.keyDenied(v.Key) { // EC2 uses the key after its answer; the volume vanishes
		// Not verified on AWS, copies: a volume whose encryption key cannot be used vanishes after the answer of `CreateVolume`.
		delete(st.Volumes, v.ID)
		return nil
	}
	from, blank := contentOf(st, v.Snapshot), v.Snapshot == ""
	return &work{
		do: func(ctx context.Context) error {
			if from == "" && !blank {
				return nil
			}
			return s.config.Fleet.CopyDisk(ctx, disk(e.Target), from)
		},
		then: func(st *state, _ time.Duration, _ error) {
			if v := st.Volumes[e.Target]; v != nil {
				v.Ready = true
			}
		},
	}
}

// contentOf is where the fleet has a snapshot's content; empty if it has none.
func contentOf(st *state, snap string) fleet.DiskID {
	found := st.Snapshots[snap]
	switch {
	case found == nil:
		return ""
	case found.Content != "":
		return found.Content
	}
	return disk(snap)
}

func (s volumes) delete(c *call, st *state) (query.Element, error) {
	id := c.in.Get("VolumeId")
	v := st.Volumes[id]
	if v == nil || !s.sees(v) {
		return query.Element{}, noVolume(id)
	}
	if p := s.changeable(c, v); p != nil {
		return query.Element{}, p
	}
	switch {
	case v.Instance != "":
		return query.Element{}, bad("VolumeInUse", "Volume %s is currently attached to %s", id, v.Instance)
	case !v.Ready:
		return query.Element{}, bad("IncorrectState", "The volume '%s' is in the 'creating' state.", id)
	}
	v.Deleting = true
	st.plan(st.moment+s.config.Latencies.Attach, "volume.end", id, "")
	return done(), nil
}

// end deletes a volume and its content.
func (s volumes) end(st *state, e event) *work {
	delete(st.Volumes, e.Target)
	return s.drop(st, e)
}

// drop deletes a volume's or a snapshot's content.
func (s volumes) drop(_ *state, e event) *work {
	return &work{
		do:   func(ctx context.Context) error { return s.config.Fleet.DeleteDisk(ctx, disk(e.Target)) },
		then: func(*state, time.Duration, error) {},
	}
}

func (s volumes) describe(c *call, st *state) (query.Element, error) {
	ids := c.in.Texts("VolumeId")
	all, p := byID(s.backend, st.Volumes, ids, noVolume)
	if p != nil {
		return query.Element{}, p
	}
	one := func(f func(*volume) string) func(*volume) []string {
		return func(v *volume) []string { return []string{f(v)} }
	}
	all, p = filtered(c, all, map[string]func(*volume) []string{
		"volume-id": one(func(v *volume) string { return v.ID }), "status": one((*volume).state),
		"snapshot-id":                      one(func(v *volume) string { return v.Snapshot }),
		"availability-zone":                one(func(v *volume) string { return v.Zone }),
		"attachment.instance-id":           one(func(v *volume) string { return v.Instance }),
		"attachment.device":                one(func(v *volume) string { return v.Device }),
		"attachment.status":                one((*volume).attachment),
		"encrypted":                        one(func(v *volume) string { return strconv.FormatBool(v.Key != "") }),
		"volume-type":                      one(func(v *volume) string { return v.Type }),
		"attachment.delete-on-termination": one(func(v *volume) string { return strconv.FormatBool(v.Temporary) }),
	}, func(v *volume) map[string]string { return v.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "volumeSet", all, 5, 1000, s.element)
}

func (s volumes) element(v *volume) query.Element {
	attachments := query.Of("attachmentSet")
	if v.Instance != "" {
		attachments.Kids = []query.Element{attachmentElement("item", v)}
	}
	e := query.Of("", query.Text("volumeId", v.ID), query.Int("size", v.Size), query.Text("snapshotId", v.Snapshot), query.Text("availabilityZone", v.Zone),
		query.Text("status", v.state()), query.Date("createTime", v.Created), attachments, query.Bool("encrypted", v.Key != ""), query.Text("kmsKeyId", v.Key),
		query.Text("volumeType", v.Type), query.Bool("multiAttachEnabled", false), tagSet(v.Tags))
	if v.Rate > 0 {
		e.Kids = append(e.Kids, query.Int("volumeInitializationRate", v.Rate))
	}
	return e
}

// rootOf is the root volume of an instance; nil for none.
func rootOf(st *state, i *instance) *volume {
	for _, v := range st.Volumes {
		if v.Instance == i.ID && v.Device == i.RootDevice {
			return v
		}
	}
	return nil
}

// volumesOf returns the volumes of an instance, by device.
func volumesOf(st *state, i *instance) []*volume {
	var out []*volume
	for _, v := range st.Volumes {
		if v.Instance == i.ID {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *volume) int { return strings.Compare(a.Device, b.Device) })
	return out
}
