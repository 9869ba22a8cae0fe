package aws

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// States of an attachment.
const (
	attaching = "attaching"
	attached  = "attached"
	detaching = "detaching"
)

// maxAttachments is how many volumes an instance has at most, the root volume included. On most Nitro types network interfaces
// count as well. Source: "Amazon EBS volume limits for Amazon EC2 instances".
const maxAttachments = 27

// deviceName is a name for a device of a Linux instance. Source: "Device names for volumes".
var deviceName = regexp.MustCompile(`^(/dev/)?(sd[a-z][0-9]{0,2}|xvd[a-z]{1,2}[0-9]{0,2})$`)

// volumeAttachments attach volumes to instances that exist, and detach volumes.
type volumeAttachments struct{ *backend }

func (s volumeAttachments) actions() []*action {
	return []*action{
		{name: "AttachVolume", noun: "volume", handle: s.attach},
		{name: "DetachVolume", noun: "volume", handle: s.detach},
	}
}

func (s volumeAttachments) turns() map[string]turn {
	return map[string]turn{"volume.attach": s.plug, "volume.detach": s.unplug}
}

// volume is the volume of a call, if the caller may change it.
func (s volumeAttachments) volume(c *call, st *state) (*volume, *problem) {
	id := c.in.Get("VolumeId")
	v := st.Volumes[id]
	if v == nil || !s.sees(v) {
		return nil, noVolume(id)
	}
	return v, s.changeable(c, v)
}

// attach makes a volume a disk of a running or stopped instance. The guest sees the disk later.
func (s volumeAttachments) attach(c *call, st *state) (query.Element, error) {
	v, p := s.volume(c, st)
	if p != nil {
		return query.Element{}, p
	}
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	name := c.in.Get("Device")
	if name == "" {
		return query.Element{}, missing("device")
	}
	if p := s.refuse(st, v, i, name); p != nil {
		return query.Element{}, p
	}
	v.Instance, v.Device, v.Temporary, v.Attached, v.Attachment = i.ID, name, false, s.stamp(), attaching
	st.plan(st.moment+s.config.Latencies.Attach, "volume.attach", v.ID, i.ID)
	return attachmentElement("", v), nil
}

// refuse refuses an impossible attachment, in EC2's words.
func (s volumeAttachments) refuse(st *state, v *volume, i *instance, name string) *problem {
	have := volumesOf(st, i)
	switch {
	case v.Instance != "":
		return bad("VolumeInUse", "%s is already attached to an instance", v.ID)
	case v.state() != "available":
		return bad("IncorrectState", "%s is not 'available'.", v.ID)
	case i.State != running && i.State != stopped:
		return bad("IncorrectState", "Instance '%s' is not 'running'.", i.ID)
	case v.Zone != i.Zone:
		return bad("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", v.ID, i.ID)
	case len(v.Codes) > 0 && i.State != stopped:
		return bad("OperationNotPermitted", "'%s' with Marketplace codes may not be attached as a secondary device.", v.ID)
	case !deviceName.MatchString(name):
		return bad("InvalidParameterValue", "Value (%s) for parameter device is invalid. %s is not a valid EBS device name.", name, name)
	case slices.ContainsFunc(have, func(o *volume) bool { return o.Device == name }):
		return bad("InvalidParameterValue", "Invalid value '%s' for unixDevice. Attachment point %s is already in use", name, name)
	case len(have) >= maxAttachments:
		return bad("AttachmentLimitExceeded", "The maximum number of attachments for instance '%s' has been reached.", i.ID)
	}
	return nil
}

// serial is the serial number that a guest sees. Source: "Amazon EBS volumes and NVMe".
func serial(volume string) string { return strings.ReplaceAll(volume, "-", "") }

// plug shows the disk to the guest.
func (s volumeAttachments) plug(st *state, e event) *work {
	v, i := st.Volumes[e.Target], st.Instances[e.Note]
	if v == nil || v.Instance != e.Note || v.Attachment != attaching {
		return nil
	}
	if i == nil || !i.Machine {
		v.free()
		return nil
	}
	return &work{
		on: []string{e.Note},
		do: func(ctx context.Context) error {
			return s.config.Fleet.Attach(ctx, e.Note, disk(e.Target), serial(e.Target))
		},
		then: func(st *state, _ time.Duration, err error) {
			v := st.Volumes[e.Target]
			switch {
			case v == nil || v.Instance != e.Note || v.Attachment != attaching: // the instance ended meanwhile
			case err != nil:
				v.free()
			default:
				v.Attachment = attached
			}
		},
	}
}

// detach takes a volume from its instance. The root volume of a running instance stays.
func (s volumeAttachments) detach(c *call, st *state) (query.Element, error) {
	v, p := s.volume(c, st)
	if p != nil {
		return query.Element{}, p
	}
	id, device, i := c.in.Get("InstanceId"), c.in.Get("Device"), st.Instances[v.Instance]
	_ = c.in.True("Force")
	switch {
	case v.Instance == "":
		return query.Element{}, bad("IncorrectState", "Volume '%s' is in the 'available' state.", v.ID)
	case id != "" && id != v.Instance || device != "" && device != v.Device:
		return query.Element{}, bad("InvalidAttachment.NotFound", "The volume '%s' is not attached to instance '%s' as device '%s'.", v.ID, id, device)
	case v.attachment() != attached:
		return query.Element{}, bad("IncorrectState", "Volume '%s' is in the '%s' state.", v.ID, v.attachment())
	case i != nil && v.Device == i.RootDevice && i.State != stopped:
		return query.Element{}, bad("OperationNotPermitted", "Unable to detach root volume '%s' from instance '%s'", v.ID, i.ID)
	}
	v.Attachment = detaching
	st.plan(st.moment+s.config.Latencies.Attach, "volume.detach", v.ID, v.Instance)
	return attachmentElement("", v), nil
}

// unplug takes the disk from the guest.
func (s volumeAttachments) unplug(st *state, e event) *work {
	v := st.Volumes[e.Target]
	if v == nil || v.Instance != e.Note || v.Attachment != detaching {
		return nil
	}
	return &work{
		on: []string{e.Note},
		do: func(ctx context.Context) error { return s.config.Fleet.Detach(ctx, e.Note, disk(e.Target)) },
		then: func(st *state, _ time.Duration, _ error) {
			if v := st.Volumes[e.Target]; v != nil && v.Instance == e.Note {
				v.free()
			}
		},
	}
}

// attachment is the state of a volume's attachment; empty without one.
func (v *volume) attachment() string {
	switch {
	case v.Instance == "":
		return ""
	case v.Attachment == "": // since the launch of the instance
		return attached
	}
	return v.Attachment
}

// free ends the attachment of a volume.
func (v *volume) free() { v.Instance, v.Device, v.Attachment = "", "", "" }

// attachmentElement is the attachment of a volume.
func attachmentElement(name string, v *volume) query.Element {
	return query.Of(name, query.Text("volumeId", v.ID), query.Text("instanceId", v.Instance), query.Text("device", v.Device),
		query.Text("status", v.attachment()), query.Date("attachTime", v.Attached), query.Bool("deleteOnTermination", v.Temporary))
}
