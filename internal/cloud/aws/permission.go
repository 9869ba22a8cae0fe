package aws

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Permissions implements cloud.PoolProvider.
func (p *PoolProvider) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	ref, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	tags, err := groupTags(ctx, p.account, ref)
	if err != nil {
		return nil, err
	}
	reader := permissionReader{p.account}
	all, err := reader.check(ctx, ref.region, string(pool), tags, onGroup(p.capa))
	if err != nil {
		return nil, err
	}
	beside := needsWhere(func(n need) bool { return n.IsOf("pool") && (!p.capa || n.Statement == look && n.Feature == "") })
	more, err := reader.check(ctx, ref.region, anyResource, nil, beside)
	if err != nil || tags[kopsKey] == "" {
		return append(all, more...), err
	}
	r, err := p.recipe(ctx, ref)
	if err != nil || !r.byParameter() {
		return append(all, more...), err
	}
	ofParameter, err := reader.check(ctx, ref.region, r.parameterARN(ref), nil, parameterNeeds)
	return append(append(all, more...), ofParameter...), err
}

// parameterNeeds are the needs on the parameter of a group of kOps.
var parameterNeeds = needsWhere(func(n need) bool { return n.IsOf("parameter") })

// onGroup returns the needs on a group. Where Cluster API sets the image, updateAction is not needed.
func onGroup(capa bool) []need {
	return needsWhere(func(n need) bool { return n.IsOf("group") && (!capa || n.action != updateAction) })
}

// Permissions implements cloud.ImageProvider.
func (p *ImageProvider) Permissions(ctx context.Context, family cloud.ImageFamily) ([]cloud.Permission, error) {
	return permissionReader{p.account}.check(ctx, family.Place, anyResource, nil, needsWhere(func(n need) bool { return n.IsOf("disk") }))
}

// anyResource is the scope of actions without a resource.
const anyResource = "*"

// deniedOfGroup returns the missing permissions of a capture on a group. Auto Scaling has no dry run, so IAM answers; without
// an answer the permissions are unknown. Dry runs check the template and a launch, unless IAM allows both.
func deniedOfGroup(ctx context.Context, p *PoolProvider, ref group, r recipe, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	var found []cloud.Refusal
	missing := func(action string, on fmt.Stringer) {
		found = append(found, permissionMissing(action, on))
	}
	wanted := slices.DeleteFunc(onGroup(p.capa), func(n need) bool {
		return spec.Copies && n.Feature == cloud.ForInPlace || n.Feature == cloud.ForWarmPool
	})
	reader := permissionReader{p.account}
	if all, err := reader.check(ctx, ref.region, string(ref.pool()), tagsOfGroup(r.group), wanted); err == nil {
		for _, permission := range all {
			if !permission.Allowed {
				missing(permission.Action, ref)
			}
		}
	} else if kind := cloud.KindOf(err); kind == cloud.Unauthenticated || kind == cloud.Throttled {
		return nil, err
	}
	if r.data == nil || p.capa {
		return found, nil
	}
	known, err := reader.ofEC2(ctx, ref.region)
	if err != nil {
		return nil, err
	}
	client, try := p.ec2(ref.region), sdk.Bool(true)
	attempts := []dryRun{
		{newVersionAction, false, func() error {
			_, err := client.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
				LaunchTemplateId: r.spec.LaunchTemplateId, SourceVersion: sdk.String(r.text()),
				LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: r.data.ImageId}, DryRun: try,
			})
			return err
		}},
		// The launch of a node with an instance profile also needs the role of the nodes, which only the dry run checks.
		{launchAction, r.data.IamInstanceProfile != nil, func() error {
			_, err := client.RunInstances(ctx, &ec2.RunInstancesInput{
				LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: r.spec.LaunchTemplateId, Version: sdk.String(r.text())},
				MinCount:       sdk.Int32(1), MaxCount: sdk.Int32(1), DryRun: try,
			})
			return err
		}},
	}
	denied, err := deniedDryRuns(attempts, known, ref)
	return append(found, denied...), err
}

// groupTags returns the tags of a group from the last read, or from AWS.
func groupTags(ctx context.Context, a *account, ref group) (map[string]string, error) {
	a.mu.Lock()
	known, found := a.groupTags[ref.pool()]
	a.mu.Unlock()
	if found {
		return known, nil
	}
	g, err := a.group(ctx, ref)
	if cloud.Is(err, cloud.NotFound) {
		return nil, nil
	}
	return tagsOfGroup(g), err
}

// rememberTags stores the tags of a group.
func rememberTags(a *account, g autoscalingtypes.AutoScalingGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.groupTags[cloud.PoolID(sdk.ToString(g.AutoScalingGroupARN))] = tagsOfGroup(g)
}

// tagsOfGroup returns the tags of a group.
func tagsOfGroup(g autoscalingtypes.AutoScalingGroup) map[string]string {
	tags := map[string]string{}
	for _, t := range g.Tags {
		tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	return tags
}

// dryRun is a dry run of an action.
type dryRun struct {
	action string
	// isNeeded is true if the dry run checks more than the action.
	isNeeded bool
	do       func() error
}

// deniedDryRuns returns the missing permissions. There is no dry run of an action that IAM allows.
func deniedDryRuns(attempts []dryRun, known map[string]decision, on fmt.Stringer) ([]cloud.Refusal, error) {
	// Not verified on AWS, permissions: a dry run checks the permission before anything else.
	var found []cloud.Refusal
	for _, attempt := range attempts {
		if known[attempt.action] == decisionAllowed && !attempt.isNeeded {
			continue
		}
		denied, err := isDryRunDenied("try "+attempt.action+" on", on, attempt.do())
		if err != nil {
			return nil, err
		}
		if denied {
			found = append(found, permissionMissing(attempt.action, on))
		}
	}
	return found, nil
}

func permissionMissing(action string, on fmt.Stringer) cloud.Refusal {
	remedy := "allow the action in the credential's IAM policy"
	if slices.ContainsFunc(uses, func(u cloud.Use) bool { return u.Feature == cloud.ForInPlace && slices.Contains(u.Actions, action) }) {
		remedy = cloud.PowerRemedy("aws", cloud.ForInPlace)
	}
	return cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", action, on), remedy)
}

// isDryRunDenied reports whether AWS denied a dry run. Other refusals appear in the real call. An error means that AWS did
// not judge the request.
func isDryRunDenied(op string, on fmt.Stringer, err error) (bool, error) {
	err = fail(op, on, err)
	switch kind := cloud.KindOf(err); {
	case err == nil, isCode(err, "DryRunOperation"):
		return false, nil
	case kind == cloud.Unauthenticated, kind == cloud.Throttled, kind == cloud.Unavailable:
		return false, err
	default:
		return kind == cloud.Denied, nil
	}
}
