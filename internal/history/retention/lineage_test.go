package retention

import (
	"maps"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// of is an image with tags.
func of(version string, tags map[string]string) cloud.Image {
	return cloud.Image{Version: version, State: cloud.Complete, Origin: cloud.Own, Tags: tags}
}

const first, second, third, fourth = "2026.01.01", "2026.01.02", "2026.01.03", "2026.01.04"

// child is a version of a node that another version built.
func child(version, parent, cleared string) cloud.Image {
	return of(version, map[string]string{cloud.TagLineage: parent, cloud.TagCleared: cleared})
}

// TestDescended: a quarantine follows the lineage to all descendants, until a person clears one of them, which clears its own
// descendants too. A clearance is about one quarantined ancestor.
func TestDescended(t *testing.T) {
	bad := func(version, parent string) cloud.Image {
		return of(version, map[string]string{cloud.TagLineage: parent, cloud.TagQuarantined: "why"})
	}
	for name, c := range map[string]struct {
		images []cloud.Image
		want   map[string]string
	}{
		"nothing is quarantined":    {[]cloud.Image{child(first, "", ""), child(second, first, "")}, nil},
		"children and their own":    {[]cloud.Image{bad(first, ""), child(second, first, ""), child(third, second, "")}, map[string]string{second: first, third: first}},
		"in any order":              {[]cloud.Image{child(third, second, ""), child(second, first, ""), bad(first, "")}, map[string]string{second: first, third: first}},
		"neighbours stay":           {[]cloud.Image{bad(first, ""), child(second, "", ""), child(third, second, "")}, nil},
		"the nearest":               {[]cloud.Image{bad(first, ""), bad(second, first), child(third, second, "")}, map[string]string{third: second}},
		"cleared, with its own":     {[]cloud.Image{bad(first, ""), child(second, first, first), child(third, second, "")}, nil},
		"only the grandchild":       {[]cloud.Image{bad(first, ""), child(second, first, ""), child(third, second, first)}, map[string]string{second: first}},
		"cleared of another":        {[]cloud.Image{bad(first, ""), child(second, first, third)}, map[string]string{second: first}},
		"one of two ancestors":      {[]cloud.Image{bad(first, ""), bad(second, first), child(third, second, second)}, map[string]string{third: first}},
		"both":                      {[]cloud.Image{bad(first, ""), bad(second, first), child(third, second, second+" "+first)}, nil},
		"a parent that is gone":     {[]cloud.Image{child(second, first, ""), child(third, second, "")}, nil},
		"tags in a circle":          {[]cloud.Image{child(first, second, ""), child(second, first, "")}, nil},
		"a circle with a bad one":   {[]cloud.Image{bad(first, second), child(second, first, "")}, map[string]string{second: first}},
		"another spelling":          {[]cloud.Image{bad(first, ""), child(second, "2026.1.1", "")}, map[string]string{second: first}},
		"a quarantined child stays": {[]cloud.Image{bad(first, ""), bad(second, first)}, nil},
	} {
		if got := Descended(c.images); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestFrozenVersionsStay: a frozen version is no target of a rollback, does not count, and is not retired, and neither is its ancestor.
func TestFrozenVersionsStay(t *testing.T) {
	bad := of(second, map[string]string{cloud.TagQuarantined: "why"})
	images := []cloud.Image{of(first, nil), bad, child(third, second, ""), of(fourth, nil)}
	for version, want := range map[string]Reason{fourth: Current, third: Frozen, second: Frozen, first: Prior} {
		for _, d := range Decide(images, fourth, 2, nil, nil) {
			if d.Version == version && (d.Reason != want || !d.Keep) {
				t.Errorf("%s: %+v, want %s", version, d, want)
			}
		}
	}
	images[2] = child(third, second, second)
	for version, want := range map[string]Reason{third: Prior, second: Surplus, first: Surplus} {
		for _, d := range Decide(images, fourth, 2, nil, nil) {
			if d.Version == version && d.Reason != want {
				t.Errorf("cleared: %s: %+v, want %s", version, d, want)
			}
		}
	}
}
