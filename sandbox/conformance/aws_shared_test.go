package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// neighbor makes another group with the launch template of the group.
func (w *amazonGroup) neighbor(name, version string) {
	w.Helper()
	_, err := w.scaling.CreateAutoScalingGroup(w.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(name), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(1), DesiredCapacity: sdk.Int32(0),
		AvailabilityZones: []string{awsRegion + "a"},
		LaunchTemplate:    &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String(version)},
	})
	w.must(err)
}

// TestAWSSharedTemplate checks that Kamino makes no template version that another group would use immediately.
func TestAWSSharedTemplate(t *testing.T) {
	const reason = "TemplateUnsuitable"
	isShared := func(r cloud.Refusal) bool { return r.Reason == reason }
	for name, test := range map[string]struct {
		version string
		refused bool
	}{
		"newest":  {"$Latest", true},
		"default": {"$Default", false},
		"number":  {"1", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroup(t, atOnce, "$Latest").suspendReplacement()
			for _, other := range []string{"a", "b", "c", "d", "e", "zone-b"} { // more than a page
				w.neighbor(other, "1")
			}
			w.neighbor("zone-c", test.version)
			w.published("2026.03.14")
			w.advance(time.Minute)
			found, err := w.recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.15"})
			w.must(err)
			change := w.change("2026.03.14")
			if got := slices.ContainsFunc(found, isShared); got != test.refused {
				t.Errorf("preflight: %+v", found)
			}
			if got := slices.ContainsFunc(change.Refusals, isShared); got != test.refused {
				t.Errorf("change: %+v", change.Refusals)
			}
			err = w.recipes.SetRecipe(t.Context(), change)
			if !test.refused {
				w.must(err)
				return
			}
			if !cloud.Is(err, cloud.Refused) {
				t.Errorf("SetRecipe: %v", err)
			}
			for _, part := range []string{"zone-c", w.template, "version number"} {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in %q", part, err)
				}
			}
			if versions := w.versions(); len(versions) != 1 || sdk.ToString(w.group().LaunchTemplate.Version) != "$Latest" {
				t.Errorf("versions %v, group at %s", versions, sdk.ToString(w.group().LaunchTemplate.Version))
			}
		})
	}
}
