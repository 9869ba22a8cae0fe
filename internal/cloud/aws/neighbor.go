package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// newestVersion names the version of a launch template with the highest number.
const newestVersion = "$Latest"

// maxNeighbors is how many groups the refusal names.
const maxNeighbors = 3

// templateShared refuses a write to a launch template that other groups use at $Latest, because these groups would use the new
// version immediately. AWS does not list the groups of a template, so Kamino reads all groups of the region.
func templateShared(ctx context.Context, a *account, ref group, r recipe) (*cloud.Refusal, error) {
	if r.data == nil || r.capa || r.templateOwner() != "" { // Kamino does not write the template
		return nil, nil
	}
	var others []string
	err := allGroups(ctx, a, ref.region, func(g types.AutoScalingGroup) {
		if sdk.ToString(g.AutoScalingGroupARN) != string(ref.pool()) && g.Status == nil && usesNewest(g, sdk.ToString(r.spec.LaunchTemplateId)) {
			others = append(others, sdk.ToString(g.AutoScalingGroupName))
		}
	})
	if err != nil || len(others) == 0 {
		return nil, err
	}
	slices.Sort(others)
	names := strings.Join(others[:min(len(others), maxNeighbors)], ", ")
	if more := len(others) - maxNeighbors; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	refusal := cloud.Refuse(cloud.TemplateUnsuitable,
		fmt.Sprintf("%s: other groups use launch template %s at %s, and would launch nodes from the image of this group: %s",
			ref, sdk.ToString(r.spec.LaunchTemplateId), newestVersion, names),
		fmt.Sprintf("point these groups at a version number with `aws autoscaling update-auto-scaling-group`, or give %s a launch template of its own",
			ref.name))
	return &refusal, nil
}

// allGroups calls do for each group of a region, and caches the groups and their list.
func allGroups(ctx context.Context, a *account, in string, do func(types.AutoScalingGroup)) error {
	cache, all := cloud.ReadCacheOf(ctx), []types.AutoScalingGroup(nil)
	err := a.eachGroup(ctx, in, nil, func(g types.AutoScalingGroup) {
		cache.Put(groupKey(cloud.PoolID(sdk.ToString(g.AutoScalingGroupARN))), g)
		all = append(all, g)
		do(g)
	})
	if err == nil {
		cache.Put(groupsKey(in), all)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.largeRegions[in] = len(all) > maxGroups
	}
	return err
}

// isLarge reports whether the list of a region's groups took several requests.
func isLarge(a *account, in string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.largeRegions[in]
}

// groupsKey is the key of the list of a region's groups in the read cache.
func groupsKey(in string) string { return "groups " + in }

// listGroups lists the groups of a region into the read cache. The list then answers reads of groups and of instances.
func listGroups(ctx context.Context, a *account, in string) error {
	if cloud.ReadCacheOf(ctx).IsInvalid() {
		return nil
	}
	return allGroups(ctx, a, in, func(types.AutoScalingGroup) {})
}

// listedGroups returns the groups of a region from the read cache.
func listedGroups(ctx context.Context, in string) ([]types.AutoScalingGroup, bool) {
	all, found := cloud.ReadCacheOf(ctx).Get(groupsKey(in))
	if !found {
		return nil, false
	}
	return all.([]types.AutoScalingGroup), true // the key holds only lists of groups
}

// usesNewest reports whether a group launches instances from the newest version of a template.
func usesNewest(g types.AutoScalingGroup, template string) bool {
	isNewest := func(spec *types.LaunchTemplateSpecification) bool {
		return spec != nil && sdk.ToString(spec.LaunchTemplateId) == template && sdk.ToString(spec.Version) == newestVersion
	}
	if isNewest(specOf(g)) {
		return true
	}
	if g.MixedInstancesPolicy == nil || g.MixedInstancesPolicy.LaunchTemplate == nil {
		return false
	}
	return slices.ContainsFunc(g.MixedInstancesPolicy.LaunchTemplate.Overrides,
		func(o types.LaunchTemplateOverrides) bool { return isNewest(o.LaunchTemplateSpecification) })
}
