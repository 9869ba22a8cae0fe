// Package imageversion decides how versions are named and ordered. A version is the day of its capture in UTC,
// YYYY.MM.DD; a further one of the same day has two more digits, from 02 on: YYYY.MM.DD02. Clouds take three numbers,
// and so the number of the try stands behind the day. This package orders 2026.03.14, 2026.03.1402, 2026.03.15; a cloud
// would call the second one the latest until the month ends, which is why no recipe names the latest. It knows no cloud
// and no clock.
package imageversion

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// layout is the form of a day's first version, as package time writes it.
const layout = "2006.01.02"

// MaxTry is how many versions of a pool a day can have.
const MaxTry = 99

// Of names the version of the day that t falls on in UTC.
func Of(t time.Time) string { return t.UTC().Format(layout) }

// Try names the n-th version of the day of a version, counted from 1. The day's own name is the first.
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

// Day is midnight UTC of the version's day. An error if the version is not one that Of or Try makes.
func Day(version string) (time.Time, error) {
	day, try := split(version)
	t, err := time.Parse(layout, day)
	if err != nil || try == 0 {
		return time.Time{}, fmt.Errorf("version %q is not a day as YYYY.MM.DD, or YYYY.MM.DD02 for the day's second", version)
	}
	return t, nil
}

// SameDay tells whether two versions are of one day.
func SameDay(a, b string) bool {
	dayA, errA := Day(a)
	dayB, errB := Day(b)
	return errA == nil && errB == nil && dayA.Equal(dayB)
}

// split is the day of a version as its first version is named, and which of the day's it is; 0 if it is no version
// that Of or Try makes.
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

// Compare orders versions by their parts as numbers, and those of one day by their try: negative if a is older than b,
// zero if they are the same. A name that is not three numbers is older than any that is; two such names compare as text.
func Compare(a, b string) int {
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

// parts reads three numbers of 32 bits, as a gallery takes them, and which of its day's the version is.
func parts(version string) (p [4]int, ok bool) {
	texts := strings.Split(version, ".")
	if len(texts) != 3 {
		return p, false
	}
	for i, text := range texts {
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
