package simulator

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := NewQueues()
		var mu sync.Mutex
		var ended []string
		run := func(name string, takes time.Duration, in ...string) <-chan struct{} {
			return lanes.Run(in, func() {
				time.Sleep(takes)
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, name)
			})
		}
		run("first of a", 3*time.Second, "a")
		run("first of b", time.Second, "b")
		both := run("both", time.Second, "a", "b")
		run("second of b", time.Second, "b")
		run("alone", 10*time.Second, "c")
		<-both
		mu.Lock()
		if want := []string{"first of b", "first of a", "both"}; !slices.Equal(ended, want) {
			t.Errorf("ended so far: %v, want %v", ended, want)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		if want := []string{"first of b", "first of a", "both", "second of b", "alone"}; !slices.Equal(ended, want) {
			t.Errorf("ended: %v, want %v", ended, want)
		}
		lanes.Close()
	})
}

func TestClosedQueuesRunNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := NewQueues()
		var done []string
		lanes.Run([]string{"a"}, func() {
			<-lanes.Context().Done()
			done = append(done, "in flight")
		})
		lanes.Run([]string{"a"}, func() { done = append(done, "queued") })
		synctest.Wait()
		lanes.Close()
		<-lanes.Run([]string{"a"}, func() { done = append(done, "late") })
		if len(done) == 0 || done[0] != "in flight" || slices.Contains(done, "late") {
			t.Errorf("done were %v, want what was in flight and nothing late", done)
		}
	})
}
