package conformance

import (
	"context"
	"path"
	"reflect"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
)

const awsGroup = "workers"

// atOnce is a standby without delay, for suites that do not poll.
const atOnce = -1

// amazonGroup is a simulated AWS with an Auto Scaling group of two.
type amazonGroup struct {
	*amazon
	template string
	pool     cloud.PoolID
}

// newGroup starts a cloud with a group. version is the version of the launch template in the group.
func newGroup(t *testing.T, standby time.Duration, version string) *amazonGroup {
	t.Helper()
	return groupOf(t, startAmazon(t, standby), version)
}

// groupOf creates the group.
func groupOf(t *testing.T, in *amazon, version string) *amazonGroup {
	t.Helper()
	w := &amazonGroup{amazon: in}
	made, err := w.raw.CreateLaunchTemplate(t.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String(awsGroup), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: sdk.String(awsImage), InstanceType: "m6i.large", UserData: sdk.String("I2Nsb3VkLWNvbmZpZwo="),
		}})
	w.must(err)
	w.template = sdk.ToString(made.LaunchTemplate.LaunchTemplateId)
	w.advance(time.Minute)
	_, err = w.scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(awsGroup), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(10), DesiredCapacity: sdk.Int32(2),
		AvailabilityZones: []string{awsRegion + "a"},
		LaunchTemplate:    &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId, Version: sdk.String(version)},
	})
	w.must(err)
	w.until("in service", func() bool {
		g := w.group()
		w.pool = cloud.PoolID(sdk.ToString(g.AutoScalingGroupARN))
		n := 0
		for _, m := range g.Instances {
			if m.LifecycleState == scalingtypes.LifecycleStateInService {
				n++
			}
		}
		return n == 2
	})
	w.advance(time.Minute)
	w.ids = w.list()
	return w
}

func (w *amazonGroup) group() scalingtypes.AutoScalingGroup {
	w.Helper()
	out, err := w.scaling.DescribeAutoScalingGroups(context.Background(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{awsGroup}})
	w.must(err)
	if len(out.AutoScalingGroups) != 1 {
		w.Fatalf("there are %d groups", len(out.AutoScalingGroups))
	}
	return out.AutoScalingGroups[0]
}

// list returns the instances of the group, as far as EC2 shows them.
func (w *amazonGroup) list() []cloud.InstanceID {
	w.Helper()
	out, err := w.raw.DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{{Name: sdk.String("tag:aws:autoscaling:groupName"), Values: []string{awsGroup}},
			{Name: sdk.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}}},
	})
	w.must(err)
	var ids []cloud.InstanceID
	for _, r := range out.Reservations {
		for _, m := range r.Instances {
			ids = append(ids, awsID(m))
		}
	}
	return ids
}

func (w *amazonGroup) harness() cloudtest.Harness {
	return cloudtest.Harness{
		Provider: cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)), Pool: w.pool, Instances: w.ids, Missing: cloud.InstanceID("aws:///" + awsRegion + "a/i-00000000000000000"),
		RoomUnknown: true, Advance: func(testing.TB) { w.advance(10 * time.Second) }, Looks: 2000,
		List:          func(testing.TB) []cloud.InstanceID { return w.list() },
		PowerOffGuest: func(_ testing.TB, id cloud.InstanceID) { w.must(w.server.Shutdown(w.Context(), path.Base(string(id)))) },
		Crowd: func(testing.TB) {
			_, err := w.scaling.UpdateAutoScalingGroup(w.Context(),
				&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), MaxSize: w.group().DesiredCapacity})
			w.must(err)
			w.must(w.server.Exhaust("*"))
		},
	}
}

// scale sets the size of the group, as an autoscaler does.
func (w *amazonGroup) scale(size int32) {
	w.Helper()
	_, err := w.scaling.SetDesiredCapacity(w.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(awsGroup), DesiredCapacity: &size})
	w.must(err)
}

// suspendReplacement stops the group's replacement of instances, because the suite stops instances without standby.
func (w *amazonGroup) suspendReplacement() *amazonGroup {
	w.Helper()
	_, err := w.scaling.SuspendProcesses(w.Context(),
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(awsGroup), ScalingProcesses: []string{"ReplaceUnhealthy"}})
	w.must(err)
	return w
}

// TestAWS runs the suite on groups, launch templates, instances, snapshots and images, for each form of the
// template's version. Disks and images do not depend on the form.
func TestAWS(t *testing.T) {
	for version, run := range map[string]func(*testing.T, func(*testing.T) cloudtest.Harness){
		"1": cloudtest.Run, "$Latest": cloudtest.RunPools, "$Default": cloudtest.RunPools,
	} {
		t.Run(version, func(t *testing.T) {
			run(t, func(t *testing.T) cloudtest.Harness {
				return newGroup(t, atOnce, version).suspendReplacement().harness()
			})
		})
	}
}

// wantSame requires equal content of two AWS responses.
func wantSame[T any](t *testing.T, want, have T) {
	t.Helper()
	if diff := cmp.Diff(want, have, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}
