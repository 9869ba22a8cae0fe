package plan

import (
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

// PioneerFacts has the facts for the decision whether a pool needs a pioneer: the one node that is patched before all others.
type PioneerFacts struct {
	Now time.Time
	// Every is the time from one check for patches to the next. MinAge is how long Kamino must have seen a set of patches.
	Every, MinAge time.Duration
	// Busy: a capture, a rebuild or a rollback works on the pool, or a node of the pool runs an unproven level.
	Busy bool
	// Checked is the last check; nil without a check. ChangedAt is the end of the last pioneer or the last change of the
	// recipe: an earlier check describes nodes of an earlier image.
	Checked   *Check
	ChangedAt time.Time
	// Failed has the sets of patches that failed on a pioneer, as patch.Digest.
	Failed map[string]bool
	// Begun has the times at which pioneers of the pool began, and MaxPerWeek limits their number in seven days; 0 is no limit.
	Begun      []time.Time
	MaxPerWeek int
}

// Check is a report about the pending patches of one node of the pool.
type Check struct {
	At time.Time
	// Set is the digest of the pending patches by the last complete report, and Since the time of the first report with
	// this set.
	Set   string
	Since time.Time
	// Read: the report is complete. Pending is the number of pending patches.
	Read    bool
	Pending int
}

// Next returns the check with a newer report. An unchanged set of patches keeps its age. An incomplete report says nothing
// about the set.
func (c *Check) Next(at time.Time, report *patch.Report) *Check {
	next := &Check{At: at, Read: report.Complete()}
	if next.Read {
		next.Set, next.Since, next.Pending = report.PendingSet(), at, report.PendingCount()
	}
	if c != nil && (!next.Read || c.Set == next.Set) {
		next.Set, next.Since = c.Set, c.Since
	}
	return next
}

// notReadRetry is the pause after a check that did not read every repository.
const notReadRetry = time.Hour

// nextCheck is the time of the check after c.
func (p PioneerFacts) nextCheck(c *Check) time.Time {
	if !c.Read {
		return c.At.Add(min(p.Every, notReadRetry))
	}
	return c.At.Add(p.Every)
}

// Step is what a pool needs now.
type Step string

// The steps.
const (
	// Rest: nothing is due.
	Rest Step = "Rest"
	// LookForPatches: one node of the pool reports its pending patches, and installs nothing.
	LookForPatches Step = "LookForPatches"
	// BeginPioneer: one node of the pool is patched.
	BeginPioneer Step = "BeginPioneer"
)

// Why a pool rests.
const (
	// PoolBusy: see PioneerFacts.Busy.
	PoolBusy Reason = "PoolBusy"
	// NotChecked: the last check did not read every repository. The patches are unknown until the next check.
	NotChecked Reason = "NotChecked"
	// UpToDate: no patch is pending.
	UpToDate Reason = "UpToDate"
	// TooYoung: Kamino has seen the set of patches for less than MinAge.
	TooYoung Reason = "TooYoung"
	// TooManyPioneers: MaxPerWeek pioneers have begun in the last seven days.
	TooManyPioneers Reason = "TooManyPioneers"
	// PatchesQuarantined: this set of patches has failed. The next set is tried.
	PatchesQuarantined Reason = "PatchesQuarantined"
)

// Next returns the step, the reason of a rest, and the time of the next decision without an event; zero without a time.
func (p PioneerFacts) Next() (step Step, why Reason, at time.Time) {
	c := p.Checked
	switch {
	case p.Busy:
		return Rest, PoolBusy, time.Time{}
	case c == nil || !p.Now.Before(p.nextCheck(c)) || !c.At.After(p.ChangedAt):
		return LookForPatches, "", time.Time{}
	case !c.Read:
		return Rest, NotChecked, p.nextCheck(c)
	case c.Pending == 0:
		return Rest, UpToDate, p.nextCheck(c)
	case p.Failed[c.Set]:
		return Rest, PatchesQuarantined, p.nextCheck(c)
	}
	if old := c.Since.Add(p.MinAge); p.Now.Before(old) {
		if check := p.nextCheck(c); check.Before(old) {
			old = check
		}
		return Rest, TooYoung, old
	}
	if free := p.free(); p.Now.Before(free) {
		if check := p.nextCheck(c); check.Before(free) {
			free = check
		}
		return Rest, TooManyPioneers, free
	}
	return BeginPioneer, "", time.Time{}
}

const week = 7 * 24 * time.Hour

// free is the time from which on fewer than MaxPerWeek pioneers have begun in the last seven days.
func (p PioneerFacts) free() time.Time {
	begun := slices.SortedFunc(slices.Values(p.Begun), time.Time.Compare)
	if p.MaxPerWeek == 0 || len(begun) < p.MaxPerWeek {
		return time.Time{}
	}
	return begun[len(begun)-p.MaxPerWeek].Add(week)
}
