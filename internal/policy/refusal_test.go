package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// The checks of a lasting refusal become rarer, up to every four hours.
func TestALastingRefusalIsAskedAboutLessOften(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", nil)
	begin := s.clock.Now()
	var asked []time.Duration
	s.decider.Preflight = func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		asked = append(asked, s.clock.Now().Sub(begin))
		return refuseAll("QuotaExceeded")(ctx, p)
	}
	for s.clock.Now().Sub(begin) < 9*time.Hour {
		s.runPass()
		s.clock.Advance(10 * time.Minute)
	}
	if want := []time.Duration{0, 10 * time.Minute, 30 * time.Minute, 70 * time.Minute, 150 * time.Minute, 310 * time.Minute}; !slices.Equal(asked, want) {
		t.Errorf("asked after %v, want %v", asked, want)
	}
	// The refusal of one donor does not delay another donor.
	asked = nil
	s.change(id, "pool1-2", func(n *corev1.Node) { n.Annotations[v1alpha1.KuredRebootInProgressAnnotation] = "now" })
	s.runPass()
	if len(asked) != 1 {
		t.Errorf("another donor was asked about %d times", len(asked))
	}
	s.decided("all", "pool1", "QuotaExceeded", "no: pool1-1")
}

// A failed preflight runs again at the cloud's time, not with every pass.
func TestAPreflightThatFailsWaits(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	asked := 0
	s.decider.Preflight = func(context.Context, *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		asked++
		return nil, &cloud.Error{Kind: cloud.Unavailable, Op: "look at", Resource: "snapshots", Err: errors.New("503")}
	}
	for range 12 {
		s.runPass()
		s.clock.Advance(time.Minute)
	}
	s.decided("all", "pool1", v1alpha1.PolicyCloudUnavailable)
	s.stalled("all", v1alpha1.PolicyCloudUnavailable)
	if asked != 2 {
		t.Errorf("asked %d times in twelve minutes, want 2", asked)
	}
}

// A preflight without an answer of the API server is no cloud error, and runs again soon. Only a permanent error becomes a
// condition.
func TestAPreflightThatTheAPIServerDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		err     error
		stalled bool
	}{
		{apierrors.NewServiceUnavailable("etcd is busy"), false},
		{apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("cannot list")), true},
	} {
		s := newTestEnv(t)
		s.pool("pool1", 3, 20)
		s.policy("all", nil)
		asked := 0
		s.decider.Preflight = func(context.Context, *v1alpha1.Prototype) ([]cloud.Refusal, error) {
			asked++
			return nil, fmt.Errorf("list nodes: %w", c.err)
		}
		for range 8 {
			s.runPass()
			s.clock.Advance(30 * time.Second)
		}
		s.decided("all", "pool1", v1alpha1.PolicyPreflightFailed, "list nodes: ")
		if asked != 4 {
			t.Errorf("%v: asked %d times in four minutes, want 4", c.err, asked)
		}
		if got := s.heardOf(v1alpha1.PolicyPreflightFailed); got != c.stalled {
			t.Errorf("%v: stalled is %t, want %t", c.err, got, c.stalled)
		}
		s.decider.Preflight = nil
		s.clock.Advance(time.Minute)
		s.runPass()
		s.decided("all", "pool1", v1alpha1.PolicyCapturing)
	}
}

// Of candidates with equal rank, Kamino captures the candidate with the least disruption cost. The order changes with every
// pod, so a refusal of one candidate does not expire for another candidate.
func TestDonorWithFewestEvictions(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	evictions := map[string]int{"pool1-0": 3, "pool1-1": 1, "pool1-2": 7}
	asked := 0
	s.decider.Evictions = func(_ context.Context, node string, _ v1alpha1.DrainSettings) (int, error) {
		return evictions[node], nil
	}
	s.decider.Preflight = func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		asked++
		return refuseAll("QuotaExceeded")(ctx, p)
	}
	s.runPass()
	s.decided("all", "pool1", "QuotaExceeded", "no: pool1-1")
	for range 12 {
		evictions["pool1-0"], evictions["pool1-1"] = evictions["pool1-1"], evictions["pool1-0"]
		s.clock.Advance(5 * time.Minute)
		s.runPass()
	}
	if asked != 3 {
		t.Errorf("asked %d times in an hour, want 3", asked)
	}
	s.decider.Preflight, evictions = nil, map[string]int{"pool1-0": 0, "pool1-1": 1, "pool1-2": 7}
	s.clock.Advance(time.Hour)
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-0"}) {
		t.Errorf("donors = %v", got)
	}
}

// A node that another client has taken out of service keeps the next node in service.
func TestNoDonorWhileNodesAreUnavailable(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.change(id, "pool1-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.runPass()
	s.decided("all", "pool1", "TooManyUnavailable", "maxUnavailable")
	s.change(id, "pool1-0", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	s.runPass()
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v", got)
	}
}
