package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// kopsParameter is the parameter of the instance group, and kopsData its user data, which is in base64.
const kopsParameter, kopsData = "/kamino/c.example.com/nodes-a", "I2Nsb3VkLWNvbmZpZwo="

// kopsGroup is a group of kOps whose instance group has `image: ssm:/kamino/CLUSTER/GROUP`.
type kopsGroup struct {
	*amazonGroup
	// userData is what the cluster's specification gives.
	userData string
	// between is called after each write of Kamino, with the action.
	between func(action string)
	writes  []string
}

func newKops(t *testing.T) *kopsGroup {
	t.Helper()
	k := &kopsGroup{amazonGroup: newGroup(t, atOnce, newestVersion).suspendReplacement(), userData: kopsData}
	tag("kops.k8s.io/instancegroup", "nodes-a")(k.amazonGroup)
	tag("KubernetesCluster", "c.example.com")(k.amazonGroup)
	k.put(awsImage, ssmtypes.ParameterTypeString)
	watched := k.config
	watched.AWS.APIOptions = append(slices.Clone(watched.AWS.APIOptions), func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("between", func(ctx context.Context, in middleware.InitializeInput,
			next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleInitialize(ctx, in)
			if action := middleware.GetOperationName(ctx); !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") {
				k.writes = append(k.writes, action)
				if k.between != nil {
					k.between(action)
				}
			}
			return out, meta, err
		}), middleware.Before)
	})
	k.disks, k.recipes = provider.New(watched)
	return k
}

const newestVersion = "$Latest"

func specification(template, version string) *scalingtypes.LaunchTemplateSpecification {
	return &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(template), Version: sdk.String(version)}
}

func (k *kopsGroup) put(value string, kind ssmtypes.ParameterType) {
	k.Helper()
	_, err := k.parameters.PutParameter(k.Context(), &ssm.PutParameterInput{Name: sdk.String(kopsParameter), Value: sdk.String(value), Type: kind,
		Overwrite: sdk.Bool(true)})
	k.must(err)
}

func (k *kopsGroup) parameter() string {
	k.Helper()
	out, err := k.parameters.GetParameter(k.Context(), &ssm.GetParameterInput{Name: sdk.String(kopsParameter)})
	k.must(err)
	return sdk.ToString(out.Parameter.Value)
}

// latest is the newest version of the template.
func (k *kopsGroup) latest() ec2types.LaunchTemplateVersion {
	k.Helper()
	out, err := k.raw.DescribeLaunchTemplateVersions(k.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: sdk.String(k.template),
		Versions: []string{newestVersion}})
	k.must(err)
	return out.LaunchTemplateVersions[0]
}

// updateCluster does what `kops update cluster --yes` does: it resolves the image, compares the newest version of the template with the
// specification, and makes a version if they differ. It reports whether anything differed. Source: kubernetes/kops,
// upup/pkg/fi/cloudup/awstasks/launchtemplate_target_api.go; awsup/aws_cloud.go, ResolveImage.
func (k *kopsGroup) updateCluster() bool {
	k.Helper()
	image, has := k.parameter(), k.latest().LaunchTemplateData
	if sdk.ToString(has.ImageId) == image && sdk.ToString(has.UserData) == k.userData {
		return false
	}
	_, err := k.raw.CreateLaunchTemplateVersion(k.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(k.template),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(image), InstanceType: has.InstanceType, UserData: sdk.String(k.userData)}})
	k.must(err)
	return true
}

// rollingUpdate does what `kops rolling-update cluster --yes` does, without the drain: it terminates the instances from other versions of
// the template than the newest. It returns their number. Source: kubernetes/kops, awsup/aws_cloud.go, buildCloudInstanceGroup.
func (k *kopsGroup) rollingUpdate() (replaced int) {
	k.Helper()
	newest := fmt.Sprint(sdk.ToInt64(k.latest().VersionNumber))
	for _, m := range k.group().Instances {
		if m.LaunchTemplate == nil || sdk.ToString(m.LaunchTemplate.Version) == newest {
			continue
		}
		_, err := k.scaling.TerminateInstanceInAutoScalingGroup(k.Context(), &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: m.InstanceId,
			ShouldDecrementDesiredCapacity: sdk.Bool(false)})
		k.must(err)
		replaced++
	}
	k.advance(10 * time.Minute)
	return replaced
}

// wantImage checks that template, parameter, and the next update of kOps have an image, and that the template has kOps' user data.
func (k *kopsGroup) wantImage(ami string) {
	k.Helper()
	have := k.latest().LaunchTemplateData
	if got, of := sdk.ToString(have.ImageId), k.parameter(); got != ami || of != ami || sdk.ToString(have.UserData) != k.userData {
		k.Errorf("the template has %s, the parameter %s and the user data %s; want %s", got, of, sdk.ToString(have.UserData), ami)
	}
	if k.updateCluster() {
		k.Errorf("kops update cluster changes the template after %v", k.writes)
	}
	if version := sdk.ToString(k.group().LaunchTemplate.Version); version != newestVersion {
		k.Errorf("the group uses version %s of its template", version)
	}
}

// publish makes a version, and returns its AMI.
func (k *kopsGroup) publish(version string) string {
	k.Helper()
	ami := k.amiOf(k.published(version))
	k.advance(time.Minute)
	k.writes = nil
	return ami
}

// TestAWSPromotesWithKops: with a parameter, Kamino promotes and rolls back a group of kOps, and kOps agrees: its next update changes nothing.
func TestAWSPromotesWithKops(t *testing.T) {
	k := newKops(t)
	pool, err := k.recipes.Pool(t.Context(), k.pool)
	k.must(err)
	if pool.Owner != "" || len(pool.Refusals) > 0 || !slices.ContainsFunc(pool.Cautions, func(c cloud.Refusal) bool {
		return c.Reason == "KopsRollsNodes" && strings.Contains(c.Message, "`kops rolling-update cluster --yes`")
	}) {
		t.Errorf("%+v", pool)
	}
	ami := k.publish("2026.03.14")
	ids := k.group().Instances
	to := func(image string) cloud.RecipeChange {
		change, err := k.recipes.RecipeChange(t.Context(), cloud.Target{Pool: k.pool, Image: image}, false)
		k.must(err)
		return change
	}
	version := k.disks.ImageID(cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"})
	for _, step := range []struct{ image, ami string }{{version, ami}, {awsImage, awsImage}, {version, ami}} {
		change := to(step.image)
		if change.HandOver != "" || len(change.Refusals) > 0 || change.Done || !strings.Contains(change.Later, "rolling-update") {
			t.Fatalf("%+v", change)
		}
		k.must(k.recipes.SetRecipe(t.Context(), change))
		k.advance(time.Minute)
		k.wantImage(step.ami)
		if again := to(step.image); !again.Done {
			t.Errorf("it is not done: %+v", again)
		}
	}
	if want := []string{"CreateLaunchTemplateVersion", "PutParameter"}; !slices.Equal(k.writes, slices.Concat(want, want, want)) {
		t.Errorf("the writes are %v", k.writes)
	}
	if now := k.group().Instances; len(now) != len(ids) || now[0].InstanceId == nil || *now[0].InstanceId != *ids[0].InstanceId {
		t.Errorf("running nodes changed: %+v", now)
	}
	if replaced := k.rollingUpdate(); replaced != len(ids) {
		t.Errorf("a rolling update replaces %d nodes, want %d, as the caution says", replaced, len(ids))
	}
	if again := k.rollingUpdate(); again != 0 {
		t.Errorf("a second rolling update replaces %d nodes", again)
	}
}

// TestAWSKopsBetweenWrites: kOps updates or rolls the cluster, also with other user data, between every two calls of Kamino. In the end all
// agree on the image, and no user data is lost.
func TestAWSKopsBetweenWrites(t *testing.T) {
	for name, act := range map[string]func(k *kopsGroup){
		"update":                      func(k *kopsGroup) { k.updateCluster() },
		"update with other user data": func(k *kopsGroup) { k.userData = "I2Nsb3VkLWNvbmZpZwojMgo="; k.updateCluster() },
		"rolling update":              func(k *kopsGroup) { k.updateCluster(); k.rollingUpdate() },
	} {
		for at := range 3 { // before the first write, and after each
			t.Run(fmt.Sprintf("%s %d", name, at), func(t *testing.T) {
				k := newKops(t)
				ami := k.publish("2026.03.14")
				change, seen := k.change("2026.03.14"), 0
				if at == 0 {
					act(k)
				}
				k.between = func(string) {
					if seen++; seen == at {
						act(k)
					}
				}
				k.must(k.recipes.SetRecipe(t.Context(), change))
				k.between = nil
				k.advance(time.Minute)
				k.updateCluster() // what another specification still needs
				k.wantImage(ami)
				k.rollingUpdate()
				for _, m := range k.group().Instances {
					if sdk.ToString(m.LaunchTemplate.Version) != fmt.Sprint(sdk.ToInt64(k.latest().VersionNumber)) {
						t.Errorf("node %s is from version %s", *m.InstanceId, *m.LaunchTemplate.Version)
					}
				}
			})
		}
	}
}

// TestAWSKopsTemplateChangesMeanwhile: kOps writes other user data between Kamino's read of the template and its write. The version of
// Kamino has both.
func TestAWSKopsTemplateChangesMeanwhile(t *testing.T) {
	k := newKops(t)
	ami := k.publish("2026.03.14")
	change := k.change("2026.03.14")
	watched, done := k.config, false
	watched.AWS.APIOptions = append(slices.Clone(watched.AWS.APIOptions), func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("before", func(ctx context.Context, in middleware.InitializeInput,
			next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			if middleware.GetOperationName(ctx) == "CreateLaunchTemplateVersion" && !done {
				done, k.userData = true, "I2Nsb3VkLWNvbmZpZwojMgo="
				k.updateCluster()
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
	})
	_, recipes := provider.New(watched)
	k.must(recipes.SetRecipe(t.Context(), change))
	k.advance(time.Minute)
	if !done {
		t.Fatal("kOps did not run")
	}
	k.wantImage(ami)
}

// TestAWSKopsCallsLost: each call is lost before or after its effect. A repeated promotion ends with template and parameter at the image.
func TestAWSKopsCallsLost(t *testing.T) {
	for _, phase := range []fault.Phase{fault.Before, fault.After} {
		for _, action := range []string{"GetParameter", "CreateLaunchTemplateVersion", "PutParameter"} {
			t.Run(string(phase)+" "+action, func(t *testing.T) {
				k := newKops(t)
				ami := k.publish("2026.03.14")
				k.change("2026.03.14")
				k.fault(fault.Fault{Name: "lost", Operation: action, Phase: phase, Drop: true, Count: 1})
				for range 5 {
					change, err := k.recipes.RecipeChange(t.Context(), cloud.Target{Pool: k.pool, Version: "2026.03.14", Image: k.disks.ImageID(
						cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"})}, false)
					if err == nil {
						err = k.recipes.SetRecipe(t.Context(), change)
					}
					if err == nil {
						break
					}
					if !cloud.Is(err, cloud.Unavailable) {
						t.Fatal(err)
					}
					k.advance(time.Minute)
				}
				if left := k.server.Faults(); len(left) > 0 {
					t.Fatalf("no call was lost: %+v", left)
				}
				k.wantImage(ami)
			})
		}
	}
}

// TestAWSKopsParameterFails: if the parameter cannot be written, the template returns to the former image, and the error says why.
func TestAWSKopsParameterFails(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(k *kopsGroup)
		kind cloud.Kind
	}{
		"denied": {func(k *kopsGroup) { k.fault(fault.Fault{Name: "denied", Deny: "ssm:PutParameter"}) }, cloud.Denied},
		"throttled": {func(k *kopsGroup) {
			k.fault(fault.Fault{Name: "throttled", Operation: "PutParameter", Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"})
		}, cloud.Throttled},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKops(t)
			k.publish("2026.03.14")
			change := k.change("2026.03.14")
			test.fail(k)
			for range 2 {
				if err := k.recipes.SetRecipe(t.Context(), change); !cloud.Is(err, test.kind) || !strings.Contains(err.Error(), kopsParameter) {
					t.Errorf("%v", err)
				}
				k.advance(time.Minute)
				k.wantImage(awsImage)
			}
		})
	}
}

// TestAWSKopsHandsOver: without a usable parameter, Kamino hands the version over, says why, and writes nothing.
func TestAWSKopsHandsOver(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *kopsGroup)
		says   string
	}{
		"encrypted":  {func(k *kopsGroup) { k.put(awsImage, ssmtypes.ParameterTypeSecureString) }, "its type is SecureString"},
		"no image":   {func(k *kopsGroup) { k.put("ubuntu", ssmtypes.ParameterTypeString) }, `its value "ubuntu" is not the ID of an AMI`},
		"unreadable": {func(k *kopsGroup) { k.fault(fault.Fault{Name: "denied", Deny: "ssm:GetParameter"}) }, "may not do ssm:GetParameter"},
		"pinned": {func(k *kopsGroup) {
			_, err := k.scaling.UpdateAutoScalingGroup(k.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
				LaunchTemplate: specification(k.template, "1")})
			k.must(err)
		}, "uses version 1 of it instead of $Latest"},
		"of another group": {func(k *kopsGroup) { tag("kops.k8s.io/instancegroup", "nodes-b")(k.amazonGroup) },
			"`aws ssm put-parameter --name /kamino/c.example.com/nodes-b --type String --value ami-"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKops(t)
			k.publish("2026.03.14")
			test.change(k)
			change := k.change("2026.03.14")
			if !strings.Contains(change.HandOver, test.says) || !strings.Contains(change.HandOver, "`kops edit instancegroup nodes-") {
				t.Errorf("%q, want %q", change.HandOver, test.says)
			}
			if err := k.recipes.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) {
				t.Errorf("%v", err)
			}
			if len(k.writes) > 0 {
				t.Errorf("Kamino wrote %v", k.writes)
			}
		})
	}
	t.Run("other image", func(t *testing.T) { // a person has written a new base image, and kOps has not taken it over yet
		k := newKops(t)
		k.publish("2026.03.14")
		change := k.change("2026.03.14")
		k.put(awsArm, ssmtypes.ParameterTypeString)
		if err := k.recipes.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), "`kops update cluster --yes`") {
			t.Errorf("%v", err)
		}
		if k.parameter() != awsArm || len(k.writes) > 0 {
			t.Errorf("the parameter is %s, after %v", k.parameter(), k.writes)
		}
	})
}
