package trial

import (
	"net/http"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestNoQuota: a cloud that has none says nothing of the version. It is asked again, and once time is up the capture ends
// without a verdict.
func TestNoQuota(t *testing.T) {
	g := newGround(t, "noquota", inPool)
	missing := g.fault(fault.Fault{Skip: grows, Status: http.StatusConflict, Code: "OperationNotAllowed", Message: "The quota of the family is used up."})
	g.capture(40*time.Second).ends(t, exitFailed, "TrialInconclusive", "The quota of the family is used up.")
	p := g.prototype()
	if p.Status.Failure == nil || p.Status.Failure.Reason != "TrialInconclusive" || p.Status.Trial.Result != v1alpha1.TrialInconclusive {
		t.Errorf("the Prototype is %s, with %+v and the trial %+v", p.Status.Phase, p.Status.Failure, p.Status.Trial)
	}
	missing.mend()
	g.tagged("")
	g.recipeUntouched()
	g.nothingLeft(0)
}

// TestNoRoomAtFirst: what was accepted and could not be made is given back, and another attempt has the node.
func TestNoRoomAtFirst(t *testing.T) {
	g := newGround(t, "noroom", inPool)
	g.fault(fault.Fault{Skip: grows, Count: 1, Long: true, Code: "AllocationFailed", Message: "There is no capacity in the zone."})
	g.capture(ample).ends(t, 0, "There is no capacity in the zone.")
	if p := g.prototype(); p.Status.Trial == nil || p.Status.Trial.Attempt != 2 {
		t.Errorf("the trial is %+v, want a second attempt", p.Status.Trial)
	}
	g.hasPassed(0)
}
