package joinhealth

import (
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/wording"
)

// The promotions of a day go in waves: two pools with the same bad package must not take it at once. The others wait until waveNodes nodes of
// the versions that went first have joined, at most waveTime.
const (
	waveNodes = 3
	waveTime  = 24 * time.Hour
)

// Promotion is the newest version that another pool's recipe began to name, as the join tracking of that pool sees it.
type Promotion struct {
	Pool, Version string
	At            time.Time
	Joined        int
	// Suspect: nodes of the version do not join, or the pool rolled back from it.
	Suspect bool
}

// HeldBack returns why a version whose capture began at a time is not promoted yet; empty if it is. Versions that were promoted less than a day
// before the capture, or later, are of the same day.
func HeldBack(now, began time.Time, others []Promotion) string {
	day := slices.DeleteFunc(slices.Clone(others), func(p Promotion) bool { return began.Sub(p.At) >= waveTime })
	if len(day) == 0 {
		return ""
	}
	slices.SortFunc(day, func(a, b Promotion) int { return a.At.Compare(b.At) })
	joined := 0
	for _, p := range day {
		if p.Suspect {
			return fmt.Sprintf("version %s of pool %s, of the same day, is suspect, so no other pool takes a new version", p.Version, p.Pool)
		}
		joined += p.Joined
	}
	first := day[0]
	if joined >= waveNodes || now.Sub(first.At) >= waveTime {
		return ""
	}
	return fmt.Sprintf("pool %s took version %s first: the other pools wait until %s of the day's versions joined, until %s at the latest",
		first.Pool, first.Version, wording.Count(waveNodes, "node"), first.At.Add(waveTime).UTC().Format(time.RFC3339))
}

// MostFail reports whether at least two, and more than half, of the newest judged nodes of a version failed.
func MostFail(now time.Time, joins []Join, version string) bool {
	e := Facts{Now: now, Current: version, Joins: joins}.evidence()
	return version != "" && len(e.failed) >= fewest && len(e.failed) > e.joined
}
