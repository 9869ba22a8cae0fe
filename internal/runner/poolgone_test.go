package runner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

// TestReleaseAfterThePool: the pool and its instances are deleted, and the Node is left. A person can release the Node.
func TestReleaseAfterThePool(t *testing.T) {
	for _, way := range []string{"replacement", "node only"} {
		t.Run(way, func(t *testing.T) {
			y := newYard(t)
			held := y.node("crowd-3")
			holder := v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "crowd-v", UID: "u"}
			_, err := node.Reservations{Kube: y.kube}.Note(t.Context(), held, v1alpha1.Reservation{Holder: holder, ReservedAt: metav1.NewTime(y.clock.Now())})
			y.must(err)
			n := y.node("crowd-3")
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			y.must(y.api.Status().Update(t.Context(), n))
			id := cloud.InstanceID(n.Spec.ProviderID)
			pool, err := y.cloud.PoolOf(id)
			y.must(err)
			y.cloud.RemoveInstance(id)
			y.cloud.DeletePool(pool)
			h := &Reservations{Cluster: &cluster.Connection{Kube: y.kube}, Cloud: y.cloud, Now: y.clock.Now}
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
