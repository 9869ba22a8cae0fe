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
		{time.Date(2026, 1, 10, 13, 0, 0, 0, east), "2026.01.09"}, // the day before in UTC
	} {
		if got := Of(c.at); got != c.want {
			t.Errorf("Of(%s) = %s, want %s", c.at, got, c.want)
		}
	}
}

func TestDayRefusesOtherNames(t *testing.T) {
	for _, bad := range []string{"", "2026.1.9", "2026.13.01", "2026.02.30", "2026.01.09.1", "latest", "2026-01-09",
		"2026.01.091", "2026.01.0901", "2026.01.0900", "2026.01.09-2", "2026.01.3202", "2026.13.0902"} {
		if _, err := Day(bad); err == nil {
			t.Errorf("Day(%q) was taken", bad)
		}
	}
}

func TestCompare(t *testing.T) {
	ordered := []string{"", "latest", "not.a.version", "0.0.1", "2025.12.31", "2026.1.9", "2026.01.0902", "2026.01.0999",
		"2026.01.10", "2026.9.30", "2026.09.3002", "2026.10.01", "2026.10.3202"}
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

// TestTriesOfADay: tries sort by number between their day and the next day, and have the day of the version.
func TestTriesOfADay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "unix"), 0)
		first, next := Of(at), Of(at.AddDate(0, 0, 1))
		n := rapid.IntRange(1, MaxTry).Draw(t, "try")
		name := Try(first, n)
		day, err := Day(name)
		if err != nil || Of(day) != first || !SameDay(name, first) || SameDay(name, next) {
			t.Fatalf("%s is of %s (%v)", name, day, err)
		}
		if again := Try(Try(first, 7), n); again != name {
			t.Fatalf("the try %d of a day is %s and %s", n, name, again)
		}
		if Compare(name, next) >= 0 || n > 1 && Compare(Try(first, n-1), name) >= 0 {
			t.Fatalf("%s does not stand between %s and %s", name, Try(first, n-1), next)
		}
	})
	for _, n := range []int{-1, 0, 100} {
		if got := Try("2026.01.09", n); got != "2026.01.09" {
			t.Errorf("try %d is %s", n, got)
		}
	}
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
