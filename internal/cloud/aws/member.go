package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// membership is the pool of an instance with the time of the read.
type membership struct {
	cloud.Membership
	at time.Time
}

// Validity of memberships. Every action on an instance reads the instance first, and instances rarely leave a group. An
// instance without a group may be attached at any time.
const (
	membershipLife = 6 * time.Hour
	noGroupLife    = 20 * time.Minute
	// denialLife is the validity of a denied read.
	denialLife = 15 * time.Minute
)

// isValid reports whether the membership is still valid.
func (m membership) isValid(now time.Time) bool {
	if m.Pool == "" {
		return now.Sub(m.at) <= noGroupLife
	}
	return now.Sub(m.at) <= membershipLife
}

// denial is a denied read with its time.
type denial struct {
	error
	at time.Time
}

// Limits of AWS. Sources: DescribeAutoScalingInstances, InstanceIds; DescribeAutoScalingGroups, MaxRecords.
const (
	maxInstances = 50
	maxGroups    = 100
	// maxPage is the largest page of EC2. AWS throttles requests without a page size more. Source: "Query requests for Amazon EC2".
	maxPage = 1000
)

// PoolsOf implements cloud.PoolProvider: for unknown nodes a request per 50 nodes, and a request for the groups.
func (p *PoolProvider) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	out, refs, unknown := make([]cloud.Membership, len(nodes)), make([]instance, len(nodes)), map[string][]string{}
	for i, node := range nodes {
		ref, err := parseInstance(node.ProviderID)
		if err != nil {
			out[i].Why = sentence(err)
			continue
		}
		refs[i] = ref
		if _, known := p.member(ref); !known && !slices.Contains(unknown[ref.region], ref.id) {
			unknown[ref.region] = append(unknown[ref.region], ref.id)
		}
	}
	for in, ids := range unknown {
		for batch := range slices.Chunk(ids, maxInstances) {
			if err := p.readMemberships(ctx, in, batch); err != nil {
				return nil, err
			}
		}
	}
	for i, ref := range refs {
		if ref.id != "" {
			out[i], _ = p.member(ref)
		}
	}
	return out, nil
}

func sentence(err error) string {
	var ours *cloud.Error
	if errors.As(err, &ours) {
		return ours.Message
	}
	return err.Error()
}

// member returns the known membership of an instance.
func (a *account) member(ref instance) (cloud.Membership, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, found := a.members[ref.region+"/"+ref.id]
	if !found || !m.isValid(a.config.Now()) {
		return cloud.Membership{}, false
	}
	return m.Membership, true
}

// readMemberships reads the groups of instances, unless AWS denied the read recently.
func (a *account) readMemberships(ctx context.Context, in string, ids []string) error {
	a.mu.Lock()
	reported, found := a.denials[in]
	a.mu.Unlock()
	if found && a.config.Now().Sub(reported.at) <= denialLife {
		return reported.error
	}
	err := a.fetchMemberships(ctx, in, ids)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.denials, in)
	if cloud.Is(err, cloud.Denied) {
		a.denials[in] = denial{err, a.config.Now()}
	}
	return err
}

func (a *account) fetchMemberships(ctx context.Context, in string, ids []string) error {
	names, arns := map[string]string{}, map[string]cloud.PoolID{}
	arn := func(g types.AutoScalingGroup) {
		arns[sdk.ToString(g.AutoScalingGroupName)] = cloud.PoolID(sdk.ToString(g.AutoScalingGroupARN))
	}
	if groups, listed := listedGroups(ctx, in); listed {
		for _, g := range groups {
			arn(g)
			for _, m := range g.Instances {
				names[sdk.ToString(m.InstanceId)] = sdk.ToString(g.AutoScalingGroupName)
			}
		}
	} else {
		found, err := a.autoScaling(in).DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids})
		if err != nil {
			return fail("read the groups of", instances(ids), err)
		}
		for _, m := range found.AutoScalingInstances {
			names[sdk.ToString(m.InstanceId)] = sdk.ToString(m.AutoScalingGroupName)
		}
		if err := a.eachGroup(ctx, in, slices.Compact(slices.Sorted(values(names))), arn); err != nil {
			return err
		}
	}
	now := a.config.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for known, m := range a.members { // of deleted nodes
		if !m.isValid(now) {
			delete(a.members, known)
		}
	}
	for _, id := range ids {
		m := cloud.Membership{Pool: arns[names[id]]}
		if m.Pool == "" {
			m.Why = "instance " + id + " is in no Auto Scaling group: only nodes of groups can be captured"
		}
		a.members[in+"/"+id] = membership{m, now}
	}
	return nil
}

func values(of map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range of {
			if !yield(v) {
				return
			}
		}
	}
}

// instances are IDs of instances, as text for errors.
type instances []string

func (i instances) String() string {
	const reported = 3
	if len(i) > reported {
		return strings.Join(i[:reported], ", ") + " and others"
	}
	return strings.Join(i, ", ")
}

// eachGroup calls do for each group of a region: the named groups, or all groups if names is nil.
func (a *account) eachGroup(ctx context.Context, in string, names []string, do func(types.AutoScalingGroup)) error {
	if names != nil && len(names) == 0 {
		return nil
	}
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(a.autoScaling(in),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: names, MaxRecords: sdk.Int32(maxGroups)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fail("read the groups in", text(in), err)
		}
		for _, g := range page.AutoScalingGroups {
			rememberTags(a, g)
			do(g)
		}
	}
	return nil
}

// PoolsInScope implements cloud.PoolProvider and returns all groups of the regions.
func (p *PoolProvider) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	var in []string
	for _, id := range pools {
		ref, err := parsePool(id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(in, ref.region) {
			in = append(in, ref.region)
		}
	}
	var all []cloud.PoolID
	add := func(g types.AutoScalingGroup) {
		all = append(all, cloud.PoolID(sdk.ToString(g.AutoScalingGroupARN)))
	}
	for _, region := range in {
		if err := allGroups(ctx, p.account, region, add); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ReadPool implements cloud.PoolProvider.
func (p *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	ref, err := parsePool(cloud.PoolID(text))
	return ref.pool(), err == nil
}

// Instances implements cloud.PoolProvider. EC2 tags every instance of a group with the group's name.
func (p *PoolProvider) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	ref, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	g, err := p.group(ctx, ref)
	if err != nil {
		return nil, err
	}
	of := map[string]bool{}
	for _, m := range g.Instances {
		of[sdk.ToString(m.InstanceId)] = true
	}
	var members []ec2types.Instance
	filter := ec2types.Filter{Name: sdk.String("tag:aws:autoscaling:groupName"), Values: []string{ref.name}}
	if err := p.eachInstance(ctx, ref.region, ref, filter, func(m ec2types.Instance) error {
		if of[sdk.ToString(m.InstanceId)] {
			members = append(members, m)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	p.readTemplates(ctx, ref, members)
	var all []cloud.Instance
	for _, m := range members {
		one, err := p.instanceOf(ctx, ref.region, m)
		if err != nil {
			return nil, err
		}
		one.Pool = pool
		if at := sdk.ToTime(m.LaunchTime); g.WarmPoolConfiguration != nil && at.After(one.CreatedAt) {
			one.CreatedAt = at // it may have waited in the warm pool since its creation
		}
		all = append(all, one)
	}
	return all, nil
}

// eachInstance calls do for each instance of the filter that is not terminated.
func (a *account) eachInstance(ctx context.Context, in string, of fmt.Stringer, filter ec2types.Filter, report func(ec2types.Instance) error) error {
	pages := ec2.NewDescribeInstancesPaginator(a.ec2(in), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filter}, MaxResults: sdk.Int32(maxPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fail("read the instances of", of, err)
		}
		for _, reservation := range page.Reservations {
			for _, m := range reservation.Instances {
				if stateOf(m) == ec2types.InstanceStateNameTerminated {
					continue
				}
				if err := report(m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// instanceOf converts an EC2 instance. The ID is the provider ID of the Node.
func (a *account) instanceOf(ctx context.Context, in string, m ec2types.Instance) (cloud.Instance, error) {
	ref := instance{region: in, id: sdk.ToString(m.InstanceId)}
	if m.Placement != nil {
		ref.zone = sdk.ToString(m.Placement.AvailabilityZone)
	}
	disk := ""
	if root := rootOf(m); root != nil {
		disk = sdk.ToString(root.VolumeId)
	}
	image, err := a.imageTextOf(ctx, in, sdk.ToString(m.ImageId))
	return cloud.Instance{
		ID: ref.providerID(), Power: powerOf(m), Image: image, Disk: disk, CreatedAt: launchedAt(m), Refusals: refusalsOf(ref, m),
		Removing: stateOf(m) == ec2types.InstanceStateNameShuttingDown, Type: string(m.InstanceType), Zone: ref.zone, Recipe: a.recipeOf(in, m),
	}, err
}

// maxFiltered is the largest number of values of a filter. Source: EC2, "List and filter your resources".
const maxFiltered = 200

// InstancesOf returns many instances in few requests, with or without a group. Missing instances are left out. Package
// capi reads the images of a pool's machines with InstancesOf.
func (p *ImageProvider) InstancesOf(ctx context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	found, asked := map[cloud.InstanceID]cloud.Instance{}, map[string]map[string]cloud.InstanceID{}
	for _, id := range ids {
		ref, err := parseInstance(id)
		if err != nil {
			continue
		}
		if asked[ref.region] == nil {
			asked[ref.region] = map[string]cloud.InstanceID{}
		}
		asked[ref.region][ref.id] = id
	}
	for in, of := range asked {
		for some := range slices.Chunk(slices.Sorted(maps.Keys(of)), maxFiltered) {
			filter := ec2types.Filter{Name: sdk.String("instance-id"), Values: some}
			if err := p.eachInstance(ctx, in, text(in), filter, func(m ec2types.Instance) error {
				one, err := p.instanceOf(ctx, in, m)
				one.ID = of[sdk.ToString(m.InstanceId)]
				found[one.ID] = one
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// MaxModels returns 0: AWS has no limit on the images of a group's instances.
func (p *ImageProvider) MaxModels() int { return 0 }

// MaxImages implements cloud.PoolProvider.
func (p *PoolProvider) MaxImages(cloud.PoolID) int { return 0 }
