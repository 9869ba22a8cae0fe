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

// fate is what befalls a request.
type fate int

const (
	passes fate = iota
	// lostBefore is a request that never arrives, lostAfter one whose answer never does.
	lostBefore
	lostAfter
	// killedBefore and killedAfter lose it too, and the controller dies at that moment.
	killedBefore
	killedAfter
)

func (f fate) after() bool { return f == lostAfter || f == killedAfter }

// Of so many requests that change something, one is lost, and one kills the controller. Of those that only look,
// one in lookLost never arrives.
const (
	writeLost  = 20
	writeKills = 30
	lookLost   = 100
	// killsANight bounds the kills between two skips, so that a night ends.
	killsANight = 3
)

// troubles decides, seeded, what befalls the requests. In calm times nothing does.
type troubles struct {
	mu     sync.Mutex
	random *rand.Rand
	calm   bool
	kills  int // left for this night

	asked, lost int
}

func (t *troubles) fateOf(r *http.Request) fate {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.calm || strings.Contains(r.URL.Path, "/leases/") || strings.HasSuffix(r.URL.Path, "/token") {
		return passes
	}
	before := t.random.IntN(2) == 0
	if looks(r) {
		if r.URL.Query().Get("watch") != "true" && t.random.IntN(lookLost) == 0 {
			t.lost++
			return lostBefore
		}
		return passes
	}
	// A decision that is lost is repeated after half a minute, which this test's nights do not have: who makes it
	// is killed, or it gets through.
	// An event more or less is no moment to die at.
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

// looks tells whether a request changes nothing: AWS is asked for everything by POST, and an API server who may do what.
func looks(r *http.Request) bool {
	return r.Method == http.MethodGet || sandboxtest.Write(r) == "" || strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// night lets kills happen again.
func (t *troubles) night() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kills = killsANight
}

func (t *troubles) calmed(calm bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calm = calm
}

// draw is a number below n of the week's own.
func (t *troubles) draw(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

// kill ends the controller as a lost machine does, and starts another one, which finds the Lease free, as it
// would half a minute later. What happens meanwhile may be nil.
func (w *week) kill(when string, meanwhile func()) {
	w.controller.Lock()
	defer w.controller.Unlock()
	if w.controller.child == nil {
		return
	}
	w.controller.child.kill()
	flying := 0
	for _, p := range w.prototypes() {
		if !ended(&p) {
			flying++
		}
	}
	w.killed++
	if flying > 0 {
		w.killedInFlight++
	}
	w.Logf("%s: the controller is killed %s, with %d captures in flight", now().Format(time.DateTime), when, flying)
	if meanwhile != nil {
		meanwhile()
	}
	w.freeLease()
	w.controller.child = w.newController()
}

// vanishing says when the next donor vanishes: with the first request that matches, before it is carried out.
type vanishing struct {
	sync.Mutex
	next  *moment
	count int
}

func (v *vanishing) at(next moment) {
	v.Lock()
	defer v.Unlock()
	v.next = &next
}

// take tells whether the request is the one, once.
func (v *vanishing) take(server sandboxtest.Server, r *http.Request) bool {
	v.Lock()
	defer v.Unlock()
	if v.next == nil || v.next.server != server {
		return false
	}
	if write := sandboxtest.Write(r); write == "" || !strings.HasPrefix(write, v.next.write) || !strings.Contains(strings.ToLower(sandboxtest.Said(r)), v.next.says) {
		return false
	}
	v.next = nil
	return true
}

// vanishIfMeant takes the donor away whose capture the request is of.
func (w *week) vanishIfMeant(server sandboxtest.Server, r *http.Request) {
	if !w.vanish.take(server, r) {
		return
	}
	said := strings.ToLower(sandboxtest.Said(r))
	for _, p := range w.prototypes() {
		if ended(&p) || !strings.Contains(said, strings.ToLower(p.Spec.Pool)) && !strings.Contains(said, instanceOf(&p)) {
			continue
		}
		w.Logf("%s: donor %s vanishes while %s is %s", now().Format(time.DateTime), p.Spec.Donor.NodeName, p.Name, p.Status.Phase)
		if err := w.hands.vanish(context.Background(), &p); err != nil {
			w.Errorf("donor %s: %v", p.Spec.Donor.NodeName, err)
		}
		w.vanish.Lock()
		w.vanish.count++
		w.vanish.Unlock()
		return
	}
	w.Errorf("%s is of no capture", said)
}

// instanceOf is what a request says that is about a capture's donor: on Azure the whole path, which ends with a mere number.
func instanceOf(p *v1alpha1.Prototype) string {
	id := strings.ToLower(p.Spec.Donor.ProviderID)
	if whole, azure := strings.CutPrefix(id, "azure://"); azure {
		return whole
	}
	return path.Base(id)
}

// ended tells whether a capture has, well or not, and nothing of it is left to do.
func ended(p *v1alpha1.Prototype) bool {
	return (p.Status.Phase == v1alpha1.PhaseFailed || p.Status.Phase == v1alpha1.PhaseSucceeded) && len(p.Finalizers) == 0
}

// trouble orders the night's faults of the cloud.
func (w *week) trouble() {
	for range 2 {
		f := w.faults[w.troubles.draw(len(w.faults))]
		w.Logf("%s: the cloud has trouble: %s", now().Format(time.DateTime), f.Name)
		if _, err := sandbox.Cloud().AddFault(f); err != nil {
			w.Fatal(fmt.Errorf("fault %s: %w", f.Name, err))
		}
	}
}
