package policy_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/selection"
)

// condition is a condition of a policy.
func (s *testEnv) condition(name, kind string) metav1.Condition {
	s.Helper()
	c := meta.FindStatusCondition(s.status(name).Status.Conditions, kind)
	if c == nil {
		s.Fatalf("policy %s has no condition %s", name, kind)
	}
	return *c
}

// deniedCloud is a cloud without one permission, until granted is set.
type deniedCloud struct {
	granted   bool
	err       error
	preflight int
	looks     int
}

func (d *deniedCloud) refusals(_ context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	d.preflight++
	if d.granted || p.Spec.Pool != "pool1" {
		return nil, nil
	}
	return []cloud.Refusal{{Reason: cloud.PermissionMissing, Message: "the credential may not write snapshots"}}, nil
}

func (d *deniedCloud) permissions(context.Context, cloud.PoolID) ([]cloud.Permission, error) {
	d.looks++
	return []cloud.Permission{{Action: "snapshots/write", Allowed: d.granted}, {Action: "rebuild", For: "rollback"}}, d.err
}

// A wanted and refused capture shows in the conditions, in the pool's next run, in an event, and in the metrics. Without a
// change, the messages do not change; they end soon after the cause.
func TestARefusedCaptureIsNotSilent(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.pool("pool2", 3, 20)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.MaxConcurrent = 5 })
	d, counted := &deniedCloud{}, map[[2]string]int{}
	var news []attention.Item
	listen := func() {
		s.decider.Observers.Attention = func(items []attention.Item) { news = append(news, items...) }
		s.decider.Preflight, s.decider.Permissions = d.refusals, d.permissions
		s.decider.Observers.Degraded = func(byPoolAndReason map[[2]string]int) { counted = byPoolAndReason }
	}
	listen()
	s.runPass()

	first := s.condition("all", v1alpha1.ConditionDegraded)
	if first.Status != metav1.ConditionTrue || first.Reason != cloud.PermissionMissing {
		t.Fatalf("Degraded = %+v", first)
	}
	for _, word := range []string{"pool pool1", "may not write snapshots", "nextRun", v1alpha1.RetryCommand("all")} {
		if !strings.Contains(first.Message, word) {
			t.Errorf("the condition %q does not say %q", first.Message, word)
		}
	}
	if ready := s.condition("all", v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse || ready.Reason != cloud.PermissionMissing {
		t.Errorf("Ready = %+v", ready)
	}
	if stalled := s.condition("all", v1alpha1.ConditionStalled); stalled.Status != metav1.ConditionFalse {
		t.Errorf("it is tried again, so it is not stalled: %+v", stalled)
	}
	if next := s.poolStatus("all", "pool1").NextRun; next == nil || !next.After(s.clock.Now()) {
		t.Errorf("it does not say when it is tried again: %v", next)
	}
	if !s.heardOf("Warning " + cloud.PermissionMissing) {
		t.Error("no event names it")
	}
	if want := map[[2]string]int{{"pool1", cloud.PermissionMissing}: 1}; !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}

	s.needsPerson("all", cloud.PermissionMissing, first.Message)

	for range 30 {
		s.clock.Advance(time.Minute)
		s.runPass()
	}
	s.restart()
	listen()
	s.runPass()
	if diff := cmp.Diff(first, s.condition("all", v1alpha1.ConditionDegraded)); diff != "" {
		t.Errorf("the condition has changed although nothing has (-before +after):\n%s", diff)
	}
	if s.heardOf(cloud.PermissionMissing) {
		t.Error("the same is reported again by an event")
	}

	if len(news) != 1 || news[0].Kind != attention.CaptureRefused || news[0].Pool != "pool1" || news[0].NextAt.IsZero() {
		t.Errorf("the log has %+v", news)
	}

	d.granted = true
	s.clock.Advance(20 * time.Minute)
	s.runPass()
	s.decided("all", "pool1", policy.Capturing)
	if c := s.condition("all", v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse {
		t.Errorf("Degraded = %+v", c)
	}
	s.well("all")
	if len(counted) != 0 || !s.heardOf("Recovered") {
		t.Errorf("no event says that it is over; counted %v", counted)
	}
}

// One request checks a missing permission, and the whole preflight waits for the permission.
func TestAMissingPermissionIsLookedForCheaply(t *testing.T) {
	s := newTestEnv(t)
	s.inMemory()
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	d := &deniedCloud{}
	s.decider.Preflight, s.decider.Permissions = d.refusals, d.permissions
	for range 24 * 6 {
		s.runPass()
		s.clock.Advance(10 * time.Minute)
	}
	if d.preflight != 1 || d.looks < 3*23 || d.looks > 3*24+1 {
		t.Errorf("in a day there were %d preflights and %d looks at the permissions", d.preflight, d.looks)
	}
	d.err = errors.New("may not list its own permissions")
	s.clock.Advance(time.Hour)
	s.runPass()
	if d.preflight != 2 {
		t.Errorf("where the answer is unknown, the preflight was not made: %d", d.preflight)
	}
}

// After a repair, a person need not wait.
func TestARefusalIsTriedAgainOnDemand(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.decider.Preflight = refuseAll("QuotaExceeded")
	s.runPass()
	s.decided("all", "pool1", "QuotaExceeded")
	s.decider.Preflight = nil
	s.runPass()
	s.decided("all", "pool1", "QuotaExceeded")

	p := s.status("all")
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.RetryAnnotation, "1")
	s.must(s.client.Update(t.Context(), p))
	s.runPass()
	s.decided("all", "pool1", policy.Capturing)
}

// A refusal ends with a capture that a person began since, also outside the schedule: its preflight passed.
func TestARefusalEndsWithACaptureThatBegan(t *testing.T) {
	for name, reserved := range map[string]bool{"its preflight failed": false, "it reserved its donor": true} {
		s := newTestEnv(t)
		id := s.pool("pool1", 3, 20)
		s.policy("all", func(p *v1alpha1.PrototypePolicySpec) {
			p.Schedule.Cron, p.Schedule.Window = "0 12 * * *", metav1.Duration{Duration: time.Hour}
		})
		s.decider.Preflight = refuseAll("QuotaExceeded")
		s.runPass()
		s.clock.Advance(2 * time.Hour)
		p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: v1alpha1.PrototypeSpec{
			Pool: "pool1", PoolID: string(id), Version: "2026.03.08", Donor: v1alpha1.Donor{NodeName: "pool1-1", ProviderID: "azure:///id"}}}
		s.must(s.client.Create(t.Context(), p))
		if p.Status.Phase = v1alpha1.PhaseFailed; reserved {
			now := metav1.NewMicroTime(s.clock.Now())
			p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &now}
		}
		s.must(s.client.Status().Update(t.Context(), p))
		s.runPass()
		if c := s.condition("all", v1alpha1.ConditionDegraded); (c.Status == metav1.ConditionTrue) == reserved {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A refusal lasts while the schedule is closed. A pool that needs no capture any more has no refusal.
func TestRefusalOutsideSchedule(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) {
		p.Schedule.Cron, p.Schedule.Window = "0 12 * * *", metav1.Duration{Duration: time.Hour}
	})
	s.decider.Preflight = refuseAll("QuotaExceeded")
	s.runPass()
	s.clock.Advance(2 * time.Hour)
	s.runPass()
	s.decided("all", "pool1", "OutsideSchedule")
	if c := s.condition("all", v1alpha1.ConditionDegraded); c.Status != metav1.ConditionTrue || c.Reason != "QuotaExceeded" {
		t.Errorf("Degraded = %+v", c)
	}
	for _, node := range []string{"pool1-0", "pool1-1", "pool1-2"} {
		s.change(id, node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	}
	s.runPass()
	s.decided("all", "pool1", selection.TooFewCandidates)
	if c := s.condition("all", v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse {
		t.Errorf("Degraded = %+v", c)
	}
}
