package imageversion

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
	for version, want := range map[string]string{
		"2026.01.09":   "2026.01.0902",
		"2026.01.0902": "2026.01.0903",
		"2026.01.0909": "2026.01.0910",
		"2026.01.0999": "2026.01.0999",
		"latest":       "latest",
	} {
		if got := Next(version); got != want {
			t.Errorf("after %s comes %s, want %s", version, got, want)
		}
	}
}

func TestNamesOfFurtherVersions(t *testing.T) {
	for _, c := range []struct {
		version string
		n       int
		want    string
	}{
		{"2026.01.09", 1, "2026.01.09"},
		{"2026.01.09", 2, "2026.01.0902"},
		{"2026.01.09", 10, "2026.01.0910"},
		{"2026.01.09", 99, "2026.01.0999"},
		{"2026.01.0907", 1, "2026.01.09"},
		{"2026.01.0907", 2, "2026.01.0902"},
		{"latest", 2, "latest"},
		{"2026.1.9", 2, "2026.1.9"}, // a name by a person has no tries
		{"2026.01.0901", 2, "2026.01.0901"},
	} {
		if got := Try(c.version, c.n); got != c.want {
			t.Errorf("try %d of %s is %s, want %s", c.n, c.version, got, c.want)
		}
	}
}

func TestDayOfFurtherVersion(t *testing.T) {
	want := time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC)
	for n := 1; n <= MaxTry; n++ {
		if got, err := Day(Try("2026.01.09", n)); err != nil || !got.Equal(want) {
			t.Errorf("the day of try %d is %s (%v)", n, got, err)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"2026.01.09", "2026.01.0905", true},
		{"2026.01.09", "2026.01.10", false},
		{"2026.01.09", "2025.01.09", false},
		{"latest", "latest", false},
		{"2026.01.09", "latest", false},
		{"latest", "2026.01.09", false},
	} {
		if got := SameDay(c.a, c.b); got != c.want {
			t.Errorf("%s and %s are of one day: %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

// names draws valid and invalid versions.
var names = rapid.OneOf(
	rapid.Custom(func(t *rapid.T) string {
		day := Of(time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "unix"), 0))
		return Try(day, rapid.IntRange(1, MaxTry).Draw(t, "try"))
	}),
	rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 40)
		return fmt.Sprintf("%d.%d.%d", n.Draw(t, "a"), n.Draw(t, "b"), n.Draw(t, "c"))
	}),
	rapid.SampledFrom([]string{"", "latest", "1.2", "1.2.3.4", "1.2.-3", "1.2.2147483648", "1.2.2147483647", "2026.02.3002"}),
)

// TestCompareIsAnOrder, as sorting and retention require.
func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := names.Draw(t, "a"), names.Draw(t, "b"), names.Draw(t, "c")
		if Compare(a, a) != 0 || sign(Compare(a, b)) != -sign(Compare(b, a)) {
			t.Fatalf("%q and %q: %d one way, %d the other", a, b, Compare(a, b), Compare(b, a))
		}
		all := []string{a, b, c}
		slices.SortFunc(all, Compare)
		if Compare(all[0], all[1]) > 0 || Compare(all[1], all[2]) > 0 || Compare(all[0], all[2]) > 0 {
			t.Fatalf("%q are not in order", all)
		}
	})
}
