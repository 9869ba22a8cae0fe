package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// forge creates n Nodes as a hostile client may: the Nodes name unknown instances of the pool, or all name one instance.
func (s *promotedPool) forge(n int, pool cloud.PoolID, instance cloud.InstanceID, ready corev1.ConditionStatus) {
	s.Helper()
	for i := range n {
		id := instance
		if id == "" {
			id = cloud.InstanceID(fmt.Sprintf("%s/instances/forged%d", pool, i))
		}
		s.node(fmt.Sprintf("forged-%d", i), id, func(node *corev1.Node) {
			node.UID, node.CreationTimestamp = types.UID(fmt.Sprintf("forged-%d", i)), metav1.NewTime(s.clock.Now().Add(-90*time.Minute))
			node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = ready, metav1.NewTime(s.clock.Now().Add(-time.Hour))
		})
	}
}

// TestForgedNodesPreventNoRollback: NotReady Nodes of another pool, with unknown instances or with one known instance, do
// not make the cluster look unhealthy.
func TestForgedNodesPreventNoRollback(t *testing.T) {
	for _, listed := range []bool{false, true} {
		t.Run(fmt.Sprint("a listed instance ", listed), func(t *testing.T) {
			s := trustInMemory(t)
			pool, instance := cloud.PoolID("memory:///pools/pool2"), cloud.InstanceID("")
			if listed {
				instance = s.cloud.InstanceIDs(pool)[0]
			}
			s.forge(20, pool, instance, corev1.ConditionFalse)
			s.grow(2, false)
			s.last(28)
			if recipe := s.seen().Recipe.Version; recipe != s.good {
				t.Errorf("the recipe names %s: %+v", recipe, s.joinHealth())
			}
		})
	}
}

// TestNodesThatCannotBeListed block a rollback, and the condition names the Nodes.
func TestNodesThatCannotBeListed(t *testing.T) {
	s := trustInMemory(t)
	s.forge(20, "memory:///pools/pool2", "", corev1.ConditionFalse)
	s.calls.Inject(func(c memory.Call) memory.Outcome {
		if c.Op == "Instances" && strings.HasSuffix(c.Resource, "pool2") {
			return memory.FailBefore(cloud.Denied)
		}
		return memory.Pass()
	})
	s.grow(2, false)
	s.last(40)
	if p := s.joinHealth(); p.State != "NodesDoNotJoin" || !strings.Contains(p.Message, "forged-0, forged-1, forged-10 and 17 more") ||
		!strings.Contains(p.Message, "injected fault") {
		t.Errorf("%+v", p)
	}
}

// TestForgedNodesOfAVersion: the kubelets of the version's instances never come, and another client creates Ready Nodes.
func TestForgedNodesOfAVersion(t *testing.T) {
	s := trustInMemory(t)
	s.decider.NewNodes.WithoutKubelet = func(_ context.Context, nodes []*corev1.Node, _ func() []*corev1.Node) (map[types.UID]bool, error) {
		without := map[types.UID]bool{}
		for _, n := range nodes {
			without[n.UID] = strings.HasPrefix(n.Name, "new")
		}
		return without, nil
	}
	s.grow(2, true)
	s.last(28)
	if recipe := s.seen().Recipe.Version; recipe != s.good {
		t.Errorf("the recipe names %s: %+v", recipe, s.joinHealth())
	}
}
