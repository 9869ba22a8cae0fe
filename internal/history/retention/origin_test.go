package retention

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestOnlyWhatIsProvenOursIsRetired: a version of another cluster is neither counted, used nor retired. A version without a
// cluster's tag is counted as history, and is retired only if its Prototype is known.
func TestOnlyWhatIsProvenOursIsRetired(t *testing.T) {
	of := func(version string, origin cloud.Origin, uid string) cloud.Image {
		return cloud.Image{Version: version, State: cloud.Complete, Origin: origin, Tags: map[string]string{cloud.TagUID: uid}}
	}
	images := []cloud.Image{
		of("2026.01.01", cloud.Foreign, "known"), of("2026.01.02", cloud.Unmarked, "gone"), of("2026.01.03", cloud.Unmarked, "known"),
		of("2026.01.04", cloud.Unmarked, ""), of("2026.01.05", cloud.Own, "gone"), of("2026.01.06", cloud.Unmarked, "gone"),
		of("2026.01.07", cloud.Foreign, "gone"), of("2026.01.08", cloud.Own, "gone"),
		of("2026.01.09", cloud.Foreign, "gone"),
	}
	want := []Decision{
		{"2026.01.09", true, OtherCluster}, {"2026.01.08", true, Current}, {"2026.01.07", true, OtherCluster}, {"2026.01.06", true, Prior},
		{"2026.01.05", false, Surplus},
		{"2026.01.04", true, Unmarked}, {"2026.01.03", false, Surplus}, {"2026.01.02", true, Unmarked}, {"2026.01.01", true, OtherCluster},
	}
	known := func(uid string) bool { return uid == "known" }
	if diff := cmp.Diff(want, Decide(images, "2026.01.08", 2, nil, known)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Decide(images[:1], "2026.01.01", 2, nil, known); got[0].Reason != Current {
		t.Errorf("the version in the recipe is %s", got[0].Reason)
	}
}
