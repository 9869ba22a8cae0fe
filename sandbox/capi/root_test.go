package capi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	simulation "github.com/kamino-dev/kamino/sandbox/region"
)

// TestRootVolumeBelowDisk: the donor's root disk is larger than the root volume of the pool's template. The preflight and the
// promotion are refused. The provider refuses the machine of a trial, and the trial quotes the condition InstanceReady.
func TestRootVolumeBelowDisk(t *testing.T) {
	t.Parallel()
	of := func(size string) string { return "ami: {id: " + amazonImage + "}, rootVolume: {size: " + size + "}" }
	p := groupPool{newCluster(t, strings.Replace(objects, "ami: {id: ami-generic}", of("40"), 1))}
	p.name, p.line = p.namespace, "home."+p.namespace
	p.makers.set(p.namespace, simulation.NewMaker(p.amazon.ec2, "home"))
	p.create(strings.Replace(withTwoMachines(deployment), "name: workers,", "name: NAMESPACE,", 1))
	p.wait("all machines", p.isComplete)
	template := objects[strings.LastIndex(objects, "---\n")+len("---\n"):]
	p.create(strings.NewReplacer("workers-1", "workers-2", "ami: {id: ami-generic}", of("30")).Replace(template))
	p.merge("MachineDeployment", p.name, `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"workers-2"}}}}}`)

	pool, donor := p.pool.id(), p.instances()[0]
	both := cloud.New(cloud.DisksOf(p.amazon.disks), cloud.RecipesOf(p.recipes()))
	isRefused := func(what string, all []cloud.Refusal, err error) {
		t.Helper()
		if err != nil || !slices.ContainsFunc(all, func(r cloud.Refusal) bool {
			return r.Reason == cloud.RootDiskTooLarge && strings.Contains(r.Message, "40 GiB, but the recipe gives new nodes 30 GiB")
		}) {
			t.Errorf("%s: %+v, %v", what, all, err)
		}
	}
	found, err := both.Preflight(t.Context(), cloud.PreflightSpec{Pool: pool, Instance: donor, Version: version})
	isRefused("the preflight", found, err)

	p.wait("version of the donor's disk", func() bool {
		shot, err := p.amazon.disks.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: p.namespace, Instance: donor})
		if err != nil || shot.State != cloud.Complete {
			return false
		}
		image, err := p.amazon.disks.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: cloud.FamilyVersion{Family: p.at(), Version: version},
			SnapshotID: shot.ID, Tags: map[string]string{cloud.TagKubelet: "v1.37.1"}})
		return err == nil && image.State == cloud.Complete
	})
	change, err := both.RecipeChange(t.Context(), cloud.ImageRef{Pool: pool, Version: version}, false)
	isRefused("the promotion", change.Refusals, err)

	r, spec := p.recipes(), cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: pool, Version: version}, Name: "trial", To: p.imageID(version)}
	if _, err := r.EnsureTrial(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	var seen cloud.Trial
	p.wait("message about the trial", func() bool {
		seen, err = r.Trial(t.Context(), spec)
		return err == nil && seen.Trouble != ""
	})
	if want := "failed to create AWSMachine instance: root volume size (30) must be greater than or equal to snapshot size (40)"; seen.Trouble != want ||
		seen.State != cloud.Pending || len(seen.Instances) > 0 {
		t.Errorf("the trial is %+v, want trouble %q", seen, want)
	}
	p.wait("end of the trial", func() bool {
		state, err := r.EndTrial(t.Context(), spec)
		return err == nil && state == cloud.Absent
	})
}
