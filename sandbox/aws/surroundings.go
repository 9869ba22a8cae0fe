package aws

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// VPC is the only VPC, and dhcpOptions are its DHCP options.
const (
	VPC         = "vpc-00000000000000001"
	dhcpOptions = "dopt-00000000000000001"
)

// surroundings are what operators and Cluster API read around a capture: network, zones and instance types.
type surroundings struct{ *backend }

func (s surroundings) actions() []*action {
	return []*action{
		{name: "DescribeAvailabilityZones", noun: "zone", reads: true, handle: s.zones},
		{name: "DescribeSubnets", noun: "zone", reads: true, handle: s.describeSubnets},
		{name: "DescribeVpcs", noun: "zone", reads: true, handle: s.vpcs},
		{name: "DescribeDhcpOptions", noun: "zone", reads: true, handle: s.dhcp},
		{name: "DescribeNetworkInterfaces", noun: "zone", reads: true, handle: s.interfaces},
		{name: "DescribeInstanceTypes", noun: "zone", reads: true, handle: s.types},
	}
}

func (s surroundings) zones(c *call, _ *state) (query.Element, error) {
	wanted := c.in.Texts("ZoneName")
	var names []string
	for _, n := range s.config.Subnets {
		if !slices.Contains(names, n.Zone) && (len(wanted) == 0 || slices.Contains(wanted, n.Zone)) {
			names = append(names, n.Zone)
		}
	}
	if len(names) < len(wanted) {
		return query.Element{}, bad("InvalidParameterValue", "Invalid availability zone: [%s]", strings.Join(wanted, ", "))
	}
	return query.Of("", query.List("availabilityZoneInfo", "item", names, func(name string) query.Element {
		return query.Of("", query.Text("zoneName", name), query.Text("zoneState", "available"), query.Text("regionName", s.config.Region),
			query.Text("zoneType", "availability-zone"),
			query.Text("optInStatus", "opt-in-not-required"), query.Text("groupName", s.config.Region))
	})), nil
}

func (s surroundings) describeSubnets(c *call, st *state) (query.Element, error) {
	wanted := c.in.Texts("SubnetId")
	all := slices.DeleteFunc(s.subnets(st), func(n Subnet) bool {
		made := st.Subnets[n.ID]
		return len(wanted) > 0 && !slices.Contains(wanted, n.ID) || made != nil && !s.sees(made)
	})
	if len(all) < len(wanted) {
		return query.Element{}, bad("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", strings.Join(wanted, ", "))
	}
	all, p := filtered(c, all, map[string]func(Subnet) []string{
		"subnet-id":         func(n Subnet) []string { return []string{n.ID} },
		"availability-zone": func(n Subnet) []string { return []string{n.Zone} },
		"state":             func(Subnet) []string { return []string{"available"} },
		"vpc-id":            func(n Subnet) []string { return []string{st.networkOf(n.ID)} },
	}, func(n Subnet) map[string]string { return st.tagsOfSubnet(n.ID) })
	if p != nil {
		return query.Element{}, p
	}
	return query.Of("", query.List("subnetSet", "item", all, func(n Subnet) query.Element {
		return query.Of("", query.Text("subnetId", n.ID), query.Text("state", "available"), query.Text("vpcId", st.networkOf(n.ID)), query.Text("cidrBlock", "10.0.0.0/9"),
			query.Text("availabilityZone", n.Zone), query.Text("ownerId", s.config.Account), query.Int("availableIpAddressCount", 4091),
			tagSet(st.tagsOfSubnet(n.ID)))
	})), nil
}

func (s surroundings) vpcs(c *call, st *state) (query.Element, error) {
	wanted := c.in.Texts("VpcId")
	all := []*network{{resource: resource{ID: VPC, Tags: map[string]string{}}, Default: true}}
	for _, n := range sorted(st.Networks) {
		if s.sees(n) {
			all = append(all, n)
		}
	}
	all = slices.DeleteFunc(all, func(n *network) bool { return len(wanted) > 0 && !slices.Contains(wanted, n.ID) })
	if len(all) < len(wanted) {
		return query.Element{}, notFoundByID(strings.Join(wanted, ", "))
	}
	all, p := filtered(c, all, map[string]func(*network) []string{"vpc-id": func(n *network) []string { return []string{n.ID} },
		"state": func(*network) []string { return []string{"available"} }}, func(n *network) map[string]string { return n.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return query.Of("", query.List("vpcSet", "item", all, func(n *network) query.Element { return s.network("", n) })), nil
}

// network is a VPC of an answer.
func (w *backend) network(name string, n *network) query.Element {
	return query.Of(name, query.Text("vpcId", n.ID), query.Text("dhcpOptionsId", dhcpOptions), query.Text("state", "available"),
		query.Text("cidrBlock", cmp.Or(n.Block, "10.0.0.0/8")), query.Text("ownerId", w.config.Account), query.Bool("isDefault", n.Default), tagSet(n.Tags))
}

// dhcp describes the DHCP options, with the domain of the instances' names.
func (s surroundings) dhcp(c *call, _ *state) (query.Element, error) {
	if wanted := c.in.Texts("DhcpOptionsId"); len(wanted) > 1 || len(wanted) == 1 && wanted[0] != dhcpOptions {
		return query.Element{}, bad("InvalidDhcpOptionID.NotFound", "The dhcpOption ID '%s' does not exist", strings.Join(wanted, ", "))
	}
	all, p := filtered(c, []string{dhcpOptions}, map[string]func(string) []string{"dhcp-options-id": func(id string) []string { return []string{id} }}, nil)
	if p != nil {
		return query.Element{}, p
	}
	return query.Of("", query.List("dhcpOptionsSet", "item", all, func(id string) query.Element {
		domain := query.List("valueSet", "item", []string{s.config.Region + domainSuffix},
			func(name string) query.Element { return query.Of("", query.Text("value", name)) })
		return query.Of("", query.Text("dhcpOptionsId", id), query.Text("ownerId", s.config.Account), tagSet(nil),
			query.List("dhcpConfigurationSet", "item", []string{"domain-name"},
				func(key string) query.Element { return query.Of("", query.Text("key", key), domain) }))
	})), nil
}

// interfaceID is the ID of an instance's network interface.
func interfaceID(instance string) string { return "eni-" + strings.TrimPrefix(instance, "i-") }

// interfaces returns the IDs of the network interfaces.
func (st *state) interfaces() func(func(string) bool) {
	return func(yield func(string) bool) {
		for id, i := range st.Instances {
			if i.State != terminated && !yield(interfaceID(id)) {
				return
			}
		}
	}
}

// interfaces lists the first network interface of each instance. The interface goes with the instance.
func (s surroundings) interfaces(c *call, st *state) (query.Element, error) {
	one := func(f func(*instance) string) func(*instance) []string {
		return func(i *instance) []string { return []string{f(i)} }
	}
	id := func(i *instance) string { return interfaceID(i.ID) }
	all := slices.DeleteFunc(slices.Collect(maps.Values(st.Instances)), func(i *instance) bool { return i.State == terminated })
	slices.SortFunc(all, func(a, b *instance) int { return strings.Compare(a.ID, b.ID) })
	all, p := filtered(c, all, map[string]func(*instance) []string{"attachment.instance-id": one(func(i *instance) string { return i.ID }),
		"network-interface-id": one(id), "subnet-id": one(func(i *instance) string { return i.Subnet }),
		"vpc-id": one(func(i *instance) string { return st.networkOf(i.Subnet) })}, func(i *instance) map[string]string { return i.Interface.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return query.Of("", query.List("networkInterfaceSet", "item", all, func(i *instance) query.Element {
		return query.Of("", query.Text("networkInterfaceId", id(i)), query.Text("subnetId", i.Subnet), query.Text("vpcId", st.networkOf(i.Subnet)),
			query.Text("availabilityZone", i.Zone), query.Text("ownerId", s.config.Account),
			query.Text("status", "in-use"), query.Text("privateIpAddress", i.Address), query.Text("privateDnsName", dnsName(i)), securityGroups(i),
			tagSet(i.Interface.Tags), query.Of("attachment", query.Text("attachmentId", "eni-attach-"+strings.TrimPrefix(i.ID, "i-")),
				query.Text("instanceId", i.ID), query.Int("deviceIndex", 0), query.Text("status", "attached")))
	})), nil
}

// xenFamilies are the families on Xen. Source: EC2 User Guide, "Instances built on the AWS Nitro System", the list of the others.
var xenFamilies = []string{"c1", "c3", "c4", "d2", "f1", "g2", "g3", "g3s", "h1", "i2", "i3", "m1", "m2", "m3", "m4", "p2", "p3", "r3", "r4", "t1", "t2", "x1", "x1e"}

// types describes instance types as far as the simulator distinguishes them: by architecture and hypervisor. A type has the form
// FAMILY.SIZE. A type of bare metal has no hypervisor.
func (s surroundings) types(c *call, _ *state) (query.Element, error) {
	names := c.in.Texts("InstanceType")
	if len(names) == 0 {
		names = []string{"m6g.large", "m6i.large"}
	}
	for _, name := range names {
		if family, size, found := strings.Cut(name, "."); !found || family == "" || size == "" {
			return query.Element{}, bad("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
	}
	return query.Of("", query.List("instanceTypeSet", "item", names, func(name string) query.Element {
		family, size, _ := strings.Cut(name, ".")
		hypervisor := "nitro"
		switch {
		case strings.HasPrefix(size, "metal"):
			hypervisor = ""
		case slices.Contains(xenFamilies, family):
			hypervisor = "xen"
		}
		return query.Of("", query.Text("instanceType", name), query.Bool("currentGeneration", true), query.Text("hypervisor", hypervisor),
			query.Bool("bareMetal", hypervisor == ""),
			query.Of("processorInfo", query.Texts("supportedArchitectures", "item", []string{architecture(name)})),
			query.Texts("supportedBootModes", "item", []string{"legacy-bios", "uefi"}), query.Texts("supportedRootDeviceTypes", "item", []string{"ebs"}),
			query.Of("vCpuInfo", query.Int("defaultVCpus", 2)), query.Of("memoryInfo", query.Int("sizeInMiB", 8192)),
			query.Bool("instanceStorageSupported", false))
	})), nil
}

// additions are parts of groups that the simulator does not have: each list is empty.
type additions struct {
	*backend
	groups groups
}

func (s additions) actions() []*action {
	none := func(list string) func(*call, *state) (query.Element, error) {
		return func(c *call, st *state) (query.Element, error) {
			if c.in.Has("AutoScalingGroupName") {
				if _, p := s.groups.named(c, st); p != nil {
					return query.Element{}, p
				}
			}
			return query.Of("", query.Texts(list, "member", nil)), nil
		}
	}
	return []*action{
		{name: "DescribePolicies", noun: "group", reads: true, handle: none("ScalingPolicies")},
		{name: "DescribeScheduledActions", noun: "group", reads: true, handle: none("ScheduledUpdateGroupActions")},
	}
}

// decode returns the text of an encoded authorization message.
func (s tokens) decode(c *call, _ *state) (query.Element, error) {
	data, err := base64.RawURLEncoding.DecodeString(c.in.Get("EncodedMessage"))
	if err != nil || !json.Valid(data) {
		return query.Element{}, bad("InvalidAuthorizationMessageException", "Message is not valid")
	}
	return query.Of("", query.Text("DecodedMessage", string(data))), nil
}

// permit changes the accounts that may launch an image, or its description.
func (s images) permit(c *call, st *state) (query.Element, error) {
	im := st.Images[c.in.Get("ImageId")]
	if im == nil || !s.sees(im) || im.Owner != s.config.Account {
		return query.Element{}, noImage(c.in.Get("ImageId"))
	}
	if c.in.Has("Description.Value") {
		im.Description = c.in.Get("Description.Value")
		return done(), nil
	}
	add, remove := c.in.Texts("UserId"), []string(nil)
	if c.in.Get("OperationType") == "remove" {
		add, remove = nil, add
	}
	for _, one := range c.in.List("LaunchPermission.Add") {
		add = append(add, one.Get("UserId"))
	}
	for _, one := range c.in.List("LaunchPermission.Remove") {
		remove = append(remove, one.Get("UserId"))
	}
	if len(add)+len(remove) == 0 {
		return query.Element{}, bad("InvalidParameterCombination", "No attributes specified.")
	}
	im.Launchers = slices.DeleteFunc(append(im.Launchers, add...), func(account string) bool { return slices.Contains(remove, account) })
	slices.Sort(im.Launchers)
	im.Launchers = slices.Compact(im.Launchers)
	return done(), nil
}

// copyImage copies an image with its snapshots. A copy in another region is out of the simulation.
func (s images) copyImage(c *call, st *state) (query.Element, error) {
	from := st.Images[c.in.Get("SourceImageId")]
	switch region := c.in.Get("SourceRegion"); {
	case region != s.config.Region:
		return query.Element{}, bad("InvalidRequest", "The simulation has the region %s only, not %s", s.config.Region, region)
	case from == nil || !s.sees(from) || from.State != imageAvailable:
		return query.Element{}, noImage(c.in.Get("SourceImageId"))
	}
	if p := s.mayName(st, c.in.Get("Name")); p != nil {
		return query.Element{}, p
	}
	im := *from
	im.resource, im.Name, im.Owner, im.State, im.SourceImage = s.fresh(st, "ami"), c.in.Get("Name"), s.config.Account, imagePending, from.ID
	im.Description, im.Launchers, im.Protected, im.Fails = c.in.Get("Description"), nil, false, c.fails()
	if c.in.True("CopyImageTags") {
		for key, value := range from.Tags {
			im.Tags[key] = value
		}
	}
	im.Devices = slices.Clone(from.Devices)
	s.add(st, &im)
	return query.Of("", query.Text("imageId", im.ID)), nil
}

// deprecate sets or removes the time from which lists of other accounts omit an image.
func (s images) deprecate(c *call, st *state) (query.Element, error) {
	im := st.Images[c.in.Get("ImageId")]
	if im == nil || !s.sees(im) || im.Owner != s.config.Account {
		return query.Element{}, noImage(c.in.Get("ImageId"))
	}
	im.DeprecateAt = c.in.Get("DeprecateAt")
	if im.DeprecateAt == "" && strings.HasPrefix(c.action.name, "Enable") {
		return query.Element{}, missing("DeprecateAt")
	}
	return done(), nil
}
