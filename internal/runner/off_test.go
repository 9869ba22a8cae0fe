package runner

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestANodeAloneIsNotReleasedWhileItIsOff: without a Lease, Kamino does not know that it has stopped the instance. A person says
// that the instance starts.
func TestANodeAloneIsNotReleasedWhileItIsOff(t *testing.T) {
	y := newYard(t)
	held := reservations.Node{Name: "crowd-3", State: reservations.Unconfirmed}
	missing := false
	provider := memory.NewFaulty(y.cloud, func(c memory.Call) memory.Outcome {
		if missing && c.Op == "Instance" {
			return memory.FailBefore(cloud.NotFound)
		}
		return memory.Pass()
	})
	h := &Reservations{Cluster: &cluster.Connection{Kube: y.kube}, Cloud: provider.Provider, Now: y.clock.Now}
	y.must(h.AdmitRelease(t.Context(), held, true, false))

	n := y.node(held.Name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	y.must(y.api.Status().Update(t.Context(), n))
	y.must(h.AdmitRelease(t.Context(), held, true, false)) // its instance runs
	id := cloud.InstanceID(n.Spec.ProviderID)
	_, err := y.cloud.EnsureStopped(t.Context(), id)
	y.must(err)
	y.cloud.Settle()

	refused := (*cluster.Refused)(nil)
	if err := h.AdmitRelease(t.Context(), held, true, false); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--node-only --start") {
		t.Errorf("released: %v", err)
	}
	missing = true // one answer 404 of the cloud is no proof that there is nothing to start
	if err := h.AdmitRelease(t.Context(), held, true, false); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the list of its pool") {
		t.Errorf("released: %v", err)
	}
	missing = false
	y.must(h.AdmitRelease(t.Context(), held, true, true))
	y.must(h.Start(t.Context(), held.Name))
	if power := y.cloud.World().Instance(id).Power; power == cloud.PowerStopped {
		t.Errorf("the instance is %s", power)
	}
}
