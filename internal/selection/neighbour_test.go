package selection

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestHowMuchOfAPoolMayBeAway counts every node of the pool that is out of service, by whosever hand.
func TestHowMuchOfAPoolMayBeAway(t *testing.T) {
	for _, c := range []struct {
		nodes, away int
		limit       intstr.IntOrString
		want        string
	}{
		{3, 0, intstr.FromString("10%"), Chosen},
		{3, 1, intstr.FromString("10%"), TooManyUnavailable},
		{3, 1, intstr.FromInt32(2), Chosen},
		{3, 1, intstr.FromInt32(1), TooManyUnavailable},
		{20, 1, intstr.FromString("10%"), Chosen},
		{20, 2, intstr.FromString("10%"), TooManyUnavailable},
		{21, 2, intstr.FromString("10%"), Chosen}, // a share is rounded up
		{20, 19, intstr.FromString("100%"), TooFewCandidates},
		{3, 0, intstr.IntOrString{}, Chosen},
		{3, 0, intstr.FromString("nonsense"), Chosen}, // the donor may always be away
		{3, 1, intstr.FromString("nonsense"), TooManyUnavailable},
	} {
		for kind, out := range map[string]func(*corev1.Node){"cordoned": cordon, "not Ready": notReady} {
			t.Run(fmt.Sprintf("%d of %d %s within %s", c.away, c.nodes, kind, c.limit.String()), func(t *testing.T) {
				var nodes []*corev1.Node
				for i := range c.nodes {
					nodes = append(nodes, patchedNode(fmt.Sprintf("n%02d", i)))
					if i < c.away {
						out(nodes[i])
					}
				}
				rules := defaults()
				rules.MaxUnavailable = c.limit
				got := Choose(poolOf(nodes...), rules, now)
				if got.Reason != c.want || (got.Donor != nil) != (c.want == Chosen) {
					t.Errorf("%s: %s", got.Reason, got.Message)
				}
				if c.want == TooManyUnavailable && (!strings.Contains(got.Message, "pool workers") || !strings.Contains(got.Message, fmt.Sprint(c.away)) ||
					!strings.Contains(got.Message, "maxUnavailable")) {
					t.Errorf("the message names neither pool, count nor setting: %q", got.Message)
				}
			})
		}
	}
}

// TestPrefer orders by what the capture would cost others only where the rules find nodes alike.
func TestPrefer(t *testing.T) {
	pool := poolOf(patchedNode("a"), patchedNode("b"), patchedNode("c"), patchedNode("d"))
	rules := defaults()
	order := func(c Choice) []string {
		var names []string
		for _, v := range c.Candidates {
			names = append(names, v.Node)
		}
		return names
	}
	for name, c := range map[string]struct {
		evictions map[string]int
		scored    string
		failed    string
		want      []string
	}{
		"the fewest evictions":         {evictions: map[string]int{"a": 5, "b": 0, "c": 2, "d": 9}, want: []string{"b", "c", "a", "d"}},
		"as many keep their order":     {evictions: map[string]int{"a": 1, "b": 1, "c": 0, "d": 1}, want: []string{"c", "a", "b", "d"}},
		"unknown ones come last":       {evictions: map[string]int{"c": 7}, want: []string{"c", "a", "b", "d"}},
		"a policy's score counts more": {evictions: map[string]int{"a": 0, "b": 1, "c": 2, "d": 3}, scored: "d", want: []string{"d", "a", "b", "c"}},
		"and so does today's failure":  {evictions: map[string]int{"a": 0, "b": 1, "c": 2, "d": 3}, failed: "a", want: []string{"b", "c", "d", "a"}},
		"nothing is known":             {want: []string{"a", "b", "c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			pool, rules := pool, rules
			if c.scored != "" {
				rules.Expressions = scores{of: map[string]float64{c.scored: 1}}
			}
			if c.failed != "" {
				pool.FailedToday = map[string]string{c.failed: "p"}
			}
			choice := Choose(pool, rules, now)
			choice.Prefer(pool, c.evictions)
			if got := order(choice); !slices.Equal(got, c.want) {
				t.Errorf("the candidates are %v, want %v", got, c.want)
			}
			if choice.Donor.Name != c.want[0] || choice.Best != choice.Donor || !strings.Contains(choice.Message, "node "+c.want[0]+" is the best of 4") {
				t.Errorf("donor %s: %s", choice.Donor.Name, choice.Message)
			}
		})
	}
	none := Choose(poolOf(patchedNode("a", cordon)), rules, now)
	none.Prefer(pool, map[string]int{"a": 1})
	if none.Donor != nil || none.Best != nil {
		t.Errorf("nobody is preferred to be a donor: %+v", none)
	}
	held := Choose(poolOf(patchedNode("a"), patchedNode("b"), patchedNode("c", annotated(v1alpha1.ReservationAnnotation, "{}"), cordon)), rules, now)
	before := held.Message
	held.Prefer(pool, map[string]int{"a": 1, "b": 0})
	if held.Reason != TooManyUnavailable || held.Donor != nil || held.Best.Name != "b" || held.Message != before {
		t.Errorf("what is against the pool is forgotten: %+v", held)
	}
}
