package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// TestGroupWithoutVersion checks that a group without a version is shown without a version and launches the default version.
func TestGroupWithoutVersion(t *testing.T) {
	c := newCloud(t, nil)
	id := c.group(t, 1, func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = nil })
	g := c.currentGroup(t)
	if g.LaunchTemplate.Version != nil || *g.LaunchTemplate.LaunchTemplateId != id {
		t.Errorf("the group shows version %q of %s", sdk.ToString(g.LaunchTemplate.Version), *g.LaunchTemplate.LaunchTemplateId)
	}
	if len(g.Instances) != 1 || *g.Instances[0].LaunchTemplate.Version != "1" {
		t.Errorf("instances: %+v", g.Instances)
	}
	_, err := c.ec2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{""}})
	wantCode(t, err, 400, "InvalidParameterValue")
}
