package retention

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestVersionInUseStays: use keeps only a version that would be deleted, and the number of other kept versions
// stays the same.
func TestVersionInUseStays(t *testing.T) {
	images := []cloud.Image{
		image("2026.01.06", cloud.Complete), image("2026.01.05", cloud.Complete), image("2026.01.04", cloud.Complete),
		quarantined("2026.01.03"), image("2026.01.02", cloud.Failed), image("2026.01.01", cloud.Complete),
	}
	inUse := map[string]int{"2026.01.06": 3, "2026.01.05": 2, "2026.01.03": 1, "2026.01.02": 1, "2026.01.01": 0, "2025.12.31": 9}
	want := []Decision{
		{"2026.01.06", true, Current}, {"2026.01.05", true, Prior}, {"2026.01.04", false, Surplus},
		{"2026.01.03", true, InUse}, {"2026.01.02", true, InUse}, {"2026.01.01", false, Surplus},
	}
	verdicts := Decide(images, "2026.01.06", 2, inUse, nil)
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got, want := Retired(verdicts), []string{"2026.01.01", "2026.01.04"}; !slices.Equal(got, want) {
		t.Errorf("%v are retired, want %v: the oldest first", got, want)
	}
	if Retired(Decide(images[:2], "2026.01.06", 2, nil, nil)) != nil {
		t.Error("of two, one is retired")
	}
}

func TestInstancesAreCountedByTheirVersion(t *testing.T) {
	got := CountInUse([]cloud.Instance{{BuiltFrom: "a"}, {BuiltFrom: "b"}, {}, {BuiltFrom: "a"}})
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1}, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
