package rebuild

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// rebuildAll makes passes until nothing is left to do. After the end of a process, a new process continues.
func (s *testEnv) rebuildAll(provider Cloud) {
	s.t.Helper()
	for processes := 0; ; processes++ {
		if processes > 5 {
			s.t.Fatal("it does not end")
		}
		var err error
		crashed := memory.RunUntilCrash(func() {
			r := s.replacement()
			r.Cloud = provider
			_, err = r.Run(s.t.Context(), s.show, s.pause)
		})
		if !crashed && err == nil {
			return
		}
	}
}

// wantRebuilt requires one rebuild of the bad node, with all marks restored.
func (s *testEnv) wantRebuilt(what string) {
	s.t.Helper()
	s.wantClean(good, "bad-0")
	if s.rebuilds() != 1 || s.worst > 1 {
		s.t.Errorf("%s: %d rebuilds, %d nodes out of service at once", what, s.rebuilds(), s.worst)
	}
	if label := s.node("bad-0").Labels[v1alpha1.VersionLabel]; label != good {
		s.t.Errorf("%s: the label is %q", what, label)
	}
}

// lose gives each write to the API server the fate of the schedule.
func (s *testEnv) lose(schedule *memory.Schedule) {
	do := func(a kubetesting.Action) (bool, runtime.Object, error) {
		if create, is := a.(kubetesting.CreateAction); is && create.GetSubresource() == "eviction" {
			return s.evict(a)
		}
		return kubetesting.ObjectReaction(s.kube.Tracker())(a)
	}
	for _, verb := range []string{"patch", "create", "update", "delete"} {
		s.kube.PrependReactor(verb, "*", func(a kubetesting.Action) (handled bool, made runtime.Object, err error) {
			outcome := schedule.Next(verb + " " + a.GetResource().Resource)
			if outcome == memory.Pass() {
				return false, nil, nil
			}
			if outcome.Err != nil {
				outcome.Err = apierrors.NewServerTimeout(corev1.Resource("nodes"), verb, 0)
			}
			return true, nil, outcome.Apply(func() error {
				if _, _, err := do(a); err != nil {
					s.t.Error(err)
				}
				return nil
			})
		})
	}
}

// TestEveryCallLost: each call to the cloud and each write to the API server (the reservation and its Lease, the cordon, an
// eviction, the record of the request, the release) is lost before and after its effect, by an error and by the end of the process.
func TestEveryCallLost(t *testing.T) {
	memory.Courses{Least: 12, Play: func(t *testing.T, schedule *memory.Schedule) {
		s := newTestEnv(t, 1)
		s.lose(schedule)
		s.rebuildAll(memory.NewFaulty(s.cloud, schedule.Inject))
		s.wantRebuilt("at the end")
	}}.LoseEach(t)
}

// TestTwoProcessesAtOnce make passes in turn and rebuild each node once.
func TestTwoProcessesAtOnce(t *testing.T) {
	s := newTestEnv(t, 3)
	a, b := s.replacement(), s.replacement()
	for done := 0; done < 2; {
		done = 0
		for _, r := range []*Replacement{a, b} {
			report, err := r.Pass(t.Context())
			s.must(err)
			if len(report.Taken) == 0 && report.Choice.Take == "" && report.Choice.Left == 0 {
				done++
			}
			s.must(s.pause(t.Context(), 0))
		}
	}
	s.wantClean(good, s.badNodes()...)
	if s.rebuilds() != 3 || s.worst > 1 {
		t.Errorf("%d rebuilds of 3 nodes, %d out of service at once", s.rebuilds(), s.worst)
	}
}

// policy returns a Replacement as a controller creates one, a new process each time.
func (s *testEnv) policy(change func(*Replacement)) *Replacement {
	r := s.replacement()
	r.Policy = &Policy{Name: "all", Limit: 2, Backoff: time.Hour}
	if change != nil {
		change(r)
	}
	return r
}

// byPolicy takes the next node and advances the rebuild to the end. byPolicy returns the last step.
func (s *testEnv) byPolicy(change func(*Replacement)) (Report, Step) {
	s.t.Helper()
	report, err := s.policy(change).Take(s.t.Context())
	s.must(err)
	var last Step
	if len(report.Taken) == 0 {
		return report, last
	}
	name := report.Taken[0]
	for range 1000 {
		step, err := s.policy(change).Advance(s.t.Context(), name)
		if last = step; step.Refusal != nil || err != nil || step.Do == plan.Release {
			return report, last
		}
		s.must(s.pause(s.t.Context(), 0))
	}
	s.t.Fatalf("node %s is under way for ever: %+v", name, last)
	return report, last
}

// TestFailureIsRecordedOnNode: a new process reads the failure, retries after the backoff and stops at the limit. A
// person may retry at any time. A success removes the failure.
func TestFailureIsRecordedOnNode(t *testing.T) {
	s := newTestEnv(t, 1)
	s.budget["on-bad-0"] = 1e6
	for attempt := 1; attempt <= 2; attempt++ {
		report, last := s.byPolicy(nil)
		if len(report.Taken) != 1 || last.Refusal == nil || last.Refusal.Reason != plan.NotDrained {
			t.Fatalf("attempt %d: %+v, %+v", attempt, report, last)
		}
		on := v1alpha1.NotRebuiltOf(s.node("bad-0").Annotations)
		if on == nil || on.To != good || on.Reason != plan.NotDrained || on.Attempts != attempt || on.Next.Sub(on.At.Time) != time.Duration(attempt)*time.Hour {
			t.Fatalf("attempt %d: on the node stands %+v", attempt, on)
		}
		s.wantClean(bad, "bad-0")
		if again, _ := s.byPolicy(nil); len(again.Taken) > 0 || !strings.Contains(again.Choice.Alone["bad-0"].Message, "the budget says no") {
			t.Errorf("attempt %d: at once again: %+v", attempt, again)
		}
		s.clock.Advance(time.Duration(attempt) * time.Hour)
	}
	again, _ := s.byPolicy(nil)
	if r := again.Choice.Alone["bad-0"]; len(again.Taken) > 0 || !strings.Contains(r.Remedy, "2 attempts reached failures.limit") ||
		!strings.Contains(r.Remedy, "kamino rebuild pool1") {
		t.Errorf("at the limit: %+v", again)
	}
	s.budget["on-bad-0"] = 0
	if result := s.run(s.replacement()); len(result.Rebuilt) != 1 {
		t.Errorf("a person asked: %+v", result)
	}
	if on := v1alpha1.NotRebuiltOf(s.node("bad-0").Annotations); on != nil {
		t.Errorf("still on the node: %+v", on)
	}
}

// TestFailedNodeOfPolicy is reported once, by any process, and released as soon as the node is Ready.
func TestFailedNodeOfPolicy(t *testing.T) {
	s := newTestEnv(t, 2)
	s.deaf["bad-0"] = true
	if _, last := s.byPolicy(nil); last.Refusal == nil || last.Refusal.Reason != plan.NodeNotReady {
		t.Fatalf("%+v", last)
	}
	for range 20 {
		if step, err := s.policy(nil).Advance(t.Context(), "bad-0"); err != nil || step.Do != plan.Wait {
			t.Fatalf("%+v, %v", step, err)
		}
		s.must(s.pause(t.Context(), 0))
	}
	if reported := strings.Count(strings.Join(s.events, "\n"), "NotRebuilt"); reported != 1 {
		t.Errorf("printed %d times: %v", reported, s.events)
	}
	next, err := s.policy(nil).Take(t.Context())
	s.must(err)
	if len(next.Taken) != 1 || next.Taken[0] != "bad-0" || next.Choice.Left != 1 {
		t.Errorf("another is taken meanwhile: %+v", next)
	}
	s.deaf["bad-0"] = false
	s.must(s.pause(t.Context(), 0))
	if step, err := s.policy(nil).Advance(t.Context(), "bad-0"); err != nil || step.Do != plan.Release {
		t.Errorf("%+v, %v", step, err)
	}
	s.wantClean(good, "bad-0")
}

// TestAPolicyIsCareful: cordoned nodes count as unavailable, and the only node that takes pods is not taken.
func TestAPolicyIsCareful(t *testing.T) {
	s := newTestEnv(t, 1)
	n := s.node("good-0")
	n.Spec.Unschedulable = true
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	if report, _ := s.byPolicy(nil); len(report.Taken) > 0 || !strings.Contains(report.Choice.Waiting, "good-0 (cordoned)") {
		t.Errorf("%+v", report)
	}
	report, _ := s.byPolicy(func(r *Replacement) { r.MaxUnavailable = 2 })
	if len(report.Taken) > 0 || !strings.Contains(report.Choice.Waiting, "node bad-0 is the only node of pool pool1 that accepts pods") {
		t.Errorf("%+v", report)
	}
	held, err := v1alpha1.ReservationOf(s.node("bad-0").Annotations)
	if err != nil || held != nil {
		t.Errorf("%+v, %v", held, err)
	}
}

// TestAPolicyWithoutPowers reserves no node that the credential may not rebuild, and says what is missing.
func TestAPolicyWithoutPowers(t *testing.T) {
	s := newTestEnv(t, 1)
	s.cloud.Forbid("EnsureRebuilt")
	report, err := s.policy(nil).Take(t.Context())
	if err != nil || len(report.Taken) > 0 || !strings.Contains(report.Choice.Waiting, "the credential may not do EnsureRebuilt") {
		t.Errorf("%+v, %v", report, err)
	}
	s.wantClean(bad, s.badNodes()...)
}

// TestReservationOfPolicyIsMarked: the reservation of a policy has a mark, so that the controller continues only its own
// rebuilds.
func TestReservationOfPolicyIsMarked(t *testing.T) {
	s := newTestEnv(t, 1)
	_, err := s.policy(nil).Take(t.Context())
	s.must(err)
	held, err := v1alpha1.ReservationOf(s.node("bad-0").Annotations)
	s.must(err)
	if !byPolicy(held) || held.Rebuild.Policy != "all" || held.Rebuild.AskedAt != nil {
		t.Errorf("%+v", held)
	}
	if result := s.run(s.replacement()); len(result.Rebuilt) != 1 {
		t.Errorf("a person's command goes on with it: %+v", result)
	}

	s = newTestEnv(t, 1)
	stopped := errors.New("stopped")
	_, err = s.replacement().Run(t.Context(), s.show, func(context.Context, time.Duration) error { return stopped })
	if !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	held, err = v1alpha1.ReservationOf(s.node("bad-0").Annotations)
	s.must(err)
	if held == nil || byPolicy(held) {
		t.Errorf("%+v", held)
	}
}
