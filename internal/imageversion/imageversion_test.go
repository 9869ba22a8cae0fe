package imageversion

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOf(t *testing.T) {
	east := time.FixedZone("east", 14*3600)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 1, 9, 23, 59, 59, 0, time.UTC), "2026.01.09"},
		{time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC), "2026.01.10"},
		{time.Date(2026, 1, 10, 13, 0, 0, 0, east), "2026.01.09"}, // still yesterday in UTC
	} {
		if got := Of(c.at); got != c.want {
			t.Errorf("Of(%s) = %s, want %s", c.at, got, c.want)
		}
	}
}

func TestDayRefusesWhatOfDoesNotMake(t *testing.T) {
	for _, bad := range []string{"", "2026.1.9", "2026.13.01", "2026.02.30", "2026.01.09.1", "latest", "2026-01-09"} {
		if _, err := Day(bad); err == nil {
			t.Errorf("Day(%q) was taken", bad)
		}
	}
}

func TestCompare(t *testing.T) {
	ordered := []string{"", "latest", "not.a.version", "0.0.1", "2025.12.31", "2026.1.9", "2026.01.10", "2026.9.30", "2026.10.01"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := sign(Compare(a, b)); got != sign(i-j) {
				t.Errorf("Compare(%q, %q) = %d, want %d", a, b, got, sign(i-j))
			}
		}
	}
	if Compare("2026.1.9", "2026.01.09") != 0 {
		t.Error("the parts are numbers: 2026.1.9 and 2026.01.09 are one version")
	}
}

func TestVersionsAreOrderedAsTheirDays(t *testing.T) {
	day := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "unix"), 0)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := day.Draw(t, "a"), day.Draw(t, "b")
		da, err := Day(Of(a))
		if err != nil {
			t.Fatal(err)
		}
		db, _ := Day(Of(b))
		if sign(Compare(Of(a), Of(b))) != da.Compare(db) {
			t.Fatalf("%s and %s are not ordered as their days", Of(a), Of(b))
		}
	})
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
