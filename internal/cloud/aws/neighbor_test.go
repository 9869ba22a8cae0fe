package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestUsesNewestVersion checks which groups launch from a template version as soon as the version exists.
func TestUsesNewestVersion(t *testing.T) {
	spec := func(id, version string) *scaling.LaunchTemplateSpecification {
		return &scaling.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(id), Version: sdk.String(version)}
	}
	mixed := func(of, override *scaling.LaunchTemplateSpecification) scaling.AutoScalingGroup {
		return scaling.AutoScalingGroup{MixedInstancesPolicy: &scaling.MixedInstancesPolicy{LaunchTemplate: &scaling.LaunchTemplate{
			LaunchTemplateSpecification: of,
			Overrides:                   []scaling.LaunchTemplateOverrides{{InstanceType: sdk.String("m6i.large")}, {LaunchTemplateSpecification: override}}}}}
	}
	for name, test := range map[string]struct {
		g    scaling.AutoScalingGroup
		want bool
	}{
		"newest":               {scaling.AutoScalingGroup{LaunchTemplate: spec("lt-1", "$Latest")}, true},
		"default":              {scaling.AutoScalingGroup{LaunchTemplate: spec("lt-1", "$Default")}, false},
		"number":               {scaling.AutoScalingGroup{LaunchTemplate: spec("lt-1", "4")}, false},
		"without a version":    {scaling.AutoScalingGroup{LaunchTemplate: &scaling.LaunchTemplateSpecification{LaunchTemplateId: sdk.String("lt-1")}}, false},
		"other template":       {scaling.AutoScalingGroup{LaunchTemplate: spec("lt-2", "$Latest")}, false},
		"launch configuration": {scaling.AutoScalingGroup{LaunchConfigurationName: sdk.String("old")}, false},
		"mixed":                {mixed(spec("lt-1", "$Latest"), nil), true},
		"mixed, number":        {mixed(spec("lt-1", "4"), nil), false},
		"override":             {mixed(spec("lt-2", "4"), spec("lt-1", "$Latest")), true},
		"override, number":     {mixed(spec("lt-2", "4"), spec("lt-1", "4")), false},
	} {
		if got := usesNewest(test.g, "lt-1"); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
