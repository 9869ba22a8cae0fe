package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestTemplateChanges sets another version of the group's template, while the image is created or between Kamino's
// read and write. The promotion must keep the change.
func TestTemplateChanges(t *testing.T) {
	for name, action := range map[string]string{"early": "RegisterImage", "late": "CreateLaunchTemplateVersion"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, name)
			e.before(action, func() {
				_, err := sandbox.AWS().EC2().CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
					LaunchTemplateName: sdk.String(e.Group), SourceVersion: sdk.String("1"), VersionDescription: sdk.String("larger"),
					LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m6i.xlarge"},
				})
				e.Must(err)
				e.useTemplate("2")
			})
			e.Capture(e.Donor).ExpectExit(0)
			version := sdk.ToString(e.group().LaunchTemplate.Version)
			out, err := sandbox.AWS().EC2().DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
				LaunchTemplateName: sdk.String(e.Group), Versions: []string{version},
			})
			e.Must(err)
			if now := out.LaunchTemplateVersions[0].LaunchTemplateData; now.InstanceType != "m6i.xlarge" || sdk.ToString(now.ImageId) == e.Before.Image {
				t.Errorf("the group builds %s from %s, with version %s of its template", now.InstanceType, sdk.ToString(now.ImageId), version)
			}
			e.AssertNothingLeft()
		})
	}
}

// inPlace are the settings of a capture whose donor is in standby meanwhile.
const inPlace = "donor: {method: InPlace}, outOfService: {deadline: 1m}"

// TestDonorIsTerminated terminates a donor that is captured in place before the copy of its disk, like a spot interruption. The group does
// not replace an instance in standby, so the message says what a person has to do, and the test does it.
func TestDonorIsTerminated(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "terminated", "profile=eks")
	e.before("EnterStandby", func() {
		_, err := sandbox.AWS().EC2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{e.Machines[0].ID}})
		e.Must(err)
	})
	e.CaptureWith(e.Donor, inPlace).ExpectExit(exitFailed, "can be one node smaller", "Raise its size by one")
	e.updateGroup(autoscaling.UpdateAutoScalingGroupInput{DesiredCapacity: sdk.Int32(2)})
	e.assertWhole()
}

// TestCopiedDonorIsTerminated terminates the donor before or after the snapshot of its disk in use. From the snapshot on, the
// capture does not need the donor.
func TestCopiedDonorIsTerminated(t *testing.T) {
	for name, action := range map[string]string{"early": "CreateSnapshot", "late": "CreateVolume"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, "gone"+name, "profile=eks")
			e.before(action, func() {
				_, err := sandbox.AWS().EC2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{e.Machines[0].ID}})
				e.Must(err)
			})
			e.before("DetachVolume", func() {
				loose, err := sandbox.AWS().Loose(t.Context())
				e.Must(err)
				ofGroup := slices.DeleteFunc(loose, func(tags string) bool { return !strings.Contains(tags, e.Group) })
				if len(ofGroup) != 2 {
					t.Errorf("beside the group there are %v, want the workshop and the volume of the copy", ofGroup)
				}
			})
			capture := e.Capture(e.Donor)
			if action == "CreateSnapshot" {
				capture.ExpectExit(exitFailed, e.Donor)
				e.assertWhole()
				return
			}
			capture.ExpectExit(0)
			e.AssertSucceeded(e.Donor)
			e.AssertNodeGone(e.Donor)
			e.Eventually("the group has another node", func() (bool, string) {
				now := e.State()
				return len(now.Ready) == 2, fmt.Sprintf("%+v", now)
			})
			e.AssertNothingLeft()
		})
	}
}

// TestStandbyIsRefused raises the group's minimum, so that AWS refuses the donor's standby. The donor stays in service.
func TestStandbyIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "standby", "profile=eks")
	e.before("EnterStandby", func() { e.updateGroup(autoscaling.UpdateAutoScalingGroupInput{MinSize: sdk.Int32(2)}) })
	e.CaptureWith(e.Donor, inPlace).ExpectExit(exitFailed, "min-size=2")
	e.updateGroup(autoscaling.UpdateAutoScalingGroupInput{MinSize: sdk.Int32(1)})
	e.assertWhole()
}

// ageMissingPool moves the first answer without the pool to the past, so that Kamino believes the next one.
func ageMissingPool(e env) {
	e.Helper()
	e.Eventually("the record of the missing pool can be changed", func() (bool, string) {
		p := e.Prototype()
		if p == nil {
			return false, "no capture yet"
		}
		object, err := e.PrototypeClient().Get(e.Context(), p.Name, metav1.GetOptions{})
		e.Must(err)
		missing, _, err := unstructured.NestedSlice(object.Object, "status", "record", "missing")
		e.Must(err)
		i := slices.IndexFunc(missing, func(m any) bool {
			is, _ := m.(map[string]any)
			return is["object"] == "pool" && is["agreedSince"] != nil
		})
		if i < 0 {
			return false, fmt.Sprintf("missing: %v", missing)
		}
		missing[i].(map[string]any)["agreedSince"] = time.Now().Add(-11 * time.Minute).UTC().Format(time.RFC3339)
		e.Must(unstructured.SetNestedSlice(object.Object, missing, "status", "record", "missing"))
		_, err = e.PrototypeClient().UpdateStatus(e.Context(), object, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			e.Fatal(err)
		}
		return err == nil, "conflict"
	})
}

// TestGroupIsDeletedInATrial deletes the group during a trial. The trial's node and its objects are removed.
func TestGroupIsDeletedInATrial(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "tried", "profile=eks")
	group := e.Group
	e.before("RunInstances", func() {
		_, err := sandbox.AWS().Groups().DeleteAutoScalingGroup(t.Context(),
			&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(group), ForceDelete: sdk.Bool(true)})
		e.Must(err)
	})
	capture := e.Start("capture", e.Donor, "--trial", "Apart", "-f", sandboxtest.SettingsFile(t, "donor: {method: InPlace}, trial: {soak: 10s}"))
	ageMissingPool(e)
	capture.ExpectExit(exitFailed, "pool "+group+" no longer exists")
	e.Eventually("no machine of its versions and no snapshot is left", func() (bool, string) {
		machines := e.MachinesOfVersions()
		snapshots, err := sandbox.Snapshots(t.Context())
		e.Must(err)
		ofGroup := slices.ContainsFunc(snapshots, func(name string) bool { return strings.Contains(name, group) })
		return len(machines) == 0 && !ofGroup, fmt.Sprintf("%+v, %v", machines, snapshots)
	})
}
