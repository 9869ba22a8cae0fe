package week

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// fate is the outcome of a request.
type fate int

const (
	passes fate = iota
	// lostBefore is a request that never arrives, and lostAfter is a request whose response never arrives.
	lostBefore
	lostAfter
	// killedBefore and killedAfter also kill the controller at that moment.
	killedBefore
	killedAfter
)

func (f fate) after() bool { return f == lostAfter || f == killedAfter }

// One of writeLost writes is lost, one of writeKills writes kills the controller, and one of lookLost reads is lost.
const (
	writeLost  = 20
	writeKills = 30
	lookLost   = 100
	// killsANight limits the kills between two skips, so that a night ends.
	killsANight = 3
)

// trouble decides the outcomes of requests from a seed. A stopped trouble changes nothing.
type trouble struct {
	mu      sync.Mutex
	random  *rand.Rand
	stopped bool
	kills   int // left for this night

	asked, lost int
}

func (t *trouble) fateOf(r *http.Request) fate {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.stopped || strings.Contains(r.URL.Path, "/leases/") || strings.HasSuffix(r.URL.Path, "/token") {
		return passes
	}
	before := t.random.IntN(2) == 0
	if onlyReads(r) {
		if r.URL.Query().Get("watch") != "true" && t.random.IntN(lookLost) == 0 {
			t.lost++
			return lostBefore
		}
		return passes
	}
	// The controller repeats a lost decision after half a minute of real time, which the test's nights do not have.
	// So a lost decision comes with a kill. A lost event shows nothing.
	dies := t.kills > 0 && !strings.HasSuffix(r.URL.Path, "/events")
	decides := strings.Contains(r.URL.Path, "/prototypepolicies/") || strings.HasSuffix(r.URL.Path, "/prototypes")
	switch drawn := t.random.IntN(writeLost * writeKills); {
	case drawn%writeKills == 0 && dies:
		t.kills--
		if before {
			return killedBefore
		}
		return killedAfter
	case drawn%writeLost == 0 && !decides:
		t.lost++
		if before {
			return lostBefore
		}
		return lostAfter
	}
	return passes
}

// onlyReads reports whether a request changes nothing. Every request to AWS is a POST, and so is a question for permissions.
func onlyReads(r *http.Request) bool {
	return r.Method == http.MethodGet || sandboxtest.WriteOf(r) == "" || strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// night allows more kills.
func (t *trouble) night() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kills = killsANight
}

// stop stops or starts the trouble.
func (t *trouble) stop(stopped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = stopped
}

// draw is a random number below n.
func (t *trouble) draw(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

// kill kills the controller and starts the next controller. The Lease is deleted, because it would expire after
// half a minute. meanwhile may be nil.
func (w *week) kill(when string, meanwhile func()) {
	w.controller.Lock()
	defer w.controller.Unlock()
	p := w.controller.process
	if p == nil {
		return
	}
	w.controller.process = nil // the exit is no failure
	p.Kill()
	inProgress := 0
	for _, p := range w.prototypes() {
		if !ended(&p) {
			inProgress++
		}
	}
	w.kills++
	if inProgress > 0 {
		w.killsInProgress++
	}
	w.Logf("%s: the controller is killed %s, with %d captures in progress", now().Format(time.DateTime), when, inProgress)
	if meanwhile != nil {
		meanwhile()
	}
	w.freeLease()
	w.controller.process = w.startController()
}

// removal is the time of the removal of the next donor's instance: at the first matching request, before its
// effect.
type removal struct {
	sync.Mutex
	next *moment
	// donors has the captures whose donor was removed, and whether its disk was copied before.
	donors map[string]bool
}

func (v *removal) at(next moment) {
	v.Lock()
	defer v.Unlock()
	v.next = &next
}

// of reports whether the donor of a capture was removed, and whether its disk was copied before.
func (v *removal) of(capture string) (copied, removed bool) {
	v.Lock()
	defer v.Unlock()
	copied, removed = v.donors[capture]
	return copied, removed
}

// take reports whether the request matches, once.
func (v *removal) take(server sandboxtest.Server, r *http.Request) bool {
	v.Lock()
	defer v.Unlock()
	if v.next == nil || v.next.server != server {
		return false
	}
	if write := sandboxtest.WriteOf(r); write == "" || !strings.HasPrefix(write, v.next.write) ||
		!strings.Contains(strings.ToLower(sandboxtest.RequestText(r)), v.next.text) {
		return false
	}
	v.next = nil
	return true
}

// removeDonorAt removes the donor of the capture that sends the request, if a removal is due.
func (w *week) removeDonorAt(server sandboxtest.Server, r *http.Request) {
	if !w.removal.take(server, r) {
		return
	}
	text := strings.ToLower(sandboxtest.RequestText(r))
	for _, p := range w.prototypes() {
		if ended(&p) || !strings.Contains(text, strings.ToLower(p.Spec.Pool)) && !strings.Contains(text, instanceOf(&p)) {
			continue
		}
		w.Logf("%s: donor %s is removed while %s is %s", now().Format(time.DateTime), p.Spec.Donor.NodeName, p.Name, p.Status.Phase)
		w.removal.Lock()
		w.removal.donors[p.Name] = sandboxtest.WriteOf(r) == createVolume
		w.removal.Unlock()
		if err := w.pooler.removeDonor(context.Background(), &p); err != nil {
			w.Errorf("donor %s: %v", p.Spec.Donor.NodeName, err)
		}
		return
	}
	w.Errorf("%s is of no capture", text)
}

// instanceOf returns the text in requests about a capture's donor: on Azure the whole path, which ends with a
// number.
func instanceOf(p *v1alpha1.Prototype) string {
	id := strings.ToLower(p.Spec.Donor.ProviderID)
	if whole, azure := strings.CutPrefix(id, "azure://"); azure {
		return whole
	}
	return path.Base(id)
}

// ended reports whether a capture has succeeded or failed, without remaining work.
func ended(p *v1alpha1.Prototype) bool {
	return (p.Status.Phase == v1alpha1.PhaseFailed || p.Status.Phase == v1alpha1.PhaseSucceeded) && len(p.Finalizers) == 0
}

// addFaults adds the night's faults of the cloud.
func (w *week) addFaults() {
	for range 2 {
		f := w.faults[w.trouble.draw(len(w.faults))]
		w.Logf("%s: the cloud has the fault %s", now().Format(time.DateTime), f.Name)
		if _, err := sandbox.Cloud().AddFault(f); err != nil {
			w.Fatal(fmt.Errorf("fault %s: %w", f.Name, err))
		}
	}
}
