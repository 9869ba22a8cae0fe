package selection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func refusedFor(refusals []cloud.Refusal, reason string) bool {
	return slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return r.Reason == reason })
}

// TestAReservationThatNothingConfirms: an unconfirmed reservation on a node does not make the donor the last of its
// pool. Every client that annotates Nodes can write the annotation.
func TestAReservationThatNothingConfirms(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		donor, peer := readyNode("donor"), readyNode("peer")
		peer.Annotations = map[string]string{v1alpha1.ReservationAnnotation: `{"kind":"Prototype","name":"x","uid":"x"}`}
		reserved := func(n *corev1.Node) bool { return confirmed && n.Name == "peer" }

		lone := refusedFor(Refusals(Candidate{Node: donor, Pool: "pool", Peers: []corev1.Node{*peer}, Reserved: reserved}), OnlyReadyNode)
		if lone != confirmed {
			t.Errorf("a person's choice, confirmed %t: alone %t", confirmed, lone)
		}

		few := Choose(PoolState{Name: "pool", Nodes: []*corev1.Node{donor, peer}, Reserved: reserved}, Rules{}, now)
		if lone := refusedFor(few.Verdicts[0].Refusals, OnlyReadyNode); lone != confirmed {
			t.Errorf("a policy's choice, confirmed %t: alone %t", confirmed, lone)
		}
	}
}
