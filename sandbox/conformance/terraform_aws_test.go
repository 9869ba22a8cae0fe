package conformance

import (
	"slices"
	"strconv"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
)

// awsConfiguration is a launch template and a group in Terraform.
type awsConfiguration struct {
	image, userData string
	// ignoresImage: the template has ignore_changes = [image_id].
	ignoresImage bool
	// namesLatest: the group names the template's latest_version, else its default_version.
	namesLatest bool
}

// apply sends the requests of `terraform apply`, and reports whether the group changed. A changed version starts a refresh.
// Sources: terraform-aws-eks, self-managed-node-group; terraform-provider-aws (it reads the template's latest version).
func (w *amazonGroup) apply(c awsConfiguration) bool {
	w.Helper()
	described, err := w.raw.DescribeLaunchTemplates(w.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{w.template}})
	w.must(err)
	template := described.LaunchTemplates[0]
	latest, initial := *template.LatestVersionNumber, *template.DefaultVersionNumber
	read, err := w.raw.DescribeLaunchTemplateVersions(w.Context(),
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: template.LaunchTemplateId, Versions: []string{strconv.FormatInt(latest, 10)}})
	w.must(err)
	state := read.LaunchTemplateVersions[0].LaunchTemplateData
	if c.ignoresImage {
		c.image = sdk.ToString(state.ImageId)
	}
	if c.image != sdk.ToString(state.ImageId) || c.userData != sdk.ToString(state.UserData) {
		made, err := w.raw.CreateLaunchTemplateVersion(w.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: template.LaunchTemplateId,
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(c.image), InstanceType: state.InstanceType,
				UserData: sdk.String(c.userData)}})
		w.must(err)
		latest = *made.LaunchTemplateVersion.VersionNumber
		if !c.namesLatest {
			_, err := w.raw.ModifyLaunchTemplate(w.Context(),
				&ec2.ModifyLaunchTemplateInput{LaunchTemplateId: template.LaunchTemplateId, DefaultVersion: sdk.String(strconv.FormatInt(latest, 10))})
			w.must(err)
			initial = latest
		}
	}
	version := strconv.FormatInt(initial, 10)
	if c.namesLatest {
		version = strconv.FormatInt(latest, 10)
	}
	if sdk.ToString(w.group().LaunchTemplate.Version) == version {
		return false
	}
	_, err = w.scaling.UpdateAutoScalingGroup(w.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
		LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: template.LaunchTemplateId, Version: sdk.String(version)}})
	w.must(err)
	_, err = w.scaling.StartInstanceRefresh(w.Context(),
		&autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(awsGroup), Strategy: scalingtypes.RefreshStrategyRolling,
			Preferences: &scalingtypes.RefreshPreferences{MinHealthyPercentage: sdk.Int32(66)}})
	w.must(err)
	return true
}

// refreshed waits for the end of the group's instance refreshes.
func (w *amazonGroup) refreshed() {
	w.Helper()
	w.until("refreshed", func() bool {
		out, err := w.scaling.DescribeInstanceRefreshes(w.Context(), &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: sdk.String(awsGroup)})
		w.must(err)
		return !slices.ContainsFunc(out.InstanceRefreshes, func(r scalingtypes.InstanceRefresh) bool {
			return r.Status != scalingtypes.InstanceRefreshStatusSuccessful
		})
	})
	w.advance(time.Minute)
	w.ids = w.list()
}

// historyOf is the history of a pool as `kamino history` shows it.
func historyOf(t *testing.T, p cloud.Provider, id cloud.PoolID) history.History {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := p.Pool(t.Context(), id)
	must(err)
	images, err := p.Images(t.Context(), id)
	must(err)
	facts := history.Facts{Counted: true, Pool: pool, Images: images}
	instances, err := p.Instances(t.Context(), id)
	must(err)
	for _, i := range instances {
		facts.Members = append(facts.Members, history.Member{Name: string(i.ID), BuiltFrom: p.BuiltFrom(id, i)})
	}
	return history.Of(facts)
}

func isTerraformWarned(t *testing.T, p cloud.Provider, id cloud.PoolID) bool {
	t.Helper()
	pool, err := p.Pool(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(pool.Cautions, func(r cloud.Refusal) bool { return r.Reason == cloud.TerraformManaged })
}

// TestTerraformUndoesPromotionOnAWS: terraform-aws-eks sets the old image back, and replaces all nodes. Kamino warns before,
// refuses changes meanwhile, and the history shows the result.
func TestTerraformUndoesPromotionOnAWS(t *testing.T) {
	w := newGroup(t, atOnce, "1").suspendReplacement()
	p, module := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)), awsConfiguration{image: awsImage, userData: "I2Nsb3VkLWNvbmZpZwpydW5jbWQ6IFtdCg=="}
	w.apply(module)
	w.refreshed()
	if !isTerraformWarned(t, p, w.pool) {
		t.Error("Kamino does not warn of Terraform")
	}
	w.promoted("2026.03.14")
	before := w.list()
	if h := historyOf(t, p, w.pool); h.Versions[0].Use != history.Current {
		t.Fatalf("the promoted version is %s", h.Versions[0].Use)
	}
	if !w.apply(module) {
		t.Fatal("the apply changes nothing")
	}
	w.advance(time.Minute)
	if change := w.change("2026.03.14"); !slices.ContainsFunc(change.Refusals, func(r cloud.Refusal) bool { return r.Reason == "NodesWouldBeReplaced" }) {
		t.Errorf("a promotion meanwhile is refused with %+v", change.Refusals)
	}
	w.refreshed()
	if slices.ContainsFunc(w.ids, func(id cloud.InstanceID) bool { return slices.Contains(before, id) }) {
		t.Errorf("nodes %v were not replaced: %v", before, w.ids)
	}
	if h := historyOf(t, p, w.pool); h.Recipe.Image != awsImage || h.Versions[0].Use != history.Older || len(h.Others) != len(w.ids) {
		t.Errorf("the history shows image %s, use %s, other nodes %v", h.Recipe.Image, h.Versions[0].Use, h.Others)
	}
}

// TestTerraformKeepsPromotionOnAWS has the configuration of docs/tasks/infrastructure-as-code.md. The next apply changes
// nothing, and a changed template keeps the image.
func TestTerraformKeepsPromotionOnAWS(t *testing.T) {
	w := newGroup(t, atOnce, "1").suspendReplacement()
	p, tested := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)), awsConfiguration{image: awsImage, userData: "I2Nsb3VkLWNvbmZpZwo=", ignoresImage: true, namesLatest: true}
	w.promoted("2026.03.14")
	before := w.list()
	if w.apply(tested) || !slices.Equal(w.list(), before) {
		t.Error("the apply changes the group")
	}
	tested.userData = "I2Nsb3VkLWNvbmZpZwpydW5jbWQ6IFtdCg=="
	if !w.apply(tested) {
		t.Fatal("the apply does not change the template")
	}
	w.refreshed()
	if h := historyOf(t, p, w.pool); h.Versions[0].Use != history.Current || len(h.Versions[0].Nodes) != len(w.ids) {
		t.Errorf("the history shows use %s, and nodes %v of %v", h.Versions[0].Use, h.Versions[0].Nodes, w.ids)
	}
}

// promoted publishes a version from the first instance, starts the instance again, and promotes the version.
func (w *amazonGroup) promoted(version string) {
	w.Helper()
	w.published(version)
	w.until("running", func() bool {
		power, err := w.disks.EnsureStarted(w.Context(), w.ids[0])
		w.must(err)
		return power == cloud.PowerRunning
	})
	w.advance(time.Minute)
	w.must(w.recipes.SetRecipe(w.Context(), w.change(version)))
	w.advance(time.Minute)
}
