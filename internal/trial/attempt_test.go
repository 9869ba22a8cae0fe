package trial_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

func TestPausesGrowToAShareOfTheTimeout(t *testing.T) {
	for attempts, want := range []time.Duration{5 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
		if got := trial.PauseAfter(int32(attempts), 2*time.Hour); got != want {
			t.Errorf("after %d attempts: %s, want %s", attempts, got, want)
		}
	}
	if got := trial.PauseAfter(1<<30, 1000*time.Hour); got != 5*time.Minute<<8 {
		t.Errorf("the longest pause is %s", got)
	}
}

// TestUnobservedTime: a gap counts only once it is longer than the pauses of an observation.
func TestUnobservedTime(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		name string
		gap  time.Duration
		want time.Duration
	}{
		"no gap":       {"v-trial-1", trial.ObservationGap, time.Minute},
		"a gap":        {"v-trial-1", trial.ObservationGap + time.Second, 4*time.Minute + time.Second},
		"no attempt":   {"", time.Hour, 0},
		"a clock back": {"v-trial-1", -time.Hour, time.Minute},
	} {
		seen := metav1.NewTime(now.Add(-c.gap))
		r := &v1alpha1.TrialRecord{Name: c.name, ObservedAt: &seen, Unobserved: metav1.Duration{Duration: time.Minute}}
		if got := trial.UnobservedTime(r, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestInstanceOfAnAttempt(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	since := metav1.NewTime(now.Add(-time.Hour))
	one := []cloud.Instance{{ID: "i"}}
	for name, c := range map[string]struct {
		seen cloud.Trial
		ran  *metav1.Time
		want trial.Instance
	}{
		"no room":                       {seen: cloud.Trial{State: cloud.Failed, LacksCapacity: true, Trouble: "full"}, want: trial.Instance{Refused: "full"}},
		"no room, and no reason":        {seen: cloud.Trial{State: cloud.Failed, LacksCapacity: true}, want: trial.Instance{Refused: "no reason given"}},
		"the image, without instance":   {seen: cloud.Trial{State: cloud.Failed, BlamesImage: true, Trouble: "bad"}, want: trial.Instance{Unclear: "bad"}},
		"the image":                     {seen: cloud.Trial{State: cloud.Failed, BlamesImage: true, Trouble: "bad", Instances: one}, want: trial.Instance{Broken: "bad"}},
		"a failure":                     {seen: cloud.Trial{State: cloud.Failed, Instances: one}, want: trial.Instance{Unclear: "no reason given"}},
		"a failure without a trace":     {seen: cloud.Trial{State: cloud.Failed}, want: trial.Instance{Gone: true}},
		"gone after its start":          {seen: cloud.Trial{State: cloud.Absent}, ran: &since, want: trial.Instance{Gone: true}},
		"not yet there":                 {seen: cloud.Trial{State: cloud.Absent}, want: trial.Instance{}},
		"being deleted":                 {seen: cloud.Trial{State: cloud.Deleting, Instances: one}, want: trial.Instance{Gone: true}},
		"the cloud still tries":         {seen: cloud.Trial{State: cloud.Pending, Trouble: "busy"}, want: trial.Instance{Error: "busy"}},
		"starts":                        {seen: cloud.Trial{State: cloud.Pending, Instances: one}, want: trial.Instance{}},
		"is busy, and ran before":       {seen: cloud.Trial{State: cloud.Pending, Instances: one}, ran: &since, want: trial.Instance{Running: since.Time}},
		"runs, as recorded":             {seen: cloud.Trial{State: cloud.Complete, Instances: one}, ran: &since, want: trial.Instance{Running: since.Time}},
		"runs, and is not recorded yet": {seen: cloud.Trial{State: cloud.Complete, Instances: one}, want: trial.Instance{Running: now}},
	} {
		if got := trial.InstanceOf(&v1alpha1.TrialRecord{RunningSince: c.ran}, c.seen, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTroubleIsKeptForItsAttempt: the cloud may forget its message, and the message is of one attempt only.
func TestTroubleIsKeptForItsAttempt(t *testing.T) {
	failed := cloud.Trial{State: cloud.Failed, Trouble: "full", LacksCapacity: true}
	r := &v1alpha1.TrialRecord{Attempt: 2, CloudError: &v1alpha1.TrialCloudError{Attempt: 1, Message: "old"}}
	if seen := trial.WithRecordedTrouble(cloud.Trial{}, r); seen.State != cloud.Absent || trial.TroubleOf(cloud.Trial{}, r) != r.CloudError {
		t.Errorf("the message of an earlier attempt is used: %+v", seen)
	}
	r.CloudError = trial.TroubleOf(failed, r)
	if seen := trial.WithRecordedTrouble(cloud.Trial{}, r); seen.State != cloud.Failed || seen.Trouble != "full" || !seen.LacksCapacity {
		t.Errorf("the message is lost: %+v", seen)
	}
	running := cloud.Trial{State: cloud.Complete, Instances: []cloud.Instance{{ID: "i"}}}
	if seen := trial.WithRecordedTrouble(running, r); seen.State != cloud.Complete {
		t.Errorf("an instance runs in spite of the message: %+v", seen)
	}
	if trial.IsRefused(r) || trial.IsRefused(nil) || trial.CloudMessage(r) != "full" || trial.CloudMessage(nil) != "" {
		t.Errorf("missing room is no refusal of the instance: %+v", r.CloudError)
	}
}

// TestInstancesWithoutANodeAreKept, so that the end of the attempt finds them; one instance has two spellings.
func TestInstancesWithoutANodeAreKept(t *testing.T) {
	known := []v1alpha1.TrialNodeRecord{{Instance: "/VM/1", Node: "one"}}
	want := []v1alpha1.TrialNodeRecord{{Instance: "/VM/1", Node: "one"}, {Instance: "/vm/2"}}
	if diff := cmp.Diff(want, trial.WithInstances(known, []cloud.Instance{{ID: "/vm/1"}, {ID: "/vm/2"}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestACheckKeepsTheTimeOfItsResult while the result stays the same, whatever its message.
func TestACheckKeepsTheTimeOfItsResult(t *testing.T) {
	first := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	checks := []trial.Check{{Name: "Ready", Result: trial.Pending, Message: "not yet"}, {Name: "Disk", Result: trial.Passed}}
	before := trial.ChecksSince(nil, checks, first)
	checks[0], checks[1].Message = trial.Check{Name: "Ready", Result: trial.Passed}, "the same"
	for i, check := range trial.ChecksSince(before, checks, first.Add(time.Minute)) {
		want := []time.Time{first.Add(time.Minute), first}[i]
		if check.Name != string(checks[i].Name) || check.Message != checks[i].Message || !check.At.Time.Equal(want) {
			t.Errorf("%+v, want the time %s", check, want)
		}
	}
	if before[0].Message != "not yet" || !before[0].At.Time.Equal(first) {
		t.Errorf("the status that was read is changed: %+v", before[0])
	}
}
