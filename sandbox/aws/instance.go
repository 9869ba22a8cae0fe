package aws

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// instanceState is an instance's state with EC2's number.
type instanceState string

const (
	pending      instanceState = "pending"
	running      instanceState = "running"
	shuttingDown instanceState = "shutting-down"
	terminated   instanceState = "terminated"
	stopping     instanceState = "stopping"
	stopped      instanceState = "stopped"
)

var stateCodes = map[instanceState]int{pending: 0, running: 16, shuttingDown: 32, terminated: 48, stopping: 64, stopped: 80}

// instance is a machine.
type instance struct {
	resource
	Reservation string        `json:"reservation"`
	Index       int           `json:"index"`
	State       instanceState `json:"state"`
	// Reason of the state, such as "Client.UserInitiatedShutdown: User initiated shutdown".
	Reason       string    `json:"reason,omitempty"`
	Launched     time.Time `json:"launched"`
	Image        string    `json:"image"`
	Type         string    `json:"type"`
	Architecture string    `json:"architecture"`
	Details      string    `json:"details"`
	Usage        string    `json:"usage"`
	Codes        []string  `json:"codes,omitempty"`
	Uefi         string    `json:"uefi,omitempty"`
	BootMode     string    `json:"bootMode,omitempty"`
	Tpm          string    `json:"tpm,omitempty"`
	// Imds is the image's requirement on the metadata service at the launch. The image may go or change later.
	Imds       string `json:"imds,omitempty"`
	RootDevice string `json:"rootDevice"`
	Subnet     string `json:"subnet"`
	Zone       string `json:"zone"`
	Address    string `json:"address"`
	Token      string `json:"token,omitempty"`
	Spot       bool   `json:"spot,omitempty"`
	// Data is the launch data: the template's data, overridden by the request.
	Data *query.Value `json:"data"`
	// Shutdown is the effect of a shutdown by the guest: "stop" or "terminate".
	Shutdown  string `json:"shutdown"`
	KeepOn    bool   `json:"keepOn,omitempty"`    // disableApiStop
	KeepAlive bool   `json:"keepAlive,omitempty"` // disableApiTermination
	// Devices are still to be made at its first start; Store are instance stores.
	Devices []device `json:"devices,omitempty"`
	Store   []device `json:"store,omitempty"`
	// Machine: the fleet has the machine. Off: the guest is down, and EC2 has not reacted yet.
	Machine bool `json:"machine,omitempty"`
	// Settled is the earliest end of a stop or termination; Hard: forced.
	Settled time.Duration `json:"settled,omitempty"`
	Hard    bool          `json:"hard,omitempty"`
	Fails   string        `json:"fails,omitempty"`
	// Interface is its network interface.
	Interface resource `json:"interface"`
}

// instances are machines.
type instances struct{ *backend }

func (s instances) actions() []*action {
	return []*action{
		{name: "DescribeInstances", noun: "instance", reads: true, handle: s.describe},
		{name: "DescribeInstanceStatus", noun: "instance", reads: true, handle: s.status},
	}
}

func noInstance(id string) *problem {
	if !strings.HasPrefix(id, "i-") {
		return bad("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
	}
	return bad("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

func wrongState(i *instance) *problem {
	return bad("IncorrectInstanceState", "The instance '%s' is not in a state from which it can do that (it is '%s').", i.ID, i.State)
}

// instance is the instance of a call, if the caller may change the instance.
func (w *backend) instance(c *call, st *state, id string) (*instance, *problem) {
	i := st.Instances[id]
	if i == nil || !w.sees(i) {
		return nil, noInstance(id)
	}
	if !c.action.reads {
		if p := w.changeable(c, i); p != nil {
			return nil, p
		}
	}
	return i, nil
}

// named returns all instances of a call, or an error.
func (s instances) named(c *call, st *state) ([]*instance, *problem) {
	ids := c.in.Texts("InstanceId")
	if len(ids) == 0 {
		return nil, missing("InstanceId")
	}
	var out []*instance
	for _, id := range ids {
		i, p := s.instance(c, st, id)
		if p != nil {
			return nil, p
		}
		out = append(out, i)
	}
	return out, nil
}

// reserved holds instances of a reservation.
type reserved struct {
	id  string
	all []*instance
}

func (s instances) describe(c *call, st *state) (query.Element, error) {
	ids := c.in.Texts("InstanceId")
	if len(ids) > 0 && c.in.Has("MaxResults") {
		return query.Element{}, bad("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	all, p := byID(s.backend, st.Instances, ids, noInstance)
	if p != nil {
		return query.Element{}, p
	}
	if all, p = filtered(c, all, instanceFilters(st), func(i *instance) map[string]string { return i.Tags }); p != nil {
		return query.Element{}, p
	}
	page, next, p := s.page(c, len(all), 5, 1000)
	if p != nil {
		return query.Element{}, p
	}
	var out []reserved
	for _, i := range all[page.from:page.to] {
		if n := len(out); n > 0 && out[n-1].id == i.Reservation {
			out[n-1].all = append(out[n-1].all, i)
		} else {
			out = append(out, reserved{i.Reservation, []*instance{i}})
		}
	}
	return query.Of("", query.List("reservationSet", "item", out, func(r reserved) query.Element { return s.reservation(st, r) }), next), nil
}

func instanceFilters(st *state) map[string]func(*instance) []string {
	one := func(f func(*instance) string) func(*instance) []string {
		return func(i *instance) []string { return []string{f(i)} }
	}
	return map[string]func(*instance) []string{
		"instance-id": one(func(i *instance) string { return i.ID }), "instance-state-name": one(func(i *instance) string { return string(i.State) }),
		"instance-state-code": one(func(i *instance) string { return strconv.Itoa(stateCodes[i.State]) }),
		"image-id":            one(func(i *instance) string { return i.Image }), "instance-type": one(func(i *instance) string { return i.Type }),
		"subnet-id": one(func(i *instance) string { return i.Subnet }), "availability-zone": one(func(i *instance) string { return i.Zone }),
		"private-ip-address": one(func(i *instance) string { return i.Address }), "private-dns-name": one(dnsName),
		"client-token": one(func(i *instance) string { return i.Token }), "reservation-id": one(func(i *instance) string { return i.Reservation }),
		"architecture": one(func(i *instance) string { return i.Architecture }), "instance-lifecycle": one(lifecycle),
		"block-device-mapping.volume-id": func(i *instance) []string {
			var out []string
			for _, v := range volumesOf(st, i) {
				out = append(out, v.ID)
			}
			return out
		},
	}
}

func lifecycle(i *instance) string {
	if i.Spot {
		return "spot"
	}
	return ""
}

// domainSuffix follows the region in private DNS names.
const domainSuffix = ".compute.internal"

func dnsName(i *instance) string {
	return "ip-" + strings.ReplaceAll(i.Address, ".", "-") + "." + i.Zone[:len(i.Zone)-1] + domainSuffix
}

func (s instances) status(c *call, st *state) (query.Element, error) {
	all, p := byID(s.backend, st.Instances, c.in.Texts("InstanceId"), noInstance)
	if p != nil {
		return query.Element{}, p
	}
	if !c.in.True("IncludeAllInstances") {
		all = slices.DeleteFunc(all, func(i *instance) bool { return i.State != running })
	}
	fields := instanceFilters(st)
	for _, name := range []string{"instance-status.status", "system-status.status"} {
		fields[name] = func(i *instance) []string { return []string{healthOf(i)} }
	}
	fields["event.code"] = func(*instance) []string { return nil } // there are no events
	if all, p = filtered(c, all, fields, func(i *instance) map[string]string { return i.Tags }); p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "instanceStatusSet", all, 5, 1000, func(i *instance) query.Element {
		health := healthOf(i)
		return query.Of("", query.Text("instanceId", i.ID), query.Text("availabilityZone", i.Zone), stateElement("instanceState", i.State),
			query.Of("instanceStatus", query.Text("status", health)), query.Of("systemStatus", query.Text("status", health)))
	})
}

// healthOf is the result of the checks of EC2.
func healthOf(i *instance) string {
	return map[bool]string{true: "ok", false: "not-applicable"}[i.State == running]
}

func (s instances) reservation(st *state, r reserved) query.Element {
	return query.Of("", query.Text("reservationId", r.id), query.Text("ownerId", s.config.Account), query.Of("groupSet"),
		query.List("instancesSet", "item", r.all, func(i *instance) query.Element { return s.element(st, i) }))
}

func stateElement(name string, state instanceState) query.Element {
	return query.Of(name, query.Int("code", stateCodes[state]), query.Text("name", string(state)))
}

// element is an instance for DescribeInstances.
func (s instances) element(st *state, i *instance) query.Element {
	e := query.Of("", query.Text("instanceId", i.ID), query.Text("imageId", i.Image), stateElement("instanceState", i.State),
		query.Int("amiLaunchIndex", i.Index), query.Text("instanceType", i.Type), query.Date("launchTime", i.Launched),
		query.Of("placement", query.Text("availabilityZone", i.Zone), query.Text("availabilityZoneId", zoneID(i.Zone)), query.Text("tenancy", "default")),
		query.Of("monitoring", query.Text("state", "disabled")), query.Text("architecture", i.Architecture),
		query.Text("rootDeviceType", "ebs"), query.Text("rootDeviceName", i.RootDevice), query.Text("virtualizationType", "hvm"),
		query.Text("hypervisor", "xen"), query.Bool("enaSupport", true), query.Text("clientToken", i.Token),
		query.Text("instanceLifecycle", lifecycle(i)), query.Text("platformDetails", i.Details),
		query.Text("usageOperation", i.Usage), codesElement(i.Codes), query.Text("currentInstanceBootMode", bootedWith(i.BootMode)),
		query.Text("bootMode", i.BootMode), query.Text("tpmSupport", i.Tpm), query.Text("keyName", i.Data.Get("KeyName")), tagSet(i.Tags),
		operatorElement(i.Operator), s.profile(i), s.devices(st, i), metadataElement(i))
	if code, text, found := strings.Cut(i.Reason, ": "); found {
		e.Kids = append(e.Kids, query.Of("stateReason", query.Text("code", code), query.Text("message", code+": "+text)), query.Text("reason", text))
	}
	if i.State == terminated {
		return e
	}
	return query.Of("", append(e.Kids, query.Text("privateIpAddress", i.Address), query.Text("privateDnsName", dnsName(i)),
		query.Text("subnetId", i.Subnet), query.Text("vpcId", st.networkOf(i.Subnet)), securityGroups(i))...)
}

// metadataDefaults are EC2's for an image without requirements. Source: InstanceMetadataOptionsResponse.
var metadataDefaults = [][2]string{{"HttpTokens", "optional"}, {"HttpPutResponseHopLimit", "1"}, {"HttpEndpoint", "enabled"},
	{"HttpProtocolIpv6", "disabled"}, {"InstanceMetadataTags", "disabled"}}

// metadataElement has the metadata options of an instance, which EC2 always shows.
func metadataElement(i *instance) query.Element {
	options := &query.Value{}
	for _, d := range metadataDefaults {
		options.Set(d[0], d[1])
	}
	if i.Imds == "v2.0" {
		options.Set("HttpTokens", "required")
		options.Set("HttpPutResponseHopLimit", "2")
	}
	e := dataElement("metadataOptions", options.Over(i.Data.At("MetadataOptions")))
	e.Kids = append(e.Kids, query.Text("state", "applied"))
	return e
}

// codesElement lists product codes of the Marketplace.
func codesElement(codes []string) query.Element {
	if len(codes) == 0 {
		return query.Element{}
	}
	return query.List("productCodes", "item", codes, func(code string) query.Element {
		return query.Of("", query.Text("productCode", code), query.Text("type", "marketplace"))
	})
}

// bootedWith is the firmware that an image's boot mode selects on a current instance type.
func bootedWith(mode string) string {
	if strings.HasPrefix(mode, "uefi") {
		return "uefi"
	}
	return "legacy-bios"
}

func securityGroups(i *instance) query.Element {
	groups := i.Data.Texts("SecurityGroupId")
	for _, n := range i.Data.List("NetworkInterface") {
		groups = append(groups, n.Texts("SecurityGroupId")...)
	}
	return query.List("groupSet", "item", groups, func(id string) query.Element {
		return query.Of("", query.Text("groupId", id), query.Text("groupName", id))
	})
}

func (s instances) profile(i *instance) query.Element {
	arn, name := i.Data.Get("IamInstanceProfile.Arn"), i.Data.Get("IamInstanceProfile.Name")
	if name != "" {
		arn = "arn:aws:iam::" + s.config.Account + ":instance-profile/" + name
	}
	if arn == "" {
		return query.Element{}
	}
	return query.Of("iamInstanceProfile", query.Text("arn", arn), query.Text("id", "AIPA"+strings.ToUpper(hexOf(arn[strings.LastIndex(arn, "/")+1:]))))
}

func (s instances) devices(st *state, i *instance) query.Element {
	return query.List("blockDeviceMapping", "item", volumesOf(st, i), func(v *volume) query.Element {
		return query.Of("", query.Text("deviceName", v.Device), query.Of("ebs", query.Text("volumeId", v.ID), query.Text("status", v.attachment()),
			query.Date("attachTime", v.Attached), query.Bool("deleteOnTermination", v.Temporary)))
	})
}
