package conformance

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// mostRequests is how many requests a whole capture may take, those apart that only look whether something
// has gone on.
const mostRequests = 32

// TestRequestsOfACapture does once what a capture does, with a new process in the middle.
func TestRequestsOfACapture(t *testing.T) {
	w := newWorld(t, options{})
	w.cloud.ResetStats()
	ctx := t.Context()
	if found := w.preflight(); found != nil {
		t.Fatalf("%+v", found)
	}
	look := cloud.OneLook(ctx)
	_, err := w.p.Instance(look, w.a)
	w.must(err)
	before, err := w.p.HoldOf(look, w.a)
	w.must(err)
	w.must(w.p.Hold(ctx, w.a, before.Token))
	from := w.snapshot()
	w.until("started", func() bool {
		power, err := w.p.EnsureStarted(ctx, w.a)
		w.must(err)
		return power == cloud.PowerRunning
	})
	w.must(w.p.Unhold(ctx, w.a, before.Token))

	w.p = w.connect(w.environment(w.secret))
	if have := w.publish(from); have.State != cloud.Complete {
		t.Fatalf("%+v", have)
	}
	w.must(w.p.DeleteSnapshot(ctx, w.a, w.snapshotSpec().Name))
	change, err := w.p.RecipeChange(ctx, w.ref(), true)
	w.must(err)
	w.must(w.p.SetRecipe(ctx, change))
	_, err = w.p.Images(ctx, w.pool)
	w.must(err)
	pool, err := w.p.Pool(ctx, w.pool)
	w.must(err)
	w.must(w.p.SetCapacity(ctx, w.pool, pool.Capacity, pool.Capacity+1))

	stats := w.cloud.Stats()
	t.Logf("%d reads and %d writes, %d looks again and %d polls: %v", stats.Reads, stats.Writes, stats.Repeats, stats.Polls, stats.ByOperation)
	if stats.Reads+stats.Writes > mostRequests {
		t.Errorf("a capture takes %d requests, more than %d: %v", stats.Reads+stats.Writes, mostRequests, stats.ByOperation)
	}
}
