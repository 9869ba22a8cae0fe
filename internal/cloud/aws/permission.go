package aws

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// need is a required permission.
type need struct {
	action string
	// purpose is the feature that needs the action; empty if captures need the action.
	purpose string
}

// groupNeeds are actions on a group, with the group's ARN as scope. templateNeeds are actions on launch templates.
var (
	groupNeeds = []need{
		{action: "autoscaling:EnterStandby"}, {action: "autoscaling:ExitStandby"}, {action: "autoscaling:SetInstanceProtection"}, {action: updateAction},
		{growAction, cloud.ForRemoval}, {"autoscaling:TerminateInstanceInAutoScalingGroup", cloud.ForRemoval},
	}
	templateNeeds = []need{
		{action: "autoscaling:DescribeAutoScalingGroups"}, {action: "autoscaling:DescribeAutoScalingInstances"}, {action: "autoscaling:DescribeInstanceRefreshes"},
		{action: "ec2:DescribeLaunchTemplateVersions"}, {action: "ec2:CreateLaunchTemplateVersion"}, {action: "ec2:RunInstances"},
	}
	// diskNeeds are actions on instances, snapshots and images.
	diskNeeds = []need{
		{action: "ec2:DescribeInstances"}, {action: "ec2:DescribeInstanceAttribute"}, {action: "ec2:DescribeVolumes"}, {action: "ec2:DescribeSnapshots"}, {action: "ec2:DescribeImages"},
		{action: "ec2:StopInstances"}, {action: "ec2:StartInstances"}, {action: "ec2:CreateSnapshot"}, {action: "ec2:DeleteSnapshot"},
		{action: "ec2:RegisterImage"}, {action: "ec2:DeregisterImage"}, {action: "ec2:CreateTags"}, {action: "ec2:DeleteTags"},
	}
)

// RequiredActions returns all actions of Kamino, in the order of docs/aws.md.
func RequiredActions() []string {
	var all []string
	for _, n := range slices.Concat(groupNeeds, templateNeeds, diskNeeds, trialNeeds, rebuildNeeds) {
		all = append(all, n.action)
	}
	return all
}

// Permissions implements cloud.PoolProvider.
func (p *PoolProvider) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	ref, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	all, err := p.checkPermissions(ctx, ref.region, string(pool), onGroup(p.capa))
	if err != nil {
		return nil, err
	}
	beside := slices.Concat(templateNeeds, trialNeeds, rebuildNeeds)
	if p.capa {
		beside = slices.DeleteFunc(slices.Clone(templateNeeds), func(n need) bool { return !strings.Contains(n.action, ":Describe") })
	}
	more, err := p.checkPermissions(ctx, ref.region, anyResource, beside)
	return append(all, more...), err
}

// onGroup returns the needs on a group. Where Cluster API sets the image, updateAction is not needed.
func onGroup(capa bool) []need {
	return slices.DeleteFunc(slices.Clone(groupNeeds), func(n need) bool { return capa && n.action == updateAction })
}

// updateAction sets the group's version of the launch template.
const updateAction = "autoscaling:UpdateAutoScalingGroup"

// Permissions implements cloud.ImageProvider.
func (p *ImageProvider) Permissions(ctx context.Context, family cloud.ImageFamily) ([]cloud.Permission, error) {
	return p.checkPermissions(ctx, family.Place, anyResource, diskNeeds)
}

// anyResource is the scope of actions without a resource.
const anyResource = "*"

// checkPermissions reads from IAM which actions the credential may do. Actions with an unknown answer are left out.
func (a *account) checkPermissions(ctx context.Context, in, scope string, needs []need) ([]cloud.Permission, error) {
	who, err := a.principal(ctx, in)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range needs {
		names = append(names, n.action)
	}
	var decisions map[string]decision
	if who != "" {
		if decisions, err = a.simulate(ctx, in, who, scope, names); err != nil {
			return nil, err
		}
	}
	var all []cloud.Permission
	for _, n := range needs {
		is := decisions[n.action]
		if who == "" || scope == anyResource && a.uses.recent(in, n.action) { // the root user has all permissions
			is = decisionAllowed
		}
		if is != decisionUnknown {
			all = append(all, cloud.Permission{Action: n.action, Scope: scope, Allowed: is == decisionAllowed, For: n.purpose})
		}
	}
	return all, nil
}

// identity is a credential, as text for errors.
type identity string

func (i identity) String() string { return "credential " + string(i) }

// sessionARN matches the ARN of a role session. The ARN lacks the role's path.
var sessionARN = regexp.MustCompile(`^arn:([a-z-]+):sts::([0-9]+):assumed-role/([^/]+)/`)

// principal returns the ARN with the policies; empty for the root user.
func (a *account) principal(ctx context.Context, in string) (string, error) {
	out, err := a.sts(in).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fail("read", identity("itself"), err)
	}
	arn := sdk.ToString(out.Arn)
	if role := sessionARN.FindStringSubmatch(arn); role != nil {
		return fmt.Sprintf("arn:%s:iam::%s:role/%s", role[1], role[2], role[3]), nil
	}
	if strings.HasSuffix(arn, ":root") {
		return "", nil
	}
	return arn, nil
}

// simulationTimeout is the timeout of IAM. Nodes that reach only regional endpoints cannot reach IAM.
const simulationTimeout = 5 * time.Second

// decision is what IAM knows of an action.
type decision int

const (
	// decisionUnknown is a denial that the real request may not meet, or no result.
	decisionUnknown decision = iota
	decisionAllowed
	decisionDenied
)

// decisionOf reads a result of a simulation. IAM does not name missing context values of organization policies and
// permissions boundaries, so denials of these policies alone are unknown. Source: EvaluationResult, MissingContextValues.
func decisionOf(r types.EvaluationResult) decision {
	isConditional := len(r.MissingContextValues) > 0 || slices.ContainsFunc(r.ResourceSpecificResults, func(s types.ResourceSpecificResult) bool { return len(s.MissingContextValues) > 0 })
	byOrganization := r.OrganizationsDecisionDetail != nil && !r.OrganizationsDecisionDetail.AllowedByOrganizations
	byBoundary := r.PermissionsBoundaryDecisionDetail != nil && !r.PermissionsBoundaryDecisionDetail.AllowedByPermissionsBoundary ||
		slices.ContainsFunc(r.ResourceSpecificResults, func(s types.ResourceSpecificResult) bool {
			return s.PermissionsBoundaryDecisionDetail != nil && !s.PermissionsBoundaryDecisionDetail.AllowedByPermissionsBoundary
		})
	switch {
	case r.EvalDecision == types.PolicyEvaluationDecisionTypeAllowed:
		return decisionAllowed
	case isConditional, byOrganization, byBoundary:
		return decisionUnknown
	}
	return decisionDenied
}

// simulate returns the decisions of IAM by action, for requests in a region.
func (a *account) simulate(ctx context.Context, in, who, scope string, names []string) (map[string]decision, error) {
	ctx, cancel := context.WithTimeout(ctx, simulationTimeout)
	defer cancel()
	decisions := map[string]decision{}
	pages := iam.NewSimulatePrincipalPolicyPaginator(a.iam(in), &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: sdk.String(who), ActionNames: names, ResourceArns: []string{scope},
		ContextEntries: []types.ContextEntry{{ContextKeyName: sdk.String("aws:RequestedRegion"), ContextKeyType: types.ContextKeyTypeEnumString, ContextKeyValues: []string{in}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read the permissions of", identity(who), err)
		}
		for _, r := range page.EvaluationResults {
			decisions[sdk.ToString(r.EvalActionName)] = decisionOf(r)
		}
	}
	return decisions, nil
}

// deniedOfGroup returns the missing permissions of a capture on a group. Auto Scaling has no dry run, so IAM answers.
// Without an answer the permissions are unknown.
//
// Dry runs check a new template version and a launch, if Kamino writes the template.
func (p *PoolProvider) deniedOfGroup(ctx context.Context, ref group, r recipe, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	var found []cloud.Refusal
	missing := func(action string, on fmt.Stringer) {
		found = append(found, permissionMissing(action, on))
	}
	wanted := slices.DeleteFunc(onGroup(p.capa), func(n need) bool {
		return n.action == "autoscaling:SetDesiredCapacity" && !spec.Grows || n.action == "autoscaling:TerminateInstanceInAutoScalingGroup" && !spec.Removes
	})
	if all, err := p.checkPermissions(ctx, ref.region, string(ref.pool()), wanted); err == nil {
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
	client, try := p.ec2(ref.region), sdk.Bool(true)
	_, made := client.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: r.spec.LaunchTemplateId, SourceVersion: sdk.String(r.text()), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: r.data.ImageId}, DryRun: try,
	})
	_, run := client.RunInstances(ctx, &ec2.RunInstancesInput{
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: r.spec.LaunchTemplateId, Version: sdk.String(r.text())}, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), DryRun: try,
	})
	for _, attempt := range []struct {
		action string
		err    error
	}{{"ec2:CreateLaunchTemplateVersion", made}, {"ec2:RunInstances", run}} {
		denied, err := isDryRunDenied("try "+attempt.action+" for", ref, attempt.err)
		if err != nil {
			return nil, err
		}
		if denied {
			missing(attempt.action, ref)
		}
	}
	return found, nil
}

func permissionMissing(action string, on fmt.Stringer) cloud.Refusal {
	return cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", action, on), "allow the action in the credential's IAM policy")
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
