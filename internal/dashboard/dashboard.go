// Package dashboard decides what the dashboard shows: facts of the cluster and the cloud become a view of pools, versions,
// captures and joins. The package is pure. Package web/page writes the view as HTML.
package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/history/timeline"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Limits of a pool's section. The commands show all.
const (
	maxVersions = 20
	maxEntries  = 30
	maxJoins    = 200
)

// Facts are the inputs of a view.
type Facts struct {
	Now time.Time
	// Cluster names the cluster; empty if unknown.
	Cluster string
	Pools   []PoolFacts
	// Policies and Events of the whole cluster.
	Policies []v1alpha1.PrototypePolicy
	Events   []corev1.Event
	// Lease is the state of the process that works on captures.
	Lease attention.Lease
	// Troubles are sentences about facts that could not be read.
	Troubles []string
}

// PoolFacts are the facts about one pool.
type PoolFacts struct {
	// Nodes of the pool in the cluster, and Ready nodes among them.
	Nodes, Ready int
	Prototypes   []v1alpha1.Prototype
	// History has only the name and the ID of a pool that the cloud did not describe.
	History history.History
	Joins   []joinhealth.Join
	// Report has the savings, risks and costs; without figures if unknown.
	Report report.Report
	// Changes compare versions with the version before, by version.
	Changes map[string]string
	// Capacity is the desired number of nodes; 0 if unknown.
	Capacity int64
	// Trouble is the cloud's error for this pool, in a sentence, and TroubleKind its kind; empty without an error.
	Trouble     string
	TroubleKind cloud.Kind
}

// View is the whole page.
type View struct {
	Cluster  string
	At       time.Time
	Troubles []string
	// Attention is what needs a person, most urgent first, and Pools are in the same order.
	Attention []Need
	Pools     []PoolSection
}

// Need is one thing that needs a person.
type Need struct {
	// Urgent is false for information.
	Urgent                                             bool
	Severity, Pool, Title, Cause, Since, Next, Command string
}

// PoolSection is the section of one pool.
type PoolSection struct {
	Name  string
	State State
	// Recipe is the version in the recipe, or else the image.
	Recipe       string
	Nodes, Ready int
	Capacity     int64
	Notes        []string
	Bars         []Bar
	Versions     []VersionRow
	// Hidden is the number of older versions that are not shown.
	Hidden int
	// Changes are sentences about the newest versions, newest first.
	Changes  []string
	Joins    []Join
	Captures []Capture
	// Figures are the report's figures of the last ReportDays.
	ReportDays int
	Figures    []Figure
	Policies   []Policy
	Timeline   []timeline.Entry
}

// State is whether a pool needs a person.
type State struct {
	// Word is the severity of the most urgent item about the pool, or "healthy".
	Word string
	// Folded: many pools are on the page, and this one is healthy and has no running capture.
	Folded bool
}

// Figure is a saving, a risk or a cost, with the source of its value.
type Figure struct {
	Kind, Title, Value, Source string
}

// Bar is the number of nodes of one version.
type Bar struct {
	Version string
	Kind    Kind
	Nodes   int
}

// Kind is the appearance of a version. Every kind has a word, too, for readers who cannot see colours.
type Kind string

// Kinds of versions.
const (
	KindCurrent Kind = "current"
	KindNewer   Kind = "newer"
	KindOlder   Kind = "older"
	KindBad     Kind = "bad"
	KindOther   Kind = "other"
)

// VersionRow is one version of the pool, newest first.
type VersionRow struct {
	Version string
	Kind    Kind
	Use     string
	State   string
	Donor   string
	Built   string
	Nodes   string
	Joined  string
	Waiting string
	Median  string
	Why     string
	// Parent is the place of the version that the donor was built from; -1 if unknown or not shown.
	Parent int
}

// Join is one node of the diagram of joins.
type Join struct {
	Node, Version string
	At            time.Time
	// Took is the time until Ready; zero for a node that is not Ready.
	Took   time.Duration
	Failed bool
}

// Capture is a running capture, or the last capture of the pool.
type Capture struct {
	Name, Version, Donor, Phase, Progress string
	Running                               bool
	Since                                 string
	// Failure, Waits and Awaits are sentences: why the capture failed, what the capture waits for, and how a person approves
	// the version.
	Failure, Waits string
	Steps          []Step
	Checks         []Check
}

// Step is a phase of a capture.
type Step struct {
	Phase, Took  string
	Done, Failed bool
}

// Check is a check of the trial.
type Check struct {
	Name, Result, Message string
	Passed, Failed        bool
}

// Policy is the decision of a policy about the pool.
type Policy struct {
	Name, Reason, Message, Remedy, Next string
	// JoinHealth describes how the nodes of the current version join.
	JoinHealth string
}

// Of returns the view of the facts.
func Of(f Facts) View {
	v := View{Cluster: f.Cluster, At: f.Now.UTC(), Troubles: f.Troubles}
	items := itemsOf(f)
	for i := range f.Pools {
		v.Pools = append(v.Pools, poolOf(f, &f.Pools[i], items))
	}
	slices.SortStableFunc(v.Pools, func(a, b PoolSection) int { return cmp.Compare(a.Name, b.Name) })
	v.attend(items, f.Now)
	return v
}

// foldFrom is the number of pools from which the sections of healthy pools are folded.
const foldFrom = 4

// itemsOf lists what needs a person.
func itemsOf(f Facts) []attention.Item {
	facts := attention.Facts{Now: f.Now, Policies: f.Policies, Lease: f.Lease}
	for i := range f.Pools {
		p := &f.Pools[i]
		facts.Prototypes = append(facts.Prototypes, p.Prototypes...)
		said := attention.PoolOf(p.History)
		if p.Trouble != "" {
			said = attention.Pool{Name: p.History.Pool, Fault: p.Trouble, FaultKind: p.TroubleKind}
		}
		facts.Pools = append(facts.Pools, said)
	}
	return attention.List(facts)
}

// attend shows what needs a person, and sorts the pools by need.
func (v *View) attend(items []attention.Item, now time.Time) {
	for _, i := range items {
		need := Need{Severity: string(i.Severity), Urgent: i.Severity != attention.Info, Pool: i.Pool, Title: i.Title, Cause: i.Cause,
			Next: i.NextBy(now), Command: i.Command, Since: ago(i.Since, now)}
		v.Attention = append(v.Attention, need)
	}
	first := func(pool string) int {
		if at := slices.IndexFunc(items, func(i attention.Item) bool { return i.Pool == pool }); at >= 0 {
			return at
		}
		return len(items)
	}
	for i := range v.Pools {
		p := &v.Pools[i]
		p.State.Word = "healthy"
		if at := first(p.Name); at < len(items) {
			p.State.Word = string(items[at].Severity)
		}
		p.State.Folded = len(v.Pools) >= foldFrom && p.State.Word == "healthy" && !slices.ContainsFunc(p.Captures, func(c Capture) bool { return c.Running })
	}
	slices.SortStableFunc(v.Pools, func(a, b PoolSection) int { return cmp.Compare(first(a.Name), first(b.Name)) })
}

func poolOf(f Facts, p *PoolFacts, items []attention.Item) PoolSection {
	h := p.History
	v := PoolSection{
		Name: h.Pool, Recipe: cmp.Or(h.Recipe.Version, h.Recipe.Image), Nodes: p.Nodes, Ready: p.Ready, Capacity: p.Capacity,
		Captures: capturesOf(p.Prototypes, items, f.Now), Policies: policiesOf(f.Policies, h, f.Now), Joins: joinsOf(p.Joins),
	}
	if p.Trouble != "" {
		v.Notes = []string{p.Trouble}
	} else {
		v.Notes = h.Notes()
		v.Bars = barsOf(h)
		v.Versions, v.Hidden = versionsOf(h, f.Now)
		v.ReportDays, v.Figures = figuresOf(p.Report)
	}
	for _, version := range v.Versions {
		if change := p.Changes[version.Version]; change != "" {
			v.Changes = append(v.Changes, fmt.Sprintf("Version %s, %s", version.Version, change))
		}
	}
	entries := timeline.Of(timeline.Facts{Prototypes: p.Prototypes, Policies: f.Policies, Events: f.Events, History: h})
	slices.Reverse(entries)
	v.Timeline = entries[:min(len(entries), maxEntries)]
	return v
}

// kindOf is the appearance of a version.
func kindOf(v history.Version) Kind {
	switch {
	case v.Quarantined != "" || v.Suspect != "" || v.Use == history.Failed || v.Use == history.Quarantined:
		return KindBad
	case v.Use == history.Current:
		return KindCurrent
	case v.Use == history.Newer || v.Use == history.InProgress:
		return KindNewer
	}
	return KindOlder
}

// barsOf are the nodes by version, newest first, without versions that have no nodes.
func barsOf(h history.History) (bars []Bar) {
	for _, v := range h.Versions {
		if n := len(v.Nodes); n > 0 {
			bars = append(bars, Bar{v.Version, kindOf(v), n})
		}
	}
	if n := len(h.Others); n > 0 {
		bars = append(bars, Bar{"other images", KindOther, n})
	}
	return bars
}

func versionsOf(h history.History, now time.Time) (shown []VersionRow, hidden int) {
	all := h.Versions
	if len(all) > maxVersions {
		hidden, all = len(all)-maxVersions, all[:maxVersions]
	}
	for _, v := range all {
		row := VersionRow{
			Version: v.Version, Kind: kindOf(v), Use: useOf(v), State: string(v.State), Donor: v.Donor, Built: ago(v.BuiltAt, now),
			Nodes: "unknown", Why: v.Why,
			Parent: slices.IndexFunc(all, func(other history.Version) bool { return v.Lineage != "" && other.Version == v.Lineage }),
		}
		if v.Nodes != nil {
			row.Nodes = fmt.Sprint(len(v.Nodes))
		}
		if j := v.Joins; j != nil {
			row.Waiting = fmt.Sprint(j.Waiting)
			if j.Judged > 0 {
				row.Joined = fmt.Sprintf("%d of %d", j.Joined, j.Judged)
			}
			if j.MedianSeconds > 0 {
				row.Median = wording.Duration(time.Duration(j.MedianSeconds) * time.Second)
			}
		}
		shown = append(shown, row)
	}
	return shown, hidden
}

// figuresOf are the figures of a report that are known, and not zero.
func figuresOf(r report.Report) (days int, figures []Figure) {
	for _, f := range r.Figures {
		if f.Value != nil && *f.Value != 0 {
			figures = append(figures, Figure{string(f.Kind), f.Title, f.Text(), f.Source})
		}
	}
	return int(r.Until.Sub(r.Since).Hours() / 24), figures
}

func useOf(v history.Version) string {
	switch {
	case v.Quarantined != "" && v.Use != history.Quarantined:
		return string(v.Use) + ", quarantined"
	case v.Suspect != "" && v.Quarantined == "":
		return string(v.Use) + ", suspect"
	}
	return string(v.Use)
}

// joinsOf are the latest judged joins, oldest first.
func joinsOf(all []joinhealth.Join) (joins []Join) {
	for _, j := range all {
		if j.Running.IsZero() || j.Outcome == joinhealth.Uncounted || j.Outcome == joinhealth.Waiting && j.Took == 0 {
			continue
		}
		failed := j.Outcome == joinhealth.Failed
		if j.Took > 0 || failed {
			joins = append(joins, Join{Node: cmp.Or(j.Node, string(j.Instance)), Version: j.Version, At: j.Running.UTC(), Took: j.Took, Failed: failed})
		}
	}
	slices.SortStableFunc(joins, func(a, b Join) int { return a.At.Compare(b.At) })
	return joins[max(0, len(joins)-maxJoins):]
}

// ago is the time since a moment, in words; empty for the zero time.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return wording.Duration(now.Sub(at)) + " ago"
}
