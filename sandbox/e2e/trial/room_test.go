package trial

import (
	"net/http"
	"path"
	"slices"
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

// TestNoQuotaApart: neither is there quota for an instance apart from the pool. No scale set is ever made.
func TestNoQuotaApart(t *testing.T) {
	azuresAlone(t)
	g := newGround(t, "farquota", apart)
	refused := g.trialSets(func(int) *fault.Fault {
		return &fault.Fault{Status: http.StatusConflict, Code: "OperationNotAllowed", Message: "The quota of the family is used up."}
	})
	g.capture(40*time.Second).ends(t, exitFailed, "TrialInconclusive", "The quota of the family is used up.")
	p := g.prototype()
	if p.Status.Failure == nil || p.Status.Failure.Reason != "TrialInconclusive" || p.Status.Trial.Result != v1alpha1.TrialInconclusive {
		t.Errorf("the Prototype is %s, with %+v and the trial %+v", p.Status.Phase, p.Status.Failure, p.Status.Trial)
	}
	// Time may be up when the last one has begun and not asked yet.
	if sets, last := refused(), int(p.Status.Trial.Attempt); len(sets) == 0 || last < len(sets) || last > len(sets)+1 {
		t.Errorf("it was tried in the scale sets %v, and there were %d attempts", sets, last)
	}
	g.tagged("")
	g.recipeUntouched()
	g.nothingLeft(0)
	if n := g.writes(); n != 0 {
		t.Errorf("the pool was written %d times, want never", n)
	}
}

// TestNoRoomAtFirstApart: the scale set is there and its instance can't be made. That one goes, and the next attempt has the node.
func TestNoRoomAtFirstApart(t *testing.T) {
	azuresAlone(t)
	g := newGround(t, "farroom", apart)
	made := g.trialSets(func(nth int) *fault.Fault {
		if nth > 1 {
			return nil
		}
		return &fault.Fault{Code: "AllocationFailed", Message: "There is no capacity in the zone.", Long: true, Phase: fault.After}
	})
	g.capture(ample).ends(t, 0, "There is no capacity in the zone.")
	if p := g.prototype(); p.Status.Trial == nil || p.Status.Trial.Attempt != 2 {
		t.Errorf("the trial is %+v, want a second attempt", p.Status.Trial)
	}
	if sets := made(); len(sets) != 2 {
		t.Errorf("it was tried in the scale sets %v, want one for each of two attempts", sets)
	}
	g.hasPassed(0)
}

// trialSets has each scale set of a trial, the first of which is number 1, meet a fault before it is asked for, nil for none.
// What is returned tells which have been asked for.
func (g *ground) trialSets(fate func(nth int) *fault.Fault) func() []string {
	var mu sync.Mutex
	var asked []string
	g.env = sandbox.Gates(g.T, func(_ sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		set := path.Base(r.URL.Path)
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPut || !strings.HasPrefix(set, "kamino-trial-") || slices.Contains(asked, set) {
			return sandboxtest.Passage{}
		}
		asked = append(asked, set)
		if met := fate(len(asked)); met != nil {
			met.Name, met.Resource, met.Operation, met.Path = "of "+set, "pool", "put", "/"+set+"$"
			if _, err := sandbox.Cloud().AddFault(*met); err != nil {
				g.Error(err)
			}
		}
		return sandboxtest.Passage{}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
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
