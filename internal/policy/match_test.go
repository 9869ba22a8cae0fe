package policy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestOverlap: the precedence of several policies for one pool.
func TestOverlap(t *testing.T) {
	one := PoolRef{ID: "/a/one", Name: "one"}
	named := v1alpha1.PoolSelector{Names: []string{"one"}}
	selected := v1alpha1.PoolSelector{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": "fast"}}}
	policy := func(name string, pools v1alpha1.PoolSelector, dryRun bool) v1alpha1.PrototypePolicy {
		return v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PrototypePolicySpec{Pools: pools, DryRun: dryRun}}
	}
	all := v1alpha1.PoolSelector{}
	for name, c := range map[string]struct {
		policies []v1alpha1.PrototypePolicy
		counts   []string
		troubled []string // the receivers
	}{
		"one":                      {[]v1alpha1.PrototypePolicy{policy("a", all, false)}, []string{"a"}, nil},
		"a name before all":        {[]v1alpha1.PrototypePolicy{policy("a", all, false), policy("b", named, false)}, []string{"b"}, []string{"a"}},
		"a name before a selector": {[]v1alpha1.PrototypePolicy{policy("a", selected, false), policy("b", named, false)}, []string{"b"}, []string{"a"}},
		"a selector before all":    {[]v1alpha1.PrototypePolicy{policy("a", selected, false), policy("b", all, false)}, []string{"a"}, []string{"b"}},
		"a dry run claims nothing": {[]v1alpha1.PrototypePolicy{policy("a", named, true), policy("b", all, false)}, []string{"b"}, []string{"a"}},
		"a dry run alone":          {[]v1alpha1.PrototypePolicy{policy("a", all, true)}, []string{"a"}, nil},
		"two dry runs":             {[]v1alpha1.PrototypePolicy{policy("a", all, true), policy("b", named, true)}, []string{"b"}, []string{"a"}},
		"two that are as specific": {[]v1alpha1.PrototypePolicy{policy("b", named, false), policy("a", named, false)},
			[]string{"a", "b"}, []string{"a", "b"}},
		"two, and one for all besides": {[]v1alpha1.PrototypePolicy{policy("b", named, false), policy("c", all, false), policy("a", named, false)},
			[]string{"a", "b"}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := claim(c.policies, []PoolRef{one}, func(PoolRef) []*corev1.Node { return []*corev1.Node{node} })
			if diff := cmp.Diff(c.counts, got.byPool[one]); diff != "" {
				t.Errorf("for the pool (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.troubled, slices.Sorted(maps.Keys(got.troubles))); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			for name, troubles := range got.troubles {
				double := slices.Contains(c.counts, name)
				if (troubles[0].reason == v1alpha1.PolicyPoolClaimedTwice) != double || !strings.Contains(troubles[0].message, "policy") {
					t.Errorf("%s is shown %q", name, troubles[0].message)
				}
			}
		})
	}
}

// TestAPolicyKeepsItsOtherPools: a policy that loses a pool continues with its other pools, without a message.
func TestAPolicyKeepsItsOtherPools(t *testing.T) {
	one, two := PoolRef{ID: "/a/one", Name: "one"}, PoolRef{ID: "/a/two", Name: "two"}
	got := claim([]v1alpha1.PrototypePolicy{
		{ObjectMeta: metav1.ObjectMeta{Name: "all"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "special"}, Spec: v1alpha1.PrototypePolicySpec{Pools: v1alpha1.PoolSelector{Names: []string{"two"}}}},
	}, []PoolRef{one, two}, func(PoolRef) []*corev1.Node { return nil })
	want := map[PoolRef][]string{one: {"all"}, two: {"special"}}
	if diff := cmp.Diff(want, got.byPool); diff != "" || len(got.troubles) > 0 {
		t.Errorf("(-want +got):\n%s\ntroubles: %v", diff, got.troubles)
	}
}
