package policy_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/selection"
)

// leaving is a policy whose donors do not return.
func leaving(p *v1alpha1.PrototypePolicySpec) {
	p.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap
}

// TestALeavingDonorHasTheFewestPodsThatAreHardToMove, and whoever asks is told of the same node: the plan, what would be
// done in a dry run, and the capture. Where donors return, those pods do not matter.
func TestALeavingDonorHasTheFewestPodsThatAreHardToMove(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*v1alpha1.PrototypePolicySpec)
		leaves bool
		want   string
	}{
		"they leave":  {leaving, true, "pool1-1"},
		"they return": {nil, false, "pool1-0"},
		"they are removed though they could return": {func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Donor.Afterwards = v1alpha1.Remove }, true, "pool1-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.pool("pool1", 3, 20)
			s.policy("all", c.policy)
			s.decider.Burden = func(_ context.Context, node string, _ v1alpha1.DrainSettings, leaves bool) (selection.Burden, error) {
				if leaves != c.leaves {
					t.Errorf("asked about %s as one that leaves: %t", node, leaves)
				}
				return map[string]selection.Burden{
					"pool1-0": {Evictions: 1, Hard: map[selection.Hardship]int{selection.LocalVolume: 1}},
					"pool1-1": {Evictions: 9},
					"pool1-2": {Evictions: 2, Hard: map[selection.Hardship]int{selection.Bare: 2}},
				}[node], nil
			}
			for _, dry := range []bool{false, true} {
				policy := s.status("all")
				policy.Spec.DryRun = dry
				plans, err := s.decider.Plan(t.Context(), []v1alpha1.PrototypePolicy{*policy}, nil)
				if err != nil || len(plans.Pools) != 1 {
					t.Fatal(plans, err)
				}
				plan := plans.Pools[0]
				if said := plan.Status.Decision.Message; plan.Status.Donor != c.want || plan.Prototype.Spec.Donor.NodeName != c.want || !strings.HasPrefix(said, "node "+c.want+" ") ||
					!dry && strings.Contains(said, "hard to move") != c.leaves {
					t.Errorf("dry run %t: donor %s of %s, decided: %s", dry, plan.Status.Donor, plan.Prototype.Spec.Donor.NodeName, said)
				}
			}
			s.pass()
			if got := s.donors(); !slices.Equal(got, []string{c.want}) {
				t.Errorf("donors = %v", got)
			}
		})
	}
}

// TestTheLastOfAZoneIsNotChosen where donors leave: the next best is, and where there is none the status counts why.
func TestTheLastOfAZoneIsNotChosen(t *testing.T) {
	for zones, want := range map[string]string{"eu-1 eu-2 eu-2": "pool1-2", "eu-1 eu-1 eu-2": "pool1-1", "eu-1 eu-2 eu-3": ""} {
		t.Run(zones, func(t *testing.T) {
			s := newStage(t)
			id := s.pool("pool1", 3, 20)
			for i, zone := range strings.Fields(zones) {
				name := []string{"pool1-0", "pool1-1", "pool1-2"}[i]
				s.change(id, name, func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone })
			}
			s.policy("all", leaving)
			s.pass()
			if want == "" {
				s.decided("all", "pool1", selection.TooFewCandidates, "LastOfZone 3")
				if got := s.donors(); len(got) > 0 {
					t.Errorf("donors = %v", got)
				}
				return
			}
			if got := s.donors(); !slices.Equal(got, []string{want}) {
				t.Errorf("donors = %v, want %s", got, want)
			}
		})
	}
}
