package trouble

import (
	"net/http"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// pause lets time pass that a test is about.
func (g *ground) pause(d time.Duration) {
	g.Helper()
	select {
	case <-time.After(d):
	case <-g.Context().Done():
		g.Fatal(g.Context().Err())
	}
}

// TestAPIServerIsAwayWhileTheDonorIsOut: it stops answering, and then it breaks off what is open.
func TestAPIServerIsAwayWhileTheDonorIsOut(t *testing.T) {
	g := newGround(t, "name=away,nodes=2")
	before := g.look()
	network := g.newLine()
	snapshot := g.hold(g.cloudGate(), http.MethodPut, "/snapshots/")
	capture := g.capture(g.nodes[0])
	snapshot.await(g)
	network.hush()
	snapshot.letGo()
	g.pause(1500 * time.Millisecond)
	network.cut()
	eventually(t, "the command says so", func() (bool, string) {
		return capture.heard("trouble: "), capture.stderr.String()
	})
	g.must(network.mend())
	capture.ends(t, 0, "the trouble is over")
	g.captured(before, g.nodes[0])
}

// TestAPIServerIsAwayForAMinute: a command that cannot renew the Lease stops driving, after 20 seconds, gets
// the Lease again when the API server is back, and goes on.
func TestAPIServerIsAwayForAMinute(t *testing.T) {
	g := newGround(t, "name=faraway,nodes=2")
	before := g.look()
	network := g.newLine()
	publishing := g.hold(g.cloudGate(), http.MethodPut, "/versions/")
	capture := g.capture(g.nodes[0])
	publishing.await(g)
	network.cut()
	publishing.letGo()
	g.pause(time.Minute)
	if p := g.prototype(); p.Status.Phase == v1alpha1.PhaseSucceeded {
		t.Error("the capture went on without the API server")
	}
	g.must(network.mend())
	capture.ends(t, 0, "the API server has not answered since", "the trouble is over")
	g.captured(before, g.nodes[0])
}

func TestAPIServerCannotBeReached(t *testing.T) {
	g := newGround(t, "name=nowhere,nodes=2")
	before := g.look()
	g.newLine().cut()
	g.capture(g.nodes[0]).ends(t, 6, "the API server can't be reached")
	g.untouched(before)
}

func TestCloudCannotBeReached(t *testing.T) {
	g := newGround(t, "name=nocloud,nodes=2")
	before := g.look()
	g.cloudGate().refuse("", http.StatusServiceUnavailable, "ServiceUnavailable", "The service is temporarily unavailable.")
	g.capture(g.nodes[0]).ends(t, 6, "temporarily unavailable", g.pool.ScaleSet())
	g.untouched(before)
}
