package runner

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// silent reserves a node for a rebuild. Its kubelet no longer reports.
func (y *poolEnv) silent(name string) (cloud.InstanceID, v1alpha1.Holder) {
	holder := v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "crowd-v", UID: "u"}
	_, err := node.Reservations{Kube: y.kube}.Note(y.Context(), y.node(name), v1alpha1.Reservation{Holder: holder, ReservedAt: metav1.NewTime(y.clock.Now())})
	y.must(err)
	n := y.node(name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	y.must(y.api.Status().Update(y.Context(), n))
	return cloud.InstanceID(n.Spec.ProviderID), holder
}

// TestANodeThatIsOffIsNotReleased: the cloud answers 404 for the stopped instance of a rebuild. The node stays reserved until the
// instance is started.
func TestANodeThatIsOffIsNotReleased(t *testing.T) {
	y := newYard(t)
	id, holder := y.silent("crowd-3")
	_, err := y.cloud.EnsureStopped(t.Context(), id)
	y.must(err)
	y.cloud.Settle()
	missing := true
	provider := memory.NewFaulty(y.cloud, func(c memory.Call) memory.Outcome {
		if missing && c.Op == "Instance" {
			return memory.FailBefore(cloud.NotFound)
		}
		return memory.Pass()
	})
	h := &Reservations{Cluster: &cluster.Connection{Kube: y.kube}, Cloud: provider.Provider, Now: y.clock.Now}
	refused := (*cluster.Refused)(nil)
	if err := h.takeFromReplacement(t.Context(), "crowd-3", holder); !errors.As(err, &refused) ||
		y.node("crowd-3").Annotations[v1alpha1.ReservationAnnotation] == "" {
		t.Errorf("released: %v", err)
	}
	missing = false
	y.must(h.takeFromReplacement(t.Context(), "crowd-3", holder))
	if power := y.cloud.World().Instance(id).Power; power == cloud.PowerStopped {
		t.Errorf("the instance is %s", power)
	}
}

// TestReleaseAfterThePool: the pool and its instances are deleted, and the Node is left. A person can release the Node.
func TestReleaseAfterThePool(t *testing.T) {
	for _, way := range []string{"replacement", "node only"} {
		t.Run(way, func(t *testing.T) {
			y := newYard(t)
			id, holder := y.silent("crowd-3")
			pool, err := y.cloud.PoolOf(id)
			y.must(err)
			y.cloud.RemoveInstance(id)
			y.cloud.DeletePool(pool)
			h := &Reservations{Cluster: &cluster.Connection{Kube: y.kube}, Cloud: y.cloud.Provider, Now: y.clock.Now}
			if way == "replacement" {
				err = h.takeFromReplacement(t.Context(), "crowd-3", holder)
			} else {
				err = h.AdmitRelease(t.Context(), reservations.Node{Name: "crowd-3", State: reservations.Unconfirmed}, true, false)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
