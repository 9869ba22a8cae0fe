package print

import (
	"fmt"
	"time"
)

// None stands in a table where there is nothing to show.
const None = "-"

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

// Age writes how long ago a moment was, in its largest unit only: "12s", "5m", "3h", "8d". The zero time
// has no age.
func Age(at, now time.Time) string {
	if at.IsZero() {
		return None
	}
	d := max(now.Sub(at), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}
