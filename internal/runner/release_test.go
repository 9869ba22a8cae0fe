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
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestANodeThatIsOffIsNotReleased: the cloud answers 404 for the stopped instance of a rebuild. The node stays reserved until the
// instance is started.
func TestANodeThatIsOffIsNotReleased(t *testing.T) {
	y := newYard(t)
	held := y.node("crowd-3")
	holder := v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "crowd-v", UID: "u"}
	_, err := node.Reservations{Kube: y.kube}.Note(t.Context(), held, v1alpha1.Reservation{Holder: holder, ReservedAt: metav1.NewTime(y.clock.Now())})
	y.must(err)
	n := y.node("crowd-3")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	y.must(y.api.Status().Update(t.Context(), n))
	id := cloud.InstanceID(n.Spec.ProviderID)
	_, err = y.cloud.EnsureStopped(t.Context(), id)
	y.must(err)
	y.cloud.Settle()
	missing := true
	provider := memory.NewFaulty(y.cloud, func(c memory.Call) memory.Outcome {
		if missing && c.Op == "Instance" {
			return memory.FailBefore(cloud.NotFound)
		}
		return memory.Pass()
	})
	h := &Reservations{Cluster: &cluster.Connection{Kube: y.kube}, Cloud: provider, Now: y.clock.Now}
	refused := (*cluster.Refused)(nil)
	if err := h.takeFromReplacement(t.Context(), "crowd-3", holder); !errors.As(err, &refused) || y.node("crowd-3").Annotations[v1alpha1.ReservationAnnotation] == "" {
		t.Errorf("released: %v", err)
	}
	missing = false
	y.must(h.takeFromReplacement(t.Context(), "crowd-3", holder))
	if power := y.cloud.World().Instance(id).Power; power == cloud.PowerStopped {
		t.Errorf("the instance is %s", power)
	}
}
