package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
)

func TestBetween(t *testing.T) {
	failed := func(reason string, d *v1alpha1.DonorStatus) v1alpha1.PrototypeStatus {
		return v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{Reason: reason}, Donor: d}
	}
	lasted := func(d time.Duration) *time.Duration { return &d }
	draining := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining, Donor: donor(0, 0), Steps: []v1alpha1.Step{
		step(v1alpha1.PhaseReserving, 0, time.Second), step(v1alpha1.PhaseDraining, time.Second, 0)}}
	generalizing := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseGeneralizing, Donor: donor(0, 0), Steps: []v1alpha1.Step{
		step(v1alpha1.PhaseReserving, 0, time.Second), step(v1alpha1.PhaseDraining, time.Second, time.Minute),
		step(v1alpha1.PhaseGeneralizing, time.Minute, 0)}}
	for name, test := range map[string]struct {
		before, after v1alpha1.PrototypeStatus
		want          Observation
	}{
		"nothing":      {},
		"the same":     {before: draining, after: draining},
		"the same end": {before: failed("DrainTimeout", donor(0, 9)), after: failed("DrainTimeout", donor(0, 9))},
		"a step":       {draining, generalizing, Observation{Steps: []StepTime{{v1alpha1.PhaseDraining, 59 * time.Second}}}},
		"a step, overseen": {v1alpha1.PrototypeStatus{}, generalizing,
			Observation{Steps: []StepTime{{v1alpha1.PhaseReserving, time.Second}, {v1alpha1.PhaseDraining, 59 * time.Second}}}},
		"a lost status": {generalizing, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining}, Observation{}},
		"a step after a lost status": {
			draining, v1alpha1.PrototypeStatus{Steps: []v1alpha1.Step{step(v1alpha1.PhaseReserving, time.Hour, time.Hour+time.Second)}},
			Observation{Steps: []StepTime{{v1alpha1.PhaseReserving, time.Second}}},
		},
		"a step of no known phase": {v1alpha1.PrototypeStatus{},
			v1alpha1.PrototypeStatus{Steps: []v1alpha1.Step{step("Dancing", 0, time.Second)}}, Observation{}},
		"a clock set back": {v1alpha1.PrototypeStatus{},
			v1alpha1.PrototypeStatus{Steps: []v1alpha1.Step{step(v1alpha1.PhaseStopping, time.Hour, time.Second)}},
			Observation{Steps: []StepTime{{v1alpha1.PhaseStopping, 0}}}},
		"the donor back": {v1alpha1.PrototypeStatus{Donor: donor(0, 0)}, v1alpha1.PrototypeStatus{Donor: donor(0, 7*time.Minute)},
			Observation{OutOfService: lasted(7 * time.Minute)}},
		"the donor back, reported before": {
			v1alpha1.PrototypeStatus{Donor: donor(0, 7*time.Minute)}, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded, Donor: donor(0, 7*time.Minute)},
			Observation{Ended: &CaptureEnd{Succeeded, ""}},
		},
		"a success": {draining, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded},
			Observation{Ended: &CaptureEnd{Succeeded, ""}}},
		"a failure":           {draining, failed("DrainTimeout", donor(0, 0)), Observation{Ended: &CaptureEnd{Failed, "DrainTimeout"}}},
		"a failure, no donor": {draining, failed("DonorGone", nil), Observation{Ended: &CaptureEnd{Failed, "DonorGone"}}},
		"a refusal": {v1alpha1.PrototypeStatus{}, failed("OnlyReadyNode", nil),
			Observation{Ended: &CaptureEnd{Refused, "OnlyReadyNode"}}},
		"a provider's": {v1alpha1.PrototypeStatus{}, failed("DiskUnsupported", nil),
			Observation{Ended: &CaptureEnd{Refused, "DiskUnsupported"}}},
		"a refusal at the promotion's write": {draining, failed("NodesWouldBeReplaced", donor(0, 0)),
			Observation{Ended: &CaptureEnd{Failed, "NodesWouldBeReplaced"}}},
		"an unknown refusal": {v1alpha1.PrototypeStatus{}, failed("node-17-is-odd", nil),
			Observation{Ended: &CaptureEnd{Refused, OtherReason}}},
		"an unknown failure": {draining, failed("node-17-is-odd", donor(0, 0)), Observation{Ended: &CaptureEnd{Failed, OtherReason}}},
		"a deletion":         {draining, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed}, Observation{Ended: &CaptureEnd{Cancelled, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, RefusalsOf(registry.All()...).Between(&test.before, &test.after)); diff != "" {
				t.Errorf("Between (-want +got):\n%s", diff)
			}
		})
	}
}

// For any number of unseen statuses, each step, the donor's return and the end count once.
func TestMissedStatusesAreCountedOnce(t *testing.T) {
	all := life()
	last := all[len(all)-1]
	want := RefusalsOf(registry.All()...).Between(&v1alpha1.PrototypeStatus{}, &last)
	if len(want.Steps) != 6 || want.OutOfService == nil || want.Ended == nil {
		t.Fatalf("the whole life is reported as %+v", want)
	}
	rapid.Check(t, func(r *rapid.T) {
		var got Observation
		before := v1alpha1.PrototypeStatus{}
		for i := range all {
			if i < len(all)-1 && !rapid.Bool().Draw(r, "seen") {
				continue
			}
			for range rapid.IntRange(1, 3).Draw(r, "times") {
				changes := RefusalsOf(registry.All()...).Between(&before, &all[i])
				got.Steps = append(got.Steps, changes.Steps...)
				if changes.OutOfService != nil {
					if got.OutOfService != nil {
						r.Fatal("the donor came back twice")
					}
					got.OutOfService = changes.OutOfService
				}
				if changes.Ended != nil {
					if got.Ended != nil {
						r.Fatal("the capture ended twice")
					}
					got.Ended = changes.Ended
				}
				before = all[i]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("counted (-want +got):\n%s", diff)
		}
	})
}
