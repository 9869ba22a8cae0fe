package history

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/retention"
)

// VersionSuspect: a pool went back from the version by itself, and nobody has acknowledged that.
const VersionSuspect = "VersionSuspect"

// Return is one time that a pool went back from a version by itself, as the version's tags tell. It stands there until the
// version is retired, so that whoever comes later knows of it.
type Return struct {
	// Version that the pool went back from, and To where it went.
	Version string `json:"version"`
	To      string `json:"to,omitempty"`
	// At is when.
	At time.Time `json:"at"`
	// Why it is suspect; empty if it was not the cause, or a person has acknowledged it.
	Why string `json:"why,omitempty"`
	// Open: it is suspect, and nothing is proven against it.
	Open bool `json:"open,omitempty"`
	// Bad: it was the cause, and is quarantined.
	Bad bool `json:"bad,omitempty"`
	// Acknowledged is when a person did; zero if nobody has. Until then no capture of the pool begins.
	Acknowledged time.Time `json:"acknowledged,omitzero"`
	// RollingBack: the recipe still names the version, and Kamino points it at To.
	RollingBack bool `json:"rollingBack,omitempty"`
	// Arrived tells that the pool has come to To since.
	Arrived bool `json:"-"`
}

// on is the return as a pool's recipe shows it.
func (r Return) on(recipe cloud.Recipe) Return {
	r.RollingBack = r.Unfinished() && same(recipe.Version, r.Version)
	return r
}

// Returns lists them, the latest first. A version that is suspect, and of which nobody knows since when, is among them with no
// time.
func Returns(images []cloud.Image) []Return {
	var all []Return
	for _, image := range images {
		at, acknowledged := retention.WentBack(image.Tags[cloud.TagWentBack])
		r := Return{
			Version: image.Version, To: image.Tags[cloud.TagRolledBack], At: at, Acknowledged: acknowledged, Why: image.Tags[cloud.TagSuspect],
		}
		if image.State == cloud.Absent || image.State == cloud.Deleting || r.At.IsZero() && r.Why == "" {
			continue
		}
		quarantined := image.Tags[cloud.TagQuarantined] != ""
		r.Open, r.Bad = r.Why != "" && !quarantined, r.Why != "" && quarantined
		for _, other := range images {
			if same(other.Version, r.To) {
				r.Arrived = !PromotedAt(other).Before(r.At) && !r.At.IsZero()
			}
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Return) int { return b.At.Compare(a.At) })
	return all
}

// Unacknowledged is the latest of them that no person has acknowledged; nil if there is none.
func Unacknowledged(images []cloud.Image) *Return {
	for _, r := range Returns(images) {
		if r.Acknowledged.IsZero() {
			return &r
		}
	}
	return nil
}

// RollingBack is the rollback that a pool is in; nil if it is in none.
func RollingBack(pool cloud.Pool, images []cloud.Image) *Return {
	for _, r := range Returns(images) {
		if r = r.on(pool.Recipe); r.RollingBack {
			return &r
		}
	}
	return nil
}

// Says it in a sentence, with what a person is to do. It never says that a pool went back whose recipe still names the version.
func (r Return) Says(pool string, recipe cloud.Recipe) cloud.Refusal {
	release := fmt.Sprintf("no capture of it begins until a person has seen to it: `kamino release %s`", pool)
	named, mark := same(recipe.Version, r.Version), r.At.IsZero() || r.To == "" // a mark of somebody's, or what is left of one
	what := fmt.Sprintf("pool %s went back from version %s to %s by itself", pool, r.Version, r.To)
	switch {
	case r.on(recipe).RollingBack:
		return cloud.Refuse(RollingBackReason, fmt.Sprintf("pool %s is rolling back from version %s to %s since %s, and its recipe still names %s",
			pool, r.Version, r.To, r.At.UTC().Format(time.RFC3339), r.Version), fmt.Sprintf("the controller finishes that, whatever became of the pool's policy; without a controller, `kamino rollback %s` does", pool))
	case r.Why == "" && named:
		what = fmt.Sprintf("pool %s began to go back from version %s, which is no longer suspect, and its recipe names it", pool, r.Version)
	case r.Why == "":
		what = fmt.Sprintf("pool %s went back from version %s by itself, and the image was not the cause: see why its nodes do not join", pool, r.Version)
	case mark && named:
		what = fmt.Sprintf("version %s of pool %s is marked as suspect (%s), and the recipe names it: `kamino rollback %s` leaves it", r.Version, pool, r.Why, pool)
	case mark:
		what = fmt.Sprintf("version %s of pool %s is marked as suspect (%s)", r.Version, pool, r.Why)
	case named:
		what += ", and its recipe names " + r.Version + " again: somebody pointed it there"
	case !r.Arrived && !same(recipe.Version, r.To):
		what = fmt.Sprintf("pool %s was rolling back from version %s when its recipe was pointed at %s", pool, r.Version, orNothing(recipe.Image))
	case r.Bad:
		what += ", and the version is quarantined: " + r.Why
	default:
		what += ", and its next node tells whether the image was the cause"
	}
	return cloud.Refuse(WentBack, what, release)
}

const (
	// WentBack: a pool went back by itself, and nobody has acknowledged it.
	WentBack = "WentBack"
	// RollingBackReason: a pool is on its way back, and its recipe still names the version that it leaves.
	RollingBackReason = "RollingBack"
)

// PromotedAt is when a pool that went back by itself came to the version; zero if it never did.
func PromotedAt(image cloud.Image) time.Time { return moment(image.Tags[cloud.TagPromotedAt]) }

// LastReturn is when a pool last went back by itself; zero if it never did, as far as anybody can tell. Both versions tell it, the one that
// it went back from and the one that it came to, so that it is not forgotten with either.
func LastReturn(images []cloud.Image) time.Time {
	var last time.Time
	for _, r := range Returns(images) {
		if r.At.After(last) {
			last = r.At
		}
	}
	for _, image := range images {
		if at := PromotedAt(image); image.State != cloud.Absent && image.State != cloud.Deleting && at.After(last) {
			last = at
		}
	}
	return last
}

// Since is from when on joins of the version count: since the pool came to it by itself, or a person has acknowledged that it
// went back from it. Zero for any.
func Since(images []cloud.Image, version string) time.Time {
	var since time.Time
	for _, image := range images {
		if same(image.Version, version) {
			since = PromotedAt(image)
		}
	}
	for _, r := range Returns(images) {
		if same(r.Version, version) && r.Acknowledged.After(since) {
			since = r.Acknowledged
		}
	}
	return since
}

// GoBack decides what a pool does whose version's nodes do not join: the writes of a rollback, but that the version is suspect
// and not quarantined yet. One that was begun is gone on with, as it was begun. A capture in flight does not keep it: the
// version that it makes is another one.
func (h History) GoBack(to, why string, now time.Time) (Rollback, []cloud.Refusal) {
	from := h.Find(h.Recipe.Version)
	if from == nil || from.State == cloud.Deleting {
		return Rollback{}, refuse(RecipeNotOurs, h.wayIn(), "the recipe of pool %s names %s, so there is nothing to go back from", h.Pool, orNothing(h.Recipe.Image))
	}
	if begun := h.begun(from.Version); begun != nil {
		to, why, now = begun.To, begun.Why, begun.At
	}
	target, refusals := h.target(to)
	if refusals != nil {
		return Rollback{}, refusals
	}
	return Rollback{Pool: h.Pool, From: from.Version, To: target.Version, Nodes: from.Nodes, Tags: map[string]string{
		cloud.TagSuspect: Short(why), cloud.TagWentBack: now.UTC().Format(time.RFC3339), cloud.TagRolledBack: target.Version,
	}}, nil
}

// begun is the return from the version that was begun and not brought to its end; nil if there is none.
func (h History) begun(version string) *Return {
	for _, r := range h.Returns {
		if same(r.Version, version) && r.Unfinished() {
			return &r
		}
	}
	return nil
}

// Unfinished tells that the pool has not come to where it was going, as far as anybody has written. A quarantine does not end it: that
// would leave the recipe at a bad version.
func (r Return) Unfinished() bool {
	return r.Acknowledged.IsZero() && r.Why != "" && r.To != "" && !r.At.IsZero() && !r.Arrived
}

// Arrive decides about the last write of a return: that the pool has come to the version.
func (h History) Arrive(r Return) Mark {
	return Mark{Pool: h.Pool, Version: r.To, Tags: map[string]string{cloud.TagPromotedAt: r.At.UTC().Format(time.RFC3339)}}
}

// Condemn decides about a suspect that was the cause.
func (h History) Condemn(version, why string) Mark {
	return Mark{Pool: h.Pool, Version: version, Tags: map[string]string{cloud.TagQuarantined: Short("probation: " + why)}}
}

// Absolve decides about a suspect that was not. That the pool went back stays on it.
func (h History) Absolve(version string) Mark {
	return Mark{Pool: h.Pool, Version: version, Tags: map[string]string{cloud.TagSuspect: "", cloud.TagRolledBack: ""}}
}

// refuseSuspect says why nothing goes to the version.
func (h History) refuseSuspect(v *Version) []cloud.Refusal {
	return refuse(VersionSuspect, fmt.Sprintf("name another one, or acknowledge that with `kamino release %s`", h.Pool),
		"version %s of pool %s is suspect (%s)", v.Version, h.Pool, v.Suspect)
}

// Acknowledgement is the decision that a pool's captures may go on.
type Acknowledgement struct {
	Pool string `json:"pool"`
	// Returns that are acknowledged, the latest first.
	Returns []Return `json:"returns"`
	// Marks write it onto the versions.
	Marks []Mark `json:"-"`
	// Done: there is nothing to acknowledge.
	Done bool `json:"done"`
}

// Acknowledge decides that a person has seen to all that the pool did by itself. A version that was bad stays quarantined.
func (h History) Acknowledge(now time.Time) Acknowledgement {
	a := Acknowledgement{Pool: h.Pool, Returns: []Return{}}
	for _, r := range h.Returns {
		if !r.Acknowledged.IsZero() {
			continue
		}
		at := r.At
		if at.IsZero() {
			at = now
		}
		tags := map[string]string{cloud.TagSuspect: "", cloud.TagWentBack: at.UTC().Format(time.RFC3339) + " " + now.UTC().Format(time.RFC3339)}
		if r.Open {
			tags[cloud.TagRolledBack] = ""
		}
		a.Returns = append(a.Returns, r)
		a.Marks = append(a.Marks, Mark{Pool: h.Pool, Version: r.Version, Tags: tags})
	}
	a.Done = len(a.Marks) == 0
	return a
}

// Short is a reason that a tag can hold.
func Short(why string) string {
	if utf8.RuneCountInString(why) <= MaxReason {
		return why
	}
	return string([]rune(why)[:MaxReason-1]) + "…"
}

// moment reads a time of a tag; zero if it is none.
func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
