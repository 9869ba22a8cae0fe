package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestTemplateIsChangedMeanwhile: somebody points the group at another version of its template, while the image is made or between
// Kamino's look and its write. The promotion is on top of that, and takes nothing of it back.
func TestTemplateIsChangedMeanwhile(t *testing.T) {
	for name, write := range map[string]string{"early": "RegisterImage", "late": "CreateLaunchTemplateVersion"} {
		t.Run(name, func(t *testing.T) { testTemplateIsChanged(t, name, write) })
	}
}

func testTemplateIsChanged(t *testing.T, name, write string) {
	g := newGround(t, name)
	g.when(write, func() {
		_, err := sandbox.AWS().EC2().CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: sdk.String(g.group), SourceVersion: sdk.String("1"), VersionDescription: sdk.String("larger"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m6i.xlarge"},
		})
		g.must(err)
		g.points("2")
	})
	g.capture(0, nil)
	at := g.asg().LaunchTemplate
	out, err := sandbox.AWS().EC2().DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: sdk.String(g.group), Versions: []string{sdk.ToString(at.Version)},
	})
	g.must(err)
	if now := out.LaunchTemplateVersions[0].LaunchTemplateData; now.InstanceType != "m6i.xlarge" || sdk.ToString(now.ImageId) == g.before.Image {
		t.Errorf("the group builds %s from %s, by version %s of its template", now.InstanceType, sdk.ToString(now.ImageId), sdk.ToString(at.Version))
	}
	g.nothingLeft()
}

// TestImageIsChangedMeanwhile: somebody gives the template another image. That is a conflict, and nothing is written.
func TestImageIsChangedMeanwhile(t *testing.T) {
	g := newGround(t, "image")
	const other = "ami-0fedcba9876543210"
	g.when("RegisterImage", func() {
		_, err := sandbox.AWS().EC2().CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: sdk.String(g.group), SourceVersion: sdk.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(other)},
		})
		g.must(err)
		g.points("2")
	})
	g.capture(exitFailed, []string{other})
	if now := g.look(); now.Image != other {
		t.Errorf("the group builds from %s", now.Image)
	}
	g.failedFor("RecipeChanged")
	g.nothingLeft()
}

// points has the group name a version of its template.
func (g *ground) points(version string) {
	g.Helper()
	_, err := sandbox.AWS().Groups().UpdateAutoScalingGroup(g.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(g.group),
		LaunchTemplate:       &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(g.group), Version: sdk.String(version)},
	})
	g.must(err)
}

// TestRefreshIsBegunMeanwhile: a refresh replaces nodes that run. The recipe is left alone, so that it brings no image that was made
// behind its back.
func TestRefreshIsBegunMeanwhile(t *testing.T) {
	g := newGround(t, "refreshed")
	g.when("RegisterImage", func() {
		// It would be over in a second here.
		_, err := sandbox.AWS().Groups().SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(g.group), ScalingProcesses: []string{"InstanceRefresh"}})
		g.must(err)
		_, err = sandbox.AWS().Groups().StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(g.group)})
		g.must(err)
	})
	g.capture(exitFailed, []string{"instance refresh"}, "--deadline", "1m")
	if at := g.asg().LaunchTemplate; sdk.ToString(at.Version) != "1" {
		t.Errorf("the group names version %s of its template", sdk.ToString(at.Version))
	}
	g.nothingLeft()
}

// TestGroupIsDeletedMeanwhile: there is nothing left to point at the image, and nobody waits for it.
func TestGroupIsDeletedMeanwhile(t *testing.T) {
	g := newGround(t, "deleted")
	g.when("RegisterImage", func() {
		_, err := sandbox.AWS().Groups().DeleteAutoScalingGroup(t.Context(), &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(g.group), ForceDelete: sdk.Bool(true)})
		g.must(err)
	})
	g.capture(exitFailed, []string{"pool " + g.group + " is not there any more"})
	g.failedFor("RecipeChanged")
	if kept, err := sandbox.Versions(t.Context(), g.pool); err != nil || len(kept) != 1 || !kept[0].Complete {
		t.Errorf("the group's versions are %+v: %v", kept, err)
	}
	g.nothingLeft()
}

// TestDonorIsTerminatedMeanwhile by a person, as a spot interruption would, before there is a copy of its disk. Another node is in
// its place already.
func TestDonorIsTerminatedMeanwhile(t *testing.T) {
	g := newGround(t, "terminated")
	g.when("EnterStandby", func() {
		_, err := sandbox.AWS().EC2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{g.nodes[0].ID}})
		g.must(err)
	})
	g.capture(exitFailed, nil, "--deadline", "1m")
	g.whole(2)
}

// TestGroupAtItsMaximum: what cannot grow says so before anything is done, and how to do without.
func TestGroupAtItsMaximum(t *testing.T) {
	g := newGround(t, "full", "max=2")
	g.capture(exitRefused, []string{"PoolAtMaximum", "--grow-first=false"})
	if p := g.prototype(); p != nil {
		t.Errorf("there is a Prototype: %+v", p.Status)
	}
	g.whole(2)
}

// TestGroupAtItsMinimum: a node can't be taken out of service of a group that must not become smaller.
func TestGroupAtItsMinimum(t *testing.T) {
	g := newGround(t, "least")
	_, err := sandbox.AWS().Groups().UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(g.group), MinSize: sdk.Int32(2)})
	g.must(err)
	g.capture(exitRefused, []string{"minimum"}, "--grow-first=false")
	g.whole(2)
}

// TestStandbyIsRefused: the hold is refused once the capture has begun. The node stays in service, and the group as large as it was.
func TestStandbyIsRefused(t *testing.T) {
	g := newGround(t, "standby")
	g.when("EnterStandby", func() {
		_, err := sandbox.AWS().Groups().UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(g.group), MinSize: sdk.Int32(3)})
		g.must(err)
	})
	g.capture(exitFailed, []string{"min-size=3", "grown by for it stays"}, "--deadline", "1m")
	_, err := sandbox.AWS().Groups().UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(g.group), MinSize: sdk.Int32(1)})
	g.must(err)
}

// TestQuotaOfImages: there is no image, nothing is left of its snapshot, and the donor's place is taken.
func TestQuotaOfImages(t *testing.T) {
	g := newGround(t, "quota")
	g.when("RegisterImage", func() {
		sandbox.Fault(t, fault.Fault{Operation: "RegisterImage", Path: g.group, Status: 400, Code: "AMIQuotaExceeded", Message: "You have reached your quota of 2 public and private AMIs allowed in this Region."})
	})
	g.capture(exitFailed, []string{"AMIQuotaExceeded"}, "--deadline", "1m")
	g.whole(2)
}

// TestKeyIsDenied: the disk's key can't be used any more once the donor is away. It comes back, and what is to be done is said.
func TestKeyIsDenied(t *testing.T) {
	g := newGround(t, "key", "profile=eks")
	g.when("CreateSnapshot", func() {
		sandbox.Fault(t, fault.Fault{Operation: "CreateSnapshot", Path: g.group, Status: 400, Code: "KMSKeyNotAccessibleFault", Message: "The KMS key is not accessible."})
	})
	g.capture(exitFailed, []string{"KMSKeyNotAccessibleFault", "have the key enabled"}, "--deadline", "1m")
	g.whole(2)
}

// TestGroupIsDeletedInATrial: the node that is tried is the group's no more, and is removed with what made it.
func TestGroupIsDeletedInATrial(t *testing.T) {
	g := newGround(t, "tried", "profile=eks")
	g.when("RunInstances", func() {
		_, err := sandbox.AWS().Groups().DeleteAutoScalingGroup(t.Context(), &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(g.group), ForceDelete: sdk.Bool(true)})
		g.must(err)
	})
	g.capture(exitFailed, []string{"pool " + g.group + " is not there any more"}, "--trial", "Apart", "--soak", "10s")
	g.nothingLeft()
}
