package dashboard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/history/timeline"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

var now = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return now.Add(-d) }

func micro(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(before(d)) }

func ended(d time.Duration) *metav1.MicroTime {
	at := micro(d)
	return &at
}

func nodes(prefix string, n int) []string {
	names := []string{}
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

// pool1 has a version in use, a version to go back to, and a bad version.
func pool1() PoolFacts {
	return PoolFacts{
		Nodes: 6, Ready: 5, Capacity: 7,
		History: history.History{
			Pool: "pool1", PoolID: "id/pool1", Recipe: cloud.Recipe{Image: "image/3", Version: "2026.03.03"}, Counted: true,
			Versions: []history.Version{
				{
					Version: "2026.03.04", Use: history.Quarantined, State: cloud.Complete, Quarantined: "no network",
					Lineage: "2026.03.03", Nodes: nodes("d", 1), Why: "quarantined",
				},
				{
					Version: "2026.03.03", Use: history.Current, State: cloud.Complete, Donor: "b-0", Lineage: "2026.03.01",
					BuiltAt: before(26 * time.Hour), Nodes: nodes("c", 3), Why: "named by the recipe",
					Joins: &history.Joins{Judged: 3, Joined: 2, Failed: 1, Waiting: 1, MedianSeconds: 41},
				},
				{
					Version: "2026.03.02", Use: history.Prior, State: cloud.Complete, Lineage: "2026.02.01",
					Nodes: nodes("b", 0), Why: "rollback target",
				},
				{Version: "2026.03.01", Use: history.Older, State: cloud.Complete, Why: "among the 3 versions to keep"},
			},
			Others: nodes("a", 2),
		},
	}
}

func only(t *testing.T, f Facts) PoolSection {
	t.Helper()
	f.Now = now
	v := Of(f)
	if len(v.Pools) != 1 {
		t.Fatalf("%d pools", len(v.Pools))
	}
	return v.Pools[0]
}

func TestOf(t *testing.T) {
	second := pool1()
	second.History.Pool = "apool"
	v := Of(Facts{Now: now.In(time.FixedZone("east", 3600)), Cluster: "prod", Pools: []PoolFacts{pool1(), second},
		Troubles: []string{"The events are unknown."}})
	if v.Cluster != "prod" || v.At.Location() != time.UTC || !v.At.Equal(now) || len(v.Troubles) != 1 {
		t.Errorf("%+v", v)
	}
	if len(v.Pools) != 2 || v.Pools[0].Name != "apool" || v.Pools[1].Name != "pool1" {
		t.Errorf("pools are not in order: %+v", v.Pools)
	}
	if empty := Of(Facts{Now: now}); len(empty.Pools) != 0 {
		t.Errorf("%+v", empty)
	}
}

// TestOrderOfFacts: neither the order of the pools and Prototypes nor another pool changes what the page shows of a pool.
func TestOrderOfFacts(t *testing.T) {
	first, second := pool1(), PoolFacts{History: history.History{Pool: "pool2", PoolID: "id/pool2"}, Nodes: 1}
	first.Prototypes = []v1alpha1.Prototype{
		prototype("a", time.Hour, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining}),
		prototype("b", 2*time.Hour, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed}),
		prototype("c", 3*time.Hour, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded}),
	}
	want := append(Of(Facts{Now: now, Pools: []PoolFacts{first}}).Pools, Of(Facts{Now: now, Pools: []PoolFacts{second}}).Pools...)
	slices.Reverse(first.Prototypes)
	for _, pools := range [][]PoolFacts{{first, second}, {second, first}} {
		if diff := cmp.Diff(want, Of(Facts{Now: now, Pools: pools}).Pools); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestPool(t *testing.T) {
	got := only(t, Facts{Pools: []PoolFacts{pool1()}})
	got.Timeline = nil // another test
	want := PoolSection{
		Name: "pool1", State: State{Word: "healthy"}, Recipe: "2026.03.03", Nodes: 6, Ready: 5, Capacity: 7,
		Notes: []string{
			"Version 2026.03.04 is quarantined: no network", "1 node runs the quarantined version 2026.03.04: d-0", "2 nodes run none of these versions.",
		},
		Bars: []Bar{{"2026.03.04", KindBad, 1}, {"2026.03.03", KindCurrent, 3}, {"other images", KindOther, 2}},
		Versions: []VersionRow{
			{
				Version: "2026.03.04", Kind: KindBad, Use: "quarantined", State: "Complete",
				Nodes: "1", Why: "quarantined", Parent: 1,
			},
			{
				Version: "2026.03.03", Kind: KindCurrent, Use: "current", State: "Complete", Donor: "b-0", Built: "1d2h ago", Nodes: "3",
				Joined: "2 of 3", Waiting: "1", Median: "41s", Why: "named by the recipe", Parent: 3,
			},
			{Version: "2026.03.02", Kind: KindOlder, Use: "prior", State: "Complete", Nodes: "0", Why: "rollback target", Parent: -1},
			{Version: "2026.03.01", Kind: KindOlder, Use: "older", State: "Complete", Nodes: "unknown", Why: "among the 3 versions to keep", Parent: -1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAPoolThatTheCloudDidNotDescribe has only the facts of the cluster.
func TestAPoolThatTheCloudDidNotDescribe(t *testing.T) {
	got := only(t, Facts{Pools: []PoolFacts{{Nodes: 2, Ready: 1, History: history.History{Pool: "pool1", PoolID: "id/pool1"}, Trouble: "The cloud is away."}}})
	want := PoolSection{Name: "pool1", State: State{Word: "warning"}, Nodes: 2, Ready: 1, Notes: []string{"The cloud is away."}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each item has all its words on the page.
func TestNeedHasItsWords(t *testing.T) {
	next := metav1.NewTime(now.Add(time.Hour))
	since := metav1.NewTime(now.Add(-time.Hour))
	p := v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}}
	p.Status.Conditions = []metav1.Condition{{
		Type:               v1alpha1.ConditionDegraded,
		Status:             metav1.ConditionTrue,
		Reason:             "OnlyReadyNode",
		Message:            "pool pool1 is not captured: 1 of 1 nodes is Ready",
		LastTransitionTime: since,
	}}
	p.Status.Pools = []v1alpha1.PoolStatus{{
		Name:     "pool1",
		NextRun:  &next,
		Decision: &v1alpha1.PoolDecision{Reason: "OnlyReadyNode", Message: "1 of 1 nodes is Ready"},
	}}
	v := Of(Facts{
		Now:      now,
		Pools:    []PoolFacts{{History: history.History{Pool: "pool1"}}},
		Policies: []v1alpha1.PrototypePolicy{p},
	})
	want := []Need{{
		Urgent:   true,
		Severity: "warning",
		Pool:     "pool1",
		Title:    "Captures of pool pool1 are refused: OnlyReadyNode.",
		Cause:    "1 of 1 nodes is Ready",
		Since:    "1h00m ago",
		Next:     "Kamino tries again, at " + attention.When(next.Time, now),
		Command:  "kamino plan pool1",
	}}
	if diff := cmp.Diff(want, v.Attention); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.Status.Conditions[0].Status = metav1.ConditionFalse
	if v := Of(Facts{
		Now:      now,
		Pools:    []PoolFacts{{History: history.History{Pool: "pool1"}}},
		Policies: []v1alpha1.PrototypePolicy{p},
	}); len(v.Attention) != 0 {
		t.Errorf("over, and still said: %+v", v.Attention)
	}
	if v.Pools[0].State.Word != "warning" || v.Pools[0].State.Folded {
		t.Errorf("%+v", v.Pools[0].State)
	}
}

// What needs a person comes first, with its pool; with many pools, healthy pools are folded.
func TestNeed(t *testing.T) {
	named := func(name string) PoolFacts { return PoolFacts{History: history.History{Pool: name}} }
	bad := named("pool3")
	bad.Prototypes = []v1alpha1.Prototype{{Spec: v1alpha1.PrototypeSpec{Pool: "pool3"}, Status: v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed,
		Failure: &v1alpha1.Failure{Reason: "DrainTimeout", Message: "pods stay"}}}}
	busy := named("pool2")
	busy.Prototypes = []v1alpha1.Prototype{{Spec: v1alpha1.PrototypeSpec{Pool: "pool2"}, Status: v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining}}}
	f := Facts{Now: now, Lease: attention.Lease{Known: true, Holder: "the controller"}, Pools: []PoolFacts{named("pool1"), busy, bad, named("pool4")}}
	v := Of(f)
	if len(v.Attention) != 1 || v.Attention[0].Title != "A capture of pool pool3 failed: DrainTimeout." || v.Attention[0].Pool != "pool3" || !v.Attention[0].Urgent {
		t.Errorf("%+v", v.Attention)
	}
	var got []string
	for _, p := range v.Pools {
		got = append(got, fmt.Sprintf("%s %s %t", p.Name, p.State.Word, p.State.Folded))
	}
	if diff := cmp.Diff([]string{"pool3 warning false", "pool1 healthy true", "pool2 healthy false", "pool4 healthy true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Pools = f.Pools[:3]
	if v := Of(f); v.Pools[1].State.Folded {
		t.Error("one of three pools is folded")
	}
	f.Lease = attention.Lease{Known: true, Lost: "the controller", Over: now.Add(-time.Minute)}
	if v := Of(f); v.Attention[0].Command == "" || v.Attention[0].Since != "1m00s ago" {
		t.Errorf("%+v", v.Attention[0])
	}
}

func TestARecipeOfAnotherImage(t *testing.T) {
	got := only(t, Facts{Pools: []PoolFacts{{History: history.History{Pool: "pool1", Recipe: cloud.Recipe{Image: "ubuntu:2204"}}}}})
	if got.Recipe != "ubuntu:2204" || len(got.Notes) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestKinds(t *testing.T) {
	for _, test := range []struct {
		version history.Version
		kind    Kind
		use     string
	}{
		{history.Version{Use: history.Current}, KindCurrent, "current"},
		{history.Version{Use: history.Current, Quarantined: "x"}, KindBad, "current, quarantined"},
		{history.Version{Use: history.Current, Suspect: "x"}, KindBad, "current, suspect"},
		{history.Version{Use: history.Quarantined, Quarantined: "x", Suspect: "x"}, KindBad, "quarantined"},
		{history.Version{Use: history.Failed}, KindBad, "failed"},
		{history.Version{Use: history.Newer}, KindNewer, "newer"},
		{history.Version{Use: history.InProgress}, KindNewer, "in progress"},
		{history.Version{Use: history.Prior}, KindOlder, "prior"},
		{history.Version{Use: history.Older}, KindOlder, "older"},
		{history.Version{Use: history.Older, Suspect: "x"}, KindBad, "older, suspect"},
		{history.Version{Use: history.Newer, Quarantined: "x"}, KindBad, "newer, quarantined"},
		{history.Version{Use: history.Prior, Suspect: "x", Quarantined: "x"}, KindBad, "prior, quarantined"},
		{history.Version{}, KindOlder, ""},
		{history.Version{Use: history.Failed, Quarantined: "x"}, KindBad, "failed, quarantined"},
		{history.Version{Use: history.InProgress, Suspect: "x"}, KindBad, "in progress, suspect"},
	} {
		if got := kindOf(test.version); got != test.kind {
			t.Errorf("%+v: %s, want %s", test.version, got, test.kind)
		}
		if got := useOf(test.version); got != test.use {
			t.Errorf("%+v: %s, want %s", test.version, got, test.use)
		}
	}
}

func TestManyVersions(t *testing.T) {
	f := pool1()
	f.History.Versions = nil
	for i := range maxVersions + 3 {
		f.History.Versions = append(f.History.Versions, history.Version{Version: fmt.Sprintf("v%d", i), Use: history.Older, Lineage: fmt.Sprintf("v%d", i+1)})
	}
	got := only(t, Facts{Pools: []PoolFacts{f}})
	if len(got.Versions) != maxVersions || got.Hidden != 3 {
		t.Errorf("%d versions, %d hidden", len(got.Versions), got.Hidden)
	}
	for i, v := range got.Versions {
		want := i + 1
		if want == maxVersions {
			want = -1 // the parent is not shown
		}
		if v.Parent != want {
			t.Errorf("the parent of %s is %d, want %d", v.Version, v.Parent, want)
		}
	}
}

func TestJoins(t *testing.T) {
	join := func(node string, ago time.Duration, outcome joinhealth.Outcome, took time.Duration) joinhealth.Join {
		return joinhealth.Join{Instance: cloud.InstanceID("i-" + node), Node: node, Version: "v1", Running: before(ago), Outcome: outcome, Took: took}
	}
	unknown := join("unknown", 0, joinhealth.Joined, time.Second)
	unknown.Running = time.Time{}
	unnamed := join("", 30*time.Minute, joinhealth.Failed, 0)
	unnamed.Instance = "i-4"
	f := pool1()
	f.Joins = []joinhealth.Join{
		join("late", time.Minute, joinhealth.Joined, 41*time.Second),
		join("early", time.Hour, joinhealth.Joined, 3*time.Minute),
		unknown,
		unnamed,
		join("waits", 2*time.Minute, joinhealth.Waiting, 0),
		join("settles", 3*time.Minute, joinhealth.Waiting, 50*time.Second),
		join("cordoned", time.Hour, joinhealth.Uncounted, time.Second),
		join("without a time", time.Hour, joinhealth.Joined, 0),
	}
	want := []Join{
		{Node: "early", Version: "v1", At: before(time.Hour), Took: 3 * time.Minute},
		{Node: "i-4", Version: "v1", At: before(30 * time.Minute), Failed: true},
		{Node: "settles", Version: "v1", At: before(3 * time.Minute), Took: 50 * time.Second},
		{Node: "late", Version: "v1", At: before(time.Minute), Took: 41 * time.Second},
	}
	if diff := cmp.Diff(want, only(t, Facts{Pools: []PoolFacts{f}}).Joins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Joins = nil
	for i := range maxJoins + 5 {
		f.Joins = append(f.Joins, join(fmt.Sprint(i), time.Duration(i)*time.Minute, joinhealth.Joined, time.Second))
	}
	many := only(t, Facts{Pools: []PoolFacts{f}}).Joins
	if len(many) != maxJoins || many[len(many)-1].Node != "0" {
		t.Errorf("%d joins, the last is %s", len(many), many[len(many)-1].Node)
	}
}

func prototype(name string, ago time.Duration, status v1alpha1.PrototypeStatus) v1alpha1.Prototype {
	p := v1alpha1.Prototype{Status: status}
	p.Name, p.CreationTimestamp = name, metav1.NewTime(before(ago))
	p.Spec.Pool, p.Spec.Version, p.Spec.Donor.NodeName = "pool1", "2026.03.09", "node-1"
	return p
}

func TestCaptures(t *testing.T) {
	draining := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining, Progress: "pods left: 3", Steps: []v1alpha1.Step{
		{Phase: v1alpha1.PhasePreflight, StartedAt: micro(3 * time.Minute), FinishedAt: ended(2 * time.Minute)},
		{Phase: v1alpha1.PhaseDraining, StartedAt: micro(2 * time.Minute)},
	}}
	drainingView := Capture{
		Name: "a", Version: "2026.03.09", Donor: "node-1", Phase: "Draining", Progress: "pods left: 3", Running: true, Since: "1h00m ago",
		Steps: []Step{{Phase: "Preflight", Took: "1m00s", Done: true}, {Phase: "Draining", Took: "2m00s so far"}},
	}
	stalled := draining
	stalled.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Message: "look at image: Denied"}}
	failed := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{Reason: "DrainTimeout", Message: "pod a stays"},
		Conditions: stalled.Conditions, Steps: []v1alpha1.Step{
			{Phase: v1alpha1.PhaseDraining, StartedAt: micro(time.Minute), FinishedAt: ended(0)}, {Phase: v1alpha1.PhaseFailed, StartedAt: micro(0)},
		}}
	trying := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseRunningTrial, Trial: &v1alpha1.TrialStatus{Checks: []v1alpha1.TrialCheck{
		{Name: "Joined", Result: v1alpha1.TrialPassed},
		{Name: "Network", Result: v1alpha1.TrialFailed, Message: "no DNS"},
		{Name: "Soak", Result: v1alpha1.TrialPending, Message: "waiting"},
	}}}
	awaits := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseAwaitingPromotion}
	handed := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseAwaitingPromotion, Recipe: &v1alpha1.RecipeStatus{HandOver: "run kops"}}
	view := func(change func(c *Capture)) Capture {
		c := Capture{Name: "a", Version: "2026.03.09", Donor: "node-1", Running: true, Since: "1h00m ago"}
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		status v1alpha1.PrototypeStatus
		want   Capture
	}{
		"new":   {v1alpha1.PrototypeStatus{}, view(func(c *Capture) { c.Phase = "Pending" })},
		"works": {draining, drainingView},
		"waits": {stalled, func() Capture { c := drainingView; c.Waits = "look at image: Denied"; return c }()},
		"failed": {failed, view(func(c *Capture) {
			c.Phase, c.Running, c.Failure = "Failed", false, "DrainTimeout: pod a stays"
			c.Steps = []Step{{Phase: "Draining", Took: "1m00s", Done: true}, {Phase: "Failed", Done: true, Failed: true}}
		})},
		"tried": {trying, view(func(c *Capture) {
			c.Phase = "RunningTrial"
			c.Checks = []Check{
				{Name: "Joined", Result: "Passed", Passed: true},
				{Name: "Network", Result: "Failed", Message: "no DNS", Failed: true},
				{Name: "Soak", Result: "Pending", Message: "waiting"},
			}
		})},
		"waits for approval": {awaits, view(func(c *Capture) {
			c.Phase, c.Waits = "AwaitingPromotion", "version 2026.03.09 waits for approval: run `kamino promote pool1 2026.03.09`"
		})},
		"handed over": {handed, view(func(c *Capture) { c.Phase, c.Waits = "AwaitingPromotion", "run kops" })},
	} {
		t.Run(name, func(t *testing.T) {
			f := pool1()
			f.Prototypes = []v1alpha1.Prototype{prototype("a", time.Hour, test.status)}
			if diff := cmp.Diff([]Capture{test.want}, only(t, Facts{Pools: []PoolFacts{f}}).Captures); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCapturesOnPage: all running captures, and the newest ended one.
func TestCapturesOnPage(t *testing.T) {
	in := func(phase v1alpha1.Phase) v1alpha1.PrototypeStatus { return v1alpha1.PrototypeStatus{Phase: phase} }
	f := pool1()
	f.Prototypes = []v1alpha1.Prototype{
		prototype("old-failed", 9*time.Hour, in(v1alpha1.PhaseFailed)),
		prototype("old-running", 8*time.Hour, in(v1alpha1.PhaseAwaitingPromotion)),
		prototype("ended", 2*time.Hour, in(v1alpha1.PhaseSucceeded)),
		prototype("a", time.Hour, in(v1alpha1.PhaseDraining)),
		prototype("b", time.Hour, in(v1alpha1.PhasePending)),
	}
	var names []string
	for _, c := range only(t, Facts{Pools: []PoolFacts{f}}).Captures {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"b", "a", "ended", "old-running"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.Prototypes[0].Name != "old-failed" {
		t.Error("the facts are sorted in place")
	}
}

func TestPolicies(t *testing.T) {
	next := metav1.NewTime(now.Add(90 * time.Minute))
	policy := func(name string, pools ...v1alpha1.PoolStatus) v1alpha1.PrototypePolicy {
		p := v1alpha1.PrototypePolicy{}
		p.Name, p.Status.Pools = name, pools
		return p
	}
	all := []v1alpha1.PrototypePolicy{
		policy("full", v1alpha1.PoolStatus{ID: "id/other"}, v1alpha1.PoolStatus{
			ID: "id/pool1", Decision: &v1alpha1.PoolDecision{Reason: "NoNewPatch", Message: "no node is newer", Remedy: "patch a node"}, NextRun: &next,
			JoinHealth: &v1alpha1.JoinHealthStatus{State: "Watching", Message: "2 of 3 nodes joined"},
		}),
		policy("bare", v1alpha1.PoolStatus{ID: "id/pool1", JoinHealth: &v1alpha1.JoinHealthStatus{State: "Quiet"}}),
		policy("other", v1alpha1.PoolStatus{ID: "id/pool11"}),
	}
	want := []Policy{
		{Name: "full", Reason: "NoNewPatch", Message: "no node is newer", Remedy: "patch a node", Next: "in 1h30m",
			JoinHealth: "Watching: 2 of 3 nodes joined"},
		{Name: "bare", JoinHealth: "Quiet"},
	}
	if diff := cmp.Diff(want, only(t, Facts{Pools: []PoolFacts{pool1()}, Policies: all}).Policies); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTimeline is the pool's part of all events, latest first, and not endless.
func TestTimeline(t *testing.T) {
	event := func(name string, ago time.Duration, reason string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Prototype", Name: name}, EventTime: micro(ago), Reason: reason, Message: reason}
	}
	facts := Facts{Pools: []PoolFacts{pool1()}, Events: []corev1.Event{
		event("pool1-2026.03.09", time.Hour, "first"),
		event("pool1-2026.03.09", time.Minute, "last"),
		event("pool2-2026.03.09", time.Minute, "other"),
	}}
	var reasons []string
	for _, e := range only(t, facts).Timeline {
		reasons = append(reasons, e.Reason)
	}
	if diff := cmp.Diff([]string{"last", "first", "Built"}, reasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 2 * maxEntries {
		facts.Events = append(facts.Events, event("pool1-2026.03.09", time.Duration(i+10)*time.Minute, fmt.Sprint(i)))
	}
	many := only(t, facts).Timeline
	if len(many) != maxEntries || many[0].Reason != "last" || many[0].Source != timeline.Event {
		t.Errorf("%d entries, the first is %+v", len(many), many[0])
	}
}

func TestBars(t *testing.T) {
	for name, test := range map[string]struct {
		history history.History
		want    []Bar
	}{
		"no versions": {history.History{}, nil},
		"only other images": {
			history.History{Others: nodes("a", 3)},
			[]Bar{{"other images", KindOther, 3}},
		},
		"versions without nodes": {
			history.History{Versions: []history.Version{{Version: "2", Use: history.Current, Nodes: []string{}}, {Version: "1"}}},
			nil,
		},
		"the order of versions": {
			history.History{
				Versions: []history.Version{
					{Version: "3", Use: history.Newer, Nodes: nodes("c", 1)},
					{Version: "2", Use: history.Current, Nodes: nodes("b", 2)},
					{Version: "1", Use: history.Older, Nodes: nodes("a", 4)},
				},
				Others: nodes("x", 1),
			},
			[]Bar{{"3", KindNewer, 1}, {"2", KindCurrent, 2}, {"1", KindOlder, 4}, {"other images", KindOther, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := barsOf(test.history)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJoinsOfVersions(t *testing.T) {
	for name, test := range map[string]struct {
		joins                   *history.Joins
		joined, waiting, median string
	}{
		"unknown": {nil, "", "", ""},
		"nodes that wait": {
			&history.Joins{Waiting: 2},
			"", "2", "",
		},
		"all joined": {
			&history.Joins{Judged: 3, Joined: 3, MedianSeconds: 95},
			"3 of 3", "0", "1m35s",
		},
		"all failed": {
			&history.Joins{Judged: 2, Failed: 2},
			"0 of 2", "0", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := history.History{Versions: []history.Version{{Version: "1", Joins: test.joins}}}
			got, hidden := versionsOf(h, now)
			if len(got) != 1 || hidden != 0 {
				t.Fatalf("%d versions, %d hidden", len(got), hidden)
			}
			if got[0].Joined != test.joined || got[0].Waiting != test.waiting || got[0].Median != test.median {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

func TestAgo(t *testing.T) {
	for _, test := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, ""},
		{now, "0s ago"},
		{now.Add(time.Minute), "0s ago"}, // the clock of the cloud is ahead
		{before(41 * time.Second), "41s ago"},
		{before(50 * time.Hour), "2d2h ago"},
	} {
		if got := ago(test.at, now); got != test.want {
			t.Errorf("%s: %q, want %q", test.at, got, test.want)
		}
	}
}

// TestLastSteps: which step runs, is done or has failed.
func TestLastSteps(t *testing.T) {
	first := v1alpha1.Step{Phase: v1alpha1.PhasePreflight, StartedAt: micro(2 * time.Minute), FinishedAt: ended(time.Minute)}
	running := v1alpha1.Step{Phase: v1alpha1.PhaseDraining, StartedAt: micro(time.Minute)}
	succeeded := v1alpha1.Step{Phase: v1alpha1.PhaseSucceeded, StartedAt: micro(time.Minute)}
	for name, test := range map[string]struct {
		status v1alpha1.PrototypeStatus
		want   []Step
	}{
		"none": {v1alpha1.PrototypeStatus{}, nil},
		"one runs": {
			v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining, Steps: []v1alpha1.Step{first, running}},
			[]Step{{Phase: "Preflight", Took: "1m00s", Done: true}, {Phase: "Draining", Took: "1m00s so far"}},
		},
		"a failure that still returns the donor": {
			v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseCleaningUp, Failure: &v1alpha1.Failure{}, Steps: []v1alpha1.Step{first, running}},
			[]Step{{Phase: "Preflight", Took: "1m00s", Done: true}, {Phase: "Draining", Took: "1m00s so far"}},
		},
		"a success": {
			v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded, Steps: []v1alpha1.Step{first, succeeded}},
			[]Step{{Phase: "Preflight", Took: "1m00s", Done: true}, {Phase: "Succeeded", Done: true}},
		},
		"an end whose last step was lost": {
			v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{}, Steps: []v1alpha1.Step{first}},
			[]Step{{Phase: "Preflight", Took: "1m00s", Done: true, Failed: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := prototype("a", time.Hour, test.status)
			if diff := cmp.Diff(test.want, captureOf(&p, nil, now).Steps); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReport shows the known figures, and the changes of shown versions.
func TestReport(t *testing.T) {
	f := pool1()
	f.Report = report.Of(report.Facts{Since: before(48 * time.Hour), Now: now, Counted: true, PricePerGBMonth: -1,
		Nodes: []report.NodeFacts{{Created: before(time.Hour), Failed: true}}})
	f.Changes = map[string]string{"2026.03.04": "compared with version 2026.03.03: kernel 1 -> 2",
		"2026.03.02": "compared with version 2026.03.01: kernel 0 -> 1", "gone": "x"}
	p := only(t, Facts{Pools: []PoolFacts{f}})
	want := []string{"Version 2026.03.04, compared with version 2026.03.03: kernel 1 -> 2",
		"Version 2026.03.02, compared with version 2026.03.01: kernel 0 -> 1"}
	if diff := cmp.Diff(want, p.Changes); diff != "" {
		t.Error(diff)
	}
	if p.ReportDays != 2 || len(p.Figures) != 1 ||
		p.Figures[0] != (Figure{"risk", "failed joins", "1 node", "instances and Nodes that exist now; removed nodes are not counted"}) {
		t.Errorf("%d days: %+v", p.ReportDays, p.Figures)
	}
	f.Trouble = "no answer"
	if p := only(t, Facts{Pools: []PoolFacts{f}}); len(p.Figures) > 0 || len(p.Changes) > 0 {
		t.Errorf("without the cloud: %+v, %v", p.Figures, p.Changes)
	}
}
