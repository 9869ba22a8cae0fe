package aws

import (
	"regexp"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestKopsTakesOver captures a node of a group that kOps manages. Kamino does not write the group; capture, status,
// history and promote name the image that the instance group must use. The capture succeeds when kOps has changed
// the group.
func TestKopsTakesOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "kops")
	_, err := sandbox.AWS().Groups().CreateOrUpdateTags(t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []astypes.Tag{{
		Key: sdk.String("kops.k8s.io/instancegroup"), Value: sdk.String("nodes-a"), PropagateAtLaunch: sdk.Bool(true),
		ResourceId: sdk.String(e.Group), ResourceType: sdk.String("auto-scaling-group"),
	}}})
	e.Must(err)
	e.useTemplate("$Latest")
	e.Capture(e.Donor, "--dry-run").ExpectExit(0, "hand the version over")
	capture := e.Capture(e.Donor)
	p := e.WaitPrototype("its version is handed over", func(p *v1alpha1.Prototype) bool { return p.Status.HandsOver() != "" })
	ami := regexp.MustCompile(`instance group nodes-a to (ami-[0-9a-f]+) `).FindStringSubmatch(p.Status.HandsOver())
	if ami == nil {
		t.Fatalf("no image is handed over: %s", p.Status.HandsOver())
	}
	for command, code := range map[string]int{"status": 0, "history " + e.Group: 0, "promote " + e.Group + " " + p.Spec.Version: exitRefused} {
		e.Start(strings.Fields(command)...).ExpectExit(code, ami[1], "kops update cluster --yes")
	}
	if now := e.CloudPool(); now.Image != e.Before.Image || sdk.ToString(e.group().LaunchTemplate.Version) != "$Latest" {
		t.Errorf("the group uses version %s of its template, and builds from %s", sdk.ToString(e.group().LaunchTemplate.Version), now.Image)
	}
	_, err = sandbox.AWS().EC2().CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: sdk.String(e.Group), SourceVersion: sdk.String("1"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(ami[1])},
	})
	e.Must(err)
	capture.ExpectExit(0, "handed over", "`kops edit instancegroup nodes-a`", "now builds new nodes from version")
	if next := e.NextVersion(); next != p.Spec.Version {
		t.Errorf("the group builds from version %q", next)
	}
	e.AssertNothingLeft()
}
