package print

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// copiedDonor is a capture by copy that held its donor for eight minutes.
func copiedDonor(phase v1alpha1.Phase) *v1alpha1.Prototype {
	begun := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) *metav1.MicroTime { return new(metav1.NewMicroTime(begun.Add(after))) }
	p := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.09", Donor: v1alpha1.Donor{NodeName: "node-1"}}}
	p.Name, p.Spec.Settings.Donor.Method = "pool1-2026.03.09", v1alpha1.MethodCopy
	p.Status.Phase = phase
	p.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseReserving, StartedAt: *at(0), FinishedAt: at(30 * time.Minute)}}
	p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: at(time.Minute), ReleasedAt: at(9 * time.Minute), State: v1alpha1.DonorReady,
		FrozenFor: &metav1.Duration{Duration: 184 * time.Millisecond}}
	return p
}

// TestACopiedDonorWasNeverAway: each output says how long the disk stood still, and none says that the node was away or came back.
func TestACopiedDonorWasNeverAway(t *testing.T) {
	now := time.Date(2026, 3, 9, 13, 0, 0, 0, time.UTC)
	failed := copiedDonor(v1alpha1.PhaseFailed)
	failed.Status.Failure = &v1alpha1.Failure{Reason: "DonorBusy", Message: "no usable copy"}
	running := copiedDonor(v1alpha1.PhaseGeneralizing)
	running.Status.Donor.ReleasedAt, running.Status.Donor.FrozenFor = nil, nil
	deleted := copiedDonor(v1alpha1.PhaseCleaningUp)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	outputs := map[string]struct{ text, want string }{
		"success": {written(t, func(b *bytes.Buffer) error { return Success(b, copiedDonor(v1alpha1.PhaseSucceeded), now) }),
			"Node node-1 stayed in service (frozen for 0.18s, out of service for 0s); the whole capture took 30m00s."},
		"failure":             {Failure(failed, true, now), "the capture of node node-1 failed; the node stayed in service (see Prototype"},
		"interrupt":           {GoOn(running, now), "kamino cancel pool1-2026.03.09 (the node stays in service)"},
		"description":         {described(t, copiedDonor(v1alpha1.PhaseSucceeded), now), "Frozen:           0.18s"},
		"failed description":  {described(t, failed, now), "Donor:     stayed in service"},
		"running description": {described(t, running, now), "Out of service:   0s\n"},
		"deleted description": {described(t, deleted, now), "the donor is first released, and stays in service"},
	}
	for name, output := range outputs {
		if !strings.Contains(output.text, output.want) {
			t.Errorf("%s: %q is missing in:\n%s", name, output.want, output.text)
		}
		for _, wrong := range []string{"back in service", "returned to service", "out of service for 8m", "still out of service", "stays out of service"} {
			if strings.Contains(output.text, wrong) {
				t.Errorf("%s says %q:\n%s", name, wrong, output.text)
			}
		}
	}
	if away, still := OutOfService(running, now); away != "0s" || still {
		t.Errorf("a running capture: %s, still %t", away, still)
	}
}

func written(t *testing.T, write func(*bytes.Buffer) error) string {
	t.Helper()
	b := &bytes.Buffer{}
	if err := write(b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func described(t *testing.T, p *v1alpha1.Prototype, now time.Time) string {
	t.Helper()
	return written(t, func(b *bytes.Buffer) error { return Describe(b, "", Description{Prototype: p}, now) })
}
