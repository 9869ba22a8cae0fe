package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// denyDonor answers the next n reads of the donor's instance and of its protection with NotFound, from the phase on.
func denyDonor(s *testEnv, phase v1alpha1.Phase, n int) (denied *int) {
	denied = new(int)
	s.lose = func(what string) memory.Outcome {
		op, resource, _ := strings.Cut(what, " ")
		if (op == "Instance" || op == "Protection") && resource == string(s.donor) && *denied < n && s.prototype().Status.Phase == phase {
			*denied++
			return memory.FailBefore(cloud.NotFound)
		}
		return memory.Pass()
	}
	return denied
}

// TestNotFoundAlone: the cloud answers 404 for an instance that exists. The donor returns to service as it was.
func TestNotFoundAlone(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseReserving, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseReleasing} {
		for _, n := range []int{1, 2, 4, 8} {
			t.Run(fmt.Sprintf("%s %d", phase, n), func(t *testing.T) {
				s := newTestEnv(t).decide()
				denied := denyDonor(s, phase, n)
				s.succeeded(s.play())
				if machine := s.cloud.World().Instance(s.donor); machine.Power != cloud.PowerRunning || machine.ScaleInProtected {
					t.Errorf("the donor is %+v", machine)
				}
				if *denied == 0 && phase != v1alpha1.PhaseReserving && phase != v1alpha1.PhaseReleasing {
					t.Error("no read was answered with NotFound")
				}
			})
		}
	}
}

// keptLease checks that the Node of an instance that is gone keeps its Lease, and then deletes the Node. The Lease goes with the
// Node.
func (s *testEnv) keptLease(n *corev1.Node) {
	s.t.Helper()
	held, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil || held == nil {
		return // the Node was released before the instance was gone
	}
	if len(s.leases()) != 1 {
		s.t.Errorf("the Node of an instance that is gone has the leases %v, want one", s.leases())
	}
	if err := s.orphan(held.Holder); !errors.Is(err, ErrInstanceGone) || len(s.leases()) != 1 {
		s.t.Errorf("the sweep says %v, and the leases are %v", err, s.leases())
	}
	s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", n.Name))
	s.must(s.orphan(held.Holder))
}

// orphan makes the passes of a sweep for the donor of an ended capture, and returns the last error.
func (s *testEnv) orphan(holder v1alpha1.Holder) (err error) {
	for range 40 {
		var result Result
		if result, err = s.engine.Orphan(s.t.Context(), donorName, holder); result.Done || errors.Is(err, ErrInstanceGone) {
			return err
		}
		s.tick(max(result.After, 4*time.Second))
	}
	return err
}

// hide lets every read of the donor, and the list of its pool, answer without the donor while hidden is true. With noList, the
// list answers NotFound.
func hide(s *testEnv, noList bool, hidden func() bool) {
	s.wrapped = cloud.Intercept(s.wrapped, func(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
		missing := &cloud.Error{Kind: cloud.NotFound, Op: op.Name, Resource: op.Resource}
		if hidden() && (op.Resource == string(s.donor) && !op.Writes || noList && op.Name == "Instances") {
			return missing
		}
		err := call(ctx)
		if list, is := op.Result.(*[]cloud.Instance); is && hidden() {
			*list = slices.DeleteFunc(*list, func(i cloud.Instance) bool { return i.ID == s.donor })
		}
		return err
	})
	s.restart()
}

// TestAllWitnessesWrong: read and list of the cloud miss the donor for so long that the capture ends. The Lease stays with the
// Node, so the sweep returns the donor once the cloud knows the instance again.
func TestAllWitnessesWrong(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting} {
		t.Run(string(phase), func(t *testing.T) {
			s := newTestEnv(t).decide()
			hidden := false
			hide(s, false, func() bool { return hidden })
			p := s.play(func(int) { hidden = hidden || s.prototype().Status.Phase == phase })
			holder := v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: p.Name, UID: p.UID}
			if err := s.orphan(holder); !errors.Is(err, ErrInstanceGone) {
				t.Fatalf("after %s, the sweep says %v", verdict(p), err)
			}
			hidden = false
			s.must(s.orphan(holder))
			s.gaveBack()
		})
	}
}

// TestNoListIsNoWitness: where the list of the pool is not found either, the capture waits, and says for what.
func TestNoListIsNoWitness(t *testing.T) {
	s := newTestEnv(t).decide()
	hidden, since, said := false, time.Time{}, ""
	hide(s, true, func() bool { return hidden })
	p := s.play(func(int) {
		p := s.prototype()
		switch {
		case since.IsZero() && p.Status.Phase == v1alpha1.PhaseSnapshotting:
			hidden, since = true, s.clock.Now()
		case hidden && s.clock.Now().Sub(since) > 20*time.Minute:
			if stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil {
				said = stalled.Reason + ": " + stalled.Message
			}
			hidden = false
		}
	})
	s.succeeded(p)
	if !strings.HasPrefix(said, NotFoundDoubtful) || !strings.Contains(said, "the list of its pool is not available") {
		t.Errorf("Stalled is %q", said)
	}
}

// TestMissingTwiceButNotInARow: an instance that is found in between is looked for twice again.
func TestMissingTwiceButNotInARow(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.hung = true }).decide()
	hidden, looks := false, 0
	hide(s, false, func() bool { return hidden })
	p := s.play(func(int) {
		p := s.prototype()
		if record, _ := v1alpha1.RecordOf(p); record.Reservation == nil || !record.Returning {
			return
		}
		looks++
		hidden = looks%4 == 1
		if state := p.Status.Donor.State; state == v1alpha1.DonorGone {
			t.Fatalf("the donor is %s", state)
		}
		s.hung = looks < 24
	})
	s.succeeded(p)
}

// without answers the first n reads of a kind from the phase on as if the object did not exist.
func without(s *testEnv, op string, phase v1alpha1.Phase, n int) (denied *int) {
	denied = new(int)
	s.wrapped = cloud.Intercept(s.wrapped, func(ctx context.Context, made cloud.Op, call func(context.Context) error) error {
		p := s.prototype()
		if made.Name != op || *denied >= n || p == nil || *denied == 0 && p.Status.Phase != phase {
			return call(ctx)
		}
		*denied++
		switch err := call(ctx); result := made.Result.(type) {
		case *cloud.Image:
			*result = cloud.Image{Version: result.Version}
			return err
		case *cloud.Snapshot:
			*result = cloud.Snapshot{Name: result.Name}
			return err
		case *cloud.Trial:
			*result = cloud.Trial{}
			return err
		}
		return &cloud.Error{Kind: cloud.NotFound, Op: made.Name, Resource: made.Resource}
	})
	s.restart()
	return denied
}

// TestNotFoundOfAnyObject: some reads of each kind miss an object that exists, and the capture succeeds as ever.
func TestNotFoundOfAnyObject(t *testing.T) {
	seen := map[string]int{}
	for _, op := range []string{"Instance", "Protection", "Snapshot", "Image", "Pool"} {
		for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseDraining, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting, v1alpha1.PhaseRetiring} {
			for _, n := range []int{1, 2, 4, 8} {
				t.Run(fmt.Sprintf("%s %s %d", op, phase, n), func(t *testing.T) {
					s := inFull(t)
					denied := without(s, op, phase, n)
					p := s.play()
					if seen[op] += *denied; p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
						t.Fatalf("the capture did not succeed: %s", verdict(p))
					}
					for range 2 { // a snapshot that the capture has not found is a leftover
						_, err := s.engine.SweepLeftovers(t.Context(), []cloud.PoolID{s.pool})
						s.must(err)
						s.tick(time.Minute)
					}
					s.gaveBack()
				})
			}
		}
		if seen[op] == 0 {
			t.Errorf("no read %s was denied", op)
		}
	}
}

// TestNotFoundDuringATrial: reads miss the version, its trial, or all trials, and one attempt passes.
func TestNotFoundDuringATrial(t *testing.T) {
	seen := map[string]int{}
	for _, op := range []string{"Image", "Trial", "Trials", "Pool"} {
		for _, phase := range []v1alpha1.Phase{v1alpha1.PhasePublishing, v1alpha1.PhaseRunningTrial, v1alpha1.PhasePromoting} {
			for _, n := range []int{1, 2, 4, 8} {
				t.Run(fmt.Sprintf("%s %s %d", op, phase, n), func(t *testing.T) {
					v := trying(t)
					denied := without(v.testEnv, op, phase, n)
					v.succeeded(v.run())
					seen[op] += *denied
					if p := v.prototype(); p.Status.Trial == nil || p.Status.Trial.Attempt != 1 {
						t.Errorf("the trial is %+v", p.Status.Trial)
					}
				})
			}
		}
		if seen[op] == 0 {
			t.Errorf("no read %s was denied", op)
		}
	}
}
