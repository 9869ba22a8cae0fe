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
		{name: "DescribeInstanceTypeOfferings", noun: "zone", reads: true, handle: s.offerings},
		{name: "DescribeSpotPriceHistory", noun: "zone", reads: true, handle: s.prices},
		{name: "DescribeSecurityGroups", noun: "zone", reads: true, handle: s.groups},
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
	}, func(n Subnet) map[string]string { return n.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "subnetSet", all, 5, 1000, func(n Subnet) query.Element {
		return query.Of("", query.Text("subnetId", n.ID), query.Text("state", "available"), query.Text("vpcId", st.networkOf(n.ID)), query.Text("cidrBlock", "10.0.0.0/9"),
			query.Text("availabilityZone", n.Zone), query.Text("ownerId", s.config.Account), query.Int("availableIpAddressCount", 4091),
			query.Text("availabilityZoneId", zoneID(n.Zone)), tagSet(n.Tags))
	})
}

// zoneID is the ID of a zone, which is the same in all accounts.
func zoneID(zone string) string { return "az-" + zone }

// securityGroup is the only security group.
const securityGroup = "sg-00000000000000001"

func (s surroundings) groups(c *call, _ *state) (query.Element, error) {
	wanted := c.in.Texts("GroupId")
	if len(wanted) > 1 || len(wanted) == 1 && wanted[0] != securityGroup {
		return query.Element{}, bad("InvalidGroup.NotFound", "The security group '%s' does not exist", strings.Join(wanted, ", "))
	}
	tags := s.config.Subnets[0].Tags
	all, p := filtered(c, []string{securityGroup}, map[string]func(string) []string{
		"group-id": func(id string) []string { return []string{id} }, "group-name": func(string) []string { return []string{"nodes"} },
		"vpc-id": func(string) []string { return []string{VPC} },
	}, func(string) map[string]string { return tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "securityGroupInfo", all, 5, 1000, func(id string) query.Element {
		return query.Of("", query.Text("groupId", id), query.Text("groupName", "nodes"), query.Text("vpcId", VPC),
			query.Text("ownerId", s.config.Account), tagSet(tags))
	})
}

// catalogue are the instance types of a list without names. Any other type with the form of one exists too.
var catalogue = []string{"m5.large", "m6g.large", "m6i.large", "m7i.large"}

// offerings lists where the types of the catalogue are: everywhere.
func (s surroundings) offerings(c *call, _ *state) (query.Element, error) {
	type offering struct{ kind, place string }
	by, places := c.in.Get("LocationType"), []string{s.config.Region}
	if by == "availability-zone" {
		places = nil
		for _, n := range s.config.Subnets {
			places = append(places, n.Zone)
		}
	}
	var all []offering
	for _, kind := range catalogue {
		for _, place := range places {
			all = append(all, offering{kind, place})
		}
	}
	all, p := filtered(c, all, map[string]func(offering) []string{
		"instance-type": func(o offering) []string { return []string{o.kind} }, "location": func(o offering) []string { return []string{o.place} },
	}, nil)
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "instanceTypeOfferingSet", all, 5, 1000, func(o offering) query.Element {
		return query.Of("", query.Text("instanceType", o.kind), query.Text("location", o.place), query.Text("locationType", by))
	})
}

// prices are the prices of spot instances: one for each type and zone, which never changes.
func (s surroundings) prices(c *call, _ *state) (query.Element, error) {
	type price struct{ kind, zone string }
	var all []price
	for _, kind := range catalogue {
		for _, n := range s.config.Subnets {
			all = append(all, price{kind, n.Zone})
		}
	}
	products, since := c.in.Texts("ProductDescription"), c.in.Get("StartTime")
	if len(products) == 0 || since == "" {
		return query.Element{}, bad("InvalidParameterValue", "The simulation has prices of products since a time only")
	}
	return listed(s.backend, c, "spotPriceHistorySet", all, 1, 10000, func(o price) query.Element {
		return query.Of("", query.Text("instanceType", o.kind), query.Text("availabilityZone", o.zone), query.Text("productDescription", products[0]),
			query.Text("spotPrice", "0.03"), query.Text("timestamp", since))
	})
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
		names = catalogue
	}
	for _, name := range names {
		if family, size, found := strings.Cut(name, "."); !found || family == "" || size == "" {
			return query.Element{}, bad("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
	}
	one := func(value string) func(string) []string { return func(string) []string { return []string{value} } }
	names, p := filtered(c, names, map[string]func(string) []string{
		"processor-info.supported-architecture": func(name string) []string { return []string{architecture(name)} },
		"supported-virtualization-type":         one("hvm"), "instance-type": func(name string) []string { return []string{name} },
	}, nil)
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "instanceTypeSet", names, 5, 100, func(name string) query.Element {
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
			query.Of("processorInfo", query.Texts("supportedArchitectures", "item", []string{architecture(name)}), query.Text("manufacturer", "Intel"),
				query.Text("sustainedClockSpeedInGhz", "3.1")),
			query.Texts("supportedUsageClasses", "item", []string{"on-demand", "spot"}), query.Texts("supportedVirtualizationTypes", "item", []string{"hvm"}),
			query.Of("networkInfo", query.Int("maximumNetworkInterfaces", 3), query.Int("ipv4AddressesPerInterface", 10),
				query.Int("ipv6AddressesPerInterface", 10),
				query.Bool("ipv6Supported", true), query.Text("enaSupport", "required"), query.Int("defaultNetworkCardIndex", 0), query.Int("maximumNetworkCards", 1),
				query.Bool("encryptionInTransitSupported", true), query.Bool("efaSupported", false), query.Text("networkPerformance", "Up to 12.5 Gigabit"),
				query.List("networkCards", "item", []string{"0"}, func(string) query.Element {
					return query.Of("", query.Element{Name: "networkCardIndex", Text: "0"}, query.Int("maximumNetworkInterfaces", 3),
						query.Text("networkPerformance", "Up to 12.5 Gigabit"))
				})),
			query.Of("ebsInfo", query.Text("ebsOptimizedSupport", "default"), query.Text("encryptionSupport", "supported"), query.Text("nvmeSupport", "required"),
				query.Of("ebsOptimizedInfo", query.Int("maximumBandwidthInMbps", 10000), query.Int("baselineBandwidthInMbps", 650))),
			query.Texts("supportedBootModes", "item", []string{"legacy-bios", "uefi"}), query.Texts("supportedRootDeviceTypes", "item", []string{"ebs"}),
			query.Of("vCpuInfo", query.Int("defaultVCpus", 2)), query.Of("memoryInfo", query.Int("sizeInMiB", 8192)),
			query.Bool("instanceStorageSupported", false))
	})
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

// disable disables an image, which no client can launch then, or enables it again.
func (s images) disable(c *call, st *state) (query.Element, error) {
	// Not verified on AWS, images: a disabled image can be tagged, deregistered, and disabled again.
	im := st.Images[c.in.Get("ImageId")]
	to := map[string]string{"DisableImage": imageDisabled, "EnableImage": imageAvailable}[c.action.name]
	switch {
	case im == nil || !s.sees(im):
		return query.Element{}, noImage(c.in.Get("ImageId"))
	case im.Owner != s.config.Account:
		return query.Element{}, bad("AuthFailure", "Not authorized for image:%s", im.ID)
	case im.State != imageAvailable && im.State != imageDisabled:
		return query.Element{}, bad("InvalidAMIID.Unavailable", "The image ID '%s' is in the state '%s'", im.ID, im.State)
	}
	if p := s.changeable(c, im); p != nil {
		return query.Element{}, p
	}
	if im.State = to; to == imageDisabled {
		im.Launchers = nil
	}
	return query.Of("", query.Bool("return", true)), nil
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
