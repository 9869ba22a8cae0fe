package selection

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// aboutAbsence are the reasons that exist because a donor is absent during its capture.
var aboutAbsence = []string{OwnNode, DoNotDisrupt, OnlyReadyNode}

// TestADonorInServiceIsNotAbsent: of all flaws, those about the absence of the donor do not matter if the donor stays in service.
func TestADonorInServiceIsNotAbsent(t *testing.T) {
	for _, f := range flaws {
		t.Run(f.reason, func(t *testing.T) {
			pool, rules := poolOf(patchedNode("n1"), patchedNode("n2")), defaults()
			if f.node != nil {
				f.node(pool.Nodes[0])
			}
			if f.change != nil {
				f.change(&pool, &rules)
			}
			pool.InService = true
			want := []string{f.reason}
			if slices.Contains(aboutAbsence, f.reason) {
				want = nil
			}
			if diff := cmp.Diff(want, reasons(verdictOn(t, Choose(pool, rules, now), "n1"))); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// TestANamedDonorInServiceIsNotAbsent is the same for the donor that a person names.
func TestANamedDonorInServiceIsNotAbsent(t *testing.T) {
	for reason, change := range map[string]func(*Candidate){
		OnlyReadyNode: func(s *Candidate) { s.Peers = nil },
		TooManyUnavailable: func(s *Candidate) {
			s.Peers = append(s.Peers, *readyNode("n3"))
			s.Peers[0].Spec.Unschedulable = true
		},
		OwnNode:      func(s *Candidate) { s.OwnNode = "n1" },
		DoNotDisrupt: func(s *Candidate) { s.Node.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true" },
	} {
		t.Run(reason, func(t *testing.T) {
			if got := Refusals(donor(change)); len(got) != 1 || got[0].Reason != reason {
				t.Errorf("an absent donor: got %v, want %s", got, reason)
			}
			if got := Refusals(donor(change, func(s *Candidate) { s.InService = true })); len(got) > 0 {
				t.Errorf("a donor in service: got %v", got)
			}
		})
	}
}

// TestAPoolWithAbsentNodesHasADonorInService: nodes out of service do not delay a capture that takes no other node away.
func TestAPoolWithAbsentNodesHasADonorInService(t *testing.T) {
	pool := poolOf(patchedNode("n1"), patchedNode("n2"), patchedNode("n3", notReady))
	if got := Choose(pool, defaults(), now); got.Reason != TooManyUnavailable {
		t.Fatalf("an absent donor: got %s, want %s", got.Reason, TooManyUnavailable)
	}
	pool.InService = true
	if got := Choose(pool, defaults(), now); got.Reason != DonorChosen || got.Donor.Name != "n1" {
		t.Errorf("a donor in service: got %s: %s", got.Reason, got.Message)
	}
	pool.Nodes = []*corev1.Node{patchedNode("n1")}
	if got := Choose(pool, defaults(), now); got.Reason != DonorChosen {
		t.Errorf("the only node: got %s: %s", got.Reason, got.Message)
	}
}
