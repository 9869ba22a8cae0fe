// Package imageversion decides how versions are named and ordered. A version is the UTC day of its capture, YYYY.MM.DD.
// A further version of the same day has two more digits, from 02 on: YYYY.MM.DD02. Clouds accept only three numbers, so
// the try follows the day without a dot.
//
// The order here is 2026.03.14, 2026.03.1402, 2026.03.15. A cloud would sort the second as the latest until the end of
// the month. Therefore no recipe uses "latest". The package is pure.
package imageversion

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// layout is the form of a day's first version, for package time.
const layout = "2006.01.02"

// MaxTry is the largest number of versions of a pool in a day.
const MaxTry = 99

// Of returns the version of the UTC day of t.
func Of(t time.Time) string { return t.UTC().Format(layout) }

// Try returns the n-th version of the day of a version, counted from 1. The first has no suffix.
func Try(version string, n int) string {
	day, try := split(version)
	if try == 0 || n < 1 || n > MaxTry {
		return version
	}
	if n == 1 {
		return day
	}
	return fmt.Sprintf("%s%02d", day, n)
}

// Next returns the next version of the same day. A day has at most MaxTry versions; the last has no next one.
func Next(version string) string {
	_, try := split(version)
	return Try(version, min(try+1, MaxTry))
}

// Day returns midnight UTC of the version's day. Day returns an error for a name that Of and Try do not make.
func Day(version string) (time.Time, error) {
	day, try := split(version)
	t, err := time.Parse(layout, day)
	if err != nil || try == 0 {
		return time.Time{}, fmt.Errorf("%q is not a version: want a day as YYYY.MM.DD, or YYYY.MM.DD02 for the second version of the day", version)
	}
	return t, nil
}

// SameDay reports whether two versions are of one day.
func SameDay(a, b string) bool {
	dayA, errA := Day(a)
	dayB, errB := Day(b)
	return errA == nil && errB == nil && dayA.Equal(dayB)
}

// split returns the day's first version and the number of the try; 0 for a name that Of and Try do not make.
func split(version string) (day string, try int) {
	if len(version) == len(layout) {
		return version, 1
	}
	if len(version) != len(layout)+2 {
		return version, 0
	}
	n, err := strconv.Atoi(version[len(layout):])
	if err != nil || n < 2 {
		return version, 0
	}
	return version[:len(layout)], n
}

// Compare orders versions by their numbers, and versions of one day by their try: negative if a is older than b, zero
// if equal. A name without three numbers is older than any version. Two such names compare as text.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	pa, oka := parts(a)
	pb, okb := parts(b)
	switch {
	case oka && !okb:
		return 1
	case !oka && okb:
		return -1
	case !oka:
		return strings.Compare(a, b)
	}
	for i := range pa {
		if c := cmp.Compare(pa[i], pb[i]); c != 0 {
			return c
		}
	}
	return 0
}

// parts parses the three numbers, of at most 31 bits, and the try of the version. A try is split from the third number.
func parts(version string) (p [4]int, ok bool) {
	if strings.Count(version, ".") != 2 {
		return p, false
	}
	first, rest, _ := strings.Cut(version, ".")
	second, third, _ := strings.Cut(rest, ".")
	for i, text := range [3]string{first, second, third} {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return p, false
		}
		p[i] = int(n)
	}
	if day, try := split(version); try > 1 {
		if _, err := time.Parse(layout, day); err == nil {
			p[2], p[3] = p[2]/100, try
		}
	}
	return p, true
}
