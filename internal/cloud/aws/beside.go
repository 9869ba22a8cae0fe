package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// An instance beside a group is launched as the group would launch it, but is in no group, so that the group stays unchanged. It is
// the instance of a trial or of a workshop.

// launches launches, lists and ends instances beside groups.
type launches struct {
	account *account
	begun   *begun[begunInstance]
}

// besideRef names an instance beside a group.
type besideRef struct {
	group
	// noun is "trial" or "workshop", and tag the tag with the name.
	noun, tag string
	name      string
	// owner is the UID of the Prototype. A later capture of the same version has the same name: to a launch with the same token, EC2 returns the
	// terminated instance of the former owner, or an error.
	owner string
}

func (r besideRef) String() string { return r.noun + " " + r.name + " of " + r.group.String() }

func (r besideRef) key() string {
	return strings.TrimSuffix(r.region+"/"+r.noun+"/"+string(r.pool())+"/"+r.name+"/"+r.owner, "/")
}

// token is the client token of the launch. Tags can be written onto any instance at any time, but a token only at its launch.
func (r besideRef) token() string { return "kamino-" + digest(r.key()) }

// besideSpec says what an instance beside a group is launched with, in addition to the launch template.
type besideSpec struct {
	ami string
	// version is of the image under test; empty without a test.
	version      string
	instanceType types.InstanceType
	tags         map[string]string
}

// begunInstance is an instance beside a group that this process has begun.
type begunInstance struct {
	ref     besideRef
	version string
	// tags are those of the owner.
	tags map[string]string
}

// noCapacityCodes are the error codes of missing capacity. Source: "Error codes for the Amazon EC2 API".
var noCapacityCodes = []string{
	"InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity", "InsufficientFreeAddressesInSubnet", "InstanceLimitExceeded",
	"VcpuLimitExceeded", "MaxSpotInstanceCountExceeded",
	"SpotMaxPriceTooLow", "Server.InsufficientInstanceCapacity", "Server.SpotInstanceTermination", "Client.VolumeLimitExceeded", "VolumeLimitExceeded",
}

// imageFaultCodes are state reasons that blame the image. Source: EC2 User Guide, "Troubleshoot instance launch issues".
var imageFaultCodes = []string{"Client.InvalidSnapshot.NotFound"}

// refuseBeside returns the obstacles to an instance beside a group. instead is a remedy without such an instance.
func refuseBeside(ref besideRef, r recipe, instead string) []cloud.Refusal {
	if found := refusalsOfTemplate(ref.group, r); len(found) > 0 {
		return found
	}
	if r.data.InstanceRequirements != nil { // "RunInstances cannot launch such a template": RequestLaunchTemplateData
		return []cloud.Refusal{cloud.Refuse(cloud.PoolNotCopyable,
			fmt.Sprintf("%s: the launch template selects instance types by attributes, and a %s cannot launch such a template", ref.group, ref.noun),
			"move the requirements to the overrides of the mixed instances policy, or "+instead)}
	}
	return nil
}

// denied returns the missing permissions for an instance beside a group, and for the other actions of its feature. AWS does not
// report capacity in advance.
func (l launches) denied(ctx context.Context, op string, ref besideRef, in *ec2.RunInstancesInput, feature string) ([]cloud.Refusal, error) {
	var found []cloud.Refusal
	in.DryRun = sdk.Bool(true)
	_, err := l.account.ec2(ref.region).RunInstances(ctx, in)
	denied, err := isDryRunDenied(op, ref, err)
	if err != nil {
		return nil, err
	}
	if denied {
		found = append(found, permissionMissing(launchAction+", or "+passAction+" for the instance profile,", ref))
	}
	all, err := permissionReader{l.account}.check(ctx, ref.region, anyResource, nil, needsWhere(func(n need) bool { return n.Feature == feature }))
	if kind := cloud.KindOf(err); kind == cloud.Unauthenticated || kind == cloud.Throttled {
		return nil, err
	}
	for _, permission := range all {
		if !permission.Allowed {
			found = append(found, permissionMissing(permission.Action, ref))
		}
	}
	return found, nil
}

// launch returns the request for an instance beside the group: as the group would launch, in a subnet of the group.
func launch(ref besideRef, r recipe, like besideSpec) *ec2.RunInstancesInput {
	tags := map[string]string{}
	for _, t := range r.group.Tags {
		if key := sdk.ToString(t.Key); sdk.ToBool(t.PropagateAtLaunch) && !strings.HasPrefix(key, "aws:") {
			tags[key] = sdk.ToString(t.Value)
		}
	}
	own := map[string]string{ref.tag: ref.name, cloud.TagPool: string(ref.pool())}
	if like.version != "" {
		own[tagVersion] = like.version
	}
	maps.Copy(own, like.tags)
	in := &ec2.RunInstancesInput{
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: r.spec.LaunchTemplateId, Version: sdk.String(r.text())},
		ImageId:        sdk.String(like.ami), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), ClientToken: sdk.String(ref.token()),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: toTags(own, tags)}},
	}
	if in.InstanceType = like.instanceType; in.InstanceType == "" {
		in.InstanceType = besideType(r)
	}
	subnets := strings.FieldsFunc(sdk.ToString(r.group.VPCZoneIdentifier), func(c rune) bool { return c == ',' || c == ' ' })
	if len(subnets) == 0 {
		return in
	}
	subnet := sdk.String(subnets[subnetIndex(ref.name)%len(subnets)])
	if len(r.data.NetworkInterfaces) == 0 {
		in.SubnetId = subnet
		return in
	}
	// Not verified on AWS, trials: a launch accepts the template's network interfaces with another subnet.
	for _, n := range r.data.NetworkInterfaces { // AWS refuses a subnet together with network interfaces
		in.NetworkInterfaces = append(in.NetworkInterfaces, types.InstanceNetworkInterfaceSpecification{
			AssociatePublicIpAddress: n.AssociatePublicIpAddress, DeleteOnTermination: n.DeleteOnTermination, Description: n.Description,
			DeviceIndex: n.DeviceIndex, Groups: n.Groups,
			InterfaceType: n.InterfaceType, Ipv6AddressCount: n.Ipv6AddressCount, NetworkCardIndex: n.NetworkCardIndex, SubnetId: subnet,
			PrimaryIpv6: n.PrimaryIpv6, Ipv4PrefixCount: n.Ipv4PrefixCount, Ipv6PrefixCount: n.Ipv6PrefixCount,
			SecondaryPrivateIpAddressCount: n.SecondaryPrivateIpAddressCount, AssociateCarrierIpAddress: n.AssociateCarrierIpAddress,
			EnaSrdSpecification: enaSettings(n.EnaSrdSpecification),
		})
	}
	return in
}

// enaSettings converts the ENA settings of a template's network interface.
func enaSettings(s *types.LaunchTemplateEnaSrdSpecification) *types.EnaSrdSpecificationRequest {
	if s == nil {
		return nil
	}
	out := &types.EnaSrdSpecificationRequest{EnaSrdEnabled: s.EnaSrdEnabled}
	if udp := s.EnaSrdUdpSpecification; udp != nil {
		out.EnaSrdUdpSpecification = &types.EnaSrdUdpSpecificationRequest{EnaSrdUdpEnabled: udp.EnaSrdUdpEnabled}
	}
	return out
}

// besideType returns the instance type of an instance beside the group: the most frequent type of a mixed group's instances, so that the
// instance has nodes to be compared with. A type that the overrides no longer name does not count. Empty if unknown.
func besideType(r recipe) types.InstanceType {
	m := r.group.MixedInstancesPolicy
	if m == nil || m.LaunchTemplate == nil || len(m.LaunchTemplate.Overrides) == 0 {
		if r.data == nil {
			return ""
		}
		return r.data.InstanceType
	}
	var named, all []string
	for _, o := range m.LaunchTemplate.Overrides {
		if kind := sdk.ToString(o.InstanceType); kind != "" { // else attributes select the type
			named = append(named, kind)
		}
	}
	instances := slices.Clone(r.group.Instances)
	slices.SortFunc(instances, func(x, y scaling.Instance) int {
		return strings.Compare(sdk.ToString(x.InstanceId), sdk.ToString(y.InstanceId))
	})
	for _, i := range instances {
		if kind := sdk.ToString(i.InstanceType); len(named) == 0 || slices.Contains(named, kind) {
			all = append(all, kind)
		}
	}
	if len(all) == 0 {
		all = named
	}
	return types.InstanceType(cloud.MostFrequent(all))
}

// rootDisks are the drivers of the root disks of all types that the group may launch. Attributes may select any type.
func rootDisks(r recipe) []string {
	m := r.group.MixedInstancesPolicy
	if m == nil || m.LaunchTemplate == nil || len(m.LaunchTemplate.Overrides) == 0 {
		return cloud.RootDisks(string(besideType(r)))
	}
	var all []string
	for _, o := range m.LaunchTemplate.Overrides {
		if o.InstanceType == nil {
			all = append(all, "m4.large", "m7i.large") // of Xen, and of Nitro
		} else {
			all = append(all, *o.InstanceType)
		}
	}
	return cloud.RootDisks(all...)
}

// subnetIndex distributes instances over the subnets by name. The next attempt may find capacity in another subnet.
func subnetIndex(name string) int {
	n := 0
	for _, c := range name {
		n += int(c)
	}
	return n
}

// get returns the state of an instance beside a group.
func (l launches) get(ctx context.Context, ref besideRef) (cloud.Trial, error) {
	all, err := l.instances(ctx, ref)
	if err != nil {
		return cloud.Trial{}, err
	}
	switch {
	case len(all) == 0 && l.account.recentlyCreated(ref.key()).id != "":
		return cloud.Trial{State: cloud.Pending}, nil
	case len(all) == 0:
		return cloud.Trial{}, nil
	}
	l.account.readTemplates(ctx, ref.group, all[:1])
	one, err := l.account.instanceOf(ctx, ref.region, all[0])
	if err != nil {
		return cloud.Trial{}, err
	}
	if address := sdk.ToString(all[0].PrivateIpAddress); address != "" {
		one.Addresses = []string{address}
	}
	return trialFrom(all[0], one), nil
}

// trialFrom returns the state of a trial from its instance. EC2 shows a terminated instance for about an hour.
func trialFrom(m types.Instance, one cloud.Instance) cloud.Trial {
	// Not verified on AWS, trials: EC2 shows a terminated instance for about an hour.
	state, ending := stateOf(m), tagOf(m.Tags, tagEnding) != ""
	switch {
	case ending && state == types.InstanceStateNameTerminated:
		return cloud.Trial{}
	case ending:
		return cloud.Trial{State: cloud.Deleting, Instances: []cloud.Instance{one}}
	case state == types.InstanceStateNameTerminated, state == types.InstanceStateNameShuttingDown:
		out := cloud.Trial{State: cloud.Failed}
		// Not verified on AWS, trials: an instance that EC2 ended has a `StateReason`, and one value blames the image.
		if why := m.StateReason; why != nil && !strings.HasPrefix(sdk.ToString(why.Code), "Client.User") {
			out.Trouble = oneLine(sdk.ToString(why.Message))
			out.LacksCapacity, out.BlamesImage = slices.Contains(noCapacityCodes, sdk.ToString(why.Code)),
				slices.Contains(imageFaultCodes, sdk.ToString(why.Code))
		}
		return out
	case state == types.InstanceStateNamePending:
		return cloud.Trial{State: cloud.Pending, Instances: []cloud.Instance{one}}
	}
	return cloud.Trial{State: cloud.Complete, Instances: []cloud.Instance{one}}
}

// instances returns the instances of a name: at most one, perhaps terminated.
func (l launches) instances(ctx context.Context, ref besideRef) ([]types.Instance, error) {
	return l.account.instancesWithTags(ctx, ref.region, ref, types.Filter{Name: sdk.String("tag:" + ref.tag), Values: []string{shorten(ref.name, maxTagValue)}},
		types.Filter{Name: sdk.String("tag:" + cloud.TagPool), Values: []string{shorten(string(ref.pool()), maxTagValue)}},
		types.Filter{Name: sdk.String("client-token"), Values: []string{ref.token()}})
}

// instancesWithTags returns the instances of the filters.
func (a *account) instancesWithTags(ctx context.Context, in string, of fmt.Stringer, filters ...types.Filter) ([]types.Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(a.ec2(in), &ec2.DescribeInstancesInput{Filters: filters, MaxResults: sdk.Int32(maxPage)})
	var all []types.Instance
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read", of, err)
		}
		for _, reservation := range page.Reservations {
			all = append(all, reservation.Instances...)
		}
	}
	return all, nil
}

// list lists the unfinished instances beside groups of a kind in the regions of pools, with a request per region: those that EC2 shows,
// and recent ones of this process. Their own groups may be gone.
func (l launches) list(ctx context.Context, kind besideRef, pools []cloud.PoolID) ([]begunInstance, error) {
	var of []string
	for _, id := range pools {
		ref, err := parsePool(id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(of, ref.region) {
			of = append(of, ref.region)
		}
	}
	var found []begunInstance
	for _, in := range of {
		all, err := l.account.instancesWithTags(ctx, in, text("the "+kind.noun+"s in "+in),
			types.Filter{Name: sdk.String("tag-key"), Values: []string{kind.tag}})
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			at, ok := groupIn(in, tagOf(m.Tags, cloud.TagPool), pools)
			if !ok || stateOf(m) == types.InstanceStateNameTerminated {
				continue
			}
			ref := besideRef{group: at, noun: kind.noun, tag: kind.tag, name: tagOf(m.Tags, kind.tag), owner: tagOf(m.Tags, cloud.TagUID)}
			if sdk.ToString(m.ClientToken) != ref.token() {
				continue
			}
			found = append(found, begunInstance{ref, tagOf(m.Tags, tagVersion), cloud.OwnerTags(tagsOf(m.Tags))})
		}
	}
	return append(found, l.unlisted(kind, found, of)...), nil
}

// groupIn returns the group in a tag, which has a long name only in part.
func groupIn(region, tag string, known []cloud.PoolID) (group, bool) {
	for _, id := range append(slices.Clone(known), cloud.PoolID(tag)) {
		if at, err := parsePool(id); err == nil && at.region == region && shorten(string(at.pool()), maxTagValue) == tag {
			return at, true
		}
	}
	return group{}, false
}

// unlisted returns the recent instances beside groups of this process that EC2 does not show yet.
func (l launches) unlisted(kind besideRef, seen []begunInstance, regions []string) (more []begunInstance) {
	l.begun.recent(l.account.isRecentlyCreated, func(key string, one begunInstance) {
		if one.ref.noun == kind.noun && slices.Contains(regions, one.ref.region) &&
			!slices.ContainsFunc(seen, func(s begunInstance) bool { return s.ref.key() == key }) {
			more = append(more, one)
		}
	})
	return more
}

// ensure launches an instance beside a group. The client token makes repeated calls return the same instance, even after
// termination.
func (l launches) ensure(ctx context.Context, op string, ref besideRef, r recipe, like besideSpec) (cloud.Trial, error) {
	out, err := l.account.ec2(ref.region).RunInstances(ctx, launch(ref, r, like))
	switch {
	case isCode(err, "IdempotentParameterMismatch"): // an earlier request had another template or group
		return cloud.Trial{State: cloud.Pending}, nil
	case isCode(err, noCapacityCodes...):
		return cloud.Trial{}, asQuotaExceeded(fail(op, ref, err))
	case err != nil:
		return cloud.Trial{}, fail(op, ref, err)
	}
	for _, m := range out.Instances {
		l.account.recordCreated(ref.key(), sdk.ToString(m.InstanceId), nil)
	}
	l.begun.add(ref.key(), begunInstance{ref, like.version, cloud.OwnerTags(like.tags)})
	return cloud.Trial{State: cloud.Pending}, nil
}

// asQuotaExceeded returns the error of a launch without capacity.
func asQuotaExceeded(err error) error {
	ours, is := err.(*cloud.Error) //nolint:errorlint // it comes from fail
	if !is {
		return err
	}
	out := *ours
	out.Kind = cloud.QuotaExceeded
	return &out
}

// end starts to terminate an instance beside a group. It writes the tag first, so that the terminated instance does not look
// lost.
func (l launches) end(ctx context.Context, ref besideRef) (cloud.State, error) {
	ctx = cloud.WithoutReadCache(ctx)
	all, err := l.instances(ctx, ref)
	if err != nil {
		return cloud.Absent, err
	}
	if id := l.account.recentlyCreated(ref.key()).id; len(all) == 0 && id != "" {
		all = []types.Instance{{InstanceId: sdk.String(id)}}
	}
	out := cloud.Absent
	for _, m := range all {
		state, id := stateOf(m), sdk.ToString(m.InstanceId)
		if tagOf(m.Tags, tagEnding) == "" {
			ending := &ec2.CreateTagsInput{Resources: []string{id}, Tags: toTags(nil, map[string]string{tagEnding: "true"})}
			_, err := l.account.ec2(ref.region).CreateTags(ctx, ending)
			if err != nil && !isNotFound(err) {
				return cloud.Absent, fail("end", ref, err)
			}
		}
		if state == types.InstanceStateNameTerminated {
			continue
		}
		out = cloud.Deleting
		if state == types.InstanceStateNameShuttingDown {
			continue
		}
		_, err := l.account.ec2(ref.region).TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
		switch {
		case err == nil:
			l.account.recordDeleted(ref.region, id)
		case !isNotFound(err): // otherwise EC2 does not show the instance yet
			return cloud.Absent, fail("end", ref, err)
		}
	}
	return out, nil
}
