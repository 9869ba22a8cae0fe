package selection

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// light returns burdens with the given numbers of evictions and no hard pod.
func light(evictions map[string]int) map[string]DisruptionCost {
	burdens := map[string]DisruptionCost{}
	for name, n := range evictions {
		burdens[name] = DisruptionCost{Evictions: n}
	}
	return burdens
}

// pod returns a pod with a controller and without an obstacle to eviction.
func pod(change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-0", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "web"}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func unowned(p *corev1.Pod) { p.OwnerReferences = nil }

func on(v corev1.VolumeSource, readOnly bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: v})
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data", ReadOnly: readOnly}}
	}
}

func claimed(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func budget(namespace, app string, expected, allowed int32) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: expected, DisruptionsAllowed: allowed},
	}
}

var directory = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/data"}}

// TestMoveObstacles tests every property of a pod that makes the pod hard to move.
func TestMoveObstacles(t *testing.T) {
	local := map[string]bool{"default/data": true, "default/web-0-data": true, "other/else": true}
	for name, c := range map[string]struct {
		pod    func(*corev1.Pod)
		budget *policyv1.PodDisruptionBudget
		want   MoveObstacle
	}{
		"nothing":                                {},
		"a claim that can follow":                {pod: on(claimed("remote"), false)},
		"a claim on a local volume":              {pod: on(claimed("data"), false), want: LocalVolume},
		"one that it only reads":                 {pod: on(claimed("data"), true), want: LocalVolume},
		"another namespace's claim of that name": {pod: on(claimed("else"), false)},
		"a claim made for it":                    {pod: on(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, false), want: LocalVolume},
		"scratch space":                          {pod: on(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, false)},
		"nothing makes it again":                 {pod: unowned, want: Bare},
		"its owner is no controller":             {pod: func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, want: Bare},
		"it asks the autoscaler":                 {pod: func(p *corev1.Pod) { p.Annotations[v1alpha1.SafeToEvictAnnotation] = "false" }, want: Protected},
		"it may be evicted":                      {pod: func(p *corev1.Pod) { p.Annotations[v1alpha1.SafeToEvictAnnotation] = "true" }},
		"it asks Karpenter":                      {pod: func(p *corev1.Pod) { p.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true" }, want: Protected},
		"alone under its budget":                 {budget: new(budget("default", "web", 1, 0)), want: Alone},
		"alone, and may go":                      {budget: new(budget("default", "web", 1, 1))},
		"with a sibling, which is away now":      {budget: new(budget("default", "web", 2, 0))},
		"another's budget":                       {budget: new(budget("default", "db", 1, 0))},
		"another namespace's budget":             {budget: new(budget("other", "web", 1, 0))},
		"an unreadable budget": {budget: &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app",
				Operator: "near"}}}},
		}},
		"a budget for nothing":       {budget: &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}},
		"it writes to the node":      {pod: on(directory, false), want: HostPath},
		"it reads what the node has": {pod: on(directory, true)},
		"an unmounted directory":     {pod: func(p *corev1.Pod) { on(directory, false)(p); p.Spec.Containers[0].VolumeMounts = nil }},
		"its first container writes there": {pod: func(p *corev1.Pod) {
			on(directory, false)(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
		}, want: HostPath},
		"it ends already":              {pod: func(p *corev1.Pod) { unowned(p); p.DeletionTimestamp = &metav1.Time{Time: now} }},
		"the worst of all is reported": {pod: func(p *corev1.Pod) { unowned(p); on(claimed("data"), false)(p) }, want: LocalVolume},
		"and the worse of two more":    {pod: func(p *corev1.Pod) { unowned(p); on(directory, false)(p) }, want: Bare},
	} {
		t.Run(name, func(t *testing.T) {
			around := PodContext{Local: local}
			if c.budget != nil {
				around.Budgets = []policyv1.PodDisruptionBudget{*c.budget}
			}
			p := pod()
			if c.pod != nil {
				c.pod(&p)
			}
			got := BurdenOf([]corev1.Pod{p}, around)
			want := DisruptionCost{Evictions: 1, Hard: map[MoveObstacle]int{}}
			if c.want != "" {
				want.Hard[c.want] = 1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLocalVolumes: a volume is local if the volume cannot follow its pod to a different node.
func TestLocalVolumes(t *testing.T) {
	on := func(requirements ...corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}}}
	}
	is := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	two := on(is(corev1.LabelHostname, "n1"))
	two.Required.NodeSelectorTerms = append(two.Required.NodeSelectorTerms,
		corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{is(corev1.LabelTopologyZone, "eu-1")}})
	for name, c := range map[string]struct {
		volume corev1.PersistentVolumeSpec
		want   bool
	}{
		"a local one":          {corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/1"}}}, true},
		"a directory":          {corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mnt/1"}}}, true},
		"a driver's, one node": {corev1.PersistentVolumeSpec{NodeAffinity: on(is(corev1.LabelHostname, "n1"))}, true},
		"two nodes":            {corev1.PersistentVolumeSpec{NodeAffinity: on(is(corev1.LabelHostname, "n1", "n2"))}, false},
		"one node, and others": {corev1.PersistentVolumeSpec{NodeAffinity: two}, false},
		"a zone's":             {corev1.PersistentVolumeSpec{NodeAffinity: on(is(corev1.LabelTopologyZone, "eu-1"))}, false},
		"every node but one": {corev1.PersistentVolumeSpec{NodeAffinity: on(corev1.NodeSelectorRequirement{Key: corev1.LabelHostname,
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n1"}})}, false},
		"anywhere":         {corev1.PersistentVolumeSpec{}, false},
		"nothing required": {corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{}}, false},
		"no term":          {corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}}, false},
	} {
		if got := IsLocal(&corev1.PersistentVolume{Spec: c.volume}); got != c.want {
			t.Errorf("%s: local %t", name, got)
		}
	}
}

// TestClaims: the claims of a pod are the named claims and the claims of ephemeral volumes.
func TestClaims(t *testing.T) {
	p := pod(on(claimed("data"), false), on(directory, false))
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	if got := ClaimsOf(&p); !slices.Equal(got, []string{"data", "web-0-scratch"}) {
		t.Errorf("claims %v", got)
	}
}

// TestDisruptionCostSentences tests the sentences.
func TestDisruptionCostSentences(t *testing.T) {
	for want, hard := range map[string]map[MoveObstacle]int{
		"no pods that are hard to move":                                                        nil,
		"1 pod that is hard to move (1 on a local volume)":                                     {LocalVolume: 1},
		"3 pods that are hard to move (2 that its budget keeps, 1 on a directory of the node)": {HostPath: 1, Alone: 2},
	} {
		if got := (DisruptionCost{Evictions: 9, Hard: hard}).String(); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// TestEachPodIsCountedOnce: each pod counts exactly once, in any mix and order. Unknown values make no pod harder to
// move.
func TestEachPodIsCountedOnce(t *testing.T) {
	kinds := []func(*corev1.Pod){
		func(*corev1.Pod) {}, unowned, on(claimed("data"), false), on(directory, false),
		func(p *corev1.Pod) { p.Annotations[v1alpha1.SafeToEvictAnnotation] = "false" },
		func(p *corev1.Pod) { p.Labels["app"] = "db" }, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} },
	}
	around := PodContext{Local: map[string]bool{"default/data": true}, Budgets: []policyv1.PodDisruptionBudget{budget("default", "db", 1, 0)}}
	rapid.Check(t, func(t *rapid.T) {
		var pods []corev1.Pod
		hard := 0
		for range rapid.IntRange(0, 12).Draw(t, "pods") {
			first, second := rapid.IntRange(0, len(kinds)-1).Draw(t, "kind"), rapid.IntRange(0, len(kinds)-1).Draw(t, "another")
			pods = append(pods, pod(kinds[first], kinds[second]))
			ends := first == len(kinds)-1 || second == len(kinds)-1
			if !ends && first+second > 0 {
				hard++
			}
		}
		b := BurdenOf(pods, around)
		if b.Evictions != len(pods) || b.Heavy() != hard {
			t.Fatalf("%d pods, %d of them hard to move, are counted as %d and %d", len(pods), hard, b.Evictions, b.Heavy())
		}
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(pods), func(i, k int) { pods[i], pods[k] = pods[k], pods[i] })
		if diff := cmp.Diff(b, BurdenOf(pods, around)); diff != "" {
			t.Fatalf("the order of the pods matters: %s", diff)
		}
		if unknown := BurdenOf(pods, PodContext{}); unknown.Heavy() > b.Heavy() {
			t.Fatalf("of %d hard ones, %d are found by who knows less", b.Heavy(), unknown.Heavy())
		}
	})
}

// TestPrefer: the cost of a capture decides only between nodes that the rules rate as equal.
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
			choice.Prefer(pool, light(c.evictions))
			if got := order(choice); !slices.Equal(got, c.want) {
				t.Errorf("the candidates are %v, want %v", got, c.want)
			}
			if choice.Donor.Name != c.want[0] || choice.Best != choice.Donor || !strings.Contains(choice.Message, "node "+c.want[0]+" is the best of 4") {
				t.Errorf("donor %s: %s", choice.Donor.Name, choice.Message)
			}
		})
	}
	none := Choose(poolOf(patchedNode("a", cordon)), rules, now)
	none.Prefer(pool, light(map[string]int{"a": 1}))
	if none.Donor != nil || none.Best != nil {
		t.Errorf("no pod prefers its node as a donor: %+v", none)
	}
	held := Choose(poolOf(patchedNode("a"), patchedNode("b"), patchedNode("c", annotated(v1alpha1.ReservationAnnotation, "{}"), cordon)), rules, now)
	before := held.Message
	held.Prefer(pool, light(map[string]int{"a": 1, "b": 0}))
	if held.Reason != TooManyUnavailable || held.Donor != nil || held.Best.Name != "b" || held.Message != before {
		t.Errorf("what is against the pool is forgotten: %+v", held)
	}
}

// TestALeavingDonorIsTheLightest: for donors that do not return, hard pods count before evictions, and the sentence has
// the hard pods. For donors that return, hard pods do not count.
func TestALeavingDonorIsTheLightest(t *testing.T) {
	burdens := map[string]DisruptionCost{
		"a": {Evictions: 1, Hard: map[MoveObstacle]int{LocalVolume: 1}},
		"b": {Evictions: 9, Hard: map[MoveObstacle]int{}},
		"c": {Evictions: 8},
		"d": {Evictions: 2, Hard: map[MoveObstacle]int{Bare: 1, Alone: 1}},
	}
	for name, c := range map[string]struct {
		leaves func(*corev1.Node) bool
		scored string
		want   []string
		says   string
	}{
		"they return": {want: []string{"a", "d", "c", "b"}},
		"they leave":  {leaves: allLeave, want: []string{"c", "b", "a", "d"}, says: "no pods that are hard to move"},
		"a score still counts more": {leaves: allLeave, scored: "d", want: []string{"d", "c", "b", "a"},
			says: "2 pods that are hard to move (1 that nothing makes again, 1 that its budget keeps)"},
		"some leave and some return": {leaves: func(n *corev1.Node) bool { return n.Name != "a" }, want: []string{"a", "c", "b", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			pool, rules := poolOf(patchedNode("a"), patchedNode("b"), patchedNode("c"), patchedNode("d")), defaults()
			pool.DonorReplaced = c.leaves
			if c.scored != "" {
				rules.Expressions = scores{of: map[string]float64{c.scored: 1}}
			}
			choice := Choose(pool, rules, now)
			choice.Prefer(pool, burdens)
			var got []string
			for _, v := range choice.Candidates {
				got = append(got, v.Node)
			}
			if !slices.Equal(got, c.want) || choice.Donor.Name != c.want[0] {
				t.Errorf("the candidates are %v, want %v", got, c.want)
			}
			want := fmt.Sprintf("node %s is the best of 4 candidates of pool workers", c.want[0])
			if c.says != "" {
				want += ". The donor will be replaced, so that among equal nodes the donor has the fewest pods that are hard to move: " + c.says
			}
			if choice.Message != want || choice.Obstacle != want {
				t.Errorf("said %q and %q, want %q", choice.Message, choice.Obstacle, want)
			}
		})
	}
}

// TestDonorHasLowestCost: no candidate with the score and the failure state of the donor has a lower known cost.
func TestDonorHasLowestCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		leaves := rapid.Bool().Draw(t, "leaves")
		pool.DonorReplaced = func(*corev1.Node) bool { return leaves }
		choice := Choose(pool, rules, now)
		before := len(choice.Candidates)
		burdens := map[string]DisruptionCost{}
		for _, v := range choice.Candidates {
			if rapid.IntRange(0, 4).Draw(t, "known") > 0 {
				burdens[v.Node] = DisruptionCost{Evictions: rapid.IntRange(0, 3).Draw(t, "evictions"),
					Hard: map[MoveObstacle]int{Bare: rapid.IntRange(0, 2).Draw(t, "bare")}}
			}
		}
		choice.Prefer(pool, burdens)
		if len(choice.Candidates) != before || (choice.Donor != nil) != (choice.Reason == DonorChosen) {
			t.Fatalf("%d candidates of %d, donor %v for %s", len(choice.Candidates), before, choice.Donor, choice.Reason)
		}
		if choice.Donor == nil {
			return
		}
		best := choice.Candidates[0]
		mine, known := burdens[best.Node]
		for _, v := range choice.Candidates[1:] {
			its, itsKnown := burdens[v.Node]
			if (v.FailedToday == "") != (best.FailedToday == "") || v.Score != best.Score || !itsKnown {
				continue
			}
			lighter := its.Evictions < mine.Evictions
			if leaves && its.Heavy() != mine.Heavy() {
				lighter = its.Heavy() < mine.Heavy()
			}
			if !known || lighter {
				t.Fatalf("%s (%+v, known %t) is taken before %s (%+v)", best.Node, mine, known, v.Node, its)
			}
		}
	})
}
