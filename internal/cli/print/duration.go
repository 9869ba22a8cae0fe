package print

import (
	"fmt"
	"time"
)

// None is the sign for an empty cell of a table.
const None = "-"

// Age writes the time since a moment, in its largest unit only: "12s", "5m", "3h", "8d". The zero time has no age.
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
