package newcomer

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/probation"
)

// second is a pool of one instance, 40 minutes old, that is looked at from its 20th minute on, with the Nodes that a look finds.
type second struct {
	joins []probation.Join
}

func (s *second) look(minute int, nodes ...*corev1.Node) probation.Join {
	seen := Seen{Now: ago(40 - minute), Nodes: nodes, Same: func(a, b cloud.InstanceID) bool { return a == b || a == "X:///one" || b == "X:///one" }, Instances: []cloud.Instance{
		{ID: "x://1", BuiltFrom: "2026.03.08", CreatedAt: ago(40), Power: cloud.PowerRunning},
	}}
	for i := range seen.Nodes {
		seen.Nodes[i] = Strip(seen.Nodes[i])
	}
	s.joins = probation.Judge(seen.Now, ago(600), Nodes(seen), s.joins, probation.Limits{})
	return s.joins[0]
}

// restart loses what is not in the report.
func (s *second) restart() {
	s.joins = Before(Status("2026.03.08", probation.Verdict{}, s.joins, nil))
}

func named(name string, uid types.UID, isReady bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, CreationTimestamp: metav1.NewTime(ago(39))}}
	n.Spec.ProviderID = "x://1"
	if ready(n, ago(38)); !isReady {
		n.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	return n
}

// TestASecondNodeOfAnInstance is no join, and no failure, whichever of the two is Ready and however it writes the instance's ID.
func TestASecondNodeOfAnInstance(t *testing.T) {
	for _, spelling := range []string{"x://1", "X://1", "X:///one"} {
		for _, own := range []bool{true, false} {
			for _, other := range []bool{true, false} {
				for _, first := range []string{"a", "z"} {
					s := &second{}
					forged := named(first, "forged", other)
					forged.Spec.ProviderID = spelling
					for _, minute := range []int{20, 22, 30, 40} {
						nodes := []*corev1.Node{named("n", "own", own), forged.DeepCopy()}
						if join := s.look(minute, nodes...); join.Outcome != probation.Uncounted {
							t.Fatalf("%s: own Ready %t, other %t: after %d minutes %+v", spelling, own, other, minute, join)
						}
						slices.Reverse(nodes)
						if join := s.look(minute, nodes...); join.Outcome != probation.Uncounted {
							t.Fatalf("the other way round: %+v", join)
						}
					}
				}
			}
		}
	}
}

// TestANodeThatIsDeleted by another client is no failure, also where that client makes another one, and whoever looks next.
func TestANodeThatIsDeleted(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		for name, c := range map[string]struct {
			before, after *corev1.Node
			outcome       probation.Outcome
		}{
			"before it was Ready":                {named("n", "own", false), nil, probation.Uncounted},
			"once it had joined":                 {named("n", "own", true), nil, probation.Joined},
			"and made again, NotReady":           {named("n", "own", false), named("n", "forged", false), probation.Uncounted},
			"and another one is made, Ready":     {named("n", "own", false), named("m", "forged", true), probation.Uncounted},
			"once it had joined, and made again": {named("n", "own", true), named("n", "forged", false), probation.Joined},
		} {
			s := &second{}
			s.look(10, c.before)
			for _, minute := range []int{12, 20, 30, 40} {
				if restarts {
					s.restart()
				}
				var nodes []*corev1.Node
				if c.after != nil {
					nodes = append(nodes, c.after.DeepCopy())
				}
				if join := s.look(minute, nodes...); join.Outcome != c.outcome {
					t.Errorf("%s, restarts %t: after %d minutes %+v", name, restarts, minute, join)
				}
			}
		}
	}
}

// TestANodeThatWasLateBefore fails, whoever deletes it then.
func TestANodeThatWasLateBefore(t *testing.T) {
	s := &second{}
	s.look(16, named("n", "own", false))
	s.look(18)
	if join := s.look(22); join.Outcome != probation.Failed {
		t.Errorf("%+v", join)
	}
}

// TestTheReportHasRoomForNodesThatWereSeen, and for no more than it may carry.
func TestTheReportHasRoomForNodesThatWereSeen(t *testing.T) {
	var joins []probation.Join
	for i := range 100 {
		joins = append(joins, probation.Join{Instance: cloud.InstanceID(fmt.Sprint(i)), Version: "v", Node: "n", NodeUID: "u", Outcome: probation.Waiting})
	}
	if got := len(Memory(joins, "v")); got != rememberedLast {
		t.Errorf("%d", got)
	}
}
