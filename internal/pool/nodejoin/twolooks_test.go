package nodejoin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// twoLooks is a pool with one instance, 40 minutes old. The first look is at minute 20.
type twoLooks struct {
	joins    []joinhealth.Join
	without  map[types.UID]bool
	reserved func(*corev1.Node) bool
}

func (s *twoLooks) observe(minute int, nodes ...*corev1.Node) joinhealth.Join {
	seen := Observation{Now: ago(40 - minute), Nodes: nodes, WithoutKubelet: s.without, Reserved: s.reserved,
		Same: func(a, b cloud.InstanceID) bool { return a == b || a == "X:///one" || b == "X:///one" }, Instances: []cloud.Instance{
			{ID: "x://1", BuiltFrom: "2026.03.08", CreatedAt: ago(40), Power: cloud.PowerRunning},
		}}
	for i := range seen.Nodes {
		seen.Nodes[i] = Strip(seen.Nodes[i])
	}
	s.joins = joinhealth.Judge(seen.Now, ago(600), Nodes(seen), s.joins, joinhealth.Limits{})
	return s.joins[0]
}

// restart drops the state that the report does not have.
func (s *twoLooks) restart() {
	s.joins = Before(Status("2026.03.08", joinhealth.Verdict{}, s.joins, "", nil))
}

func nodeNamed(name string, uid types.UID, isReady bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, CreationTimestamp: metav1.NewTime(ago(39))}}
	n.Spec.ProviderID = "x://1"
	if ready(n, ago(38)); !isReady {
		n.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	return n
}

// TestASecondNodeOfAnInstance is no join and no failure, whichever Node is Ready and for any spelling of the instance
// ID.
func TestASecondNodeOfAnInstance(t *testing.T) {
	for _, spelling := range []string{"x://1", "X://1", "X:///one"} {
		for _, own := range []bool{true, false} {
			for _, other := range []bool{true, false} {
				for _, first := range []string{"a", "z"} {
					s := &twoLooks{}
					forged := nodeNamed(first, "forged", other)
					forged.Spec.ProviderID = spelling
					for _, minute := range []int{20, 22, 30, 40} {
						nodes := []*corev1.Node{nodeNamed("n", "own", own), forged.DeepCopy()}
						if join := s.observe(minute, nodes...); join.Outcome != joinhealth.Uncounted {
							t.Fatalf("%s: own Ready %t, other %t: after %d minutes %+v", spelling, own, other, minute, join)
						}
						slices.Reverse(nodes)
						if join := s.observe(minute, nodes...); join.Outcome != joinhealth.Uncounted {
							t.Fatalf("the other way round: %+v", join)
						}
					}
				}
			}
		}
	}
}

// TestANodeThatIsDeleted by another client is no failure, even if the client creates a new Node, and after a restart.
func TestANodeThatIsDeleted(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		for name, c := range map[string]struct {
			before, after *corev1.Node
			outcome       joinhealth.Outcome
		}{
			"before it was Ready":                {nodeNamed("n", "own", false), nil, joinhealth.Uncounted},
			"once it had joined":                 {nodeNamed("n", "own", true), nil, joinhealth.Joined},
			"and made again, NotReady":           {nodeNamed("n", "own", false), nodeNamed("n", "forged", false), joinhealth.Uncounted},
			"and another one is made, Ready":     {nodeNamed("n", "own", false), nodeNamed("m", "forged", true), joinhealth.Uncounted},
			"once it had joined, and made again": {nodeNamed("n", "own", true), nodeNamed("n", "forged", false), joinhealth.Joined},
		} {
			s := &twoLooks{}
			s.observe(10, c.before)
			for _, minute := range []int{12, 20, 30, 40} {
				if restarts {
					s.restart()
				}
				var nodes []*corev1.Node
				if c.after != nil {
					nodes = append(nodes, c.after.DeepCopy())
				}
				if join := s.observe(minute, nodes...); join.Outcome != c.outcome {
					t.Errorf("%s, restarts %t: after %d minutes %+v", name, restarts, minute, join)
				}
			}
		}
	}
}

// TestANodeThatWasLateBefore the deletion fails.
func TestANodeThatWasLateBefore(t *testing.T) {
	s := &twoLooks{}
	s.observe(16, nodeNamed("n", "own", false))
	s.observe(18)
	if join := s.observe(22); join.Outcome != joinhealth.Failed {
		t.Errorf("%+v", join)
	}
}

// TestReportSizeWithManyNodes, within the limit of the report.
func TestReportSizeWithManyNodes(t *testing.T) {
	var joins []joinhealth.Join
	for i := range 100 {
		joins = append(joins, joinhealth.Join{Instance: cloud.InstanceID(fmt.Sprint(i)), Version: "v", Node: "n", NodeUID: "u", Outcome: joinhealth.Waiting})
	}
	if got := len(Memory(joins, "v")); got != rememberedOpen {
		t.Errorf("%d", got)
	}
}

// TestANodeThatNoKubeletRunsFor does not count. A version whose instances never register fails, even if a client
// creates Ready Nodes. A second forged Node does not prevent a join.
func TestANodeThatNoKubeletRunsFor(t *testing.T) {
	forged := func(name string, isReady bool) *corev1.Node { return nodeNamed(name, "forged", isReady) }
	for name, c := range map[string]struct {
		nodes   []*corev1.Node
		outcome joinhealth.Outcome
	}{
		"a Ready one alone":                      {[]*corev1.Node{forged("a", true)}, joinhealth.Failed},
		"a NotReady one alone":                   {[]*corev1.Node{forged("a", false)}, joinhealth.Failed},
		"a Ready one next to one that is late":   {[]*corev1.Node{forged("a", true), nodeNamed("n", "own", false)}, joinhealth.Failed},
		"a NotReady one next to one that joined": {[]*corev1.Node{forged("z", false), nodeNamed("n", "own", true)}, joinhealth.Joined},
	} {
		s := &twoLooks{without: map[types.UID]bool{"forged": true, "own": false}}
		var join joinhealth.Join
		for _, minute := range []int{10, 20, 22, 30, 40} {
			join = s.observe(minute, c.nodes...)
		}
		if join.Outcome != c.outcome || len(c.nodes) == 1 && !strings.Contains(join.Why, "without a Node, except a") {
			t.Errorf("%s: %+v", name, join)
		}
	}
}

// TestAReservationThatNothingConfirms does not exclude a node.
func TestAReservationThatNothingConfirms(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		n := nodeNamed("n", "own", true)
		n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: "{}"}
		s := &twoLooks{reserved: func(*corev1.Node) bool { return confirmed }}
		want := joinhealth.Joined
		if confirmed {
			want = joinhealth.Uncounted
		}
		if join := s.observe(20, n); join.Outcome != want {
			t.Errorf("confirmed %t: %+v", confirmed, join)
		}
	}
}
