package conformance

import (
	"context"
	"encoding/base64"
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
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// change returns the change of the group's recipe to a version. The version need not exist.
func (w *amazonGroup) change(version string) cloud.RecipeChange {
	w.Helper()
	ref := cloud.FamilyVersion{Family: amazonLine, Version: version}
	change, err := w.recipes.RecipeChange(w.Context(), cloud.Target{Pool: w.pool, Version: version, Image: w.disks.ImageID(ref)}, false)
	w.must(err)
	return change
}

// versions maps the versions of the group's launch template to their images.
func (w *amazonGroup) versions() map[int64]string {
	w.Helper()
	out, err := w.raw.DescribeLaunchTemplateVersions(w.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: sdk.String(w.template)})
	w.must(err)
	all := map[int64]string{}
	for _, v := range out.LaunchTemplateVersions {
		all[*v.VersionNumber] = sdk.ToString(v.LaunchTemplateData.ImageId)
	}
	return all
}

func (w *amazonGroup) fault(f fault.Fault) {
	w.Helper()
	_, err := w.server.AddFault(f)
	w.must(err)
}

// TestAWSPinsNewestVersion: a group with version $Latest would use a new version of its template at
// once, even if the promotion fails.
func TestAWSPinsNewestVersion(t *testing.T) {
	w := newGroup(t, atOnce, "$Latest").suspendReplacement()
	w.published("2026.03.14")
	w.advance(time.Minute)
	w.fault(fault.Fault{Name: "dies", Operation: "UpdateAutoScalingGroup", Skip: 1, Drop: true})
	if err := w.recipes.SetRecipe(t.Context(), w.change("2026.03.14")); err == nil {
		t.Fatal("it was carried out")
	}
	if version := sdk.ToString(w.group().LaunchTemplate.Version); len(w.versions()) != 2 || version != "1" {
		t.Errorf("the template has the versions %v, and the group names %s", w.versions(), version)
	}
	w.must(w.server.ClearFaults("dies"))
	change := w.change("2026.03.14")
	for range 2 {
		w.must(w.recipes.SetRecipe(t.Context(), change))
	}
	if version := sdk.ToString(w.group().LaunchTemplate.Version); len(w.versions()) != 2 || version != "2" {
		t.Errorf("asked for again, the template has the versions %v, and the group names %s", w.versions(), version)
	}
}

// TestAWSKeepsOtherFields: only the image changes in the group and in its template.
func TestAWSKeepsOtherFields(t *testing.T) {
	w := newGroup(t, atOnce, "1").suspendReplacement()
	rate := int32(200)
	made, err := w.raw.CreateLaunchTemplateVersion(t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(w.template), SourceVersion: sdk.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{KeyName: sdk.String("key"),
				BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{
					{DeviceName: sdk.String("/dev/xvda"),
						Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(50), VolumeInitializationRate: &rate}}}}})
	w.must(err)
	policy := &scalingtypes.MixedInstancesPolicy{
		InstancesDistribution: &scalingtypes.InstancesDistribution{OnDemandBaseCapacity: sdk.Int32(1),
			OnDemandPercentageAboveBaseCapacity: sdk.Int32(50), SpotAllocationStrategy: sdk.String("price-capacity-optimized")},
		LaunchTemplate: &scalingtypes.LaunchTemplate{
			LaunchTemplateSpecification: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String("2")},
			Overrides: []scalingtypes.LaunchTemplateOverrides{{InstanceType: sdk.String("m6i.large")},
				{InstanceType: sdk.String("m5.large"), WeightedCapacity: sdk.String("1")}},
		},
	}
	_, err = w.scaling.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), MixedInstancesPolicy: policy})
	w.must(err)
	w.published("2026.03.14")
	w.advance(time.Minute)
	before := w.group()
	w.must(w.recipes.SetRecipe(t.Context(), w.change("2026.03.14")))
	after := w.group()
	if got := sdk.ToString(after.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version); got != "3" {
		t.Errorf("the group names version %s", got)
	}
	after.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version = sdk.String("2")
	wantSame(t, before, after)
	out, err := w.raw.DescribeLaunchTemplateVersions(t.Context(),
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: sdk.String(w.template), Versions: []string{"3"}})
	w.must(err)
	was, is := made.LaunchTemplateVersion.LaunchTemplateData, out.LaunchTemplateVersions[0].LaunchTemplateData
	if sdk.ToString(is.ImageId) == awsImage {
		t.Error("the image is the old one")
	}
	is.ImageId = was.ImageId
	wantSame(t, was, is)
}

// tag adds a tag to the group, as the owner does.
func tag(key, value string) func(*amazonGroup) {
	return func(w *amazonGroup) {
		w.Helper()
		_, err := w.scaling.CreateOrUpdateTags(w.Context(),
			&autoscaling.CreateOrUpdateTagsInput{Tags: []scalingtypes.Tag{{Key: sdk.String(key), Value: sdk.String(value), PropagateAtLaunch: sdk.Bool(true),
				ResourceId: sdk.String(awsGroup), ResourceType: sdk.String("auto-scaling-group")}}})
		w.must(err)
	}
}

// TestAWSFillsDisksAtARate: each promotion of a version writes the version's initialization rate into the launch
// template, on the root volume only. Before, a warning names how the nodes read their disks.
func TestAWSFillsDisksAtARate(t *testing.T) {
	w := newGroup(t, atOnce, "1").suspendReplacement()
	cautions := func() (reasons []string) {
		pool, err := w.recipes.Pool(t.Context(), w.pool)
		w.must(err)
		for _, c := range pool.Cautions {
			reasons = append(reasons, c.Reason)
		}
		return reasons
	}
	if got := cautions(); len(got) > 0 {
		t.Errorf("group without an own version: cautions %v", got)
	}
	_, err := w.raw.CreateLaunchTemplateVersion(t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(w.template), SourceVersion: sdk.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{
				{DeviceName: sdk.String("/dev/xvdb"),
					Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(100), VolumeType: ec2types.VolumeTypeGp3}}}}})
	w.must(err)
	_, err = w.scaling.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
		LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String("2")}})
	w.must(err)
	w.published("2026.03.13")
	fast := cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"}
	snapshot := w.shot("fast")
	w.until("published", func() bool {
		im, err := w.disks.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: fast, SnapshotID: snapshot.ID, InitializationRate: 200})
		w.must(err)
		return im.State == cloud.Complete
	})
	w.advance(time.Minute)
	// A user with the right to tag images must not break the group's next launch.
	ami := w.amiOf(cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.13"})
	_, err = w.raw.CreateTags(t.Context(),
		&ec2.CreateTagsInput{Resources: []string{ami}, Tags: []ec2types.Tag{{Key: sdk.String("kamino-initialization-rate"), Value: sdk.String("9000")}}})
	w.must(err)
	for _, test := range []struct {
		version  string
		rate     int32
		cautions []string
	}{
		{"2026.03.13", 0, []string{"VolumesLoadLazily"}}, {"2026.03.14", 200, nil}, {"2026.03.13", 200, nil}, {"2026.03.14", 200, nil},
	} {
		w.must(w.recipes.SetRecipe(t.Context(), w.change(test.version)))
		out, err := w.raw.DescribeLaunchTemplateVersions(t.Context(),
			&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: sdk.String(w.template),
				Versions: []string{sdk.ToString(w.group().LaunchTemplate.Version)}})
		w.must(err)
		root, data := int32(0), int32(0)
		for _, m := range out.LaunchTemplateVersions[0].LaunchTemplateData.BlockDeviceMappings {
			switch sdk.ToString(m.DeviceName) {
			case "/dev/xvda":
				root = sdk.ToInt32(m.Ebs.VolumeInitializationRate)
			case "/dev/xvdb":
				data = sdk.ToInt32(m.Ebs.VolumeSize)
				if m.Ebs.VolumeInitializationRate != nil || m.Ebs.VolumeType != ec2types.VolumeTypeGp3 {
					t.Errorf("version %s: the other volume is %+v", test.version, m.Ebs)
				}
			}
		}
		if got := cautions(); root != test.rate || data != 100 || !slices.Equal(got, test.cautions) {
			t.Errorf("version %s: a rate of %d, %d GiB on the other volume, and cautions %v", test.version, root, data, got)
		}
	}
}

// TestAWSHandOverToKops: Kamino creates versions of a group of kOps, and reports the image that the instance group
// must name. Kamino writes neither launch template nor group, and notices the change by kOps.
func TestAWSHandOverToKops(t *testing.T) {
	w := newGroup(t, atOnce, "$Latest").suspendReplacement()
	tag("kops.k8s.io/instancegroup", "nodes-a")(w)
	found, err := w.recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.14"})
	w.must(err)
	pool, err := w.recipes.Pool(t.Context(), w.pool)
	w.must(err)
	if len(found) > 0 || len(pool.Refusals) > 0 || pool.Owner != "kOps" {
		t.Errorf("it is refused: %+v; the pool is %+v", found, pool)
	}
	if change := w.change("2026.03.14"); !strings.Contains(change.HandOver, "nodes-a to its image") {
		t.Errorf("before there is an image, the change says %q", change.HandOver)
	}
	ref := w.published("2026.03.14")
	w.advance(time.Minute)
	before, change := w.group(), w.change("2026.03.14")
	ami := w.amiOf(ref)
	for _, part := range []string{"kOps", awsGroup, "instance group nodes-a to " + ami, "`kops edit instancegroup nodes-a`", "`kops update cluster --yes`"} {
		if !strings.Contains(change.HandOver, part) {
			t.Errorf("%q is not in %q", part, change.HandOver)
		}
	}
	if len(change.Refusals) != 1 || change.Refusals[0].Message != change.HandOver || change.Done {
		t.Errorf("%+v", change)
	}
	if err := w.recipes.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) || !strings.Contains(err.Error(), "nodes-a") {
		t.Errorf("%v", err)
	}
	wantSame(t, before, w.group())
	if versions := w.versions(); len(versions) != 1 {
		t.Errorf("%v", versions)
	}
	// kOps writes this.
	_, err = w.raw.CreateLaunchTemplateVersion(t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(w.template), SourceVersion: sdk.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(ami)}})
	w.must(err)
	w.advance(time.Minute)
	if change = w.change("2026.03.14"); !change.Done {
		t.Errorf("it is done, and the change says %+v", change)
	}
	w.must(w.recipes.SetRecipe(t.Context(), change))
	wantSame(t, map[int64]string{1: awsImage, 2: ami}, w.versions())
}

func (w *amazonGroup) amiOf(ref cloud.FamilyVersion) string {
	w.Helper()
	out, err := w.raw.DescribeImages(w.Context(),
		&ec2.DescribeImagesInput{Owners: []string{"self"},
			Filters: []ec2types.Filter{{Name: sdk.String("name"), Values: []string{"kamino/" + ref.Family.Name + "/" + ref.Version}}}})
	w.must(err)
	if len(out.Images) != 1 {
		w.Fatalf("%d images of %s", len(out.Images), ref.Version)
	}
	return sdk.ToString(out.Images[0].ImageId)
}

// TestAWSRefuses: an impossible change is refused beforehand with its reason, and nothing is written.
func TestAWSRefuses(t *testing.T) {
	update := func(change func(*autoscaling.UpdateAutoScalingGroupInput)) func(*amazonGroup) {
		return func(w *amazonGroup) {
			in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup)}
			change(in)
			_, err := w.scaling.UpdateAutoScalingGroup(w.Context(), in)
			w.must(err)
		}
	}
	template := func(data *ec2types.RequestLaunchTemplateData) func(*amazonGroup) {
		return func(w *amazonGroup) {
			_, err := w.raw.CreateLaunchTemplateVersion(w.Context(),
				&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(w.template), SourceVersion: sdk.String("1"), LaunchTemplateData: data})
			w.must(err)
			update(func(in *autoscaling.UpdateAutoScalingGroupInput) {
				in.LaunchTemplate = &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String("2")}
			})(w)
		}
	}
	for name, test := range map[string]struct {
		make   func(*amazonGroup)
		reason string
		// written: the reason refuses only a capture; the recipe can be set.
		written bool
	}{
		"EKS":         {tag("eks:nodegroup-name", "workers"), "ManagedElsewhere", false},
		"Cluster API": {tag("sigs.k8s.io/cluster-api-provider-aws/cluster/c", "owned"), "ManagedElsewhere", false},
		"launch configuration": {func(w *amazonGroup) {
			_, err := w.scaling.CreateLaunchConfiguration(w.Context(),
				&autoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: sdk.String("old"), ImageId: sdk.String(awsImage),
					InstanceType: sdk.String("m6i.large")})
			w.must(err)
			update(func(in *autoscaling.UpdateAutoScalingGroupInput) { in.LaunchConfigurationName = sdk.String("old") })(w)
		}, "TemplateUnsuitable", false},
		"override": {update(func(in *autoscaling.UpdateAutoScalingGroupInput) {
			in.MixedInstancesPolicy = &scalingtypes.MixedInstancesPolicy{LaunchTemplate: &scalingtypes.LaunchTemplate{
				LaunchTemplateSpecification: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(awsGroup), Version: sdk.String("1")},
				Overrides:                   []scalingtypes.LaunchTemplateOverrides{{InstanceType: sdk.String("m6g.large"), ImageId: sdk.String(awsArm)}},
			}}
		}), "TemplateUnsuitable", false},
		"snapshot": {template(
			&ec2types.RequestLaunchTemplateData{BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: sdk.String("/dev/xvdb"),
				Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{SnapshotId: sdk.String("snap-0123456789abcdef0")}}}}), "TemplateUnsuitable", false},
		"parameter": {template(
			&ec2types.RequestLaunchTemplateData{ImageId: sdk.String(
				"resolve:ssm:/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id")}), "TemplateUnsuitable", false},
		"refresh": {func(w *amazonGroup) {
			_, err := w.scaling.StartInstanceRefresh(w.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(awsGroup)})
			w.must(err)
		}, "NodesWouldBeReplaced", false},
		"at its minimum": {update(func(in *autoscaling.UpdateAutoScalingGroupInput) { in.MinSize = sdk.Int32(2) }), "AtMinimum", true},
		"may not write":  {func(w *amazonGroup) { w.fault(fault.Fault{Deny: "autoscaling:UpdateAutoScalingGroup"}) }, "PermissionMissing", true},
		"may not launch": {func(w *amazonGroup) { w.fault(fault.Fault{Deny: "ec2:RunInstances"}) }, "PermissionMissing", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroup(t, atOnce, "1")
			test.make(w)
			found, err := w.recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.14"})
			w.must(err)
			if len(found) != 1 || found[0].Reason != test.reason || found[0].Remedy == "" || !strings.Contains(found[0].Message, awsGroup) {
				t.Fatalf("%+v, want %s", found, test.reason)
			}
			if test.written {
				return
			}
			before, versions := w.group(), w.versions()
			change := w.change("2026.03.14")
			if len(change.Refusals) == 0 || change.Refusals[0].Reason != test.reason {
				t.Errorf("the change says %+v", change.Refusals)
			}
			if err := w.recipes.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) {
				t.Errorf("the recipe was set: %v", err)
			}
			after := w.group()
			before.Instances, after.Instances = nil, nil
			wantSame(t, before, after)
			wantSame(t, versions, w.versions())
		})
	}
}

// TestAWSRecognizesGroup: a group with the name of a deleted group is a different pool. Calls for the deleted group
// do not change the new group.
func TestAWSRecognizesGroup(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	_, err := w.scaling.DeleteAutoScalingGroup(t.Context(),
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), ForceDelete: sdk.Bool(true)})
	w.must(err)
	w.advance(10 * time.Minute)
	_, err = w.scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(awsGroup), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(10), DesiredCapacity: sdk.Int32(2),
		AvailabilityZones: []string{awsRegion + "a"},
		LaunchTemplate:    &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String("1")},
	})
	w.must(err)
	if _, err := w.recipes.Pool(t.Context(), w.pool); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("the pool is another one: %v", err)
	}
}

// TestAWSWithoutTemplate: a group without its launch template exists but cannot grow. The refusal names the
// template, and the group is not reported as deleted.
func TestAWSWithoutTemplate(t *testing.T) {
	for name, within := range map[string]func(context.Context) context.Context{
		"without a look":   func(ctx context.Context) context.Context { return ctx },
		"in a pass's look": cloud.WithReadCache,
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newGroup(t, atOnce, "1").suspendReplacement(), within(t.Context())
			w.published("2026.03.14")
			w.advance(time.Minute)
			if pool, err := w.recipes.Pool(ctx, w.pool); err != nil || len(pool.Refusals) > 0 {
				t.Fatalf("%+v, %v", pool, err)
			}
			change := w.change("2026.03.14") // with the template in its cache, because a numbered version does not change
			_, err := w.raw.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: sdk.String(w.template)})
			w.must(err)
			if err := w.recipes.SetRecipe(ctx, change); !cloud.Is(err, cloud.NotFound) ||
				!strings.Contains(err.Error(), "point the group at an existing version") {
				t.Errorf("%v", err)
			}
			pool, err := w.recipes.Pool(t.Context(), w.pool)
			if err != nil || len(pool.Refusals) != 1 || pool.Refusals[0].Reason != "TemplateMissing" || pool.Recipe.Image != "" {
				t.Errorf("%+v, %v", pool, err)
			}
		})
	}
}

// TestAWSKeepsUserData: user data must not run again on nodes whose disk already contains the result.
func TestAWSKeepsUserData(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	found, err := w.recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.14", RemovesBootstrap: true})
	if err != nil || len(found) != 1 || found[0].Reason != "TemplateUnsuitable" || found[0].Remedy == "" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestAWSReportsSourceImage: the user data of a template stays in the recipe, and no output shows the user data.
func TestAWSReportsSourceImage(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	change := w.change("2026.03.14")
	if !slices.Equal(cloud.DescribeFields(change.Keeps), []string{"userData"}) || len(change.Removes) > 0 {
		t.Errorf("%+v", change)
	}
	for _, text := range []string{"I2Nsb3VkLWNvbmZpZwo=", "#cloud-config"} {
		if strings.Contains(string(change.Backup), text) {
			t.Errorf("the backup has %q, which the template keeps: %s", text, base64.StdEncoding.EncodeToString(change.Backup))
		}
	}
}
