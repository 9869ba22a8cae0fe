package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// permissionReader reads from IAM what the credential may do.
type permissionReader struct{ *account }

// check returns the permissions with a known answer. Auto Scaling and EC2 compare tags of the resource with conditions.
func (p permissionReader) check(ctx context.Context, in, scope string, tags map[string]string, needs []need) ([]cloud.Permission, error) {
	var names []string
	for _, n := range needs {
		if !slices.Contains(names, n.action) {
			names = append(names, n.action)
		}
	}
	decisions, err := p.decisions(ctx, in, scope, tags, names)
	var all []cloud.Permission
	for _, n := range needs {
		if is := decisions[n.action]; is != decisionUnknown {
			all = append(all, cloud.Permission{Action: n.action, Scope: scope, Allowed: is == decisionAllowed, For: n.Feature,
				Remedy: cloud.PowerRemedy("aws", n.Feature)})
		}
	}
	return all, err
}

// ofEC2 returns the decisions for dryRunActions. Without an answer of IAM all are unknown, and dry runs decide.
func (p permissionReader) ofEC2(ctx context.Context, in string) (map[string]decision, error) {
	decisions, err := p.decisions(ctx, in, anyResource, nil, dryRunActions)
	if kind := cloud.KindOf(err); kind == cloud.Unauthenticated || kind == cloud.Throttled {
		return nil, err
	}
	return decisions, nil
}

// decisions returns what IAM knows of actions. An action that AWS allowed recently is allowed.
func (p permissionReader) decisions(ctx context.Context, in, scope string, tags map[string]string, names []string) (map[string]decision, error) {
	who, err := p.principal(ctx, in)
	if err != nil {
		return nil, err
	}
	decisions := map[string]decision{}
	if who != "" {
		if decisions, err = p.simulateAs(ctx, in, who, []string{scope}, tags, names); err == nil && scope == anyResource {
			err = p.allowScoped(ctx, in, who, decisions)
		}
	}
	for _, name := range names {
		if err == nil && (who == "" || scope == anyResource && p.uses.recent(in, name)) { // the root user has all permissions
			decisions[name] = decisionAllowed
		}
	}
	return decisions, err
}

// kindsOfEC2 are resources of each kind, for policies whose resource is an ARN. IAM denies an action on "*" then.
var kindsOfEC2 = []string{"instance/i-0", "volume/vol-0", "snapshot/snap-0", "image/ami-0", "launch-template/lt-0"}

// allowScoped sets denied actions to unknown that a policy allows on resources of a kind, perhaps with conditions.
func (p permissionReader) allowScoped(ctx context.Context, in, who string, decisions map[string]decision) error {
	var denied []string
	for name, is := range decisions {
		if is == decisionDenied && strings.HasPrefix(name, "ec2:") && !strings.Contains(name, ":Describe") {
			denied = append(denied, name)
		}
	}
	parts := strings.Split(who, ":")
	if len(denied) == 0 || len(parts) < 5 {
		return nil
	}
	var scopes []string
	for _, kind := range kindsOfEC2 {
		scopes = append(scopes, strings.Join([]string{"arn", parts[1], "ec2", in, parts[4], kind}, ":"))
	}
	slices.Sort(denied)
	scoped, err := p.simulateAs(ctx, in, who, scopes, nil, denied)
	for name, is := range scoped {
		if is != decisionDenied {
			decisions[name] = decisionUnknown
		}
	}
	return err
}

// identity is a credential, as text for errors.
type identity string

func (i identity) String() string { return "credential " + string(i) }

// sessionARN matches the ARN of a role session. The ARN lacks the role's path.
var sessionARN = regexp.MustCompile(`^arn:([a-z-]+):sts::([0-9]+):assumed-role/([^/]+)/`)

// principalLife is how long the identity of the credential is assumed to stay.
const principalLife = time.Hour

// principal returns the ARN with the policies; empty for the root user.
func (p permissionReader) principal(ctx context.Context, in string) (string, error) {
	p.mu.Lock()
	known := p.caller
	p.mu.Unlock()
	if !known.at.IsZero() && p.config.Now().Sub(known.at) < principalLife {
		return known.arn, nil
	}
	out, err := p.sts(in).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fail("read", identity("itself"), err)
	}
	arn := sdk.ToString(out.Arn)
	if role := sessionARN.FindStringSubmatch(arn); role != nil {
		arn = fmt.Sprintf("arn:%s:iam::%s:role/%s", role[1], role[2], role[3])
	} else if strings.HasSuffix(arn, ":root") {
		arn = ""
	}
	p.recordPrincipal(arn)
	return arn, nil
}

func (p permissionReader) recordPrincipal(arn string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caller = callerIdentity{arn, p.config.Now()}
}

// callerIdentity is the ARN of the credential's user or role, with the time of the read.
type callerIdentity struct {
	arn string
	at  time.Time
}

// simulateAs returns the decisions of IAM for a user or role. IAM does not find a role with a path by the ARN of a session,
// so the role is read by name. Roles of IAM Identity Center have a path.
func (p permissionReader) simulateAs(ctx context.Context, in, who string, scopes []string, tags map[string]string,
	names []string) (map[string]decision, error) {
	decisions, err := p.simulate(ctx, in, who, scopes, tags, names)
	_, name, isRole := strings.Cut(who, ":role/")
	if !isRole || !isCode(err, "NoSuchEntity", "NoSuchEntityException") {
		return decisions, err
	}
	out, err := p.iam(in).GetRole(ctx, &iam.GetRoleInput{RoleName: sdk.String(name)})
	if err != nil {
		return nil, fail("read the path of", identity("role "+name), err)
	}
	arn := who
	if out.Role != nil {
		arn = cmp.Or(sdk.ToString(out.Role.Arn), who)
	}
	p.recordPrincipal(arn)
	return p.simulate(ctx, in, arn, scopes, tags, names)
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
	// Not verified on AWS, permissions: IAM names the context keys that a policy with conditions lacks.
	isScoped := slices.ContainsFunc(r.ResourceSpecificResults, func(s types.ResourceSpecificResult) bool {
		return s.EvalResourceDecision == types.PolicyEvaluationDecisionTypeAllowed
	})
	isConditional := isScoped || len(r.MissingContextValues) > 0 ||
		slices.ContainsFunc(r.ResourceSpecificResults, func(s types.ResourceSpecificResult) bool { return len(s.MissingContextValues) > 0 })
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

// contextOf returns the values for conditions: the region, and the tags of the resource.
func contextOf(in string, tags map[string]string) []types.ContextEntry {
	text := func(key, value string) types.ContextEntry {
		return types.ContextEntry{ContextKeyName: sdk.String(key), ContextKeyType: types.ContextKeyTypeEnumString, ContextKeyValues: []string{value}}
	}
	all := []types.ContextEntry{text("aws:RequestedRegion", in)}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, text("aws:ResourceTag/"+key, tags[key]), text("autoscaling:ResourceTag/"+key, tags[key]))
	}
	return all
}

// simulate returns the decisions of IAM by action, for requests in a region.
func (p permissionReader) simulate(ctx context.Context, in, who string, scopes []string, tags map[string]string, names []string) (map[string]decision, error) {
	ctx, cancel := context.WithTimeout(ctx, simulationTimeout)
	defer cancel()
	decisions := map[string]decision{}
	pages := iam.NewSimulatePrincipalPolicyPaginator(p.iam(in), &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: sdk.String(who), ActionNames: names, ResourceArns: scopes, ContextEntries: contextOf(in, tags),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read the permissions of", identity(who), err)
		}
		for _, r := range page.EvaluationResults {
			name, is := sdk.ToString(r.EvalActionName), decisionOf(r)
			if before, found := decisions[name]; found && before != is { // on another resource
				is = decisionUnknown
			}
			decisions[name] = is
		}
	}
	return decisions, nil
}
