// Package timeline merges all facts about a pool into one list in the order of time: events, steps, conditions, checks,
// joins and versions. The package reads nothing, and is pure.
package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Source is the origin of an entry.
type Source string

// Sources of entries. If two sources report the same fact, the earlier source in this list wins.
const (
	Event     Source = "Event"
	Step      Source = "Step"
	Check     Source = "Check"
	Condition Source = "Condition"
	Join      Source = "Join"
	Version   Source = "Version"
)

// Reporter is the reporting component of Kamino's events.
const Reporter = "kamino"

// sameFact is the longest time between two reports of one fact: conditions have whole seconds, and two events of one fact
// are written one after the other.
const sameFact = 5 * time.Second

// Entry is one fact with its time.
type Entry struct {
	At     time.Time `json:"at"`
	Source Source    `json:"source"`
	// Object is the kind and the name of the object, such as "prototype/pool1-2026.03.09".
	Object string `json:"object"`
	// Warning is true for a failure, or for a fact that needs a person.
	Warning bool `json:"warning,omitempty"`
	// Reason is a phase, the reason of an event or a condition, or the name of a check.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Count is the number of equal events; zero for one event.
	Count int32 `json:"count,omitempty"`
}

// Facts are the inputs.
type Facts struct {
	// Prototypes of the pool.
	Prototypes []v1alpha1.Prototype
	// Policies of the cluster. Policies of other pools are ignored.
	Policies []v1alpha1.PrototypePolicy
	// Events that Kamino recorded. Events about other pools are ignored.
	Events []corev1.Event
	// History of the pool. Without versions, only the pool's name and ID are known.
	History history.History
}

// Of returns the entries, oldest first.
func Of(f Facts) []Entry {
	t := &timeline{pool: f.History.Pool, known: map[string][]time.Time{}}
	policies := t.policies(f)
	for i := range f.Events {
		if t.concerns(&f.Events[i], f, policies) {
			t.event(&f.Events[i])
		}
	}
	for i := range f.Prototypes {
		t.prototype(&f.Prototypes[i])
	}
	for _, p := range policies {
		t.policy(p, string(f.History.PoolID))
	}
	t.versions(f.History)
	slices.SortStableFunc(t.entries, func(a, b Entry) int { return a.At.Compare(b.At) })
	return t.entries
}

// timeline collects entries.
type timeline struct {
	pool    string
	entries []Entry
	// known are the times of collected facts by reason and message.
	known map[string][]time.Time
}

// add collects an entry with a time, unless another source has reported the fact. fact is the bare message of the fact;
// an empty fact has no other source.
func (t *timeline) add(e Entry, fact string) {
	if e.At.IsZero() {
		return
	}
	e.At = e.At.UTC()
	if fact != "" {
		key := e.Reason + "\n" + fact
		for _, at := range t.known[key] {
			if e.At.Sub(at).Abs() <= sameFact {
				return
			}
		}
		t.known[key] = append(t.known[key], e.At)
	}
	t.entries = append(t.entries, e)
}

// policies are the policies with the pool in their status.
func (t *timeline) policies(f Facts) (of []*v1alpha1.PrototypePolicy) {
	for i := range f.Policies {
		if slices.ContainsFunc(f.Policies[i].Status.Pools, func(s v1alpha1.PoolStatus) bool { return s.ID == string(f.History.PoolID) }) {
			of = append(of, &f.Policies[i])
		}
	}
	return of
}

// concerns reports whether an event is about the pool. An event of a policy with several pools names the pool, and so does
// an event of a deleted Prototype.
func (t *timeline) concerns(e *corev1.Event, f Facts, policies []*v1alpha1.PrototypePolicy) bool {
	name := e.InvolvedObject.Name
	switch e.InvolvedObject.Kind {
	case "Prototype":
		if slices.ContainsFunc(f.Prototypes, func(p v1alpha1.Prototype) bool { return p.Name == name }) {
			return true
		}
		rest, is := strings.CutPrefix(name, t.pool+"-")
		return is && rest != "" && strings.Trim(rest, "0123456789.-") == ""
	case "PrototypePolicy":
		i := slices.IndexFunc(policies, func(p *v1alpha1.PrototypePolicy) bool { return p.Name == name })
		return i >= 0 && (len(policies[i].Status.Pools) == 1 || t.mentionsPool(e.Message))
	case "Node":
		return slices.Contains(f.History.Others, name) || t.mentionsPool(e.Message) ||
			slices.ContainsFunc(f.History.Versions, func(v history.Version) bool { return slices.Contains(v.Nodes, name) })
	}
	return false
}

// mentionsPool reports whether a text has the pool's name as a word.
func (t *timeline) mentionsPool(text string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool { return strings.Trim(word, `,.:;()"'`) == t.pool })
}

func (t *timeline) event(e *corev1.Event) {
	at := cmp.Or(e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time)
	entry := Entry{
		At: at, Source: Event, Object: object(e.InvolvedObject.Kind, e.InvolvedObject.Name),
		Warning: e.Type == corev1.EventTypeWarning, Reason: e.Reason, Message: e.Message,
	}
	if e.Series != nil && e.Series.Count > 1 {
		entry.Count = e.Series.Count
	}
	t.add(entry, e.Message)
}

func object(kind, name string) string {
	if kind == "PrototypePolicy" {
		kind = "policy"
	}
	return strings.ToLower(kind) + "/" + name
}

func (t *timeline) prototype(p *v1alpha1.Prototype) {
	name := object("prototype", p.Name)
	for _, step := range p.Status.Steps {
		e := Entry{At: step.StartedAt.Time, Source: Step, Object: name, Reason: string(step.Phase), Message: "in progress"}
		if step.FinishedAt != nil {
			e.Message = "took " + wording.Duration(step.FinishedAt.Sub(step.StartedAt.Time))
		}
		if step.Phase == v1alpha1.PhaseSucceeded || step.Phase == v1alpha1.PhaseFailed {
			e.Message, e.Warning = "the capture ended", step.Phase == v1alpha1.PhaseFailed
		}
		t.add(e, "")
	}
	if trial := p.Status.Trial; trial != nil {
		for _, check := range trial.Checks {
			if check.At == nil || check.Result == v1alpha1.TrialPending {
				continue
			}
			t.add(Entry{
				At: check.At.Time, Source: Check, Object: name, Warning: check.Result == v1alpha1.TrialFailed,
				Reason: check.Name, Message: joined(string(check.Result), check.Message),
			}, "")
		}
	}
	t.conditions(name, p.Status.Conditions, func(metav1.Condition) bool { return true })
}

// conditions collects the last change of each condition. Reconciling only repeats the phase.
func (t *timeline) conditions(name string, all []metav1.Condition, concerns func(metav1.Condition) bool) {
	for _, c := range all {
		if c.Type == v1alpha1.ConditionReconciling || !concerns(c) {
			continue
		}
		bad := c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionDegraded
		t.add(Entry{
			At: c.LastTransitionTime.Time, Source: Condition, Object: name, Reason: c.Reason,
			Warning: bad && c.Status == metav1.ConditionTrue || !bad && c.Status == metav1.ConditionFalse,
			Message: joined(fmt.Sprintf("%s is %s", c.Type, c.Status), c.Message),
		}, c.Message)
	}
}

func joined(head, message string) string {
	if message == "" {
		return head
	}
	return head + ": " + message
}

// policy collects the joins of the pool, and the conditions about the pool.
func (t *timeline) policy(p *v1alpha1.PrototypePolicy, id string) {
	for _, s := range p.Status.Pools {
		if s.ID != id || s.JoinHealth == nil {
			continue
		}
		for _, j := range s.JoinHealth.Joins {
			t.join(j, s.JoinHealth.Version)
		}
	}
	t.conditions(object("policy", p.Name), p.Status.Conditions, func(c metav1.Condition) bool {
		return len(p.Status.Pools) == 1 || t.mentionsPool(c.Message)
	})
}

func (t *timeline) join(j v1alpha1.JoinStatus, version string) {
	e := Entry{At: j.RunningSince.Time, Source: Join, Object: object("node", cmp.Or(j.Node, j.Instance)), Reason: j.Outcome}
	switch {
	case j.Outcome == "Joined" && j.ReadyAfter != nil:
		e.At = e.At.Add(j.ReadyAfter.Duration)
		e.Message = fmt.Sprintf("joined with version %s after %s", version, wording.Duration(j.ReadyAfter.Duration))
	case j.Outcome == "Failed":
		if j.OverdueSince != nil {
			e.At = j.OverdueSince.Time
		}
		e.Warning, e.Message = true, joined("did not join with version "+version, j.Message)
	default:
		e.Message = joined("started with version "+version, j.Message)
	}
	t.add(e, "")
}

// versions collects the times that the tags of the versions hold.
func (t *timeline) versions(h history.History) {
	for _, v := range h.Versions {
		from := ""
		if v.Donor != "" {
			from = "built from node " + v.Donor
		}
		t.add(Entry{At: v.BuiltAt, Source: Version, Object: object("version", v.Version), Reason: "Built", Message: from}, "")
	}
	for _, r := range h.AutoRollbacks {
		name := object("version", r.Version)
		t.add(Entry{
			At: r.At, Source: Version, Object: name, Warning: true, Reason: "RolledBack",
			Message: joined(fmt.Sprintf("the pool rolled back from version %s to %s", r.Version, r.To), r.Why),
		}, "")
		t.add(Entry{At: r.Acknowledged, Source: Version, Object: name, Reason: "Acknowledged", Message: "a person acknowledged the rollback"}, "")
	}
}
