package aws

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"
)

// TestDecisionOfSimulation checks that a denial is known only if IAM had all values of the conditions.
func TestDecisionOfSimulation(t *testing.T) {
	const allow, implicit, explicit = types.PolicyEvaluationDecisionTypeAllowed, types.PolicyEvaluationDecisionTypeImplicitDeny,
		types.PolicyEvaluationDecisionTypeExplicitDeny
	for name, test := range map[string]struct {
		result types.EvaluationResult
		want   decision
	}{
		"allowed":             {types.EvaluationResult{EvalDecision: allow}, decisionAllowed},
		"no statement":        {types.EvaluationResult{EvalDecision: implicit}, decisionDenied},
		"deny statement":      {types.EvaluationResult{EvalDecision: explicit}, decisionDenied},
		"condition":           {types.EvaluationResult{EvalDecision: implicit, MissingContextValues: []string{"aws:ResourceTag/team"}}, decisionUnknown},
		"condition of a deny": {types.EvaluationResult{EvalDecision: explicit, MissingContextValues: []string{"aws:SourceIp"}}, decisionUnknown},
		"condition, allowed":  {types.EvaluationResult{EvalDecision: allow, MissingContextValues: []string{"aws:SourceIp"}}, decisionAllowed},
		"condition on resource": {types.EvaluationResult{EvalDecision: implicit,
			ResourceSpecificResults: []types.ResourceSpecificResult{{MissingContextValues: []string{"aws:SourceIp"}}}}, decisionUnknown},
		"allowed on a resource": {types.EvaluationResult{EvalDecision: implicit,
			ResourceSpecificResults: []types.ResourceSpecificResult{{EvalResourceDecision: allow}, {EvalResourceDecision: implicit}}}, decisionUnknown},
		"organization": {types.EvaluationResult{EvalDecision: explicit, OrganizationsDecisionDetail: &types.OrganizationsDecisionDetail{}},
			decisionUnknown},
		"organization allows": {types.EvaluationResult{EvalDecision: implicit,
			OrganizationsDecisionDetail: &types.OrganizationsDecisionDetail{AllowedByOrganizations: true}}, decisionDenied},
		"boundary": {types.EvaluationResult{EvalDecision: implicit,
			PermissionsBoundaryDecisionDetail: &types.PermissionsBoundaryDecisionDetail{}}, decisionUnknown},
		"boundary allows": {types.EvaluationResult{EvalDecision: implicit,
			PermissionsBoundaryDecisionDetail: &types.PermissionsBoundaryDecisionDetail{AllowedByPermissionsBoundary: true}}, decisionDenied},
		"boundary on resource": {types.EvaluationResult{EvalDecision: implicit,
			ResourceSpecificResults: []types.ResourceSpecificResult{{PermissionsBoundaryDecisionDetail: &types.PermissionsBoundaryDecisionDetail{}}}},
			decisionUnknown},
	} {
		if got := decisionOf(test.result); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestUseOfPermission checks which answers of AWS prove a permission, and for how long.
func TestUseOfPermission(t *testing.T) {
	now := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	uses := newAccount(Config{Now: func() time.Time { return now }}).uses
	code := func(code string) error { return &smithy.GenericAPIError{Code: code} }
	const region, action = "eu-central-1", "ec2:StopInstances"
	for _, step := range []struct {
		err  error
		want bool
	}{{code("Throttling"), false}, {nil, true}, {code("UnauthorizedOperation"), false}, {code("DryRunOperation"), true}, {code("InternalError"), true}} {
		uses.record(region, action, step.err)
		if got := uses.recent(region, action); got != step.want {
			t.Errorf("after %v: %t", step.err, got)
		}
	}
	if uses.recent("eu-west-1", action) || uses.recent(region, "ec2:StartInstances") {
		t.Error("a call proves another region or action")
	}
	if now = now.Add(useLife + time.Second); uses.recent(region, action) {
		t.Error("the proof does not end")
	}
}
