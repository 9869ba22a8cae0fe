package conformance

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestAWSGroupWithoutVersion checks groups that AWS shows without a version of the launch template, which means $Default.
func TestAWSGroupWithoutVersion(t *testing.T) {
	for name, mixed := range map[string]bool{"plain": false, "mixed": true} {
		t.Run(name, func(t *testing.T) {
			w := newGroup(t, atOnce, "1").suspendReplacement()
			spec := &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template)}
			in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), LaunchTemplate: spec}
			if mixed {
				in.LaunchTemplate, in.MixedInstancesPolicy = nil,
					&scalingtypes.MixedInstancesPolicy{LaunchTemplate: &scalingtypes.LaunchTemplate{LaunchTemplateSpecification: spec}}
			}
			_, err := w.scaling.UpdateAutoScalingGroup(t.Context(), in)
			w.must(err)
			version := func() *string {
				g := w.group()
				if mixed {
					return g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version
				}
				return g.LaunchTemplate.Version
			}
			if v := version(); v != nil {
				t.Fatalf("AWS shows version %q of a group without a version", *v)
			}
			found, err := w.recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.14"})
			w.must(err)
			if len(found) > 0 {
				t.Errorf("preflight refuses %+v", found)
			}
			w.published("2026.03.14")
			w.advance(time.Minute)
			w.must(w.recipes.SetRecipe(t.Context(), w.change("2026.03.14")))
			if v := sdk.ToString(version()); v != "2" || len(w.versions()) != 2 {
				t.Errorf("the group names version %q of %v", v, w.versions())
			}
		})
	}
}
