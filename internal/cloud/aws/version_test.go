package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestTemplateVersionOfGroup checks the version that a group means. AWS omits the version of a group that was made without one.
func TestTemplateVersionOfGroup(t *testing.T) {
	for name, test := range map[string]struct {
		version *string
		want    string
	}{
		"absent": {nil, "$Default"},
		"empty":  {sdk.String(""), "$Default"},
		"number": {sdk.String("3"), "3"},
		"latest": {sdk.String("$Latest"), "$Latest"},
	} {
		spec := &scaling.LaunchTemplateSpecification{LaunchTemplateId: sdk.String("lt-1"), Version: test.version}
		plain := scaling.AutoScalingGroup{LaunchTemplate: spec}
		mixed := scaling.AutoScalingGroup{MixedInstancesPolicy: &scaling.MixedInstancesPolicy{LaunchTemplate: &scaling.LaunchTemplate{LaunchTemplateSpecification: spec}}}
		for kind, g := range map[string]scaling.AutoScalingGroup{"plain": plain, "mixed": mixed} {
			got := specOf(g)
			if sdk.ToString(got.Version) != test.want || sdk.ToString(got.LaunchTemplateId) != "lt-1" {
				t.Errorf("%s, %s: version %q of %s, want %q", name, kind, sdk.ToString(got.Version), sdk.ToString(got.LaunchTemplateId), test.want)
			}
		}
		if spec.Version != test.version {
			t.Errorf("%s: specOf changed the group", name)
		}
	}
	if got := specOf(scaling.AutoScalingGroup{}); got != nil {
		t.Errorf("a group without a launch template has %+v", got)
	}
}
