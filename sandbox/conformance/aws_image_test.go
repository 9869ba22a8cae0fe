package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// groupFrom starts a cloud with a group. change changes the platform of the group's image.
func groupFrom(t *testing.T, change func(*aws.Platform)) *amazonGroup {
	t.Helper()
	return groupOf(t, startAmazonOn(t, nil, atOnce, func(c *aws.Config) { change(&c.Images[0]) }), "1").suspendReplacement()
}

// preflight returns the reasons of both halves against a capture of the first instance.
func (w *amazonGroup) preflight() (reasons []string, all []cloud.Refusal) {
	w.Helper()
	all, err := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)).Preflight(w.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.20"})
	w.must(err)
	for _, r := range all {
		reasons = append(reasons, r.Reason)
	}
	return reasons, all
}

// TestAWSBillingOfImage checks that an image counts as complete only with the donor's billing. AWS copies Marketplace codes.
func TestAWSBillingOfImage(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*aws.Platform)
		want   cloud.State
	}{
		"Linux":       {func(*aws.Platform) {}, cloud.Complete},
		"Marketplace": {func(p *aws.Platform) { p.Codes = []string{"cis-1"} }, cloud.Complete},
		"RHEL":        {func(p *aws.Platform) { p.Details, p.Usage = "Red Hat Enterprise Linux", "RunInstances:0010" }, cloud.Complete},
		"lost": {func(p *aws.Platform) {
			p.Details, p.Usage, p.Unbilled = "Red Hat Enterprise Linux", "RunInstances:0010", true
		}, cloud.Failed},
		"lost code": {func(p *aws.Platform) { p.Codes, p.Unbilled = []string{"cis-1"}, true }, cloud.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := groupFrom(t, test.change)
			if found, _ := w.preflight(); len(found) > 0 {
				t.Errorf("refused: %v", found)
			}
			w.stop(w.ids[0])
			snapshot := w.shot("billed")
			ref := cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"}
			var im cloud.Image
			w.until("registered", func() bool {
				var err error
				im, err = w.disks.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshot.ID})
				w.must(err)
				return im.State == cloud.Complete || im.State == cloud.Failed
			})
			if im.State != test.want || test.want == cloud.Failed && !strings.Contains(im.Error, "bills") {
				t.Errorf("%s: %s", im.State, im.Error)
			}
			if test.want == cloud.Failed {
				if err := w.recipes.SetRecipe(t.Context(), w.change("2026.03.14")); !cloud.Is(err, cloud.NotFound) {
					t.Errorf("SetRecipe: %v", err)
				}
			}
		})
	}
}

// TestAWSKeepsUEFIVariables checks that an image has the donor's variables, also if the donor is gone.
func TestAWSKeepsUEFIVariables(t *testing.T) {
	const variables = "QU1aTlVFRkk="
	w := groupFrom(t, func(p *aws.Platform) { p.Uefi = variables })
	if found, _ := w.preflight(); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
	w.stop(w.ids[0])
	snapshot := w.shot("uefi")
	_, err := w.raw.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{strings.Split(string(w.ids[0]), "/")[4]}})
	w.must(err)
	w.advance(2 * time.Hour)
	ref := cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"}
	config, err := provider.Load(t.Context(), "")
	w.must(err)
	config.Now = w.now
	other, _ := provider.New(config)
	if _, err := other.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshot.ID}); !cloud.Is(err, cloud.Invalid) ||
		!strings.Contains(err.Error(), "UEFI") {
		t.Errorf("a process without the variables: %v", err)
	}
	_, err = w.disks.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshot.ID})
	w.must(err)
	w.advance(5 * time.Minute)
	out, err := w.raw.DescribeImageAttribute(t.Context(),
		&ec2.DescribeImageAttributeInput{ImageId: sdk.String(w.amiOf(ref)), Attribute: ec2types.ImageAttributeNameUefiData})
	w.must(err)
	if got := sdk.ToString(out.UefiData.Value); got != variables {
		t.Errorf("the image has the variables %q", got)
	}
	denied := groupFrom(t, func(*aws.Platform) {})
	denied.fault(fault.Fault{Deny: "ec2:GetInstanceUefiData"})
	if found, _ := denied.preflight(); !slices.Equal(found, []string{cloud.PermissionMissing}) {
		t.Errorf("denied: %v", found)
	}
}

// TestAWSComparesDisks checks the disks of the donor with the launch template before a capture, and before a promotion.
func TestAWSComparesDisks(t *testing.T) {
	root := func(w *amazonGroup, size int32) {
		out, err := w.raw.CreateLaunchTemplateVersion(t.Context(),
			&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(w.template), SourceVersion: sdk.String("1"),
				LaunchTemplateData: &ec2types.RequestLaunchTemplateData{BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{
					{DeviceName: sdk.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(size)}}}}})
		w.must(err)
		_, err = w.scaling.UpdateAutoScalingGroup(t.Context(),
			&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{
				LaunchTemplateId: sdk.String(w.template), Version: sdk.String(string(rune('0' + sdk.ToInt64(out.LaunchTemplateVersion.VersionNumber))))}})
		w.must(err)
	}
	t.Run("root disk", func(t *testing.T) {
		w := newGroup(t, atOnce, "1").suspendReplacement()
		w.published("2026.03.14")
		w.advance(time.Minute)
		root(w, 10)
		reasons, all := w.preflight()
		if !slices.Equal(reasons, []string{"RootDiskTooLarge"}) || !strings.Contains(all[0].Remedy, "20 GiB") || !strings.Contains(all[0].Remedy, "10 GiB") {
			t.Errorf("preflight: %+v", all)
		}
		change := w.change("2026.03.14")
		if len(change.Refusals) != 1 || change.Refusals[0].Reason != "RootDiskTooLarge" {
			t.Errorf("change: %+v", change.Refusals)
		}
		if err := w.recipes.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) || len(w.versions()) != 2 {
			t.Errorf("SetRecipe: %v; versions %v", err, w.versions())
		}
		root(w, 20)
		w.must(w.recipes.SetRecipe(t.Context(), w.change("2026.03.14")))
	})
	t.Run("further disk", func(t *testing.T) {
		w := groupFrom(t, func(p *aws.Platform) { p.Disks = []string{"/dev/xvdb"} })
		if reasons, all := w.preflight(); !slices.Equal(reasons, []string{"TemplateUnsuitable"}) || !strings.Contains(all[0].Remedy, "/dev/xvdb") {
			t.Errorf("preflight: %+v", all)
		}
	})
}

// TestAWSRoleWithPath checks that Kamino finds the policies of a role with a path, for example of IAM Identity Center.
func TestAWSRoleWithPath(t *testing.T) {
	const path = "/aws-reserved/sso.amazonaws.com/eu-central-1/"
	w := groupOf(t, startAmazonOn(t, nil, atOnce, func(c *aws.Config) { c.Roles = []aws.Role{{Name: "admin", Path: path}} }), "1")
	config, err := provider.Load(t.Context(), "")
	w.must(err)
	session, err := sts.NewFromConfig(config.AWS).AssumeRole(t.Context(),
		&sts.AssumeRoleInput{RoleArn: sdk.String("arn:aws:iam::123456789012:role" + path + "admin"), RoleSessionName: sdk.String("me")})
	w.must(err)
	c := session.Credentials
	config.AWS.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	config.Now = w.now
	_, recipes := provider.New(config)
	w.fault(fault.Fault{Name: "denied", Deny: "autoscaling:EnterStandby"})
	for range 2 {
		all, err := recipes.Permissions(t.Context(), w.pool)
		if err != nil || !slices.ContainsFunc(all, func(p cloud.Permission) bool { return p.Action == "autoscaling:EnterStandby" && !p.Allowed }) {
			t.Errorf("%+v, %v", all, err)
		}
	}
	read := 0
	for _, r := range w.server.Requests() {
		if r.Operation == "GetRole" {
			read++
		}
	}
	if read != 1 {
		t.Errorf("the role was read %d times", read)
	}
}

// TestAWSFullGroup checks what Kamino reports if another instance has taken the donor's place.
func TestAWSFullGroup(t *testing.T) {
	w := newGroup(t, atOnce, "1").suspendReplacement()
	_, err := w.scaling.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), MaxSize: sdk.Int32(2)})
	w.must(err)
	pool, err := w.recipes.Pool(t.Context(), w.pool)
	w.must(err)
	if !slices.ContainsFunc(pool.Cautions, func(r cloud.Refusal) bool {
		return r.Reason == "GroupAtMaximum" && strings.Contains(r.Remedy, "raise the maximum")
	}) {
		t.Errorf("cautions: %+v", pool.Cautions)
	}
	w.must(w.recipes.ProtectFromScaleIn(t.Context(), w.ids[0], cloud.TokenUnprotected))
	w.advance(time.Minute)
	w.scale(2)
	w.advance(5 * time.Minute)
	err = w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected)
	if !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), "raise its maximum by one") || !strings.Contains(err.Error(), "maximum size of 2") {
		t.Errorf("%v", err)
	}
	_, err = w.scaling.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), MaxSize: sdk.Int32(3)})
	w.must(err)
	w.must(w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected))
}
