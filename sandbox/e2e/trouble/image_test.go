package trouble

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestImageVersionFails in the cloud: the capture fails, and the same version can be made on the same day.
func TestImageVersionFails(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=badimage,nodes=2")
	e.Fault(fault.Fault{Resource: "version", Operation: "put", Path: e.Group, Long: true, Count: 1, Message: "The source disk could not be read."})
	e.Capture(e.Donor, today).ExpectExit(exitFailed, "the cloud could not create version ", "of pool "+e.Group, "The source disk could not be read.",
		"was returned to service")
	e.AssertReturned(e.Before, e.Donor, 1)
	e.AssertFailed("ImageFailed")
	if e.CountWrites("version delete") == 0 {
		t.Error("the failed version was never removed")
	}

	first := e.State()
	e.Capture(e.Donor, today).ExpectExit(0)
	all := e.Prototypes()
	if len(all) != 2 || all[1].Name != all[0].Name+"-2" || all[1].Status.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("Prototypes: %+v", all)
	}
	if next := e.NextVersion(); next != all[0].Spec.Version {
		t.Errorf("the pool builds its next nodes from version %q", next)
	}
	if boots := e.State().Boots[e.Donor]; boots != first.Boots[e.Donor]+1 {
		t.Errorf("the donor was booted %d times, and %d times before", boots, first.Boots[e.Donor])
	}
	e.AssertEnded()
	e.AssertNothingLeft()
}
