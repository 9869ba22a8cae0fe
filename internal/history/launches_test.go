package history

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestFrozenVersion: a version of a node of a quarantined version is no target, until a person releases it. A quarantine of it is
// possible too. What the cloud does not launch is no target either, and a release of it is due.
func TestFrozenVersion(t *testing.T) {
	const bad, held, current = "2026.01.01", "2026.01.02", "2026.01.03"
	proof := func(more map[string]string) map[string]string {
		tags := map[string]string{cloud.TagProof: "static/1/sha256:a", cloud.TagPrototype: "p"}
		for key, value := range more {
			tags[key] = value
		}
		return tags
	}
	look := func(tags map[string]string, launches cloud.Launches) History {
		image := func(version string, tags map[string]string) cloud.Image {
			return cloud.Image{Version: version, State: cloud.Complete, Origin: cloud.Own, Tags: proof(tags)}
		}
		middle := image(held, tags)
		middle.Launches = launches
		return Of(Facts{Pool: cloud.Pool{Name: "pool1", Recipe: cloud.Recipe{Image: current, Version: current}},
			Images: []cloud.Image{image(bad, map[string]string{cloud.TagQuarantined: "why"}), middle, image(current, nil)}})
	}
	frozen := map[string]string{cloud.TagLineage: bad}
	for name, test := range map[string]struct {
		h    History
		want string // in the refusal of a rollback; empty if the version is a target
	}{
		"frozen":           {look(frozen, cloud.LaunchesAllowed), "quarantined version " + bad},
		"disabled":         {look(nil, cloud.LaunchesForbidden), "does not launch"},
		"usable":           {look(nil, cloud.LaunchesAllowed), ""},
		"no such switch":   {look(nil, ""), ""},
		"cleared":          {look(map[string]string{cloud.TagLineage: bad, cloud.TagCleared: bad}, ""), ""},
		"of another image": {look(map[string]string{cloud.TagLineage: "2025.12.31"}, ""), ""},
	} {
		_, back := test.h.Rollback(held, "why")
		_, promoted := test.h.Promote(held)
		for verb, refusals := range map[string][]cloud.Refusal{"rollback": back, "promote": promoted} {
			said := ""
			for _, r := range refusals {
				said += r.Message + r.Remedy
			}
			if (test.want == "") != (said == "") || !strings.Contains(said, test.want) || said != "" && !strings.Contains(said, "kamino unquarantine pool1 "+held) {
				t.Errorf("%s: %s: %q", name, verb, said)
			}
		}
		if isPrior := test.h.Prior == held; isPrior != (test.want == "") {
			t.Errorf("%s: the target of a rollback is %q", name, test.h.Prior)
		}
		m, refusals := test.h.Unquarantine(held)
		if m.Done != (test.want == "") || len(refusals) > 0 || (m.Tags[cloud.TagCleared] == bad) != (name == "frozen") || !m.Done && m.Prior != held {
			t.Errorf("%s: the release is %+v, %v", name, m, refusals)
		}
		if q, refusals := test.h.Quarantine(bad, "why"); slices.Contains(q.Freezes, held) != (name == "frozen") || len(refusals) > 0 {
			t.Errorf("%s: the quarantine of its ancestor is %+v, %v", name, q, refusals)
		}
		if q, refusals := test.h.Quarantine(held, "too"); q.Done || len(refusals) > 0 {
			t.Errorf("%s: the quarantine is %+v, %v", name, q, refusals)
		}
		notes := test.h.Notes()
		if says := slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "kamino unquarantine pool1 "+held) }); says != (test.want != "") {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

// TestWarmPoolIsNoted: the notes say how many instances of the warm pool are from the version in the recipe.
func TestWarmPoolIsNoted(t *testing.T) {
	warm := &cloud.WarmPool{Instances: []cloud.Instance{{BuiltFrom: "2026.01.02"}, {BuiltFrom: "2026.01.01"}, {}}}
	reused := *warm
	reused.Reuses = true
	for want, pool := range map[string]cloud.Pool{
		"Warm: 1 of 3 from 2026.01.02, 2 of other images, with which nodes return at scale-in.": {Recipe: cloud.Recipe{Version: "2026.01.02"}, Warm: &reused},
		"Warm: 1 of 3 from 2026.01.02.": {Recipe: cloud.Recipe{Version: "2026.01.02"}, Warm: warm},
		"Warm: 3.":                      {Warm: warm},
		"Warm: unknown.":                {Recipe: cloud.Recipe{Version: "2026.01.02"}, Warm: &cloud.WarmPool{Unknown: "denied"}},
	} {
		if notes := Of(Facts{Pool: pool}).Notes(); !slices.Contains(notes, want) {
			t.Errorf("%q, want %s", notes, want)
		}
	}
	if notes := Of(Facts{}).Notes(); slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "Warm") }) {
		t.Errorf("without a warm pool: %q", notes)
	}
}
