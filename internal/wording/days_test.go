package wording

import (
	"strconv"
	"testing"
	"time"
)

func TestParseDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d":   720 * time.Hour,
		"1d":    24 * time.Hour,
		"365d":  365 * 24 * time.Hour,
		"36h":   36 * time.Hour,
		"1h30m": 90 * time.Minute,
	} {
		if got, err := ParseDays(text); err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"",
		"d",
		"0d",
		"-1d",
		"1.5d",
		"-2h",
		"0s",
		"month",
		"40000d",
		"99999999999999999999d",
	} {
		if got, err := ParseDays(text); err == nil || got != 0 {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// Each number of days is its hours.
func TestDaysAreHours(t *testing.T) {
	for n := 1; n <= 3650; n++ {
		if got, err := ParseDays(strconv.Itoa(n) + "d"); err != nil || got != time.Duration(n)*24*time.Hour {
			t.Errorf("%dd is %s, %v", n, got, err)
		}
	}
}
