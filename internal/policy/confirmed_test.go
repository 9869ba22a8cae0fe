package policy_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestAReservationOnANeighbourCountsWithItsLease: a policy chooses a donor although another node carries a reservation
// without a Lease.
func TestAReservationOnANeighbourCountsWithItsLease(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		t.Run(fmt.Sprint("confirmed ", confirmed), func(t *testing.T) {
			s := newTestEnv(t)
			s.inMemory()
			id := s.pool("pool", 2, 3)
			s.policy("p", nil)
			s.change(id, "pool-1", func(n *corev1.Node) {
				n.UID, n.Annotations[v1alpha1.ReservationAnnotation] = "uid-1", `{"kind":"Prototype","name":"x","uid":"x"}`
			})
			s.decider.Leased = func(context.Context) (map[types.UID]v1alpha1.Reservation, error) {
				if !confirmed {
					return nil, nil
				}
				return map[types.UID]v1alpha1.Reservation{"uid-1": {Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "x", UID: "x"}}}, nil
			}
			s.runPass()
			if begun := len(s.prototypes()) > 0; begun == confirmed {
				t.Errorf("a capture began: %t", begun)
			}
		})
	}
}
