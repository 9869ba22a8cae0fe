package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// PoolTag names the pool of an instance without a group.
const PoolTag = "pool"

// runs make instances, for requests and for groups.
type runs struct {
	*backend
	instances instances
}

func (s runs) actions() []*action {
	return []*action{{name: "RunInstances", noun: "instance", handle: s.run}}
}

func (s runs) turns() map[string]turn { return map[string]turn{"instance.launch": s.launch} }

// order describes a new instance.
type order struct {
	// data is the template's data with overrides.
	data     *query.Value
	template *template
	version  int64
	subnet   string
	spot     bool
	token    string
	fails    string
	tags     map[string]string
}

// run makes instances. The same client token is answered with the same instances.
func (s runs) run(c *call, st *state) (query.Element, error) {
	made, p := st.repeated(c)
	if p != nil {
		return query.Element{}, p
	}
	if len(made) > 0 {
		return s.answer(st, made), nil
	}
	least, err := strconv.Atoi(c.in.Get("MinCount"))
	most, wrong := strconv.Atoi(c.in.Get("MaxCount"))
	if err != nil || wrong != nil || least < 1 || most < least {
		return query.Element{}, bad("InvalidParameterValue",
			"Value (%s) for parameter minCount is invalid; it must be at least 1 and at most maxCount (%s)", c.in.Get("MinCount"), c.in.Get("MaxCount"))
	}
	o, p := s.order(c, st)
	if p != nil {
		return query.Element{}, p
	}
	if p := s.check(st, o); p != nil {
		return query.Element{}, p
	}
	reservation := newID("r")
	for index := range most {
		made = append(made, s.make(st, o, reservation, index).ID)
	}
	st.remember(c, made...)
	return s.answer(st, made), nil
}

func (s runs) answer(st *state, made []string) query.Element {
	r := reserved{}
	for _, id := range made {
		if i := st.Instances[id]; i != nil {
			r.id, r.all = i.Reservation, append(r.all, i)
		}
	}
	return s.instances.reservation(st, r)
}

// order reads the description of an instance from a request.
func (s runs) order(c *call, st *state) (order, *problem) {
	o := order{data: &query.Value{}, token: c.in.Get("ClientToken"), fails: c.fails(), tags: map[string]string{}}
	if c.in.Has("LaunchTemplate") {
		t, p := st.template(c.in.Get("LaunchTemplate.LaunchTemplateId"), c.in.Get("LaunchTemplate.LaunchTemplateName"))
		if p != nil {
			return o, p
		}
		v, p := t.version(c.in.Get("LaunchTemplate.Version"))
		if p != nil {
			return o, p
		}
		o.template, o.version, o.data = t, v.Number, v.Data
	}
	given := c.in.Rest("Action", "Version", "LaunchTemplate", "MinCount", "MaxCount", "ClientToken", "DryRun", "BlockDeviceMapping")
	devices := merged(o.data, c.in)
	o.data = o.data.Over(given)
	if devices != nil {
		o.data.Parts["BlockDeviceMapping"] = devices
	}
	p := s.tag(&o)
	if p != nil {
		return o, p
	}
	o.subnet = c.in.Get("SubnetId")
	if id := o.data.Get("NetworkInterface.1.SubnetId"); o.subnet == "" && id != "" {
		o.subnet = id
	}
	if o.subnet == "" {
		o.subnet = s.config.Subnets[0].ID
	}
	o.spot = o.data.Get("InstanceMarketOptions.MarketType") == "spot"
	return o, nil
}

// merged lays a request's block devices over the template's, by their names; nil if neither has any.
func merged(below, above *query.Value) *query.Value {
	out := &query.Value{Parts: map[string]*query.Value{}}
	number := map[string]string{}
	for _, from := range []*query.Value{below, above} {
		for _, m := range from.List("BlockDeviceMapping") {
			name := m.Get("DeviceName")
			if number[name] == "" {
				number[name] = strconv.Itoa(len(number) + 1)
			}
			out.Parts[number[name]] = m.Copy()
		}
	}
	if len(number) == 0 {
		return nil
	}
	return out
}

// tag reads the instance's tags from the data, and adds AWS's tags for instances of templates.
func (s runs) tag(o *order) *problem {
	all, p := tagsFor(o.data, "instance")
	if p != nil {
		return p
	}
	o.tags = all
	if o.template != nil {
		all["aws:ec2launchtemplate:id"], all["aws:ec2launchtemplate:version"] = o.template.ID, strconv.FormatInt(o.version, 10)
	}
	return nil
}

// check refuses impossible launches, in EC2's order.
func (s runs) check(st *state, o order) *problem {
	im := st.Images[s.resolved(o.data.Get("ImageId"))]
	kind := o.data.Get("InstanceType")
	if kind == "" {
		kind = "m1.small"
	}
	all := s.subnets(st)
	subnet := slices.IndexFunc(all, func(n Subnet) bool { return n.ID == o.subnet })
	switch {
	case !o.data.Has("ImageId"):
		return missing("ImageId")
	case im == nil || !s.sees(im):
		return noImage(o.data.Get("ImageId"))
	case im.State != imageAvailable:
		return bad("InvalidAMIID.Unavailable", "The image ID '%s' is no longer available", im.ID)
	case subnet < 0:
		return bad("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.subnet)
	case im.Architecture != architecture(kind):
		return bad("InvalidParameterValue",
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. "+
				"Specify an instance type and an AMI that have matching architectures, and try again.", architecture(kind), im.Architecture)
	case im.Virtualization != "hvm":
		return bad("InvalidParameterCombination",
			"The instance type '%s' does not support an AMI with a virtualization type of '%s'. "+
				"Specify an instance type that supports this virtualization type.", kind, im.Virtualization)
	case !im.Ena:
		return bad("InvalidParameterCombination",
			"Enhanced networking with the Elastic Network Adapter (ENA) is required for the '%s' instance type. "+
				"Ensure that you are using an AMI that is enabled for ENA.", kind)
	}
	devices, p := s.devicesOf(st, im, o.data)
	if p != nil {
		return p
	}
	for _, d := range devices {
		if d.Key != "" && s.keyDenied(d.Key) {
			return bad("Client.InternalError", "Client error on launch: the KMS key %s is not accessible", d.Key)
		}
	}
	return s.capacity(st, kind, all[subnet].Zone)
}

// capacity refuses exhausted types.
func (s runs) capacity(st *state, kind, zone string) *problem {
	if slices.Contains(st.Full, kind) || slices.Contains(st.Full, kind+"/"+zone) || slices.Contains(st.Full, "*") {
		return refuse(http.StatusInternalServerError, "InsufficientInstanceCapacity",
			"We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). "+
				"Our system will be working on provisioning additional capacity. "+
				"You can currently get %s capacity by not specifying an Availability Zone in your request or choosing another one.", kind, zone, kind)
	}
	return nil
}

// architecture of an instance type: those with a "g" behind the generation are ARM's.
func architecture(kind string) string {
	family, _, _ := strings.Cut(kind, ".")
	if n := strings.IndexAny(family, "123456789"); n >= 0 && strings.Contains(family[n+1:], "g") || family == "a1" {
		return "arm64"
	}
	return "x86_64"
}

// devicesOf returns an image's devices, with the overrides of a launch.
func (s runs) devicesOf(st *state, im *image, data *query.Value) ([]device, *problem) {
	out := slices.Clone(im.Devices)
	for _, m := range data.List("BlockDeviceMapping") {
		name := m.Get("DeviceName")
		at := slices.IndexFunc(out, func(d device) bool { return d.Name == name })
		below := device{Temporary: true, Type: "gp2"}
		if at >= 0 {
			below = out[at]
		}
		d, p := deviceOf(m, below)
		if p != nil {
			return nil, p
		}
		snap := st.Snapshots[d.Snapshot]
		switch {
		case m.Has("NoDevice"):
			out = slices.DeleteFunc(out, func(d device) bool { return d.Name == name })
			continue
		case d.Snapshot != "" && snap == nil:
			return nil, noSnapshot(d.Snapshot)
		case snap != nil && d.Size < snap.Size && d.Size != 0:
			return nil, smaller(d.Size, snap.Size)
		case d.Virtual == "" && snap == nil && d.Size == 0:
			return nil, missing("size/snapshot")
		}
		if at >= 0 {
			out[at] = d
		} else {
			out = append(out, d)
		}
	}
	return out, nil
}

// make creates a checked instance.
func (s runs) make(st *state, o order, reservation string, index int) *instance {
	im := st.Images[s.resolved(o.data.Get("ImageId"))]
	devices, _ := s.devicesOf(st, im, o.data)
	i := &instance{resource: s.fresh(st, "i"), Reservation: reservation, Index: index, State: pending, Image: im.ID, Type: o.data.Get("InstanceType"),
		Architecture: im.Architecture, Details: im.Details, Usage: im.Usage, Codes: im.Codes, Uefi: im.Uefi, BootMode: im.BootMode, Tpm: im.Tpm, Imds: im.Imds,
		RootDevice: im.RootDevice, Subnet: o.subnet, Token: o.token,
		Spot: o.spot, Data: o.data.Copy("TagSpecification"), Shutdown: "stop", Fails: o.fails,
		KeepOn: o.data.True("DisableApiStop"), KeepAlive: o.data.True("DisableApiTermination")}
	if i.Type == "" {
		i.Type = "m1.small"
	}
	if v := o.data.Get("InstanceInitiatedShutdownBehavior"); v != "" {
		i.Shutdown = v
	}
	for k, v := range o.tags {
		i.Tags[k] = v
	}
	i.Operator = o.data.Get("Operator.Principal")
	i.Launched = i.Created
	for _, n := range s.subnets(st) {
		if n.ID == i.Subnet {
			i.Zone = n.Zone
		}
	}
	i.Address = s.address(st, i)
	volumeTags, _ := tagsFor(o.data, "volume")
	for _, d := range devices {
		if d.Virtual != "" {
			i.Store = append(i.Store, d)
			continue
		}
		s.attach(st, i, d, volumeTags)
	}
	i.Interface = resource{ID: interfaceID(i.ID), Created: i.Created, Seen: i.Seen, Operator: i.Operator}
	i.Interface.Tags, _ = tagsFor(o.data, "network-interface")
	st.Instances[i.ID] = i
	st.plan(st.moment+s.config.Latencies.Launch, "instance.launch", i.ID, "")
	return i
}

// address assigns a free address to an instance.
func (s runs) address(st *state, i *instance) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(i.ID)) // never fails
	for n := h.Sum32(); ; n++ {
		address := fmt.Sprintf("10.%d.%d.%d", n>>16&127, n>>8&255, n&255)
		taken := false
		for _, other := range st.Instances {
			taken = taken || other.Address == address && other.State != terminated
		}
		if !taken {
			return address
		}
	}
}

// attach makes a volume for a device. Its content comes with the launch.
func (s runs) attach(st *state, i *instance, d device, all map[string]string) {
	v := &volume{resource: s.fresh(st, "vol"), Zone: i.Zone, Size: d.Size, Type: d.Type, Snapshot: d.Snapshot, Key: d.Key, Rate: d.Rate, Ready: true,
		Instance: i.ID, Device: d.Name, Temporary: d.Temporary, Attached: i.Launched}
	for k, value := range all {
		v.Tags[k] = value
	}
	st.Volumes[v.ID] = v
}

// launch has the fleet make the machine.
func (s runs) launch(st *state, e event) *work {
	i := st.Instances[e.Target]
	if i == nil || i.State != pending {
		return nil
	}
	type copying struct{ to, from fleet.DiskID }
	var disks []copying
	for _, v := range volumesOf(st, i) {
		if from := contentOf(st, v.Snapshot); from != "" {
			disks = append(disks, copying{disk(v.ID), from})
		}
	}
	spec, fails := s.spec(st, i), i.Fails
	return &work{
		do: func(ctx context.Context) error {
			if fails != "" {
				return fmt.Errorf("%s", fails)
			}
			for _, d := range disks {
				if err := s.config.Fleet.CopyDisk(ctx, d.to, d.from); err != nil {
					return err
				}
			}
			return s.config.Fleet.Launch(ctx, spec)
		},
		then: func(st *state, now time.Duration, err error) { s.launched(st, e.Target, now, err) },
	}
}

// launched records the result of a launch. A failed launch terminates the instance.
func (s runs) launched(st *state, id string, now time.Duration, err error) {
	i := st.Instances[id]
	if i == nil {
		return
	}
	i.Machine = err == nil
	switch {
	case err != nil:
		reason := i.Fails
		if reason == "" {
			reason = "Server.InternalError: " + err.Error()
		}
		s.end(st, i, reason, now)
	case i.State == pending:
		i.State = running
		s.changed(st, i, now)
	case i.State == shuttingDown: // terminated meanwhile
		st.plan(now, "instance.terminate", id, "")
	}
}

// lazyRate is how fast EBS loads a block of a snapshot at its first read, in MiB/s. AWS publishes no figure: it is an
// assumption, below the lowest initialization rate that AWS sells.
const lazyRate = 60

// spec is the fleet's spec of an instance.
func (s runs) spec(st *state, i *instance) fleet.Spec {
	data, err := base64.StdEncoding.DecodeString(i.Data.Get("UserData"))
	if err != nil { // checked at the write
		data = nil
	}
	spec := fleet.Spec{ID: i.ID, Pool: cmp.Or(i.Tags["aws:autoscaling:groupName"], i.Tags[PoolTag], i.Tags["karpenter.k8s.aws/ec2nodeclass"]), ComputerName: strings.SplitN(dnsName(i), ".", 2)[0],
		ProviderID: "aws:///" + i.Zone + "/" + i.ID, VMID: uuidOf(i.ID), CustomData: data, Image: i.Image, Zone: i.Zone, Type: i.Type,
		Waited: s.config.Latencies.Launch}
	if root := rootOf(st, i); root != nil {
		spec.Disk, spec.ReadRate = disk(root.ID), cmp.Or(root.Rate, lazyRate)
	}
	return spec
}
