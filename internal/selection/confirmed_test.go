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
// pool or zone. Every client that annotates Nodes can write the annotation.
func TestAReservationThatNothingConfirms(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		donor, peer := readyNode("donor"), readyNode("peer")
		donor.Labels, peer.Labels = map[string]string{corev1.LabelTopologyZone: "z-a"}, map[string]string{corev1.LabelTopologyZone: "z-a"}
		other := readyNode("other")
		other.Labels = map[string]string{corev1.LabelTopologyZone: "z-b"}
		peer.Annotations = map[string]string{v1alpha1.ReservationAnnotation: `{"kind":"Prototype","name":"x","uid":"x"}`}
		reserved := func(n *corev1.Node) bool { return confirmed && n.Name == "peer" }

		lone := refusedFor(Refusals(Candidate{Node: donor, Pool: "pool", Peers: []corev1.Node{*peer}, Reserved: reserved}), OnlyReadyNode)
		last := refusedFor(Refusals(Candidate{Node: donor, Pool: "pool", Peers: []corev1.Node{*peer, *other}, DonorReplaced: true, Reserved: reserved}),
			LastOfZone)
		if lone != confirmed || last != confirmed {
			t.Errorf("a person's choice, confirmed %t: alone %t, last of its zone %t", confirmed, lone, last)
		}

		leaves := func(*corev1.Node) bool { return true }
		few := Choose(PoolState{Name: "pool", Nodes: []*corev1.Node{donor, peer}, Reserved: reserved}, Rules{}, now)
		zoned := Choose(PoolState{Name: "pool", Nodes: []*corev1.Node{donor, peer, other}, DonorReplaced: leaves, Reserved: reserved}, Rules{}, now)
		if lone, last := refusedFor(few.Verdicts[0].Refusals, OnlyReadyNode), refusedFor(zoned.Verdicts[0].Refusals, LastOfZone); lone != confirmed ||
			last != confirmed {
			t.Errorf("a policy's choice, confirmed %t: alone %t, last of its zone %t", confirmed, lone, last)
		}
	}
}
