package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history"
)

var start = time.Date(2026, 3, 9, 10, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func micro(seconds float64) metav1.MicroTime { return metav1.NewMicroTime(after(seconds)) }

func end(seconds float64) *metav1.MicroTime {
	at := micro(seconds)
	return &at
}

// lines are entries as text, for short comparisons.
func lines(entries []Entry) []string {
	var all []string
	for _, e := range entries {
		mark := ""
		if e.Warning {
			mark = "! "
		}
		if e.Count > 0 {
			mark += fmt.Sprintf("%dx ", e.Count)
		}
		all = append(all, fmt.Sprintf("%g %s %s %s%s: %s", e.At.Sub(start).Seconds(), e.Source, e.Object, mark, e.Reason, e.Message))
	}
	return all
}

func event(kind, name string, seconds float64, reason, message string) corev1.Event {
	e := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, EventTime: micro(seconds), Reason: reason, Message: message,
		Type: corev1.EventTypeNormal}
	return e
}

func warning(e corev1.Event) corev1.Event {
	e.Type = corev1.EventTypeWarning
	return e
}

func prototype(name string, status v1alpha1.PrototypeStatus) v1alpha1.Prototype {
	p := v1alpha1.Prototype{Status: status}
	p.Name, p.Spec.Pool = name, "pool1"
	return p
}

func policy(name string, pools ...string) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name = name
	for _, pool := range pools {
		p.Status.Pools = append(p.Status.Pools, v1alpha1.PoolStatus{Name: pool, ID: "id/" + pool})
	}
	return p
}

func condition(kind string, is metav1.ConditionStatus, seconds float64, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: is, LastTransitionTime: metav1.NewTime(after(seconds)), Reason: reason, Message: message}
}

func TestOf(t *testing.T) {
	pool1 := history.History{Pool: "pool1", PoolID: "id/pool1"}
	with := func(change func(h *history.History)) history.History {
		h := pool1
		change(&h)
		return h
	}
	joins := func(all ...v1alpha1.JoinStatus) []v1alpha1.PrototypePolicy {
		p := policy("all", "pool1")
		p.Status.Pools[0].JoinHealth = &v1alpha1.JoinHealthStatus{Version: "2026.03.09", Joins: all}
		return []v1alpha1.PrototypePolicy{p}
	}
	for name, test := range map[string]struct {
		facts Facts
		want  []string
	}{
		"nothing": {Facts{History: pool1}, nil},
		"steps in the order of time": {
			Facts{History: pool1, Prototypes: []v1alpha1.Prototype{
				prototype("pool1-2026.03.10", v1alpha1.PrototypeStatus{Steps: []v1alpha1.Step{{Phase: v1alpha1.PhasePreflight, StartedAt: micro(90)}}}),
				prototype("pool1-2026.03.09", v1alpha1.PrototypeStatus{Steps: []v1alpha1.Step{
					{Phase: v1alpha1.PhasePreflight, StartedAt: micro(0), FinishedAt: end(2)},
					{Phase: v1alpha1.PhaseDraining, StartedAt: micro(2), FinishedAt: end(74)},
					{Phase: v1alpha1.PhaseFailed, StartedAt: micro(74)},
				}}),
			}},
			[]string{
				"0 Step prototype/pool1-2026.03.09 Preflight: took 2s",
				"2 Step prototype/pool1-2026.03.09 Draining: took 1m12s",
				"74 Step prototype/pool1-2026.03.09 ! Failed: the capture ended",
				"90 Step prototype/pool1-2026.03.10 Preflight: in progress",
			},
		},
		"an event on the node and on the Prototype is one fact": {
			Facts{History: pool1, Prototypes: []v1alpha1.Prototype{prototype("pool1-2026.03.09", v1alpha1.PrototypeStatus{})}, Events: []corev1.Event{
				event("Prototype", "pool1-2026.03.09", 1, "Reserved", "node a of pool pool1 is reserved"),
				event("Node", "a", 1.2, "Reserved", "node a of pool pool1 is reserved"),
				event("Prototype", "pool1-2026.03.09", 600, "Reserved", "node a of pool pool1 is reserved"),
			}},
			[]string{
				"1 Event prototype/pool1-2026.03.09 Reserved: node a of pool pool1 is reserved",
				"600 Event prototype/pool1-2026.03.09 Reserved: node a of pool pool1 is reserved",
			},
		},
		"a condition with the message of an event is one fact": {
			Facts{History: pool1, Events: []corev1.Event{warning(event("Prototype", "pool1-2026.03.09", 5.7, "Denied", "may not"))},
				Prototypes: []v1alpha1.Prototype{
					prototype("pool1-2026.03.09", v1alpha1.PrototypeStatus{Conditions: []metav1.Condition{
						condition("Stalled", metav1.ConditionTrue, 5, "Denied", "may not"),
						condition("Ready", metav1.ConditionFalse, 6, "Denied", "may not"),
						condition("Reconciling", metav1.ConditionTrue, 6, "Draining", "draining"),
						condition("Published", metav1.ConditionTrue, 7, "Complete", ""),
						condition("TrialPassed", metav1.ConditionFalse, 8, "TrialFailed", "no DNS"),
						condition("Stalled", metav1.ConditionTrue, 90, "Denied", "may not"),
					}}),
				}},
			[]string{
				"5.7 Event prototype/pool1-2026.03.09 ! Denied: may not",
				"7 Condition prototype/pool1-2026.03.09 Complete: Published is True",
				"8 Condition prototype/pool1-2026.03.09 ! TrialFailed: TrialPassed is False: no DNS",
				"90 Condition prototype/pool1-2026.03.09 ! Denied: Stalled is True: may not",
			},
		},
		"checks with a result": {
			Facts{History: pool1,
				Prototypes: []v1alpha1.Prototype{prototype("p", v1alpha1.PrototypeStatus{Trial: &v1alpha1.TrialStatus{Checks: []v1alpha1.TrialCheck{
					{Name: "Joined", Result: v1alpha1.TrialPassed, At: end(3)},
					{Name: "Network", Result: v1alpha1.TrialFailed, Message: "no DNS", At: end(4)},
					{Name: "Job", Result: v1alpha1.TrialPending, Message: "waiting", At: end(5)},
					{Name: "Soak", Result: v1alpha1.TrialSkipped},
				}}})}},
			[]string{"3 Check prototype/p Joined: Passed", "4 Check prototype/p ! Network: Failed: no DNS"},
		},
		"events of deleted Prototypes of the pool": {
			Facts{History: pool1, Events: []corev1.Event{
				event("Prototype", "pool1-2026.03.09-2", 1, "Reserved", "x"),
				event("Prototype", "pool1-big-2026.03.09", 2, "Reserved", "x"),
				event("Prototype", "pool11-2026.03.09", 3, "Reserved", "x"),
				event("Prototype", "pool1-", 4, "Reserved", "x"),
			}},
			[]string{"1 Event prototype/pool1-2026.03.09-2 Reserved: x"},
		},
		"events of policies": {
			Facts{History: pool1, Policies: []v1alpha1.PrototypePolicy{policy("one", "pool1"), policy("two", "pool1", "pool2"),
				policy("other", "pool2")}, Events: []corev1.Event{
				event("PrototypePolicy", "one", 1, "Recovered", "policy one works again"),
				event("PrototypePolicy", "two", 2, "Decided", "pool pool1: node a"),
				event("PrototypePolicy", "two", 3, "Decided", "pool pool2: node b"),
				event("PrototypePolicy", "other", 4, "Decided", "pool pool1: node a"),
				event("PrototypePolicy", "gone", 5, "Decided", "pool pool1: node a, again"),
			}},
			[]string{"1 Event policy/one Recovered: policy one works again", "2 Event policy/two Decided: pool pool1: node a"},
		},
		"events of nodes": {
			Facts{History: with(func(h *history.History) {
				h.Versions, h.Others = []history.Version{{Version: "2026.03.01", Nodes: []string{"a"}}}, []string{"b"}
			}), Events: []corev1.Event{
				event("Node", "a", 1, "Rebuilding", "rebuilt"), event("Node", "b", 2, "Rebuilding", "begins"),
				event("Node", "gone", 3, "Rebuilt", "of pool pool1."), event("Node", "c", 4, "Rebuilding", "of pool pool11"),
				event("Pod", "a", 5, "Killing", "pool pool1"),
			}},
			[]string{"1 Event node/a Rebuilding: rebuilt", "2 Event node/b Rebuilding: begins", "3 Event node/gone Rebuilt: of pool pool1."},
		},
		"conditions of policies": {
			Facts{History: pool1, Policies: func() []v1alpha1.PrototypePolicy {
				one, two := policy("one", "pool1"), policy("two", "pool1", "pool2")
				one.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue, 1, "Watching", "Kamino watches 1 pool")}
				two.Status.Conditions = []metav1.Condition{
					condition("Degraded", metav1.ConditionTrue, 2, "NotReady", "pool pool1: no node is Ready"),
					condition("Stalled", metav1.ConditionTrue, 3, "TooManyFailures", "pool pool2: 3 captures failed"),
				}
				return []v1alpha1.PrototypePolicy{one, two}
			}()},
			[]string{
				"1 Condition policy/one Watching: Ready is True: Kamino watches 1 pool",
				"2 Condition policy/two ! NotReady: Degraded is True: pool pool1: no node is Ready",
			},
		},
		"joins": {
			Facts{History: pool1, Policies: joins(
				v1alpha1.JoinStatus{Instance: "i-1", Node: "a", RunningSince: metav1.NewTime(after(0)), Outcome: "Joined",
					ReadyAfter: &metav1.Duration{Duration: 41 * time.Second}},
				v1alpha1.JoinStatus{Instance: "i-2", RunningSince: metav1.NewTime(after(1)), Outcome: "Failed", Message: "no Node",
					OverdueSince: &metav1.Time{Time: after(900)}},
				v1alpha1.JoinStatus{Instance: "i-3", RunningSince: metav1.NewTime(after(2)), Outcome: "Waiting"},
				v1alpha1.JoinStatus{Instance: "i-4", RunningSince: metav1.NewTime(after(3)), Outcome: "Failed"},
			)},
			[]string{
				"2 Join node/i-3 Waiting: started with version 2026.03.09",
				"3 Join node/i-4 ! Failed: did not join with version 2026.03.09",
				"41 Join node/a Joined: joined with version 2026.03.09 after 41s",
				"900 Join node/i-2 ! Failed: did not join with version 2026.03.09: no Node",
			},
		},
		"joins of another pool": {
			Facts{History: pool1, Policies: func() []v1alpha1.PrototypePolicy {
				p := policy("two", "pool1", "pool2")
				p.Status.Pools[1].JoinHealth = &v1alpha1.JoinHealthStatus{Joins: []v1alpha1.JoinStatus{{Instance: "i",
					RunningSince: metav1.NewTime(after(0)), Outcome: "Waiting"}}}
				return []v1alpha1.PrototypePolicy{p}
			}()},
			nil,
		},
		"versions and rollbacks": {
			Facts{History: with(func(h *history.History) {
				h.Versions = []history.Version{{Version: "2026.03.09", Donor: "a", BuiltAt: after(0)}, {Version: "2026.03.01"},
					{Version: "2026.02.01", BuiltAt: after(-9)}}
				h.AutoRollbacks = []history.AutoRollback{
					{Version: "2026.03.09", To: "2026.03.01", At: after(60), Why: "2 nodes did not join", Acknowledged: after(90)},
					{Version: "2026.03.01", To: "2026.02.01", At: after(30)},
				}
			})},
			[]string{
				"-9 Version version/2026.02.01 Built: ",
				"0 Version version/2026.03.09 Built: built from node a",
				"30 Version version/2026.03.01 ! RolledBack: the pool rolled back from version 2026.03.01 to 2026.02.01",
				"60 Version version/2026.03.09 ! RolledBack: the pool rolled back from version 2026.03.09 to 2026.03.01: 2 nodes did not join",
				"90 Version version/2026.03.09 Acknowledged: a person acknowledged the rollback",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, lines(Of(test.facts))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTimesOfEvents: an event of another recorder has no EventTime, and a series has a count.
func TestTimesOfEvents(t *testing.T) {
	old := event("Prototype", "pool1-2026.03.09", 0, "Old", "x")
	old.EventTime, old.FirstTimestamp = metav1.MicroTime{}, metav1.NewTime(after(2))
	bare := event("Prototype", "pool1-2026.03.09", 0, "Bare", "x")
	bare.EventTime, bare.CreationTimestamp = metav1.MicroTime{}, metav1.NewTime(after(3))
	none := event("Prototype", "pool1-2026.03.09", 0, "None", "x")
	none.EventTime = metav1.MicroTime{}
	series := event("Prototype", "pool1-2026.03.09", 4, "Series", "x")
	series.Series = &corev1.EventSeries{Count: 7}
	got := lines(Of(Facts{History: history.History{Pool: "pool1"}, Events: []corev1.Event{series, none, bare, old}}))
	want := []string{
		"2 Event prototype/pool1-2026.03.09 Old: x", "3 Event prototype/pool1-2026.03.09 Bare: x", "4 Event prototype/pool1-2026.03.09 7x Series: x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEntriesAreUTC: equal entries of two looks compare equal.
func TestEntriesAreUTC(t *testing.T) {
	e := event("Prototype", "pool1-2026.03.09", 0, "Reserved", "x")
	e.EventTime = metav1.NewMicroTime(start.In(time.FixedZone("east", 3600)))
	got := Of(Facts{History: history.History{Pool: "pool1"}, Events: []corev1.Event{e}})
	if len(got) != 1 || got[0].At.Location() != time.UTC || !got[0].At.Equal(start) {
		t.Errorf("%v", got)
	}
	if seen := map[Entry]bool{got[0]: true}; !seen[Of(Facts{History: history.History{Pool: "pool1"},
		Events: []corev1.Event{event("Prototype", "pool1-2026.03.09", 0, "Reserved", "x")}})[0]] {
		t.Error("an equal entry is not equal")
	}
}

// TestHostileNames: no name of the cluster makes an event concern another pool.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{"", "-", "pool1", "pool1-x\x1b[8m", strings.Repeat("a", 300)} {
		got := Of(Facts{History: history.History{Pool: "pool1"}, Events: []corev1.Event{event("Prototype", name, 0, "Reserved", "x")}})
		if len(got) != 0 {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestOneFactPerSource: each source of a fact, and which one is kept if two report the fact.
func TestOneFactPerSource(t *testing.T) {
	condition := func(seconds float64, message string) v1alpha1.Prototype {
		return prototype("pool1-2026.03.09",
			v1alpha1.PrototypeStatus{Conditions: []metav1.Condition{condition("Stalled", metav1.ConditionTrue, seconds, "Denied", message)}})
	}
	for name, test := range map[string]struct {
		event, condition float64
		message          string
		want             []Source
	}{
		"at the same time":             {0, 0, "may not", []Source{Event}},
		"the condition a little after": {0, 5, "may not", []Source{Event}},
		"the condition a little before": {
			5, 0, "may not", []Source{Event},
		},
		"the condition much after": {0, 5.5, "may not", []Source{Event, Condition}},
		"the condition much before": {
			60, 0, "may not", []Source{Condition, Event},
		},
		"another message": {0, 0, "may not either", []Source{Event, Condition}},
		"no message":      {0, 0, "", []Source{Event, Condition}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(Facts{
				History: history.History{Pool: "pool1"}, Prototypes: []v1alpha1.Prototype{condition(test.condition, test.message)},
				Events: []corev1.Event{warning(event("Prototype", "pool1-2026.03.09", test.event, "Denied", "may not"))},
			})
			var sources []Source
			for _, e := range got {
				sources = append(sources, e.Source)
				if !e.Warning {
					t.Errorf("%+v is no warning", e)
				}
			}
			if diff := cmp.Diff(test.want, sources); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamed finds the pool's name as a word only.
func TestNamed(t *testing.T) {
	for text, want := range map[string]bool{
		"pool pool1: node a": true, "pool1": true, "(pool1)": true, `"pool1"`: true, "of pool1, and pool2": true, "pool1.": true,
		"": false, "pool11": false, "a-pool1": false, "pool": false, "pool1-2026.03.09": false,
	} {
		if got := (&timeline{pool: "pool1"}).mentionsPool(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

// TestOrder: entries of all sources are in the order of time, and entries of one time in the order of the facts.
func TestOrder(t *testing.T) {
	steps := func(name string, seconds ...float64) v1alpha1.Prototype {
		var status v1alpha1.PrototypeStatus
		for _, s := range seconds {
			status.Steps = append(status.Steps, v1alpha1.Step{Phase: v1alpha1.PhaseDraining, StartedAt: micro(s)})
		}
		return prototype(name, status)
	}
	got := Of(Facts{
		History:    history.History{Pool: "pool1", Versions: []history.Version{{Version: "v", BuiltAt: after(5)}}},
		Prototypes: []v1alpha1.Prototype{steps("b", 7, 3), steps("a", 5, 1)},
		Events:     []corev1.Event{event("Prototype", "a", 5, "Reserved", "x"), event("Prototype", "b", 0, "Reserved", "y")},
	})
	want := []string{
		"0 Event prototype/b Reserved: y", "1 Step prototype/a Draining: in progress", "3 Step prototype/b Draining: in progress",
		"5 Event prototype/a Reserved: x", "5 Step prototype/a Draining: in progress", "5 Version version/v Built: ",
		"7 Step prototype/b Draining: in progress",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
