package selection

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func bottled(n *corev1.Node) { n.Status.NodeInfo.OSImage = "Bottlerocket OS 1.49.0 (aws-k8s-1.34)" }

// flaw is one reason to refuse n1. The flaws have the order of the rules.
type flaw struct {
	reason string
	node   func(*corev1.Node)
	change func(*PoolState, *Rules)
}

var flaws = []flaw{
	{reason: cloud.SystemUnsupported, node: func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }},
	{reason: cloud.SystemUnsupported, node: bottled},
	{reason: ControlPlane, node: func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }},
	{reason: OwnNode, change: func(p *PoolState, _ *Rules) { p.OwnNode = "n1" }},
	{reason: Ignored, change: func(_ *PoolState, r *Rules) { r.IgnoreNodes = []string{"n1"} }},
	{reason: DoNotDisrupt, node: annotated(v1alpha1.DoNotDisruptAnnotation, "true")},
	{reason: Reserved, node: annotated(v1alpha1.ReservationAnnotation, `{"name":"p","uid":"u"}`)},
	{reason: Unschedulable, node: cordon},
	{reason: RebootPending, node: annotated(pendingKey, "x")},
	{reason: NotPatched, node: without(patchKey)},
	{reason: SuspectPatch, change: func(p *PoolState, _ *Rules) { p.BadUntil = patchedAt }},
	{reason: NotRebootedSincePatch, node: readySince(patchedAt.Add(-time.Hour))},
	{reason: BeingDeleted, node: func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: now} }},
	{reason: NotReady, node: notReady},
	{reason: DiskPressure, node: func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
	}},
	{reason: ReadyTooShort, node: readySince(now.Add(-time.Minute))},
	{reason: OnlyReadyNode, change: func(p *PoolState, _ *Rules) { cordon(p.Nodes[1]) }},
	{reason: RefusedByExpression, change: func(_ *PoolState, r *Rules) { r.Expressions = refusing("n1") }},
}

// hides lists the flaws that a flaw hides. Without a patch, no patch is suspect or older than the reboot. A node that
// is not Ready has no time since Ready. A node that Kamino holds has Kamino's own annotations.
var hides = map[string][]string{
	NotPatched:            {SuspectPatch, NotRebootedSincePatch},
	NotReady:              {NotRebootedSincePatch, ReadyTooShort},
	ReadyTooShort:         {NotRebootedSincePatch},
	NotRebootedSincePatch: {ReadyTooShort},
	Reserved:              {DoNotDisrupt},
}

// TestEveryPairOfRules: no rule hides another rule, except by hides. Reasons have the order of the rules, and the first
// reason counts. n1 is judged; n2 takes the pods of n1.
func TestEveryPairOfRules(t *testing.T) {
	for i, first := range flaws {
		for _, second := range flaws[i+1:] {
			pool, rules := poolOf(patchedNode("n1"), patchedNode("n2")), defaults()
			for _, f := range []flaw{first, second} {
				if f.node != nil {
					f.node(pool.Nodes[0])
				}
				if f.change != nil {
					f.change(&pool, &rules)
				}
			}
			want := []string{first.reason, second.reason}
			if slices.Contains(hides[second.reason], first.reason) {
				want = want[1:]
			} else if slices.Contains(hides[first.reason], second.reason) {
				want = want[:1]
			}
			c := Choose(pool, rules, now)
			if got := reasons(verdictOn(t, c, "n1")); !slices.Equal(got, want) {
				t.Errorf("%s and %s refuse for %v, want %v", first.reason, second.reason, got, want)
			}
			counted := slices.IndexFunc(c.Refusals, func(r v1alpha1.RefusalCount) bool { return r.Reason == want[0] })
			if counted < 0 || c.Donor != nil && c.Donor.Name == "n1" {
				t.Errorf("%s and %s: counted are %v, the donor is %v", first.reason, second.reason, c.Refusals, c.Donor)
			}
		}
	}
}

// TestTimeAloneChangesNothingBefore: before the time of Changes, the candidates and the reason stay the same. No node has
// a patch time in the future.
func TestTimeAloneChangesNothingBefore(t *testing.T) {
	reported := 0
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		pool.Nodes = slices.DeleteFunc(pool.Nodes, func(n *corev1.Node) bool {
			at, err := time.Parse(time.RFC3339, n.Annotations[patchKey])
			return err == nil && at.After(now)
		})
		first := Choose(pool, rules, now)
		moments := []time.Time{now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "minutes")) * time.Minute)}
		if !first.Changes.IsZero() {
			if reported++; first.Changes.Compare(now) <= 0 {
				t.Fatalf("it changes at %s, which is over", first.Changes)
			}
			last := first.Changes.Add(-time.Second)
			moments = slices.DeleteFunc(append(moments, last), last.Before)
		}
		for _, later := range moments {
			second := Choose(pool, rules, later)
			if got, want := fmt.Sprint(candidateNames(second)), fmt.Sprint(candidateNames(first)); got != want || second.Reason != first.Reason ||
				second.Waived != first.Waived {
				t.Fatalf("at %s the candidates are %s (%s), and were %s (%s); it was to change at %s",
					later, got, second.Reason, want, first.Reason, first.Changes)
			}
		}
	})
	if reported == 0 {
		t.Error("no draw changes with time")
	}
}

func candidateNames(c Choice) (names []string) {
	for _, v := range c.Candidates {
		names = append(names, v.Node)
	}
	return names
}

// TestPreferOnlyOrders: Prefer keeps the set of candidates, keeps failed nodes last and puts the donor first. A second
// call changes nothing.
func TestPreferOnlyOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		before, after := Choose(pool, rules, now), Choose(pool, rules, now)
		evictions := map[string]int{}
		for _, v := range before.Candidates {
			if rapid.Bool().Draw(t, "known") {
				evictions[v.Node] = rapid.IntRange(0, 3).Draw(t, "pods")
			}
		}
		after.Prefer(pool, evictions)
		if a, b := slices.Sorted(slices.Values(candidateNames(before))), slices.Sorted(slices.Values(candidateNames(after))); !slices.Equal(a, b) ||
			before.Reason != after.Reason {
			t.Fatalf("the candidates were %v (%s) and are %v (%s)", a, before.Reason, b, after.Reason)
		}
		for i := 1; i < len(after.Candidates); i++ {
			a, b := after.Candidates[i-1], after.Candidates[i]
			an, aKnown := evictions[a.Node]
			bn, bKnown := evictions[b.Node]
			switch {
			case (a.FailedToday == "") != (b.FailedToday == ""):
				if a.FailedToday != "" {
					t.Fatalf("%s has failed today and comes before %s", a.Node, b.Node)
				}
			case a.Score < b.Score, a.Score == b.Score && bKnown && (!aKnown || bn < an):
				t.Fatalf("%s (score %v, %d pods) comes before %s (score %v, %d pods)", a.Node, a.Score, an, b.Node, b.Score, bn)
			}
		}
		if after.Donor != nil && after.Donor.Name != after.Candidates[0].Node || (after.Donor == nil) != (before.Donor == nil) {
			t.Fatalf("the donor is %v of %v", after.Donor, candidateNames(after))
		}
		again := after
		again.Candidates = slices.Clone(after.Candidates)
		again.Prefer(pool, evictions)
		if diff := cmp.Diff(after, again); diff != "" {
			t.Fatalf("once more: %s", diff)
		}
	})
}
