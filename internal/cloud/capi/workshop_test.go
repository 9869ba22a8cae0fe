package capi

import (
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestRightsOfWorkshops: the workshops of every kind of machine need rights, and the same as trials.
func TestRightsOfWorkshops(t *testing.T) {
	for kind := range infrastructures {
		of := map[string][]string{}
		for _, need := range rights(kind) {
			of[need.For] = append(of[need.For], need.Resource)
		}
		if trial, copied := of[cloud.ForTrialApart], of[cloud.ForCopy]; len(trial) == 0 || !slices.Equal(copied, trial) {
			t.Errorf("%s: a trial needs %v, and a copy %v", kind, trial, copied)
		}
	}
}
