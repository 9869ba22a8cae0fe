// Package wording writes what sentences are made of: things with their number, names of which there may be many, and
// lengths of time. It does not decide what is said.
package wording

import (
	"fmt"
	"strings"
	"time"
)

// Count writes a number with its noun: "1 node", "3 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are writes a number with its noun and what they are: "1 node is", "3 nodes are".
func Are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return Count(n, noun) + " are"
}

// Were writes a number with its noun and what they were: "1 node was", "3 nodes were".
func Were(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return Count(n, noun) + " were"
}

// maxNames is how many names a sentence holds before it counts the rest.
const maxNames = 10

// Names writes names, the first ten and how many more there are.
func Names(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// Duration writes a duration the way a person says it: "0.4s", "41s", "4m12s", "1h04m", "3d2h". A
// negative one, which only two clocks that differ can make, is "0s".
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < 10*time.Second:
		return tenths(d)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// tenths writes a short duration with one digit behind the point, and without it where it is zero.
func tenths(d time.Duration) string {
	n := int(d / (100 * time.Millisecond))
	if n%10 == 0 {
		return fmt.Sprintf("%ds", n/10)
	}
	return fmt.Sprintf("%d.%ds", n/10, n%10)
}
