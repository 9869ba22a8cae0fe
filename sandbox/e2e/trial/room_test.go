package trial

import (
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
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
	if text := p.Status.Failure.CloudError; !strings.Contains(text, "OperationNotAllowed") || !strings.Contains(text, "The quota of the family is used up.") {
		t.Errorf("the cloud's own text is %q", text)
	}
	missing.mend()
	g.tagged("")
	g.recipeUntouched()
	g.nothingLeft(0)
}

// TestNoQuotaApart: neither is there room for an instance apart from the pool, at first once the scale set is there, then for that
// itself. The scale set that was made goes.
func TestNoQuotaApart(t *testing.T) {
	g := newGround(t, "farquota", apart)
	var mu sync.Mutex
	tried := map[string]bool{}
	g.env = sandbox.Gates(t, func(_ sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		set := path.Base(r.URL.Path)
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPut || !strings.HasPrefix(set, "kamino-trial-") || tried[set] {
			return sandboxtest.Passage{}
		}
		missing := fault.Fault{Name: "of " + set, Resource: "pool", Operation: "put", Path: "/" + set + "$"}
		if missing.Code, missing.Message = "OperationNotAllowed", "The quota of the family is used up."; len(tried) == 0 {
			missing.Code, missing.Message, missing.Long, missing.Phase = "AllocationFailed", "There is no capacity in the zone.", true, fault.After
		} else {
			missing.Status = http.StatusConflict
		}
		tried[set] = true
		if _, err := sandbox.Cloud().AddFault(missing); err != nil {
			t.Error(err)
		}
		return sandboxtest.Passage{}
	})
	g.capture(time.Minute).ends(t, exitFailed, "TrialInconclusive", "There is no capacity in the zone.", "The quota of the family is used up.")
	p := g.prototype()
	if p.Status.Failure == nil || p.Status.Failure.Reason != "TrialInconclusive" || p.Status.Trial.Result != v1alpha1.TrialInconclusive {
		t.Errorf("the Prototype is %s, with %+v and the trial %+v", p.Status.Phase, p.Status.Failure, p.Status.Trial)
	}
	mu.Lock()
	defer mu.Unlock()
	// Time may be up when the last one has begun and not asked yet.
	if last := int(p.Status.Trial.Attempt); len(tried) < 2 || last < len(tried) || last > len(tried)+1 {
		t.Errorf("it was tried in the scale sets %v, and there were %d attempts", tried, p.Status.Trial.Attempt)
	}
	g.tagged("")
	g.recipeUntouched()
	g.nothingLeft(0)
	if n := g.writes(); n != 0 {
		t.Errorf("the pool was written %d times, want never", n)
	}
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

// TestNoRoomToTheEnd: each attempt is accepted and could not be made. Once time is up the end says what the cloud said, and nobody is
// said to have removed anything.
func TestNoRoomToTheEnd(t *testing.T) {
	g := newGround(t, "nevernoroom", inPool)
	missing := g.fault(fault.Fault{Skip: grows, Long: true, Code: "AllocationFailed", Message: "There is no capacity in the zone."})
	g.capture(40*time.Second).ends(t, exitFailed, "TrialInconclusive", "There is no capacity in the zone.")
	p := g.prototype()
	if f := p.Status.Failure; f == nil || f.Reason != "TrialInconclusive" || strings.Contains(f.Message, "somebody") ||
		!strings.Contains(f.Message, "AllocationFailed") || !strings.Contains(f.CloudError, "AllocationFailed: There is no capacity in the zone.") {
		t.Errorf("the Prototype is %s, with %+v and the trial %+v", p.Status.Phase, f, p.Status.Trial)
	}
	missing.mend()
	g.tagged("")
	g.recipeUntouched()
	g.nothingLeft(0)
}
