package history

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/retention"
)

// AutoRollback is one automatic rollback, as recorded in the tags of the version until the version is retired.
type AutoRollback struct {
	// Version is the version before the rollback, and To the version after it.
	Version string `json:"version"`
	To      string `json:"to,omitempty"`
	// At is the time of the rollback.
	At time.Time `json:"at"`
	// Why is the suspicion; empty if the version was not the cause, or after the acknowledgement.
	Why string `json:"message,omitempty"`
	// Open is true if the version is suspect without proof.
	Open bool `json:"open,omitempty"`
	// Bad is true if the version was the cause, and is quarantined.
	Bad bool `json:"bad,omitempty"`
	// Acknowledged is the time of the acknowledgement by a person; zero before. Captures of the pool stop until then.
	Acknowledged time.Time `json:"acknowledged,omitzero"`
	// RollingBack is true if the recipe still names the version, and Kamino is changing the recipe to To.
	RollingBack bool `json:"rollingBack,omitempty"`
	// Arrived is true if the recipe has reached To since.
	Arrived bool `json:"-"`
}

// on returns the rollback with RollingBack set from the pool's recipe.
func (r AutoRollback) on(recipe cloud.Recipe) AutoRollback {
	r.RollingBack = r.Unfinished() && same(recipe.Version, r.Version)
	return r
}

// AutoRollbacks lists the automatic rollbacks of this cluster, latest first. A suspect version without a time is listed with a zero time.
func AutoRollbacks(images []cloud.Image) []AutoRollback {
	var all []AutoRollback
	for _, image := range images {
		at, acknowledged := retention.RolledBackAt(image.Tags[cloud.TagRolledBackAt])
		r := AutoRollback{
			Version: image.Version, To: image.Tags[cloud.TagRolledBackTo], At: at, Acknowledged: acknowledged, Why: image.Tags[cloud.TagSuspect],
		}
		if image.Origin == cloud.Foreign || image.State == cloud.Absent || image.State == cloud.Deleting || r.At.IsZero() && r.Why == "" {
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
	slices.SortStableFunc(all, func(a, b AutoRollback) int { return b.At.Compare(a.At) })
	return all
}

// Unacknowledged returns the latest rollback without acknowledgement; nil if there is none.
func Unacknowledged(images []cloud.Image) *AutoRollback {
	for _, r := range AutoRollbacks(images) {
		if r.Acknowledged.IsZero() {
			return &r
		}
	}
	return nil
}

// RollingBack returns the rollback in progress; nil if there is none.
func RollingBack(pool cloud.Pool, images []cloud.Image) *AutoRollback {
	for _, r := range AutoRollbacks(images) {
		if r = r.on(pool.Recipe); r.RollingBack {
			return &r
		}
	}
	return nil
}

// Refusal returns a message with the remedy. If the recipe still names the version, the message does not claim a finished
// rollback.
func (r AutoRollback) Refusal(pool string, recipe cloud.Recipe) cloud.Refusal {
	acknowledge := fmt.Sprintf("captures stay stopped until you acknowledge the rollback: `kamino acknowledge %s`", pool)
	named, mark := same(recipe.Version, r.Version), r.At.IsZero() || r.To == "" // a mark by a person, or an incomplete mark
	what := fmt.Sprintf("pool %s rolled back automatically from version %s to %s", pool, r.Version, r.To)
	switch {
	case r.on(recipe).RollingBack:
		return cloud.Refuse(RollingBackReason, fmt.Sprintf("pool %s is rolling back from version %s to %s since %s, and the recipe still names %s",
			pool, r.Version, r.To, r.At.UTC().Format(time.RFC3339), r.Version),
			fmt.Sprintf("the controller finishes the rollback, even without a policy; without a controller, run `kamino rollback %s`", pool))
	case r.Why == "" && named:
		what = fmt.Sprintf("pool %s started a rollback from version %s, but the version is no longer suspect, and the recipe names the version",
			pool, r.Version)
	case r.Why == "":
		what = fmt.Sprintf("pool %s rolled back automatically from version %s, but the image was not the cause: find out why nodes do not join",
			pool, r.Version)
	case mark && named:
		what = fmt.Sprintf("version %s of pool %s is marked as suspect (%s), and the recipe names the version: to roll back, run `kamino rollback %s`",
			r.Version, pool, r.Why, pool)
	case mark:
		what = fmt.Sprintf("version %s of pool %s is marked as suspect (%s)", r.Version, pool, r.Why)
	case named:
		what += ", and the recipe names " + r.Version + " again: a user changed the recipe"
	case !r.Arrived && !same(recipe.Version, r.To):
		what = fmt.Sprintf("pool %s was rolling back from version %s when a user pointed the recipe at %s", pool, r.Version, orNothing(recipe.Image))
	case r.Bad:
		what += ", and the version is quarantined: " + r.Why
	default:
		what += ", and the next node of the pool will show whether the image was the cause"
	}
	return cloud.Refuse(RolledBack, what, acknowledge)
}

const (
	// RolledBack: the pool rolled back automatically, and no person has acknowledged the rollback.
	RolledBack = "RolledBack"
	// RollingBackReason: a rollback is in progress, and the recipe still names the old version.
	RollingBackReason = "RollingBack"
)

// PromotedAt returns when an automatic rollback reached the version; zero for never.
func PromotedAt(image cloud.Image) time.Time { return moment(image.Tags[cloud.TagPromotedAt]) }

// LastRollback returns the time of the last automatic rollback; zero if none is known. Both versions of a rollback record
// the time, so that the deletion of one of them loses nothing.
func LastRollback(images []cloud.Image) time.Time {
	var last time.Time
	for _, r := range AutoRollbacks(images) {
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

// Since returns the start of the joins that matter for the version: the automatic rollback to the version, or the
// acknowledgement of a rollback from it. Zero means all joins.
func Since(images []cloud.Image, version string) time.Time {
	var since time.Time
	for _, image := range images {
		if same(image.Version, version) {
			since = PromotedAt(image)
		}
	}
	for _, r := range AutoRollbacks(images) {
		if same(r.Version, version) && r.Acknowledged.After(since) {
			since = r.Acknowledged
		}
	}
	return since
}

// RollBackAutomatically returns the writes of an automatic rollback: the version becomes suspect, and not quarantined. An
// unfinished rollback continues with its own values. A running capture is no obstacle.
func (h History) RollBackAutomatically(to, why string, now time.Time) (Rollback, []cloud.Refusal) {
	from := h.Find(h.Recipe.Version)
	if from == nil || from.State == cloud.Deleting {
		return Rollback{}, refuse(RecipeNotOurs, h.wayIn(), "the recipe of pool %s names %s, so a rollback is impossible", h.Pool, orNothing(h.Recipe.Image))
	}
	if from.OtherCluster {
		return Rollback{}, h.refuseForeign(from)
	}
	if begun := h.begun(from.Version); begun != nil {
		to, why, now = begun.To, begun.Why, begun.At
	}
	target, refusals := h.target(to)
	if refusals != nil {
		return Rollback{}, refusals
	}
	return Rollback{Pool: h.Pool, From: from.Version, To: target.Version, Nodes: from.Nodes, Tags: map[string]string{
		cloud.TagSuspect: Short(why), cloud.TagRolledBackAt: now.UTC().Format(time.RFC3339), cloud.TagRolledBackTo: target.Version,
	}}, nil
}

// begun returns the unfinished automatic rollback from the version; nil if there is none.
func (h History) begun(version string) *AutoRollback {
	for _, r := range h.AutoRollbacks {
		if same(r.Version, version) && r.Unfinished() {
			return &r
		}
	}
	return nil
}

// Unfinished reports whether the recipe has not reached To, as far as recorded. A quarantine does not finish a
// rollback, because the recipe would stay at a bad version.
func (r AutoRollback) Unfinished() bool {
	return r.Acknowledged.IsZero() && r.Why != "" && r.To != "" && !r.At.IsZero() && !r.Arrived
}

// Arrive returns the last write of a rollback: the pool has reached the version.
func (h History) Arrive(r AutoRollback) Mark {
	return Mark{Pool: h.Pool, Version: r.To, Tags: map[string]string{cloud.TagPromotedAt: r.At.UTC().Format(time.RFC3339)}}
}

// ConfirmBad returns the writes for a suspect that was the cause.
func (h History) ConfirmBad(version, why string) Mark {
	return Mark{Pool: h.Pool, Version: version, Tags: map[string]string{cloud.TagQuarantined: Short("join health: " + why)}}
}

// ClearSuspect returns the writes for a suspect that was not the cause. The record of the rollback stays.
func (h History) ClearSuspect(version string) Mark {
	return Mark{Pool: h.Pool, Version: version, Tags: map[string]string{cloud.TagSuspect: "", cloud.TagRolledBackTo: ""}}
}

// refuseSuspect refuses a suspect version as a goal.
func (h History) refuseSuspect(v *Version) []cloud.Refusal {
	return refuse(RolledBack, fmt.Sprintf("name another version, or acknowledge the rollback with `kamino acknowledge %s`", h.Pool),
		"version %s of pool %s is suspect (%s)", v.Version, h.Pool, v.Suspect)
}

// Acknowledgement is the decision to continue a pool's captures.
type Acknowledgement struct {
	Pool string `json:"pool"`
	// AutoRollbacks are the acknowledged rollbacks, latest first.
	AutoRollbacks []AutoRollback `json:"automaticRollbacks"`
	// Marks are the writes to the versions.
	Marks []Mark `json:"-"`
	// Done is true if there is nothing to acknowledge.
	Done bool `json:"done"`
}

// Acknowledge acknowledges all automatic rollbacks of the pool. A bad version stays quarantined.
func (h History) Acknowledge(now time.Time) Acknowledgement {
	a := Acknowledgement{Pool: h.Pool, AutoRollbacks: []AutoRollback{}}
	for _, r := range h.AutoRollbacks {
		if !r.Acknowledged.IsZero() {
			continue
		}
		at := r.At
		if at.IsZero() {
			at = now
		}
		tags := map[string]string{cloud.TagSuspect: "", cloud.TagRolledBackAt: at.UTC().Format(time.RFC3339) + " " + now.UTC().Format(time.RFC3339)}
		if r.Open {
			tags[cloud.TagRolledBackTo] = ""
		}
		a.AutoRollbacks = append(a.AutoRollbacks, r)
		a.Marks = append(a.Marks, Mark{Pool: h.Pool, Version: r.Version, Tags: tags})
	}
	a.Done = len(a.Marks) == 0
	return a
}

// Short returns a reason that fits into a tag.
func Short(why string) string {
	if utf8.RuneCountInString(why) <= MaxReason {
		return why
	}
	return string([]rune(why)[:MaxReason-1]) + "…"
}

// moment parses a time in a tag; zero if invalid.
func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
