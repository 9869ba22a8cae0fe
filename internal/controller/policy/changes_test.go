package policy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// recordedQueue is a queue that records the delay of each request.
type recordedQueue struct {
	queue
	after []time.Duration
}

// Add implements workqueue.TypedInterface.
func (a *recordedQueue) Add(reconcile.Request) { a.after = append(a.after, 0) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (a *recordedQueue) AddAfter(_ reconcile.Request, d time.Duration) { a.after = append(a.after, d) }

func (a *recordedQueue) expect(t *testing.T, what string, want ...time.Duration) {
	t.Helper()
	if len(a.after) != len(want) || len(want) == 1 && a.after[0] != want[0] {
		t.Errorf("%s: passes after %v, want %v", what, a.after, want)
	}
	a.after = nil
}

// Objects of the first list do not wait, changes wait for further changes, and a heartbeat requests nothing.
func TestFirstListIsNotDelayed(t *testing.T) {
	q, ctx := &recordedQueue{}, t.Context()
	nodes := (&Reconciler{Nodes: nodecache.NewNodes(memory.New(memory.Config{}))}).onNode()
	node := func(name, version string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
		n.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
		return n
	}
	nodes.Create(ctx, event.TypedCreateEvent[*corev1.Node]{Object: node("a", "1"), IsInInitialList: true}, q)
	q.expect(t, "a node of the start", 0)
	nodes.Create(ctx, event.TypedCreateEvent[*corev1.Node]{Object: node("b", "2")}, q)
	q.expect(t, "a new node", gather)
	nodes.Update(ctx, event.TypedUpdateEvent[*corev1.Node]{ObjectOld: node("a", "1"), ObjectNew: node("a", "3")}, q)
	q.expect(t, "a heartbeat")
	nodes.Delete(ctx, event.TypedDeleteEvent[*corev1.Node]{Object: node("a", "3")}, q)
	q.expect(t, "a node that goes", gather)

	policies := onChange(policyNews)
	policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Generation: 1}}
	policies.Create(ctx, event.TypedCreateEvent[*v1alpha1.PrototypePolicy]{Object: policy, IsInInitialList: true}, q)
	q.expect(t, "a policy of the start", 0)
	policies.Create(ctx, event.TypedCreateEvent[*v1alpha1.PrototypePolicy]{Object: policy}, q)
	q.expect(t, "a new policy", gather)
	reported := policy.DeepCopy()
	reported.Status.PoolCount = 1
	policies.Update(ctx, event.TypedUpdateEvent[*v1alpha1.PrototypePolicy]{ObjectOld: policy, ObjectNew: reported}, q)
	q.expect(t, "a report")
}
