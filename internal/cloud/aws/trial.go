package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A trial is an instance outside the group, from the group's launch template version with the image under test. The group
// stays unchanged, so that a trial leaves nothing behind.

// Tags of a trial's instance.
const (
	tagTrial = "kamino-trial-name"
	tagPool  = "kamino-pool"
	// tagEnding marks a trial that Kamino is ending. Without the tag a terminated instance is a lost instance.
	tagEnding = "kamino-trial-ending"
)

const opTry = "try a version of"

// trialRef names a trial.
type trialRef struct {
	group
	name string
}

func (r trialRef) String() string { return "trial " + r.name + " of " + r.group.String() }

func (r trialRef) key() string { return r.region + "/trial/" + string(r.pool()) + "/" + r.name }

func trialOf(spec cloud.TrialSpec) (trialRef, error) {
	ref, err := parsePool(spec.Pool)
	return trialRef{ref, spec.Name}, err
}

// noCapacityCodes are the error codes of missing capacity. Source: "Error codes for the Amazon EC2 API".
var noCapacityCodes = []string{
	"InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity", "InsufficientFreeAddressesInSubnet", "InstanceLimitExceeded",
	"VcpuLimitExceeded", "MaxSpotInstanceCountExceeded",
	"SpotMaxPriceTooLow", "Server.InsufficientInstanceCapacity", "Server.SpotInstanceTermination", "Client.VolumeLimitExceeded", "VolumeLimitExceeded",
}

// imageFaultCodes are state reasons that blame the image. Source: EC2 User Guide, "Troubleshoot instance launch issues".
var imageFaultCodes = []string{"Client.InvalidSnapshot.NotFound"}

// PreflightTrial implements cloud.PoolProvider. AWS does not report capacity in advance.
func (p *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return nil, err
	}
	r, err := p.recipe(ctx, ref.group)
	if err != nil {
		return nil, err
	}
	if found := refusalsOfTemplate(ref.group, r); len(found) > 0 {
		return found, nil
	}
	if r.data.InstanceRequirements != nil { // "RunInstances cannot launch such a template": RequestLaunchTemplateData
		return []cloud.Refusal{cloud.Refuse(reasonRequirements,
			fmt.Sprintf("%s: the launch template selects instance types by attributes, and a trial cannot launch such a template", ref.group),
			"move the requirements to the overrides of the mixed instances policy, or set settings.trial.mode to Off")}, nil
	}
	var found []cloud.Refusal
	in := launch(ref, r, sdk.ToString(r.data.ImageId), spec)
	in.DryRun = sdk.Bool(true)
	_, err = p.ec2(ref.region).RunInstances(ctx, in)
	denied, err := isDryRunDenied("try to launch for", ref, err)
	if err != nil {
		return nil, err
	}
	if denied {
		found = append(found, permissionMissing(launchAction+", or "+passAction+" for the instance profile,", ref))
	}
	all, err := permissionReader{p.account}.check(ctx, ref.region, anyResource, nil, needsWhere(func(n need) bool { return n.Feature == cloud.ForTrialApart }))
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

// launch returns the request for a trial's instance: as the group would launch, in a subnet of the group.
func launch(ref trialRef, r recipe, ami string, spec cloud.TrialSpec) *ec2.RunInstancesInput {
	tags := map[string]string{}
	for _, t := range r.group.Tags {
		if key := sdk.ToString(t.Key); sdk.ToBool(t.PropagateAtLaunch) && !strings.HasPrefix(key, "aws:") {
			tags[key] = sdk.ToString(t.Value)
		}
	}
	own := map[string]string{tagTrial: spec.Name, tagPool: string(ref.pool()), tagVersion: spec.Version}
	for key, value := range spec.Tags {
		own[key] = value
	}
	in := &ec2.RunInstancesInput{
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: r.spec.LaunchTemplateId, Version: sdk.String(r.text())}, ImageId: sdk.String(ami),
		MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), ClientToken: sdk.String("kamino-" + digest(ref.key())),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: toTags(own, tags)}},
	}
	in.InstanceType = trialType(r)
	subnets := strings.FieldsFunc(sdk.ToString(r.group.VPCZoneIdentifier), func(c rune) bool { return c == ',' || c == ' ' })
	if len(subnets) == 0 {
		return in
	}
	subnet := sdk.String(subnets[subnetIndex(spec.Name)%len(subnets)])
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

// trialType returns the instance type of a trial: the first override of a mixed group. If attributes select the type, it is
// the type of an instance of the group. Empty leaves the type to the launch template.
func trialType(r recipe) types.InstanceType {
	m := r.group.MixedInstancesPolicy
	if m == nil || m.LaunchTemplate == nil || len(m.LaunchTemplate.Overrides) == 0 {
		return ""
	}
	if first := sdk.ToString(m.LaunchTemplate.Overrides[0].InstanceType); first != "" {
		return types.InstanceType(first)
	}
	oldest := ""
	kind := ""
	for _, i := range r.group.Instances {
		if id := sdk.ToString(i.InstanceId); kind == "" || id < oldest {
			oldest, kind = id, sdk.ToString(i.InstanceType)
		}
	}
	return types.InstanceType(kind)
}

// subnetIndex distributes trials over the subnets by name. The next attempt may find capacity in another subnet.
func subnetIndex(name string) int {
	n := 0
	for _, c := range name {
		n += int(c)
	}
	return n
}

// Trial implements cloud.PoolProvider.
func (p *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	all, err := p.trialInstances(ctx, ref)
	if err != nil {
		return cloud.Trial{}, err
	}
	switch {
	case len(all) == 0 && p.recentlyCreated(ref.key()).id != "":
		return cloud.Trial{State: cloud.Pending}, nil
	case len(all) == 0:
		return cloud.Trial{}, nil
	}
	one, err := p.instanceOf(ctx, ref.region, all[0])
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

// trialInstances returns the instances of a trial: at most one, perhaps terminated.
func (a *account) trialInstances(ctx context.Context, ref trialRef) ([]types.Instance, error) {
	return a.instancesWithTags(ctx, ref.region, ref, types.Filter{Name: sdk.String("tag:" + tagTrial), Values: []string{shorten(ref.name, maxTagValue)}},
		types.Filter{Name: sdk.String("tag:" + tagPool), Values: []string{shorten(string(ref.pool()), maxTagValue)}})
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

// Trials implements cloud.PoolProvider with a request per region.
func (p *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	wanted, of := map[string][]cloud.PoolID{}, []string(nil)
	for _, id := range pools {
		ref, err := parsePool(id)
		if err != nil {
			return nil, err
		}
		if len(wanted[ref.region]) == 0 {
			of = append(of, ref.region)
		}
		wanted[ref.region] = append(wanted[ref.region], id)
	}
	var found []cloud.TrialSpec
	for _, in := range of {
		all, err := p.instancesWithTags(ctx, in, text("the trials in "+in), types.Filter{Name: sdk.String("tag-key"), Values: []string{tagTrial}})
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			at := slices.IndexFunc(wanted[in], func(id cloud.PoolID) bool { return shorten(string(id), maxTagValue) == tagOf(m.Tags, tagPool) })
			if at < 0 || stateOf(m) == types.InstanceStateNameTerminated {
				continue
			}
			found = append(found, cloud.TrialSpec{
				ImageRef: cloud.ImageRef{Pool: wanted[in][at], Version: tagOf(m.Tags, tagVersion)}, Name: tagOf(m.Tags, tagTrial),
				Tags: cloud.OwnerTags(tagsOf(m.Tags)),
			})
		}
	}
	return append(found, p.unlistedTrials(found, pools)...), nil
}

// unlistedTrials returns the recent trials of this process that EC2 does not show yet.
func (a *account) unlistedTrials(seen []cloud.TrialSpec, pools []cloud.PoolID) []cloud.TrialSpec {
	a.mu.Lock()
	begun := maps.Clone(a.trials)
	a.mu.Unlock()
	var more []cloud.TrialSpec
	for _, key := range slices.Sorted(maps.Keys(begun)) {
		spec := begun[key]
		switch {
		case a.recentlyCreated(key).id == "":
			a.mu.Lock()
			delete(a.trials, key)
			a.mu.Unlock()
		case slices.Contains(pools, spec.Pool) &&
			!slices.ContainsFunc(seen, func(s cloud.TrialSpec) bool { return s.Pool == spec.Pool && s.Name == spec.Name }):
			more = append(more, spec)
		}
	}
	return more
}

// EnsureTrial implements cloud.PoolProvider. The client token makes repeated calls return the same instance, even after
// termination.
func (p *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	found, err := p.Trial(ctx, spec)
	if err != nil || found.State != cloud.Absent {
		return found, err
	}
	r, err := p.recipe(ctx, ref.group)
	if err != nil {
		return cloud.Trial{}, err
	}
	if refusals := refusalsOfTemplate(ref.group, r); len(refusals) > 0 {
		return cloud.Trial{}, refusals[0].Error(opTry, ref.String())
	}
	ami, err := p.ami(ctx, opTry, ref.group, ref.region, spec.To)
	if err != nil {
		return cloud.Trial{}, err
	}
	out, err := p.ec2(ref.region).RunInstances(ctx, launch(ref, r, ami, spec))
	switch {
	case isCode(err, "IdempotentParameterMismatch"): // an earlier request had another template or group
		return cloud.Trial{State: cloud.Pending}, nil
	case isCode(err, noCapacityCodes...):
		return cloud.Trial{}, asQuotaExceeded(fail(opTry, ref, err))
	case err != nil:
		return cloud.Trial{}, fail(opTry, ref, err)
	}
	for _, m := range out.Instances {
		p.recordCreated(ref.key(), sdk.ToString(m.InstanceId), nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trials[ref.key()] = cloud.TrialSpec{ImageRef: spec.ImageRef, Name: spec.Name, Tags: cloud.OwnerTags(spec.Tags)}
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

// EndTrial implements cloud.PoolProvider. EndTrial writes the tag first, so that the terminated instance does not look
// lost.
func (p *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return cloud.Absent, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	all, err := p.trialInstances(ctx, ref)
	if err != nil {
		return cloud.Absent, err
	}
	if id := p.recentlyCreated(ref.key()).id; len(all) == 0 && id != "" {
		all = []types.Instance{{InstanceId: sdk.String(id)}}
	}
	out := cloud.Absent
	for _, m := range all {
		state, id := stateOf(m), sdk.ToString(m.InstanceId)
		if tagOf(m.Tags, tagEnding) == "" {
			_, err := p.ec2(ref.region).CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: toTags(nil, map[string]string{tagEnding: "true"})})
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
		_, err := p.ec2(ref.region).TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
		switch {
		case err == nil:
			p.recordDeleted(ref.region, id)
		case !isNotFound(err): // otherwise EC2 does not show the instance yet
			return cloud.Absent, fail("end", ref, err)
		}
	}
	return out, nil
}
