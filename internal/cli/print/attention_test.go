package print

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
)

// TestMeanwhile: a reader who waits for the cloud sees what needs a person, and the captures that run.
func TestMeanwhile(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	capture := func(name string, phase v1alpha1.Phase, progress string) (p v1alpha1.Prototype) {
		p.Name, p.Spec.Donor.NodeName, p.Status.Phase, p.Status.Progress = name, "node-1", phase, progress
		return p
	}
	item := attention.Item{Severity: attention.Warning, Title: "The cloud fails or does not answer for pool pool1.", Next: "Kamino tries again",
		Command: "kamino doctor pool1"}
	for want, got := range map[string]string{
		"Meanwhile, the cluster knows:\nNothing needs you, as far as the cluster knows.": Meanwhile(nil, nil, now),
		"Meanwhile, the cluster knows:\nNEEDS YOU: 1 warning\nwarning   The cloud fails or does not answer for pool pool1.\n" +
			"          Next: Kamino tries again.\n          Run: kamino doctor pool1\n\n" +
			"Capture pool1-2026.03.09 of node node-1: Starting, waiting for the cloud since\n11:58:00 UTC\nCapture new of node node-1: Pending": Meanwhile(
			[]attention.Item{item}, []v1alpha1.Prototype{
				capture("pool1-2026.03.09", v1alpha1.PhaseStarting, "waiting for the cloud since 11:58:00 UTC"),
				capture("old", v1alpha1.PhaseSucceeded, ""), capture("new", "", ""),
			}, now),
	} {
		if got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
}
