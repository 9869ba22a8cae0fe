package aws

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// States of images.
const (
	imagePending   = "pending"
	imageAvailable = "available"
	imageFailed    = "failed"
	imageDisabled  = "disabled"
	imageGone      = "deregistered"
)

// device is an entry of a block device mapping.
type device struct {
	Name      string `json:"name"`
	Snapshot  string `json:"snapshot,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Type      string `json:"type,omitempty"`
	Key       string `json:"key,omitempty"`
	Rate      int64  `json:"rate,omitempty"`
	Temporary bool   `json:"temporary"`
	// Virtual is an instance store's name.
	Virtual string `json:"virtual,omitempty"`
}

// image is an AMI.
type image struct {
	resource
	Name, Description, Owner, State, Message                     string
	Architecture, Virtualization, RootDevice, BootMode, Sriov    string
	Tpm, Imds, Uefi, Details, SourceInstance, SourceImage, Usage string
	Ena, Protected                                               bool
	// Unbilled: an image that is registered from the disk loses the billing.
	Unbilled bool
	Codes    []string
	Devices  []device
	Gone     time.Time
	// DeprecateAt is a time as written; Launchers are the accounts that may launch the image.
	DeprecateAt string   `json:"deprecateAt,omitempty"`
	Launchers   []string `json:"launchers,omitempty"`
	// Due is the earliest time of availability, Fails the reason of a failure.
	Due   time.Duration
	Fails string
}

// images are AMIs.
type images struct {
	*backend
	snapshots snapshots
}

func (s images) actions() []*action {
	return []*action{
		{name: "RegisterImage", noun: "image", handle: s.register},
		{name: "CreateImage", noun: "image", handle: s.create},
		{name: "DeregisterImage", noun: "image", handle: s.deregister},
		{name: "DescribeImages", noun: "image", reads: true, handle: s.describe},
		{name: "DescribeImageAttribute", noun: "image", reads: true, handle: s.attribute},
		{name: "ModifyImageAttribute", noun: "image", handle: s.permit},
		{name: "CopyImage", noun: "image", handle: s.copyImage},
		{name: "EnableImageDeprecation", noun: "image", handle: s.deprecate},
		{name: "DisableImageDeprecation", noun: "image", handle: s.deprecate},
		{name: "EnableImageDeregistrationProtection", noun: "image", handle: s.protect},
		{name: "DisableImageDeregistrationProtection", noun: "image", handle: s.protect},
		{name: "DisableImage", noun: "image", handle: s.disable},
		{name: "EnableImage", noun: "image", handle: s.disable},
	}
}

func (s images) turns() map[string]turn {
	return map[string]turn{"image.look": s.completeImage, "image.forget": s.forget}
}

func noImage(id string) *problem {
	return bad("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}

// seed creates the images of other owners.
func (s images) seed(st *state) {
	for _, p := range s.config.Images {
		if st.Images[p.ID] != nil {
			continue
		}
		snap := &snapshot{resource: s.fresh(st, "snap"), Size: p.Size, Owner: p.Owner, State: snapshotDone, Content: p.Content, Copied: true, Hidden: true}
		im := &image{resource: s.fresh(st, "ami"), Name: p.Name, Owner: p.Owner, State: imageAvailable, Architecture: p.Architecture, Virtualization: "hvm",
			RootDevice: p.RootDevice, BootMode: p.BootMode, Sriov: "simple", Tpm: p.Tpm, Imds: "v2.0", Details: p.Details, Usage: p.Usage,
			Uefi: p.Uefi, Unbilled: p.Unbilled, Ena: true, Codes: p.Codes}
		for _, d := range []struct {
			field *string
			value string
		}{{&im.Owner, "137112412989"}, {&im.Architecture, "x86_64"}, {&im.RootDevice, "/dev/xvda"}, {&im.BootMode, "uefi-preferred"},
			{&im.Details, "Linux/UNIX"}, {&im.Usage, "RunInstances"}} {
			if *d.field == "" {
				*d.field = d.value
			}
		}
		if snap.Size == 0 {
			snap.Size = 20
		}
		im.ID, im.Seen, snap.Seen, snap.Owner = p.ID, 0, 0, im.Owner
		im.Devices = []device{{Name: im.RootDevice, Snapshot: snap.ID, Size: snap.Size, Type: "gp3", Temporary: true}}
		for _, name := range p.Disks {
			im.Devices = append(im.Devices, device{Name: name, Size: 10, Type: "gp3", Temporary: true})
		}
		st.Snapshots[snap.ID], st.Images[im.ID] = snap, im
	}
}

var imageName = regexp.MustCompile(`^[A-Za-z0-9()\[\] ./\-'@_]{3,128}$`)

// mayName checks a new image's name, and the quota. A name is taken as soon as it was asked for, seen or not.
func (s images) mayName(st *state, name string) *problem {
	if !imageName.MatchString(name) {
		return bad("InvalidAMIName.Malformed",
			"AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '[', ']', ' ', '.', '/', '-', ''', '@' and '_'")
	}
	own := 0
	for _, im := range st.Images {
		if im.Owner != s.config.Account || im.State == imageGone {
			continue
		}
		if own++; im.Name == name && im.State != imageFailed {
			return bad("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", name, im.ID)
		}
	}
	if own >= s.config.ImageQuota {
		return bad("AMIQuotaExceeded",
			"You have reached your quota of %d public and private AMIs allowed in this Region. Deregister unused AMIs, "+
				"or request an increase in your AMIs quota.", s.config.ImageQuota)
	}
	return nil
}

// register creates an image from snapshots. The defaults fit no current machine: i386, paravirtual, no enhanced
// networking. Without a client token, the name prevents duplicates.
func (s images) register(c *call, st *state) (query.Element, error) {
	name := c.in.Get("Name")
	if p := s.mayName(st, name); p != nil {
		return query.Element{}, p
	}
	im := &image{resource: s.fresh(st, "ami"), Name: name, Description: c.in.Get("Description"), Owner: s.config.Account, State: imagePending,
		Architecture: "i386", Virtualization: "paravirtual", RootDevice: c.in.Get("RootDeviceName"), BootMode: c.in.Get("BootMode"),
		Sriov: c.in.Get("SriovNetSupport"), Tpm: c.in.Get("TpmSupport"), Imds: c.in.Get("ImdsSupport"), Uefi: c.in.Get("UefiData"),
		Ena: c.in.True("EnaSupport"), Details: "Linux/UNIX", Usage: "RunInstances", Fails: c.fails()}
	if v := c.in.Get("Architecture"); v != "" {
		im.Architecture = v
	}
	if v := c.in.Get("VirtualizationType"); v != "" {
		im.Virtualization = v
	}
	if p := s.fit(im); p != nil {
		return query.Element{}, p
	}
	var p *problem
	if im.Devices, p = s.devices(st, c.in, im.RootDevice); p != nil {
		return query.Element{}, p
	}
	if im.Tags, p = tagsOnly(c.in, "image"); p != nil {
		return query.Element{}, p
	}
	for _, d := range im.Devices { // the root snapshot decides the billing
		if snap := st.Snapshots[d.Snapshot]; d.Name == im.RootDevice && snap != nil && snap.Details != "" {
			im.Details, im.Usage, im.Codes = snap.Details, snap.Usage, snap.Codes
		}
	}
	s.add(st, im)
	return query.Of("", query.Text("imageId", im.ID)), nil
}

// fit checks an image for contradictions.
func (s images) fit(im *image) *problem {
	switch {
	case !slices.Contains([]string{"i386", "x86_64", "arm64", "x86_64_mac", "arm64_mac"}, im.Architecture):
		return bad("InvalidParameterValue", "Invalid value '%s' for architecture", im.Architecture)
	case im.RootDevice == "":
		return missing("rootDeviceName")
	case im.Virtualization != "hvm" && (im.Ena || im.Sriov != ""):
		return bad("InvalidParameterCombination", "Enhanced networking is only supported for AMIs with a virtualization type of hvm")
	case im.Architecture == "arm64" && im.Virtualization != "hvm":
		return bad("InvalidParameterCombination", "The architecture 'arm64' requires the virtualization type 'hvm'")
	case im.Tpm != "" && im.BootMode == "legacy-bios" || im.Tpm != "" && im.BootMode == "":
		return bad("InvalidParameterCombination", "TpmSupport requires a boot mode of uefi")
	}
	return nil
}

// devices reads a mapping. Encryption follows the snapshot, and must not be said.
func (s images) devices(st *state, in *query.Value, root string) ([]device, *problem) {
	var out []device
	for _, m := range in.List("BlockDeviceMapping") {
		d, p := deviceOf(m, device{Temporary: true, Type: "gp2"})
		if p != nil {
			return nil, p
		}
		if m.Has("Ebs.Encrypted") {
			return nil, bad("InvalidParameterCombination",
				"The parameter Encrypted cannot be specified in a block device mapping when registering an image from a snapshot; "+
					"the encryption status follows the snapshot")
		}
		if d.Virtual == "" {
			if p := s.backing(st, &d, root); p != nil {
				return nil, p
			}
		}
		out = append(out, d)
	}
	if !slices.ContainsFunc(out, func(d device) bool { return d.Name == root }) {
		return nil, bad("InvalidBlockDeviceMapping", "The root device name %s is not in the block device mapping", root)
	}
	return out, nil
}

// backing checks the snapshot of a device, and copies its properties.
func (s images) backing(st *state, d *device, root string) *problem {
	snap := st.Snapshots[d.Snapshot]
	switch {
	case d.Snapshot == "" && d.Name == root:
		return bad("InvalidBlockDeviceMapping", "The block device mapping of the root device requires a snapshotId")
	case d.Snapshot == "":
		return nil
	case snap == nil || !s.sees(snap):
		return noSnapshot(d.Snapshot)
	case snap.State != snapshotDone:
		return bad("InvalidSnapshot.NotReady", "The snapshot '%s' is not in the 'completed' state (it is '%s').", d.Snapshot, snap.State)
	case d.Size != 0 && d.Size < snap.Size:
		return smaller(d.Size, snap.Size)
	}
	d.Size, d.Key = max(d.Size, snap.Size), snap.Key
	return nil
}

// deviceOf reads an entry of a mapping, over an existing entry.
func deviceOf(m *query.Value, d device) (device, *problem) {
	d.Name, d.Virtual = m.Get("DeviceName"), m.Get("VirtualName")
	for path, field := range map[string]*string{"Ebs.SnapshotId": &d.Snapshot, "Ebs.VolumeType": &d.Type, "Ebs.KmsKeyId": &d.Key} {
		if v := m.Get(path); v != "" {
			*field = v
		}
	}
	for path, field := range map[string]*int64{"Ebs.VolumeSize": &d.Size, "Ebs.VolumeInitializationRate": &d.Rate} {
		if v := m.Get(path); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return d, bad("InvalidParameterValue", "Invalid value '%s' for %s", v, path)
			}
			*field = n
		}
	}
	if d.Rate != 0 && (d.Rate < 100 || d.Rate > 300) {
		return d, bad("InvalidParameterValue", "The volume initialization rate must be between 100 and 300 MiB/s")
	}
	if m.Has("Ebs.DeleteOnTermination") {
		d.Temporary = m.True("Ebs.DeleteOnTermination")
	}
	if m.True("Ebs.Encrypted") && d.Key == "" {
		d.Key = "alias/aws/ebs"
	}
	return d, nil
}

// add stores a new image. The image becomes available after the latency, and not before its snapshots are complete.
func (s images) add(st *state, im *image) {
	im.Due = st.moment + s.config.Latencies.Image
	st.Images[im.ID] = im
	st.plan(im.Due, "image.look", im.ID, "")
}

// create creates an image of an instance, with all its properties. Unless NoReboot is set, the instance reboots.
func (s images) create(c *call, st *state) (query.Element, error) {
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	if p := s.mayName(st, c.in.Get("Name")); p != nil {
		return query.Element{}, p
	}
	if i.State != running && i.State != stopped {
		return query.Element{}, wrongState(i)
	}
	of := st.Images[i.Image]
	im := &image{resource: s.fresh(st, "ami"), Name: c.in.Get("Name"), Description: c.in.Get("Description"), Owner: s.config.Account, State: imagePending,
		Architecture: i.Architecture, Virtualization: "hvm", RootDevice: i.RootDevice, Ena: true, SourceInstance: i.ID, SourceImage: i.Image,
		Details: i.Details, Usage: i.Usage, Sriov: "simple", Fails: c.fails()}
	if of != nil {
		im.BootMode, im.Tpm, im.Imds, im.Uefi, im.Codes = of.BootMode, of.Tpm, of.Imds, of.Uefi, of.Codes
	}
	if im.Tags, p = tagsOnly(c.in, "image", "snapshot"); p != nil {
		return query.Element{}, p
	}
	im.Tags, _ = tagsFor(c.in, "image")
	shots, _ := tagsFor(c.in, "snapshot")
	for _, v := range volumesOf(st, i) {
		snap := s.snapshots.begin(st, v, "Created by CreateImage("+i.ID+") for "+im.ID, "")
		snap.Tags = shots
		im.Devices = append(im.Devices, device{Name: v.Device, Snapshot: snap.ID, Size: v.Size, Type: v.Type, Key: v.Key, Temporary: v.Temporary})
	}
	s.add(st, im)
	if !c.in.True("NoReboot") && i.State == running {
		st.plan(st.moment, "instance.reboot", i.ID, "")
	}
	return query.Of("", query.Text("imageId", im.ID)), nil
}

// completeImage makes an image available when its snapshots are complete.
func (s images) completeImage(st *state, e event) *work {
	im := st.Images[e.Target]
	if im == nil || im.State != imagePending || e.At < im.Due {
		return nil
	}
	for _, d := range im.Devices {
		snap := st.Snapshots[d.Snapshot]
		switch {
		case d.Snapshot == "":
		case snap == nil || snap.State == snapshotFailed:
			im.Fails = "Client.InvalidSnapshot: snapshot " + d.Snapshot + " failed"
		case snap.State == snapshotPending:
			return nil // the end of the snapshot checks the image again
		}
	}
	im.State = imageAvailable
	if at := slices.IndexFunc(im.Devices, func(d device) bool { return d.Name == im.RootDevice }); at >= 0 && im.Fails == "" && s.config.Registered != nil {
		if err := s.config.Registered(im.Name, contentOf(st, im.Devices[at].Snapshot)); err != nil {
			im.Fails = "Server.InternalError: " + err.Error()
		}
	}
	if im.Fails != "" {
		im.State, im.Message = imageFailed, im.Fails
	}
	return nil
}

// deregister deletes an image. On request, its snapshots are deleted, too, unless another image uses them.
func (s images) deregister(c *call, st *state) (query.Element, error) {
	im := st.Images[c.in.Get("ImageId")]
	switch {
	case im == nil || !s.sees(im):
		return query.Element{}, noImage(c.in.Get("ImageId"))
	case im.State == imageGone:
		return query.Element{}, bad("InvalidAMIID.Unavailable", "The image ID '%s' is no longer available", im.ID)
	case im.Owner != s.config.Account:
		return query.Element{}, bad("AuthFailure", "Not authorized for image:%s", im.ID)
	case im.Protected:
		return query.Element{}, bad("OperationNotPermitted",
			"The image '%s' may not be deregistered. Disable its deregistration protection, and try again.", im.ID)
	}
	if p := s.changeable(c, im); p != nil {
		return query.Element{}, p
	}
	im.State, im.Gone = imageGone, s.stamp()
	st.plan(st.moment+s.config.Latencies.Forget, "image.forget", im.ID, "")
	out := query.Of("", query.Bool("return", true))
	if !c.in.True("DeleteAssociatedSnapshots") {
		return out, nil
	}
	results := query.Of("deleteSnapshotResultSet")
	for _, d := range im.Devices {
		snap := st.Snapshots[d.Snapshot]
		code := "success"
		switch {
		case snap == nil:
			continue
		case backedBy(st, snap.ID) != nil:
			code = "skipped"
		default:
			s.snapshots.remove(st, snap)
		}
		results.Kids = append(results.Kids, query.Of("item", query.Text("snapshotId", d.Snapshot), query.Text("returnCode", code)))
	}
	out.Kids = append(out.Kids, results)
	return out, nil
}

func (s images) forget(st *state, e event) *work {
	delete(st.Images, e.Target)
	return nil
}

func (s images) protect(c *call, st *state) (query.Element, error) {
	im := st.Images[c.in.Get("ImageId")]
	if im == nil || !s.sees(im) || im.Owner != s.config.Account {
		return query.Element{}, noImage(c.in.Get("ImageId"))
	}
	im.Protected = strings.HasPrefix(c.action.name, "Enable")
	return query.Of("", query.Text("return", strconv.FormatBool(im.Protected))), nil
}

func (s images) describe(c *call, st *state) (query.Element, error) {
	ids := c.in.Texts("ImageId")
	all, p := byID(s.backend, st.Images, ids, noImage)
	if p != nil {
		return query.Element{}, p
	}
	owners := c.in.Texts("Owner")
	// A deregistered image stays visible by its ID for a while.
	// Not verified on AWS, images: a disabled image is left out of every list without `IncludeDisabled`, also by its ID.
	disabled := c.in.True("IncludeDisabled")
	all = slices.DeleteFunc(all, func(v *image) bool {
		return !ownedBy(owners, v.Owner, s.config.Account) || v.State == imageGone && len(ids) == 0 || v.State == imageDisabled && !disabled
	})
	one := func(f func(*image) string) func(*image) []string {
		return func(v *image) []string { return []string{f(v)} }
	}
	all, p = filtered(c, all, map[string]func(*image) []string{
		"image-id": one(func(v *image) string { return v.ID }), "name": one(func(v *image) string { return v.Name }),
		"state": one(func(v *image) string { return v.State }), "architecture": one(func(v *image) string { return v.Architecture }),
		"owner-id": one(func(v *image) string { return v.Owner }), "virtualization-type": one(func(v *image) string { return v.Virtualization }),
		"root-device-type": one(func(*image) string { return "ebs" }), "description": one(func(v *image) string { return v.Description }),
		"is-public": one(func(v *image) string { return strconv.FormatBool(v.Owner != s.config.Account) }),
		"block-device-mapping.snapshot-id": func(v *image) []string {
			var out []string
			for _, d := range v.Devices {
				out = append(out, d.Snapshot)
			}
			return out
		},
	}, func(v *image) map[string]string { return v.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "imagesSet", all, 1, 1000, s.element)
}

// attribute returns the UEFI data, which DescribeImages omits.
func (s images) attribute(c *call, st *state) (query.Element, error) {
	im := st.Images[c.in.Get("ImageId")]
	if im == nil || !s.sees(im) {
		return query.Element{}, noImage(c.in.Get("ImageId"))
	}
	out := query.Of("", query.Text("imageId", im.ID))
	switch name := c.in.Get("Attribute"); name {
	case "launchPermission":
		out.Kids = append(out.Kids, query.List("launchPermission", "item", im.Launchers,
			func(account string) query.Element { return query.Of("", query.Text("userId", account)) }))
	case "uefiData":
		out.Kids = append(out.Kids, query.Of("uefiData", query.Text("value", im.Uefi)))
	case "bootMode":
		out.Kids = append(out.Kids, query.Of("bootMode", query.Text("value", im.BootMode)))
	case "description":
		out.Kids = append(out.Kids, query.Of("description", query.Text("value", im.Description)))
	default:
		return query.Element{}, bad("InvalidParameterValue", "Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	return out, nil
}

func (s images) element(v *image) query.Element {
	e := query.Of("", query.Text("imageId", v.ID), query.Text("imageLocation", v.Owner+"/"+v.Name), query.Text("imageState", v.State),
		query.Text("imageOwnerId", v.Owner),
		query.Bool("isPublic", v.Owner != s.config.Account), query.Text("architecture", v.Architecture), query.Text("imageType", "machine"),
		query.Text("name", v.Name),
		query.Text("description", v.Description), query.Text("rootDeviceType", "ebs"), query.Text("rootDeviceName", v.RootDevice),
		query.Text("virtualizationType", v.Virtualization), query.Text("hypervisor", "xen"), query.Bool("enaSupport", v.Ena),
		query.Text("sriovNetSupport", v.Sriov),
		query.Text("bootMode", v.BootMode), query.Text("tpmSupport", v.Tpm), query.Text("imdsSupport", v.Imds), query.Text("platformDetails", v.Details),
		query.Text("usageOperation", v.Usage), query.Date("creationDate", v.Created), query.Text("deprecationTime", v.DeprecateAt),
		query.Text("sourceInstanceId", v.SourceInstance),
		query.Text("sourceImageId", v.SourceImage), query.Text("deregistrationProtection", map[bool]string{true: "enabled", false: "disabled"}[v.Protected]),
		query.List("blockDeviceMapping", "item", v.Devices, deviceElement), tagSet(v.Tags))
	if v.Owner != s.config.Account {
		e.Kids = append(e.Kids, query.Text("imageOwnerAlias", "amazon"))
	}
	e.Kids = append(e.Kids, codesElement(v.Codes))
	if v.Message != "" {
		e.Kids = append(e.Kids, query.Of("stateReason", query.Text("code", strings.SplitN(v.Message, ":", 2)[0]), query.Text("message", v.Message)))
	}
	return e
}

func deviceElement(d device) query.Element {
	if d.Virtual != "" {
		return query.Of("", query.Text("deviceName", d.Name), query.Text("virtualName", d.Virtual))
	}
	ebs := query.Of("ebs", query.Text("snapshotId", d.Snapshot), query.Int("volumeSize", d.Size), query.Bool("deleteOnTermination", d.Temporary),
		query.Text("volumeType", d.Type), query.Bool("encrypted", d.Key != ""), query.Text("kmsKeyId", d.Key))
	if d.Rate > 0 {
		ebs.Kids = append(ebs.Kids, query.Int("VolumeInitializationRate", d.Rate))
	}
	return query.Of("", query.Text("deviceName", d.Name), ebs)
}
