// Package attention lists what needs a person: what is wrong, since when, what happens next automatically, and the command
// that helps. Every verb, the dashboard, the policy's conditions and the alerts use this list, so that all say the same in
// the same words. The package is pure.
package attention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Severity is how urgent an item is: the severity of its alert.
type Severity string

// Severities, most urgent first.
const (
	// Critical: a node is out of service, or the pool cannot get working nodes.
	Critical Severity = "critical"
	// Warning: Kamino does not do its work until a person acts.
	Warning Severity = "warning"
	// Info: nothing is broken, and a person should know or decide.
	Info Severity = "info"
)

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// Item is one thing that needs a person.
type Item struct {
	Severity Severity `json:"severity"`
	// Kind of the item, in CamelCase.
	Kind Kind `json:"kind"`
	// Reason of the condition, refusal or failure behind the item: docs/troubleshooting/reasons.md. Empty without one.
	Reason string `json:"reason,omitempty"`
	// Subject is the object, such as "node node-1" or "policy nightly". Pool is its pool; empty for the whole cluster.
	Subject string `json:"subject"`
	Pool    string `json:"pool,omitempty"`
	// Since is when the state began; zero if unknown.
	Since time.Time `json:"since,omitzero"`
	// Title says what is wrong, in one sentence: the summary of the alert.
	Title string `json:"title"`
	// Cause has the details; empty if the title says all.
	Cause string `json:"cause,omitempty"`
	// Next says what happens next automatically, and NextAt when; zero without a known time.
	Next   string    `json:"next"`
	NextAt time.Time `json:"nextAt,omitzero"`
	// Command helps, or shows more.
	Command string `json:"command"`
}

// Sentence is the item without its begin and its command, in one line.
func (i Item) Sentence() string {
	text := i.Title
	if i.Cause != "" {
		text += " " + i.Cause + "."
	}
	return text + " Next: " + i.NextBy(time.Time{})
}

// NextBy says what happens next and when, unless the text has the time. The distance follows a time after now.
func (i Item) NextBy(now time.Time) string {
	if i.NextAt.IsZero() || !i.NextAt.After(now) || strings.Contains(i.Next, Clock(i.NextAt, now)) {
		return i.Next
	}
	if now.IsZero() {
		return i.Next + ", at " + Clock(i.NextAt, now)
	}
	return i.Next + ", at " + When(i.NextAt, now)
}

// Facts are what is known about the cluster and its pools. What could not be read is left empty.
type Facts struct {
	Now        time.Time
	Prototypes []v1alpha1.Prototype
	Policies   []v1alpha1.PrototypePolicy
	// Reserved are the reserved nodes, and Leftovers what lost captures left behind.
	Reserved  []reservations.Node
	Leftovers []reservations.Leftover
	Lease     Lease
	// Pools as the cloud describes them.
	Pools []Pool
}

// Lease is the state of the Lease of the process that works on captures.
type Lease struct {
	// Known is false if the Lease could not be read.
	Known bool
	// Holder works now, such as "the controller kamino-5d9"; empty without a holder.
	Holder string
	// Sweeps: the holder is a controller, which also returns the nodes of lost captures.
	Sweeps bool
	// Lost is a holder that stopped without a release; empty if the last holder released the Lease.
	Lost string
	// Over is the end of the Lease's term without a holder; zero if there was no Lease.
	Over time.Time
}

// gone reports whether no process works, and the Lease's term is over.
func (l Lease) gone(now time.Time) bool { return l.Known && l.Holder == "" && !l.Over.After(now) }

// Pool is what the cloud says about a pool.
type Pool struct {
	Name string
	// Described is false if the recipe is unknown. Current is the version in the recipe, and Prior the version of a rollback;
	// empty if there is none.
	Described      bool
	Current, Prior string
	// Gone refuses a recipe with a missing version, and Rollback an automatic rollback without an acknowledgement.
	Gone, Rollback *cloud.Refusal
	// Quarantined is the version in the recipe with the reason of its quarantine; empty if it is not quarantined.
	Quarantined string
	// Fault is the cloud's error in a sentence, and FaultKind its kind; empty without an error.
	Fault     string
	FaultKind cloud.Kind
}

// PoolOf returns what the history of a pool says.
func PoolOf(h history.History) Pool {
	p := Pool{Name: h.Pool, Described: true, Current: h.Recipe.Version, Prior: h.Prior, Gone: h.Gone}
	if v := h.Find(h.Recipe.Version); v != nil && v.Quarantined != "" {
		p.Quarantined = fmt.Sprintf("version %s: %s", v.Version, v.Quarantined)
	}
	for _, r := range h.AutoRollbacks {
		if r.Acknowledged.IsZero() {
			refusal := r.Refusal(h.Pool, h.Recipe)
			p.Rollback = &refusal
			break
		}
	}
	return p
}

// List returns the items, most urgent first, then by pool and subject.
func List(f Facts) []Item {
	var l list
	l.facts = f
	l.process()
	l.reserved()
	l.captures()
	for i := range f.Policies {
		l.policy(&f.Policies[i])
	}
	for _, p := range f.Pools {
		l.cloudSays(p)
	}
	slices.SortStableFunc(l.items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Subject, b.Subject))
	})
	return l.items
}

// OfPolicy returns the items that the status of a policy holds: its conditions and events, in the same words.
func OfPolicy(p *v1alpha1.PrototypePolicy, pools []Pool, now time.Time) []Item {
	l := list{facts: Facts{Now: now, Pools: pools}}
	l.policy(p)
	return l.items
}

// News returns what a change of a policy's status newly has. Fields that cannot be decoded are old, and only their condition
// is new.
func News(before, after *v1alpha1.PrototypePolicy, pools []Pool, now time.Time) []Item {
	items := func(p v1alpha1.PrototypePolicy) []Item {
		p.Unreadable = nil
		return OfPolicy(&p, pools, now)
	}
	return New(items(*before), items(*after))
}

// New returns the items of after that before does not have.
func New(before, after []Item) (news []Item) {
	for _, i := range after {
		if !slices.ContainsFunc(before, func(b Item) bool {
			return b.Kind == i.Kind && b.Reason == i.Reason && b.Pool == i.Pool && b.Subject == i.Subject
		}) {
			news = append(news, i)
		}
	}
	return news
}

// Urgent counts the items that are more than information.
func Urgent(items []Item) (n int) {
	for _, i := range items {
		if i.Severity != Info {
			n++
		}
	}
	return n
}

// OfPools keeps the items about the pools, with the items about the whole cluster.
func OfPools(items []Item, pools ...string) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return i.Pool != "" && !slices.Contains(pools, i.Pool) })
}

// list collects items. A kind is said once for a subject and pool.
type list struct {
	facts Facts
	items []Item
}

// add fills the kind's title and severity, unless the item is there.
func (l *list) add(i Item, names ...string) {
	about := kinds[i.Kind]
	i.Severity = cmp.Or(i.Severity, about.severity)
	i.Title = cmp.Or(i.Title, about.titled(names...))
	i.Cause = strings.TrimSuffix(sentence(i.Cause), ".")
	if !slices.ContainsFunc(l.items, func(other Item) bool {
		return other.Kind == i.Kind && other.Pool == i.Pool && other.Subject == i.Subject
	}) {
		l.items = append(l.items, i)
	}
}

// pool is what the cloud says about the named pool; false if unknown.
func (l *list) pool(name string) (Pool, bool) {
	for _, p := range l.facts.Pools {
		if p.Name == name && p.Fault == "" {
			return p, true
		}
	}
	return Pool{}, false
}

// sentence begins with a capital letter.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Clock is a time of day: "14:05 UTC", with the date on another day than now.
func Clock(at, now time.Time) string {
	if at.UTC().Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		return at.UTC().Format("2006-01-02 15:04 UTC")
	}
	return at.UTC().Format("15:04 UTC")
}

// When is a future time with its distance from now: "14:05 UTC (in 12m00s)".
func When(at, now time.Time) string {
	if d := at.Sub(now); d > 0 {
		return Clock(at, now) + " (in " + wording.Duration(d) + ")"
	}
	return Clock(at, now)
}
