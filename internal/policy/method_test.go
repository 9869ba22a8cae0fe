package policy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/selection"
)

// copyingCloud copies disks in use.
type copyingCloud struct{ policy.Cloud }

func (copyingCloud) CanCopy() bool { return true }

func (copyingCloud) CopiesOnRequest() bool { return false }

// copies gives the decider a cloud that copies disks in use.
func (s *testEnv) copies() { s.decider.Cloud = copyingCloud{s.decider.Cloud} }

// TestTheMethodIsChosen: a Prototype carries the chosen method, and the plan has the reason.
func TestTheMethodIsChosen(t *testing.T) {
	for name, test := range map[string]struct {
		canCopy bool
		change  func(*v1alpha1.PrototypePolicySpec)
		want    v1alpha1.CaptureMethod
		why     string
	}{
		"a cloud with copies":    {true, nil, v1alpha1.MethodCopy, "can copy a disk in use"},
		"a cloud without copies": {false, nil, v1alpha1.MethodInPlace, "cannot copy a disk in use"},
		"named": {true, func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Donor.Method = v1alpha1.MethodInPlace },
			v1alpha1.MethodInPlace, ""},
		"a donor that could not return": {false, func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap },
			v1alpha1.MethodCopy, "would lose the credential"},
		"pioneers": {true, func(p *v1alpha1.PrototypePolicySpec) { p.Pioneer = &v1alpha1.PolicyPioneerSettings{} },
			v1alpha1.MethodCopy, "can copy a disk in use"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			if test.canCopy {
				s.copies()
			}
			s.pool("pool1", 2, 0)
			s.policy("all", test.change)
			policies := []v1alpha1.PrototypePolicy{*s.status("all")}
			plans, err := s.decider.Plan(s.Context(), policies, nil)
			if err != nil || len(plans.Pools) != 1 || plans.Pools[0].Prototype == nil {
				t.Fatalf("%+v, %v", plans, err)
			}
			plan := plans.Pools[0]
			if plan.Method.Method != test.want || (plan.Method.Why == "") != (test.why == "") || !strings.Contains(plan.Method.Why, test.why) {
				t.Errorf("planned %+v, want %s because of %q", plan.Method, test.want, test.why)
			}
			if got := plan.Prototype.Spec.Settings.Donor.Method; got != test.want {
				t.Errorf("the planned prototype has method %q, want %s", got, test.want)
			}
			if policies[0].Spec.Pioneer != nil {
				return // a node is checked for patches first
			}
			s.runPass()
			if all := s.prototypes(); len(all) != 1 || all[0].Spec.Settings.Donor.Method != test.want {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestTheOnlyNodeOfAPoolIsCopied: a donor in service needs no other node, and no list of its pods decides.
func TestTheOnlyNodeOfAPoolIsCopied(t *testing.T) {
	for _, canCopy := range []bool{true, false} {
		s := newTestEnv(t)
		if canCopy {
			s.copies()
		}
		s.decider.Evictions = func(context.Context, string, v1alpha1.DrainSettings) (int, error) {
			t.Error("the pods of a donor in service are listed")
			return 0, nil
		}
		s.pool("pool1", 1, 0)
		if canCopy {
			s.pool("pool2", 3, 0)
		}
		s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.MaxConcurrent = 2 })
		s.runPass()
		captured := map[string]string{}
		for _, p := range s.prototypes() {
			captured[p.Spec.Pool] = p.Spec.Donor.NodeName
		}
		if canCopy && (captured["pool1"] != "pool1-0" || captured["pool2"] == "") {
			t.Errorf("by copy: %v", captured)
		}
		if status := s.poolStatus("all", "pool1"); !canCopy && (len(captured) > 0 || status.Refusals[0].Reason != selection.OnlyReadyNode) {
			t.Errorf("in place: %v, %+v", captured, status)
		}
	}
}

// unstoppableCloud has pools whose instances may not come back after a stop, as spot instances.
type unstoppableCloud struct{ policy.PoolReader }

func (c unstoppableCloud) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	pool, err := c.PoolReader.Pool(ctx, id)
	pool.Refusals = append(pool.Refusals, cloud.Refuse(cloud.StopTerminates, "the instances are spot", "leave the pool out"))
	return pool, err
}

// TestACopiedPioneerIsNotStopped: what is against a stop is not against a pioneer that is copied.
func TestACopiedPioneerIsNotStopped(t *testing.T) {
	for _, canCopy := range []bool{true, false} {
		s := newTestEnv(t)
		if canCopy {
			s.copies()
		}
		s.decider.PoolCache = policy.NewPoolCache(unstoppableCloud{s.calls}, s.clock.Now)
		s.pool("pool1", 2, 0)
		s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.Pioneer = &v1alpha1.PolicyPioneerSettings{} })
		plans, err := s.decider.Plan(s.Context(), []v1alpha1.PrototypePolicy{*s.status("all")}, nil)
		if err != nil || len(plans.Pools) != 1 {
			t.Fatalf("%+v, %v", plans, err)
		}
		if says := plans.Pools[0].Choice.Message; strings.Contains(says, "spot") == canCopy {
			t.Errorf("copies: %t, %s", canCopy, says)
		}
	}
}

// TestACopyNeedsNoReturn: the credential that a profile deletes from the disk is deleted from the copy, also in a cloud with captures in place.
func TestACopyNeedsNoReturn(t *testing.T) {
	s := newTestEnv(t)
	s.copies()
	s.decider.Joins = func(context.Context, bootstrapkind.Facts) (bootstrapkind.Answer, error) {
		return bootstrapkind.Answer{Profile: v1alpha1.ProfileBootstrap, Why: "it joined with kubeadm"}, nil
	}
	s.pool("pool1", 2, 0)
	s.policy("all", nil)
	s.runPass()
	all := s.prototypes()
	if len(all) != 1 || !all[0].Spec.Settings.CopiesDonor() || all[0].Spec.Settings.Profile() != v1alpha1.ProfileBootstrap {
		t.Errorf("%+v", all)
	}
}
