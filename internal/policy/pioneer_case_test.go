package policy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	"github.com/kamino-dev/kamino/internal/selection"
)

var pioneerNoon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// TestWhenAPioneerBegins enumerates the inputs of the decision. A pioneer begins only with a fresh, complete and accepted
// check of the current image; a check begins only if this process may run it.
func TestWhenAPioneerBegins(t *testing.T) {
	begins, cases := 0, 0
	for _, age := range []time.Duration{time.Minute, 2 * time.Hour, 7 * time.Hour} {
		for _, since := range []time.Duration{time.Minute, 48 * time.Hour} {
			for bits := range 1 << 8 {
				is := func(bit int) bool { return bits>>bit&1 == 1 }
				busy, canCheck, hasNode, current, edited, unread, none, failed := is(0), is(1), is(2), is(3), is(4), is(5), is(6), is(7)
				c := pioneerCase{
					pool: "pool1", policy: "all", settings: v1alpha1.PolicyPioneerSettings{}.Defaulted(), generation: 2, version: "2026.03.01",
					canCheck: canCheck, busy: busy, changedAt: pioneerNoon.Add(-24 * time.Hour), now: pioneerNoon,
				}
				c.settings.MinAge.Duration = 24 * time.Hour
				c.known.CheckedAt, c.known.Set, c.known.Packages, c.known.Node = metav1.NewTime(pioneerNoon.Add(-age)), "set", 3, "a"
				c.known.Since, c.known.Generation = timestamp(pioneerNoon.Add(-since)), 2
				if hasNode {
					c.node = "b"
				}
				if current {
					c.known.Version = c.version
				}
				if edited {
					c.known.Generation = 1
				}
				if unread {
					c.known.Reason, c.known.Message = "RepositoryNotRead", "no route"
				}
				if none {
					c.known.Packages = 0
				}
				if failed {
					c.known.Failed = []v1alpha1.FailedPatches{{Set: "set", Prototype: "pool1-2026.03.13", Message: "the node did not come back"}}
				}
				cases++
				p, again := c.decide()
				fresh := current && !edited && age < c.settings.CheckEvery.Duration && (!unread || age < time.Hour)
				if want := !busy && fresh && !unread && !none && !failed && since > c.settings.MinAge.Duration; p.begins != want {
					t.Fatalf("%+v: begins %t, want %t", c, p.begins, want)
				}
				if want := !busy && !fresh && canCheck && hasNode; (p.check != nil) != want {
					t.Fatalf("%+v: check %v, want %t", c, p.check, want)
				}
				if p.begins != (p.reason == "") || p.begins != (p.message == "") {
					t.Fatalf("%+v: reason %q, message %q", c, p.reason, p.message)
				}
				if !busy && fresh && !p.begins && !again.After(pioneerNoon) {
					t.Fatalf("%+v: no time of the next decision", c)
				}
				if unread && p.reason == selection.UpToDate {
					t.Fatalf("%+v: could not check is nothing to patch", c)
				}
				if p.begins {
					begins++
				}
			}
		}
	}
	if begins == 0 || begins == cases {
		t.Errorf("%d of %d cases begin a pioneer", begins, cases)
	}
}

// TestACheckWithoutAnAnswerKeepsThePatches: the age of a set survives a dead mirror.
func TestACheckWithoutAnAnswerKeepsThePatches(t *testing.T) {
	report := func(read bool, names ...string) *nodepatch.Checked {
		r := &patch.Report{Method: patch.Check, Health: patch.Healthy, Repositories: []patch.Repository{{ID: "main", Read: read, Problem: "no route"}}}
		for _, name := range names {
			r.Pending = append(r.Pending, patch.Change{Name: name, To: "2"})
		}
		return &nodepatch.Checked{Node: "a", Report: r}
	}
	hour := func(n int) time.Time { return pioneerNoon.Add(time.Duration(n) * time.Hour) }
	first := known{}.next("v", 1, report(true, "openssl"), hour(0))
	dead := first.next("v", 1, report(false), hour(1))
	again := dead.next("v", 1, report(true, "openssl"), hour(2))
	other := again.next("v", 1, report(true, "curl"), hour(3))
	for i, c := range []struct {
		known known
		since int
		read  bool
	}{{first, 0, true}, {dead, 0, false}, {again, 0, true}, {other, 3, true}} {
		if !c.known.Since.Time.Equal(hour(c.since)) || !c.known.CheckedAt.Time.Equal(hour(i)) || (c.known.Reason == "") != c.read ||
			c.known.Packages != 1 || c.known.Set == "" {
			t.Errorf("check %d: %+v", i, c.known.PatchesStatus)
		}
	}
	if never := (known{}).next("v", 1, report(false), hour(0)); never.Set != "" || never.Reason == "" || never.Since != nil {
		t.Errorf("a first check without an answer: %+v", never.PatchesStatus)
	}
}

func TestWhichNodeChecks(t *testing.T) {
	const version = "2026.03.01"
	node := func(name string, ageHours int, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(pioneerNoon.Add(-time.Duration(ageHours) * time.Hour)),
			Labels: map[string]string{v1alpha1.VersionLabel: v1alpha1.VersionLabelValue(version), corev1.LabelOSStable: "linux"},
		}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if change != nil {
			change(n)
		}
		return n
	}
	nodes := []*corev1.Node{
		node("old", 9, nil), node("young", 2, nil),
		node("cordoned", 1, func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node("not-ready", 1, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }),
		node("reserved", 1, nil), node("windows", 1, func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }),
		node("leaving", 1, func(n *corev1.Node) { now := metav1.NewTime(pioneerNoon); n.DeletionTimestamp = &now }),
		node("generic", 1, func(n *corev1.Node) { delete(n.Labels, v1alpha1.VersionLabel) }),
	}
	reserved := func(n *corev1.Node) bool { return n.Name == "reserved" }
	nodes = append(nodes, node("middle", 5, nil))
	for _, c := range []struct {
		name, version, first, second string
		nodes                        []*corev1.Node
	}{
		{"the youngest and the oldest of the image", version, "young", "old", nodes},
		{"the only node of the image", version, "young", "", nodes[1:2]},
		{"no node of the image", "2026.03.02", "", "", nodes},
		{"a pool without a version", "", "generic", "old", nodes},
		{"an empty pool", version, "", "", nil},
	} {
		fit := fitToCheck(c.nodes, c.version, reserved)
		first := nodeToCheck(fit, nil)
		if second := nodeToCheck(fit, &nodepatch.Checked{Node: first}); first != c.first || second != c.second {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, first, second, c.first, c.second)
		}
	}
}

// TestWhichPatchesFailed: the patch level is to blame, or it is not. A failure outlives its Prototype, until a retry.
func TestWhichPatchesFailed(t *testing.T) {
	pioneer := func(change func(*v1alpha1.Prototype)) []v1alpha1.Prototype {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid"}}
		p.Status.PatchSet = "set"
		p.CreationTimestamp = metav1.NewTime(pioneerNoon)
		p.Spec.Version, p.Status.Phase = imageversion.Of(pioneerNoon), v1alpha1.PhaseFailed
		p.Status.Failure = &v1alpha1.Failure{Reason: "PatchFailed", Message: "the reboot took too long"}
		p.Status.Patch = &v1alpha1.PatchStatus{Failure: "RebootTimeout", Level: "level", FailedLevel: "level"}
		change(&p)
		return []v1alpha1.Prototype{p}
	}
	bad := []cloud.Image{{Tags: map[string]string{cloud.TagUID: "uid", cloud.TagQuarantined: "nodes do not join"}}}
	before := []v1alpha1.FailedPatches{{Set: "earlier", Prototype: "gone", At: timestamp(pioneerNoon.Add(-time.Hour))}}
	for _, c := range []struct {
		name       string
		prototypes []v1alpha1.Prototype
		images     []cloud.Image
		before     []v1alpha1.FailedPatches
		retry      string
		want       []string
	}{
		{"the node did not come back", pioneer(func(*v1alpha1.Prototype) {}), nil, nil, "", []string{"set"}},
		{"packages failed without a level", pioneer(func(p *v1alpha1.Prototype) {
			p.Status.Patch = &v1alpha1.PatchStatus{Failure: "PatchFailed"}
		}), nil, nil, "", []string{"set"}},
		{"a drain took too long", pioneer(func(p *v1alpha1.Prototype) {
			p.Status.Patch = &v1alpha1.PatchStatus{Failure: "DrainTimeout"}
		}), nil, nil, "", nil},
		{"the capture failed after a good patch", pioneer(func(p *v1alpha1.Prototype) {
			p.Status.Patch = &v1alpha1.PatchStatus{Level: "level"}
		}), nil, nil, "", nil},
		{"the trial failed", pioneer(func(p *v1alpha1.Prototype) {
			p.Status.Patch, p.Status.Trial = &v1alpha1.PatchStatus{Level: "level"}, &v1alpha1.TrialStatus{Result: v1alpha1.TrialFailed}
		}), nil, nil, "", []string{"set"}},
		{"the pool rolled back", pioneer(func(p *v1alpha1.Prototype) {
			p.Status.Phase, p.Status.Failure, p.Status.Patch = v1alpha1.PhaseSucceeded, nil, &v1alpha1.PatchStatus{Level: "level"}
		}), bad, nil, "", []string{"set"}},
		{"success", pioneer(func(p *v1alpha1.Prototype) { p.Status.Phase, p.Status.Failure = v1alpha1.PhaseSucceeded, nil }), nil, nil, "", nil},
		{"a pioneer by hand", pioneer(func(p *v1alpha1.Prototype) {
			p.Status.PatchSet, p.Status.Patch = "", &v1alpha1.PatchStatus{Failure: "PatchFailed", Set: "by hand"}
		}), nil, nil, "", []string{"by hand"}},
		{"no pioneer", pioneer(func(p *v1alpha1.Prototype) { p.Status.PatchSet = "" }), nil, nil, "", nil},
		{"an earlier failure", pioneer(func(*v1alpha1.Prototype) {}), nil, before, "", []string{"set", "earlier"}},
		{"a retry", pioneer(func(*v1alpha1.Prototype) {}), nil, before, pioneerNoon.Add(time.Hour).Format(time.RFC3339), nil},
		{"a retry between two failures", pioneer(func(*v1alpha1.Prototype) {}), nil, before,
			pioneerNoon.Add(-time.Minute).Format(time.RFC3339), []string{"set"}},
	} {
		got := failedPatches(c.prototypes, c.images, c.before, c.retry)
		if again := failedPatches(c.prototypes, c.images, got, c.retry); len(again) != len(got) {
			t.Errorf("%s: a second look finds %v", c.name, again)
		}
		if kept := failedPatches(nil, nil, got, c.retry); len(kept) != len(got) {
			t.Errorf("%s: without the Prototype: %v", c.name, kept)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i].Set != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}
