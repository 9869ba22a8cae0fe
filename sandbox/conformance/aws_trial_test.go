package conformance

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
)

// newAWSTrial returns a group with a version, and the spec of a trial of this version.
func newAWSTrial(t *testing.T) (*amazonGroup, cloud.TrialSpec) {
	t.Helper()
	w := newGroup(t, atOnce, "1").suspendReplacement()
	ref := w.published("2026.03.14")
	w.advance(time.Minute)
	return w, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: w.pool, Version: ref.Version}, Name: "it", To: w.disks.ImageID(ref),
		Tags: map[string]string{cloud.TagUID: "u", cloud.TagPrototype: "it"}}
}

// trialInstances returns the trial's instances in all states.
func (w *amazonGroup) trialInstances() []ec2types.Instance {
	w.Helper()
	w.advance(time.Minute)
	out, err := w.raw.DescribeInstances(w.Context(),
		&ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: sdk.String("tag-key"), Values: []string{"kamino-trial-name"}}}})
	w.must(err)
	var all []ec2types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}
	return all
}

// TestAWSTrialUsesGroupTemplate: the instance has the template, subnet and tags of the group, but is in no group.
func TestAWSTrialUsesGroupTemplate(t *testing.T) {
	w, spec := newAWSTrial(t)
	_, err := w.scaling.CreateOrUpdateTags(t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []scalingtypes.Tag{
		{Key: sdk.String("kubernetes.io/cluster/c"), Value: sdk.String("owned"), PropagateAtLaunch: sdk.Bool(true), ResourceId: sdk.String(awsGroup),
			ResourceType: sdk.String("auto-scaling-group")},
		{Key: sdk.String("k8s.io/cluster-autoscaler/enabled"), Value: sdk.String("true"), PropagateAtLaunch: sdk.Bool(false),
			ResourceId: sdk.String(awsGroup), ResourceType: sdk.String("auto-scaling-group")},
	}})
	w.must(err)
	_, err = w.recipes.EnsureTrial(t.Context(), spec)
	w.must(err)
	all := w.trialInstances()
	if len(all) != 1 {
		t.Fatalf("there are %d instances", len(all))
	}
	tags := map[string]string{}
	for _, tag := range all[0].Tags {
		tags[*tag.Key] = *tag.Value
	}
	if tags["kubernetes.io/cluster/c"] != "owned" || tags["k8s.io/cluster-autoscaler/enabled"] != "" || tags["aws:autoscaling:groupName"] != "" ||
		tags[cloud.TagUID] != "u" {
		t.Errorf("its tags are %v", tags)
	}
	if subnets := sdk.ToString(w.group().VPCZoneIdentifier); !strings.Contains(subnets, sdk.ToString(all[0].SubnetId)) ||
		all[0].InstanceType != "m6i.large" || sdk.ToString(all[0].ImageId) == awsImage {
		t.Errorf("it is in %s of %s, of type %s, and of image %s", sdk.ToString(all[0].SubnetId), subnets, all[0].InstanceType, sdk.ToString(all[0].ImageId))
	}
}

// TestAWSTagsMakeNoTrial: who may write tags cannot pass off a node of the group as a trial or a workshop, which Kamino cordons and ends.
func TestAWSTagsMakeNoTrial(t *testing.T) {
	w, spec := newAWSTrial(t)
	shop := cloud.WorkshopSpec{Pool: w.pool, Name: "it", Tags: ofCopy()}
	id := path.Base(string(w.ids[0]))
	var tags []ec2types.Tag
	for key, value := range map[string]string{"kamino-trial-name": "it", "kamino-workshop-name": "it", "kamino-pool": string(w.pool), cloud.TagUID: "u"} {
		tags = append(tags, ec2types.Tag{Key: sdk.String(key), Value: sdk.String(value)})
	}
	_, err := w.raw.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
	w.must(err)
	w.advance(time.Minute)
	if have, err := w.recipes.Trial(t.Context(), spec); err != nil || have.State != cloud.Absent {
		t.Errorf("the trial is %+v, %v", have, err)
	}
	if have, err := w.recipes.Workshop(t.Context(), shop); err != nil || have.State != cloud.Absent {
		t.Errorf("the workshop is %+v, %v", have, err)
	}
	trials, err := w.recipes.Trials(t.Context(), w.pool)
	w.must(err)
	shops, err := w.recipes.Workshops(t.Context(), w.pool)
	w.must(err)
	if len(trials)+len(shops) > 0 {
		t.Errorf("listed are %+v and %+v", trials, shops)
	}
	_, err = w.recipes.EndTrial(t.Context(), spec)
	w.must(err)
	_, err = w.recipes.EndWorkshop(t.Context(), shop)
	w.must(err)
	w.advance(time.Minute)
	out, err := w.raw.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	if state := out.Reservations[0].Instances[0].State.Name; state != ec2types.InstanceStateNameStopped { // as newAWSTrial leaves it
		t.Errorf("the node of the group is %s", state)
	}
}

// TestAWSTrialIsIdempotent: after a kill, the next process gets the same instance, even if EC2 does not show the
// instance yet.
func TestAWSTrialIsIdempotent(t *testing.T) {
	w, spec := newAWSTrial(t)
	_, err := w.recipes.EnsureTrial(t.Context(), spec)
	w.must(err)
	config, err := provider.Load(t.Context(), "")
	w.must(err)
	config.Now = w.now
	_, second := provider.New(config)
	if have, err := second.EnsureTrial(t.Context(), spec); err != nil || have.State != cloud.Pending {
		t.Errorf("%+v, %v", have, err)
	}
	if all := w.trialInstances(); len(all) != 1 {
		t.Fatalf("there are %d instances", len(all))
	}
	w.until("gone", func() bool {
		state, err := second.EndTrial(t.Context(), spec)
		w.must(err)
		return state == cloud.Absent
	})
	if have, err := w.recipes.Trial(t.Context(), spec); err != nil || have.State != cloud.Absent {
		t.Errorf("ended, it is %+v, %v", have, err)
	}
}

// TestAWSReportsLostTrial: a trial instance that an operator terminated proves nothing about the version.
func TestAWSReportsLostTrial(t *testing.T) {
	w, spec := newAWSTrial(t)
	_, err := w.recipes.EnsureTrial(t.Context(), spec)
	w.must(err)
	id := sdk.ToString(w.trialInstances()[0].InstanceId)
	_, err = w.raw.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	for range 3 {
		if have, err := w.recipes.EnsureTrial(t.Context(), spec); err != nil || have.State != cloud.Failed || have.Trouble != "" ||
			have.LacksCapacity || have.BlamesImage {
			t.Errorf("%+v, %v", have, err)
		}
		w.advance(time.Minute)
	}
	if all := w.trialInstances(); len(all) != 1 || path.Base(sdk.ToString(all[0].InstanceId)) != id {
		t.Errorf("another instance was built: %d", len(all))
	}
}

// TestAWSRefusesTrialByAttributes: RunInstances cannot launch a template that selects instance types by attributes, so the
// preflight refuses the trial.
func TestAWSRefusesTrialByAttributes(t *testing.T) {
	w, spec := newAWSTrial(t)
	_, err := w.raw.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(w.template),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(awsImage), InstanceRequirements: &ec2types.InstanceRequirementsRequest{
			VCpuCount: &ec2types.VCpuCountRangeRequest{Min: sdk.Int32(2)}, MemoryMiB: &ec2types.MemoryMiBRequest{Min: sdk.Int32(4096)}}}})
	w.must(err)
	for version, want := range map[string][]string{"1": nil, "2": {"PoolNotCopyable"}} {
		_, err = w.scaling.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
			LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String(version)}})
		w.must(err)
		found, err := w.recipes.PreflightTrial(t.Context(), spec)
		w.must(err)
		var reasons []string
		for _, r := range found {
			reasons = append(reasons, r.Reason)
		}
		if !slices.Equal(reasons, want) {
			t.Errorf("version %s is refused with %v, want %v", version, reasons, want)
		}
	}
}

// TestAWSTrialOfAnotherType: the trial has the type of its spec instead of the group's.
func TestAWSTrialOfAnotherType(t *testing.T) {
	w, spec := newAWSTrial(t)
	spec.MachineType = "m6i.4xlarge"
	found, err := w.recipes.PreflightTrial(t.Context(), spec)
	w.must(err)
	if len(found) > 0 {
		t.Errorf("it is refused: %v", found)
	}
	_, err = w.recipes.EnsureTrial(t.Context(), spec)
	w.must(err)
	if all := w.trialInstances(); len(all) != 1 || all[0].InstanceType != "m6i.4xlarge" {
		t.Errorf("the instances are %+v", all)
	}
}
