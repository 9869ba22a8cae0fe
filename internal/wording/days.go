package wording

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDays reads a positive duration: a number of days (30d), or a duration of package time (36h).
func ParseDays(text string) (time.Duration, error) {
	var d time.Duration
	var err error
	if days, is := strings.CutSuffix(text, "d"); is {
		var n int
		if n, err = strconv.Atoi(days); n > 36500 {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no length of time: use days (30d) or hours (36h)", text)
	}
	return d, nil
}
