package policy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/selection"
)

// removedDonors is a policy with donors that do not return.
func removedDonors(p *v1alpha1.PrototypePolicySpec) {
	p.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap
}

// TestALeavingDonorHasTheFewestPodsThatAreHardToMove: the plan, the dry run and the capture name the same node. For donors
// that return, such pods do not matter.
func TestALeavingDonorHasTheFewestPodsThatAreHardToMove(t *testing.T) {
	for name, c := range map[string]struct {
		policy        func(*v1alpha1.PrototypePolicySpec)
		donorReplaced bool
		want          string
	}{
		"they leave":                  {removedDonors, true, "pool1-1"},
		"they return":                 {func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Generalize.Profile = v1alpha1.ProfileStatic }, false, "pool1-0"},
		"it is found that they leave": {nil, true, "pool1-1"},
		"they are removed though they could return": {func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Donor.AfterCapture = v1alpha1.RemoveDonor },
			true, "pool1-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.pool("pool1", 3, 20)
			s.policy("all", c.policy)
			s.decider.Joins = func(context.Context, bootstrapkind.Facts) (bootstrapkind.Answer, error) {
				return bootstrapkind.Answer{Profile: v1alpha1.ProfileBootstrap}, nil
			}
			s.decider.DisruptionCost = func(_ context.Context, node string, _ v1alpha1.DrainSettings, donorReplaced bool) (selection.DisruptionCost, error) {
				if donorReplaced != c.donorReplaced {
					t.Errorf("asked about %s as one that leaves: %t", node, donorReplaced)
				}
				return map[string]selection.DisruptionCost{
					"pool1-0": {Evictions: 1, Hard: map[selection.MoveObstacle]int{selection.LocalVolume: 1}},
					"pool1-1": {Evictions: 9},
					"pool1-2": {Evictions: 2, Hard: map[selection.MoveObstacle]int{selection.Bare: 2}},
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
				if message := plan.Status.Decision.Message; plan.Status.Donor != c.want || plan.Prototype.Spec.Donor.NodeName != c.want ||
					!strings.HasPrefix(message, "node "+c.want+" ") ||
					!dry && strings.Contains(message, "hard to move") != c.donorReplaced {
					t.Errorf("dry run %t: donor %s of %s, decided: %s", dry, plan.Status.Donor, plan.Prototype.Spec.Donor.NodeName, message)
				}
			}
			s.runPass()
			if got := s.donors(); !slices.Equal(got, []string{c.want}) {
				t.Errorf("donors = %v", got)
			}
		})
	}
}

// TestTheLastOfAZoneIsNotChosen: for donors that do not return, Kamino chooses the next candidate, or the status counts the
// reason.
func TestTheLastOfAZoneIsNotChosen(t *testing.T) {
	for zones, want := range map[string]string{"eu-1 eu-2 eu-2": "pool1-2", "eu-1 eu-1 eu-2": "pool1-1", "eu-1 eu-2 eu-3": ""} {
		t.Run(zones, func(t *testing.T) {
			s := newTestEnv(t)
			id := s.pool("pool1", 3, 20)
			for i, zone := range strings.Fields(zones) {
				name := []string{"pool1-0", "pool1-1", "pool1-2"}[i]
				s.change(id, name, func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone })
			}
			s.policy("all", removedDonors)
			s.runPass()
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

// TestUnfilledPlaceCountsAsReserved follows a removed donor next to a waiting pool. The donor counts while reserved, and
// while its replacement is pending, with a running or a failed capture, until the deadline. A donor after its replacement
// counts only while reserved.
func TestUnfilledPlaceCountsAsReserved(t *testing.T) {
	for name, c := range map[string]struct {
		growFirst, fails, late bool
	}{
		"its place is filled afterwards":              {},
		"its capture fails meanwhile":                 {fails: true},
		"the replacement does not come":               {late: true},
		"the replacement does not come, and it fails": {fails: true, late: true},
		"its replacement was there before":            {growFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.pool("later", 3, 20)
			id := s.pool("first", 3, 30)
			s.policy("all", removedDonors)
			s.runPass()
			if got := s.donors(); !slices.Equal(got, []string{"first-2"}) {
				t.Fatalf("donors = %v", got)
			}
			alone := func(when string) {
				t.Helper()
				s.runPass()
				if got := s.donors(); len(got) != 1 {
					t.Fatalf("%s: donors = %v", when, got)
				}
				s.decided("all", "later", policy.Queued, "returned to service or replaced")
			}
			at := func(reserved bool) {
				p := s.prototypes()[0]
				record := v1alpha1.Record{Replacement: &v1alpha1.DonorReplacement{GrowFirst: c.growFirst, Removing: true, Target: 3}}
				now := metav1.NewMicroTime(s.clock.Now())
				status := v1alpha1.DonorStatus{ReservedAt: &now}
				if reserved {
					record.Reservation = &v1alpha1.Reservation{Holder: v1alpha1.Holder{Name: p.Name}}
				} else {
					status.ReleasedAt, status.State = &now, v1alpha1.DonorRemoved
				}
				record.UID = p.UID
				p.Status.Record, p.Status.Donor = &record, &status
				if !reserved && c.fails {
					p.Status.Phase = v1alpha1.PhaseFailed
					meta.SetStatusCondition(&p.Status.Conditions,
						metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Done",
							LastTransitionTime: metav1.NewTime(s.clock.Now())})
				}
				s.must(s.client.Status().Update(s.Context(), &p))
			}
			at(true)
			alone("while it is held")
			s.nodes.Delete("first-2")
			at(false)
			if !c.growFirst {
				alone("while its place is empty")
				s.clock.Advance(14 * time.Minute)
				alone("while its replacement is awaited")
				if c.late {
					s.clock.Advance(time.Minute)
				} else {
					s.node("first-3", s.cloud.AddInstance(id, "3"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
					alone("while its replacement is not Ready")
					s.change(id, "first-3", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
				}
			}
			s.runPass()
			if got := s.donors(); !slices.Contains(got, "later-2") {
				t.Errorf("donors = %v", got)
			}
		})
	}
}
