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

// need is an action that the credential must be allowed.
type need struct {
	action string
	// of is what needs it, where captures do without; empty if they don't.
	of string
}

// groupNeeds are those on a group, whose ARN is their scope, and templateNeeds those on its launch template.
var (
	groupNeeds = []need{
		{action: "autoscaling:EnterStandby"}, {action: "autoscaling:ExitStandby"}, {action: "autoscaling:SetInstanceProtection"}, {action: updateGroup},
		{growth, cloud.ForRemoval}, {"autoscaling:TerminateInstanceInAutoScalingGroup", cloud.ForRemoval},
	}
	templateNeeds = []need{
		{action: "autoscaling:DescribeAutoScalingGroups"}, {action: "autoscaling:DescribeAutoScalingInstances"}, {action: "autoscaling:DescribeInstanceRefreshes"},
		{action: "ec2:DescribeLaunchTemplateVersions"}, {action: "ec2:CreateLaunchTemplateVersion"}, {action: "ec2:RunInstances"},
	}
	// diskNeeds are those on instances, snapshots and images.
	diskNeeds = []need{
		{action: "ec2:DescribeInstances"}, {action: "ec2:DescribeInstanceAttribute"}, {action: "ec2:DescribeVolumes"}, {action: "ec2:DescribeSnapshots"}, {action: "ec2:DescribeImages"},
		{action: "ec2:StopInstances"}, {action: "ec2:StartInstances"}, {action: "ec2:CreateSnapshot"}, {action: "ec2:DeleteSnapshot"},
		{action: "ec2:RegisterImage"}, {action: "ec2:DeregisterImage"}, {action: "ec2:CreateTags"}, {action: "ec2:DeleteTags"},
	}
)

// RequiredActions are all that Kamino may do, in the order of docs/aws.md, which lists them.
func RequiredActions() []string {
	var all []string
	for _, n := range slices.Concat(groupNeeds, templateNeeds, diskNeeds, trialNeeds, rebuildNeeds) {
		all = append(all, n.action)
	}
	return all
}

// Permissions implements cloud.PermissionChecker.
func (p *PoolProvider) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	ref, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	all, err := p.audit(ctx, ref.region, string(pool), onGroup(p.capa))
	if err != nil {
		return nil, err
	}
	beside := slices.Concat(templateNeeds, trialNeeds, rebuildNeeds)
	if p.capa {
		beside = slices.DeleteFunc(slices.Clone(templateNeeds), func(n need) bool { return !strings.Contains(n.action, ":Describe") })
	}
	more, err := p.audit(ctx, ref.region, everything, beside)
	return append(all, more...), err
}

// onGroup are the needs on a group: what points it at an image is no part of them where Cluster API does that.
func onGroup(capa bool) []need {
	return slices.DeleteFunc(slices.Clone(groupNeeds), func(n need) bool { return capa && n.action == updateGroup })
}

// updateGroup points a group at a version of its launch template.
const updateGroup = "autoscaling:UpdateAutoScalingGroup"

// Permissions implements cloud.FamilyPermissionChecker.
func (p *ImageProvider) Permissions(ctx context.Context, line cloud.ImageFamily) ([]cloud.Permission, error) {
	return p.audit(ctx, line.Place, everything, diskNeeds)
}

// everything is the scope of what is not about one resource.
const everything = "*"

// audit asks IAM what the credential may do. IAM knows nothing of what the organization's policies and boundaries of sessions forbid.
func (a *account) audit(ctx context.Context, in, scope string, needs []need) ([]cloud.Permission, error) {
	who, err := a.principal(ctx, in)
	if err != nil {
		return nil, err
	}
	var all []cloud.Permission
	var names []string
	for _, n := range needs {
		all = append(all, cloud.Permission{Action: n.action, Scope: scope, Allowed: true, For: n.of})
		names = append(names, n.action)
	}
	if who == "" { // the account's root may do everything
		return all, nil
	}
	denied, err := a.simulate(ctx, in, who, scope, names)
	for i := range all {
		all[i].Allowed = !slices.Contains(denied, all[i].Action)
	}
	return all, err
}

// identity is a credential, for sentences.
type identity string

func (i identity) String() string { return "credential " + string(i) }

// assumed is the ARN of a role's session. The path of a role is no part of it.
var assumed = regexp.MustCompile(`^arn:([a-z-]+):sts::([0-9]+):assumed-role/([^/]+)/`)

// principal is the ARN that policies are attached to; empty for the account's root.
func (a *account) principal(ctx context.Context, in string) (string, error) {
	out, err := a.tokens(in).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fail("look at", identity("itself"), err)
	}
	arn := sdk.ToString(out.Arn)
	if role := assumed.FindStringSubmatch(arn); role != nil {
		return fmt.Sprintf("arn:%s:iam::%s:role/%s", role[1], role[2], role[3]), nil
	}
	if strings.HasSuffix(arn, ":root") {
		return "", nil
	}
	return arn, nil
}

// simulated is how long IAM may take. Where nodes reach no other endpoints than those of their region, it is not there at all.
const simulated = 5 * time.Second

// simulate names the actions that the principal's policies do not allow.
func (a *account) simulate(ctx context.Context, in, who, scope string, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, simulated)
	defer cancel()
	var denied []string
	pages := iam.NewSimulatePrincipalPolicyPaginator(a.policies(in), &iam.SimulatePrincipalPolicyInput{PolicySourceArn: sdk.String(who), ActionNames: names, ResourceArns: []string{scope}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("look at the permissions of", identity(who), err)
		}
		for _, r := range page.EvaluationResults {
			if r.EvalDecision != types.PolicyEvaluationDecisionTypeAllowed {
				denied = append(denied, sdk.ToString(r.EvalActionName))
			}
		}
	}
	return denied, nil
}

// deniedOfGroup says what of a capture's work on a group the credential may not do. Auto Scaling has no dry run: IAM is asked, and if it
// gives no answer, nobody knows beforehand. A new version of the template and the launch of an instance of it are tried, where they are Kamino's.
func (p *PoolProvider) deniedOfGroup(ctx context.Context, ref group, r recipe, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	var found []cloud.Refusal
	missing := func(action string, on fmt.Stringer) {
		found = append(found, permissionMissing(action, on))
	}
	wanted := slices.DeleteFunc(onGroup(p.capa), func(n need) bool {
		return n.action == "autoscaling:SetDesiredCapacity" && !spec.Grows || n.action == "autoscaling:TerminateInstanceInAutoScalingGroup" && !spec.Removes
	})
	if all, err := p.audit(ctx, ref.region, string(ref.pool()), wanted); err == nil {
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
	client, try := p.in(ref.region), sdk.Bool(true)
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
		denied, err := refusedDry("try "+attempt.action+" for", ref, attempt.err)
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
	return cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", action, on), "allow it in its IAM policy")
}

// refusedDry tells whether a dry run was denied. What else may be said of it the call itself will tell; only an error that says nothing
// of the call is one.
func refusedDry(op string, on fmt.Stringer, err error) (bool, error) {
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
