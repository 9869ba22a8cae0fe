// Package imageversion decides how versions are named and ordered. A version is the day of its capture
// in UTC, YYYY.MM.DD; clouds compare the three parts as numbers, and so does this package. It knows no
// cloud and no clock.
package imageversion

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// layout is the form of a version, as package time writes it.
const layout = "2006.01.02"

// Of names the version of the day that t falls on in UTC.
func Of(t time.Time) string { return t.UTC().Format(layout) }

// Day is midnight UTC of the version's day. An error if the version is not one that Of makes.
func Day(version string) (time.Time, error) {
	t, err := time.Parse(layout, version)
	if err != nil {
		return time.Time{}, fmt.Errorf("version %q is not a day as YYYY.MM.DD", version)
	}
	return t, nil
}

// Compare orders versions by their parts as numbers: negative if a is older than b, zero if they are the
// same. A name that is not three numbers is older than any that is; two such names compare as text.
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
		if pa[i] != pb[i] {
			return pa[i] - pb[i]
		}
	}
	return 0
}

// parts reads three numbers of 32 bits, as a gallery takes them.
func parts(version string) (p [3]int, ok bool) {
	texts := strings.Split(version, ".")
	if len(texts) != len(p) {
		return p, false
	}
	for i, text := range texts {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return p, false
		}
		p[i] = int(n)
	}
	return p, true
}
