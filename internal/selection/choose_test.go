package selection

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	patchKey   = v1alpha1.KuredRebootNeededAnnotation
	pendingKey = v1alpha1.KuredRebootInProgressAnnotation
)

// The times of the tests: the image is from the morning of day 10. Nodes were patched at noon of day 11 and rebooted at
// 13:00. The current day is 12.
var (
	now        = time.Date(2026, 1, 12, 12, 0, 0, 0, time.UTC)
	builtAt    = time.Date(2026, 1, 10, 6, 0, 0, 0, time.UTC)
	patchedAt  = time.Date(2026, 1, 11, 12, 0, 0, 0, time.UTC)
	rebootedAt = time.Date(2026, 1, 11, 13, 0, 0, 0, time.UTC)
)

// patchedNode returns a node that kured patched and rebooted.
func patchedNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := readyNode(name)
	n.Annotations[patchKey] = patchedAt.Format(time.RFC3339)
	n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(rebootedAt)
	for _, c := range change {
		c(n)
	}
	return n
}

func readySince(t time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(t) }
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func patchedOn(t time.Time) func(*corev1.Node) { return annotated(patchKey, t.Format(time.RFC3339)) }

func without(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { delete(n.Annotations, key) }
}

// level gives the image a patch level.
func level(of string) func(*PoolState, *Rules) { return func(p *PoolState, _ *Rules) { p.Level = of } }

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }
func cordon(n *corev1.Node)   { n.Spec.Unschedulable = true }

func poolOf(nodes ...*corev1.Node) PoolState {
	return PoolState{Name: "workers", Nodes: nodes, Version: "2026.01.10", BuiltAt: builtAt, OwnNode: "elsewhere"}
}

// defaults returns the rules of an empty policy.
func defaults() Rules { return RulesOf(v1alpha1.PrototypePolicySpec{}) }

func reasons(v NodeVerdict) []string {
	var all []string
	for _, r := range v.Refusals {
		all = append(all, r.Reason)
	}
	return all
}

func verdictOn(t *testing.T, c Choice, name string) NodeVerdict {
	t.Helper()
	for _, v := range c.Verdicts {
		if v.Node == name {
			return v
		}
	}
	t.Fatalf("there is no verdict on %s", name)
	return NodeVerdict{}
}

// typed matches the commands in a sentence.
var typed = regexp.MustCompile("`[^`]*`")

// TestRules breaks one rule at a time. n1 is judged, and n2 beside it takes its pods.
func TestRules(t *testing.T) {
	var seen []string
	for _, c := range []struct {
		name   string
		node   func(*corev1.Node)
		around func(*PoolState, *Rules)
		want   []string
	}{
		{name: "a good donor", node: func(*corev1.Node) {}},
		{name: "Windows", node: func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }, want: []string{cloud.SystemUnsupported}},
		{name: "Bottlerocket", node: bottled, want: []string{cloud.SystemUnsupported}},
		{name: "control plane", node: func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }, want: []string{ControlPlane}},
		{name: "our own node", around: func(p *PoolState, _ *Rules) { p.OwnNode = "n1" }, want: []string{OwnNode}},
		{name: "ignored by name", around: func(_ *PoolState, r *Rules) { r.IgnoreNodes = []string{"n0", "n1"} }, want: []string{Ignored}},
		{name: "ignored by annotation", node: annotated("example.com/pet", ""),
			around: func(_ *PoolState, r *Rules) { r.IgnoreAnnotations = []string{"example.com/pet"} }, want: []string{Ignored}},
		{name: "ignored by label", node: func(n *corev1.Node) { n.Labels["gpu"] = "no" },
			around: func(_ *PoolState, r *Rules) { r.IgnoreLabels = []string{"gpu"} }, want: []string{Ignored}},
		{name: "others are ignored", around: func(_ *PoolState, r *Rules) { r.IgnoreNodes, r.IgnoreLabels = []string{"n2"}, []string{"gpu"} }},
		{name: "asks not to be disrupted", node: annotated(v1alpha1.DoNotDisruptAnnotation, "true"), want: []string{DoNotDisrupt}},
		{name: "has nothing against it", node: annotated(v1alpha1.DoNotDisruptAnnotation, "false")},
		{name: "is disrupted all the same", node: annotated(v1alpha1.DoNotDisruptAnnotation, "true"),
			around: func(_ *PoolState, r *Rules) { r.Disrupt = true }},
		{name: "cordoned", node: cordon, want: []string{Unschedulable}},
		{name: "waits for its reboot", node: annotated(pendingKey, patchedAt.Format(time.RFC3339)), want: []string{RebootPending}},
		{name: "says that no reboot is pending", node: annotated(pendingKey, "false")},
		{name: "its patch failed", node: annotated(v1alpha1.PatchFailedAnnotation, "sha256:cd"), want: []string{PatchFailed}},
		{name: "says that no patch failed", node: annotated(v1alpha1.PatchFailedAnnotation, "false")},
		{name: "rebooted without new packages", node: annotated(v1alpha1.PatchLevelAnnotation, "sha256:ab"), around: level("sha256:ab"),
			want: []string{NoNewPatch}},
		{name: "another level", node: annotated(v1alpha1.PatchLevelAnnotation, "sha256:cd"), around: level("sha256:ab")},
		{name: "no level", around: level("sha256:ab")},
		{name: "an image without a level", node: annotated(v1alpha1.PatchLevelAnnotation, "")},
		{name: "never patched", node: without(patchKey), want: []string{NotPatched}},
		{name: "another patcher's annotation", node: func(n *corev1.Node) {
			without(patchKey)(n)
			annotated(v1alpha1.PatchedAtAnnotation, patchedAt.Format(time.RFC3339))(n)
		}, want: []string{NotPatched}},
		{name: "not a time", node: annotated(patchKey, "yesterday"), want: []string{PatchTimeInvalid}},
		{name: "an empty time", node: annotated(patchKey, ""), want: []string{PatchTimeInvalid}},
		{name: "a time without zone", node: annotated(patchKey, "2026-01-11T12:00:00"), want: []string{PatchTimeInvalid}},
		{name: "a time in another zone", node: annotated(patchKey, "2026-01-11T14:00:00+02:00")},
		{name: "patched in the future", node: patchedOn(now.Add(time.Second)), want: []string{PatchTimeInvalid}},
		{name: "patched before the image", node: patchedOn(builtAt.Add(-time.Hour)), want: []string{NoNewPatch}},
		{name: "patched when the image was captured", node: patchedOn(builtAt), want: []string{NoNewPatch}},
		{name: "patched right after", node: patchedOn(builtAt.Add(time.Second))},
		{name: "the pool has no prototype", node: patchedOn(builtAt.Add(-time.Hour)),
			around: func(p *PoolState, _ *Rules) { p.Version, p.BuiltAt = "", time.Time{} }},
		{name: "carries a patch that was rolled back", around: func(p *PoolState, _ *Rules) { p.BadUntil = patchedAt }, want: []string{SuspectPatch}},
		{name: "patched after what was rolled back", around: func(p *PoolState, _ *Rules) { p.BadUntil = patchedAt.Add(-time.Second) }},
		{name: "a rollback to no prototype", around: func(p *PoolState, _ *Rules) { p.BuiltAt, p.BadUntil = time.Time{}, patchedAt },
			want: []string{SuspectPatch}},
		{name: "the need was found, the reboot is to come", node: readySince(patchedAt.Add(-time.Hour)), want: []string{NotRebootedSincePatch}},
		{name: "Ready in the second of the patch", node: readySince(patchedAt), want: []string{NotRebootedSincePatch}},
		{name: "Ready in the next", node: readySince(patchedAt.Add(time.Second))},
		{name: "Ready since an unknown time", node: readySince(time.Time{}), want: []string{NotRebootedSincePatch}},
		{name: "being deleted", node: func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: now} }, want: []string{BeingDeleted}},
		{name: "not Ready", node: notReady, want: []string{NotReady}},
		{name: "no word about Ready", node: func(n *corev1.Node) { n.Status.Conditions = nil }, want: []string{NotReady}},
		{name: "its disk is nearly full", node: func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}, want: []string{DiskPressure}},
		{name: "Ready for too short", node: readySince(now.Add(-time.Hour + time.Second)), want: []string{ReadyTooShort}},
		{name: "Ready for just long enough", node: readySince(now.Add(-time.Hour))},
		{name: "Ready in the future", node: readySince(now.Add(time.Hour)), want: []string{ReadyTooShort}},
		{name: "no minimum", node: readySince(now), around: func(_ *PoolState, r *Rules) { r.MinReadyTime = 0 }},
		{name: "reserved", node: annotated(v1alpha1.ReservationAnnotation, `{"name":"workers-2026.01.12","uid":"u"}`), want: []string{Reserved}},
		{name: "reserved without a holder", node: annotated(v1alpha1.ReservationAnnotation, "{}"), want: []string{Reserved}},
		{name: "the only one", around: func(p *PoolState, _ *Rules) { p.Nodes = p.Nodes[:1] }, want: []string{OnlyReadyNode}},
		{name: "the only one that works", around: func(p *PoolState, _ *Rules) { notReady(p.Nodes[1]) }, want: []string{OnlyReadyNode}},
		{name: "the only one that takes pods", around: func(p *PoolState, _ *Rules) { cordon(p.Nodes[1]) }, want: []string{OnlyReadyNode}},
		{name: "cordoned beside one that takes pods", node: cordon,
			around: func(p *PoolState, _ *Rules) { p.Nodes = append(p.Nodes, patchedNode("n3", cordon)) }, want: []string{Unschedulable}},
		{name: "refused by others", around: func(p *PoolState, _ *Rules) {
			p.NodeRefusals = map[string][]cloud.Refusal{"n1": {{Reason: "DiskUnsupported", Message: "node n1 has one: no"}}, "n2": nil}
		}, want: []string{"DiskUnsupported"}},
		{name: "refused by expression", around: func(_ *PoolState, r *Rules) { r.Expressions = refusing("n1") }, want: []string{RefusedByExpression}},
		{name: "expression fails", around: func(_ *PoolState, r *Rules) { r.Expressions = failing("n1") }, want: []string{v1alpha1.PolicyExpressionInvalid}},
		{name: "expression is about another", around: func(_ *PoolState, r *Rules) { r.Expressions = failing("n2") }},
		{name: "every reason at once", node: func(n *corev1.Node) {
			cordon(n)
			notReady(n)
			n.Labels[corev1.LabelOSStable] = "windows"
			annotated(pendingKey, "")(n)
			patchedOn(builtAt)(n)
		}, want: []string{cloud.SystemUnsupported, Unschedulable, RebootPending, NoNewPatch, NotReady}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, rules := poolOf(patchedNode("n1"), patchedNode("n2")), defaults()
			if c.node != nil {
				c.node(pool.Nodes[0])
			}
			if c.around != nil {
				c.around(&pool, &rules)
			}
			v := verdictOn(t, Choose(pool, rules, now), "n1")
			if diff := cmp.Diff(c.want, reasons(v)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			for _, r := range v.Refusals {
				if !strings.Contains(r.Message, "node n1") || !strings.Contains(r.Message, ":") {
					t.Errorf("%s does not name the node and a remedy: %q", r.Reason, r.Message)
				}
				if message := typed.ReplaceAllString(r.Message, ""); strings.Count(message, "n1") > 1 {
					t.Errorf("%s names the node again and again: %q", r.Reason, r.Message)
				}
			}
			if v.Score != 0 {
				t.Errorf("no expression gave a score of %v", v.Score)
			}
			seen = append(seen, c.want...)
		})
	}
	for _, reason := range Reasons() {
		if !strings.Contains(strings.Join(seen, " "), reason) {
			t.Errorf("no case breaks the rule %s", reason)
		}
	}
}

// TestNotRebootedByKured is about the sentence: an annotation that stays for ever needs a person.
func TestNotRebootedByKured(t *testing.T) {
	waiting := patchedNode("n1", annotated(pendingKey, "x"), readySince(patchedAt.Add(-time.Hour)))
	byHand := patchedNode("n2", annotated(pendingKey, "x"))
	c := Choose(poolOf(waiting, byHand), defaults(), now)
	if m := verdictOn(t, c, "n1").Refusals[0].Message; !strings.Contains(m, "wait for the reboot") {
		t.Errorf("a node that kured has yet to reboot: %q", m)
	}
	if m := verdictOn(t, c, "n2").Refusals[0].Message; !strings.Contains(m, "kubectl annotate node n2 "+pendingKey+"-") {
		t.Errorf("a node that was rebooted by hand: %q", m)
	}
}

// TestWaived lets the image be too old: patches don't matter then, all else does.
func TestWaived(t *testing.T) {
	rules := defaults()
	rules.MaxImageAge = now.Sub(builtAt)
	for _, c := range []struct {
		name   string
		change func(*corev1.Node)
		want   []string
	}{
		{"never patched", without(patchKey), nil},
		{"not a time", annotated(patchKey, "yesterday"), nil},
		{"patched in the future", patchedOn(now.Add(time.Hour)), nil},
		{"patched before the image", patchedOn(builtAt.Add(-time.Hour)), nil},
		{"not rebooted since", readySince(patchedAt.Add(-time.Hour)), nil},
		{"the level of the image", annotated(v1alpha1.PatchLevelAnnotation, "sha256:ab"), nil},
		{"waits for its reboot", annotated(pendingKey, ""), []string{RebootPending}},
		{"its patch failed", annotated(v1alpha1.PatchFailedAnnotation, ""), []string{PatchFailed}},
		{"not Ready", notReady, []string{NotReady}},
		{"cordoned", cordon, []string{Unschedulable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := poolOf(patchedNode("n1", c.change), patchedNode("n2"))
			pool.Level = "sha256:ab"
			got := Choose(pool, rules, now)
			if diff := cmp.Diff(c.want, reasons(verdictOn(t, got, "n1"))); diff != "" || !got.Waived {
				t.Errorf("waived %v; reasons (-want +got):\n%s", got.Waived, diff)
			}
			if got := Choose(pool, rules, now.Add(-time.Second)); got.Waived {
				t.Error("waived a second before the image is too old")
			}
		})
	}
	bad := poolOf(patchedNode("n1"), patchedNode("n2", without(patchKey)))
	bad.BadUntil = patchedAt
	c := Choose(bad, rules, now)
	if diff := cmp.Diff([]string{SuspectPatch}, reasons(verdictOn(t, c, "n1"))); diff != "" || c.Donor == nil || c.Donor.Name != "n2" {
		t.Errorf("an old image lets a patch in that was rolled back: %v %s", c.Donor, diff)
	}
	none := poolOf(patchedNode("n1", without(patchKey)), patchedNode("n2", without(patchKey)))
	none.Version, none.BuiltAt = "", time.Time{}
	if c := Choose(none, rules, now); !c.Waived || c.Reason != DonorChosen {
		t.Errorf("a pool without a prototype is not older than any age: %+v", c)
	}
}

// scores are an expression's, by name of the node; refuse and fail name one node each.
type scores struct {
	of           map[string]float64
	refuse, fail string
}

func refusing(name string) Evaluator { return scores{refuse: name} }
func failing(name string) Evaluator  { return scores{fail: name} }

func (s scores) Evaluate(n *corev1.Node, _ time.Time) (bool, float64, error) {
	if n.Name == s.fail {
		return true, 99, errors.New("no such key: zone")
	}
	return n.Name == s.refuse, s.of[n.Name], nil
}

func TestOrder(t *testing.T) {
	names := func(vs []NodeVerdict) (all []string) {
		for _, v := range vs {
			all = append(all, v.Node)
		}
		return all
	}
	old, older := readySince(rebootedAt.Add(-10*time.Minute)), readySince(rebootedAt.Add(-20*time.Minute))
	pool := poolOf(patchedNode("d"), patchedNode("c", old), patchedNode("b"), patchedNode("a", older), patchedNode("e", older))
	for _, c := range []struct {
		name   string
		scores map[string]float64
		failed map[string]string
		want   []string
	}{
		{"longest Ready, then by name", nil, nil, []string{"a", "e", "c", "b", "d"}},
		{"the score first", map[string]float64{"d": 1, "b": 1, "c": -1}, nil, []string{"b", "d", "a", "e", "c"}},
		{"who failed today comes last", map[string]float64{"e": 9}, map[string]string{"a": "p", "e": "long-name"}, []string{"c", "b", "d", "e", "a"}},
		{"all failed today: another try is all there is", nil, map[string]string{"a": "p", "b": "p", "c": "p", "d": "p", "e": "p-2"},
			[]string{"a", "e", "c", "b", "d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, rules := pool, defaults()
			pool.FailedToday = c.failed
			if c.scores != nil {
				rules.Expressions = scores{of: c.scores}
			}
			got := Choose(pool, rules, now)
			if diff := cmp.Diff(c.want, names(got.Candidates)); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
			if got.Donor == nil || got.Donor.Name != c.want[0] || got.Best != got.Donor {
				t.Errorf("donor %v, best %v", got.Donor, got.Best)
			}
			if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, names(got.Verdicts)); diff != "" {
				t.Errorf("verdicts are not by name: %s", diff)
			}
		})
	}
}

// TestFullestZoneFirst checks that a donor comes from the zone with most nodes, but never against the score.
func TestFullestZoneFirst(t *testing.T) {
	in := func(zone string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
	}
	older := readySince(rebootedAt.Add(-20 * time.Minute))
	pool, rules := poolOf(patchedNode("a", in("z1"), older), patchedNode("b", in("z2")), patchedNode("c", in("z2"), notReady)), defaults()
	if got := Choose(pool, rules, now); got.Best.Name != "b" || got.Candidates[0].ZoneNodes != 2 {
		t.Errorf("%+v", got.Candidates)
	}
	rules.Expressions = scores{of: map[string]float64{"a": 1}}
	if got := Choose(pool, rules, now); got.Best.Name != "a" {
		t.Errorf("with a score: %+v", got.Candidates)
	}
}

func TestDecision(t *testing.T) {
	good := func() []*corev1.Node { return []*corev1.Node{patchedNode("n1"), patchedNode("n2")} }
	each := func(change ...func(*corev1.Node)) func(*PoolState, *Rules) {
		return func(p *PoolState, _ *Rules) {
			for _, n := range p.Nodes {
				for _, c := range change {
					c(n)
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*PoolState, *Rules)
		want   string
		says   []string
		best   bool
	}{
		{"a donor", func(*PoolState, *Rules) {}, DonorChosen, []string{"node n1", "2 candidates"}, true},
		{"the only one", func(p *PoolState, _ *Rules) { without(patchKey)(p.Nodes[0]) }, DonorChosen, []string{"node n2 is the only candidate"}, true},
		{"one too few", func(p *PoolState, r *Rules) { without(patchKey)(p.Nodes[0]); r.MinCandidates = 2 }, TooFewCandidates,
			[]string{"has 1 candidate,"}, true},
		{"refused by the cloud", func(p *PoolState, _ *Rules) {
			p.Refusals, p.InFlight = []cloud.Refusal{cloud.Refuse("ManagedElsewhere", "AKS owns it", "leave it")}, "p"
		}, PoolRefused, []string{"cannot be captured: AKS owns it; leave it"}, true},
		{"in flight", func(p *PoolState, _ *Rules) { p.InFlight, p.CapturedToday = "workers-2026.01.12", "other" }, CaptureInFlight,
			[]string{"workers-2026.01.12"}, true},
		{"captured today", func(p *PoolState, _ *Rules) { p.CapturedToday = "workers-2026.01.12" }, CapturedToday, []string{"workers-2026.01.12"}, true},
		{"empty", func(p *PoolState, _ *Rules) { p.Nodes = nil }, NoNodes, []string{"no nodes"}, false},
		{"no patches", each(without(patchKey)), NothingPatched, []string{patchKey, "--annotate-nodes", "maxImageAge"}, false},
		{"no times", each(annotated(patchKey, "true")), NothingPatched, []string{patchKey}, false},
		{"nothing new", each(patchedOn(builtAt.Add(-time.Hour))), UpToDate, []string{"version 2026.01.10"}, false},
		{"nothing new, and one never patched",
			func(p *PoolState, _ *Rules) { patchedOn(builtAt)(p.Nodes[0]); without(patchKey)(p.Nodes[1]) }, UpToDate, nil, false},
		{"rebooted without new packages", func(p *PoolState, r *Rules) {
			each(annotated(v1alpha1.PatchLevelAnnotation, "sha256:ab"))(p, r)
			p.Level = "sha256:ab"
		}, UpToDate, []string{"version 2026.01.10"}, false},
		{"a patch without reboot", each(readySince(patchedAt.Add(-time.Minute))), TooFewCandidates,
			[]string{"0 candidates", "requires 1", "NotRebootedSincePatch 2", "kamino plan workers"}, false},
		{"too few", func(_ *PoolState, r *Rules) { r.MinCandidates = 3 }, TooFewCandidates, []string{"2 candidates", "requires 3", "refused: none"}, true},
		{"enough", func(_ *PoolState, r *Rules) { r.MinCandidates = 2 }, DonorChosen, nil, true},
		{"fewer than one is one", func(_ *PoolState, r *Rules) { r.MinCandidates = -1 }, DonorChosen, nil, true},
		{"everybody is excluded", each(cordon), TooFewCandidates, []string{"Unschedulable 2"}, false},
		{"only what was rolled back", func(p *PoolState, _ *Rules) { p.BadUntil = now }, TooFewCandidates, []string{"SuspectPatch 2"}, false},
		{"old image and no node Ready", func(p *PoolState, r *Rules) {
			r.MaxImageAge = time.Hour
			each(notReady, without(patchKey))(p, r)
		}, TooFewCandidates, []string{"NotReady 2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, rules := poolOf(good()...), defaults()
			c.change(&pool, &rules)
			got := Choose(pool, rules, now)
			if got.Reason != c.want {
				t.Fatalf("reason %s (%s), want %s", got.Reason, got.Message, c.want)
			}
			for _, text := range append(c.says, "workers") {
				if !strings.Contains(got.Message, text) {
					t.Errorf("%q does not say %q", got.Message, text)
				}
			}
			mendable := slices.Contains([]string{PoolRefused, NothingPatched, TooFewCandidates}, c.want)
			if (got.Remedy != "") != mendable || !strings.HasSuffix(got.Message, got.Remedy) || !strings.HasPrefix(got.Message, got.Obstacle) ||
				mendable && strings.Contains(got.Obstacle, got.Remedy) {
				t.Errorf("%q is %q and %q", got.Message, got.Obstacle, got.Remedy)
			}
			if (got.Donor != nil) != (c.want == DonorChosen) || (got.Best != nil) != c.best {
				t.Errorf("donor %v, best %v", got.Donor, got.Best)
			}
			if later := Choose(pool, rules, now.Add(time.Second)); later.Message != got.Message {
				t.Errorf("the message changes while nothing happens: %q, then %q", got.Message, later.Message)
			}
		})
	}
}

// TestCounts: the counts of a status add up.
func TestCounts(t *testing.T) {
	c := Choose(poolOf(patchedNode("a"), patchedNode("b", notReady, cordon), patchedNode("c", cordon), patchedNode("d", notReady),
		patchedNode("e", without(patchKey))), defaults(), now)
	want := []v1alpha1.RefusalCount{{Reason: Unschedulable, Count: 2}, {Reason: NotPatched, Count: 1}, {Reason: NotReady, Count: 1}}
	if diff := cmp.Diff(want, c.Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if !c.NewestPatch.Equal(patchedAt) {
		t.Errorf("newest patch %s", c.NewestPatch)
	}
}

// TestChanges: a policy that has nothing to do learns when to look again.
func TestChanges(t *testing.T) {
	soon := now.Add(-30 * time.Minute)
	for _, c := range []struct {
		name   string
		change func(*PoolState, *Rules)
		want   time.Time
	}{
		{"time alone changes nothing", func(*PoolState, *Rules) {}, time.Time{}},
		{"nodes become Ready for long enough", func(p *PoolState, _ *Rules) {
			readySince(soon.Add(time.Minute))(p.Nodes[0])
			readySince(soon)(p.Nodes[1])
		}, soon.Add(time.Hour)},
		{"a node that has more against it", func(p *PoolState, _ *Rules) { readySince(soon)(p.Nodes[0]); cordon(p.Nodes[0]) }, time.Time{}},
		{"a node that others hold", func(p *PoolState, _ *Rules) {
			readySince(soon)(p.Nodes[0])
			annotated(v1alpha1.ReservationAnnotation, `{"name":"p"}`)(p.Nodes[0])
		}, time.Time{}},
		{"the image becomes too old", func(_ *PoolState, r *Rules) { r.MaxImageAge = 72 * time.Hour }, builtAt.Add(72 * time.Hour)},
		{"the image is too old", func(_ *PoolState, r *Rules) { r.MaxImageAge = time.Hour }, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, rules := poolOf(patchedNode("n1"), patchedNode("n2"), patchedNode("n3")), defaults()
			c.change(&pool, &rules)
			if got := Choose(pool, rules, now).Changes; !got.Equal(c.want) {
				t.Errorf("changes at %s, want %s", got, c.want)
			}
		})
	}
}

func TestRulesOf(t *testing.T) {
	spec := v1alpha1.PrototypePolicySpec{
		Patched: v1alpha1.PatchedSettings{MostRecentPatch: "m", RebootPending: "r"},
		Selection: v1alpha1.SelectionSettings{
			MinReadyTime: &metav1.Duration{}, MinCandidates: 4, MaxImageAge: metav1.Duration{Duration: time.Hour},
			IgnoreNodes: []string{"n"}, IgnoreAnnotations: []string{"a"}, IgnoreLabels: []string{"l"},
		},
	}
	share := intstr.FromString("10%")
	want := Rules{
		MaxUnavailable:  share,
		MostRecentPatch: "m", RebootPending: "r", MinCandidates: 4, MaxImageAge: time.Hour,
		IgnoreNodes: []string{"n"}, IgnoreAnnotations: []string{"a"}, IgnoreLabels: []string{"l"},
	}
	if diff := cmp.Diff(want, RulesOf(spec)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	want = Rules{MostRecentPatch: patchKey, RebootPending: pendingKey, MinReadyTime: time.Hour, MinCandidates: 1, MaxUnavailable: share}
	if diff := cmp.Diff(want, defaults()); diff != "" {
		t.Errorf("rules of an empty policy (-want +got):\n%s", diff)
	}
	kamino := RulesOf(v1alpha1.PrototypePolicySpec{Patched: v1alpha1.PatchedSettings{Preset: v1alpha1.PresetKamino}})
	if kamino.MostRecentPatch != v1alpha1.PatchedAtAnnotation || kamino.RebootPending != v1alpha1.RebootPendingAnnotation {
		t.Errorf("the preset kamino reads %s and %s", kamino.MostRecentPatch, kamino.RebootPending)
	}
}

// crowd makes a cluster of pools as large as the largest that we answer for.
func crowd(pools, nodes int) []PoolState {
	all := make([]PoolState, pools)
	for i := range all {
		members := make([]*corev1.Node, nodes)
		for k := range members {
			members[k] = patchedNode(fmt.Sprintf("pool%03d-node%05d", i, k), readySince(rebootedAt.Add(time.Duration(k%7)*time.Minute)))
			switch k % 5 {
			case 0:
				without(patchKey)(members[k])
			case 1:
				patchedOn(builtAt.Add(-time.Hour))(members[k])
			case 2:
				annotated(pendingKey, "x")(members[k])
			}
		}
		all[i] = poolOf(members...)
	}
	return all
}

// BenchmarkChoose decides for 15,000 nodes in 100 pools, most of which are refused with a sentence.
func BenchmarkChoose(b *testing.B) {
	pools, rules := crowd(100, 150), defaults()
	b.ReportAllocs()
	for b.Loop() {
		for _, pool := range pools {
			if c := Choose(pool, rules, now); c.Donor == nil {
				b.Fatal(c.Message)
			}
		}
	}
}
