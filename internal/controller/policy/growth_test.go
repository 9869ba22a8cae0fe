package policy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPodsThatWaitAskForAPass: PodsWait runs once a minute, and Expect decides whether a pass follows.
func TestPodsThatWaitAskForAPass(t *testing.T) {
	for name, test := range map[string]struct {
		waits, expects bool
		err            error
		passes         int
	}{
		"pods wait":                   {true, true, nil, 3},
		"they wait, and it is known":  {true, false, nil, 0},
		"none waits":                  {false, true, nil, 0},
		"the API server does not say": {false, true, errors.New("forbidden"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				asks, q := 0, &recordedQueue{}
				r := &Reconciler{Expect: func() bool { return test.expects }, PodsWait: func(context.Context) (bool, error) {
					asks++
					return test.waits, test.err
				}}
				if err := r.watchGrowth(ctx, q); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3*growthInterval + time.Second)
				stop()
				synctest.Wait()
				if asks != 3 || len(q.after) != test.passes {
					t.Errorf("asked %d times, %d passes, want %d", asks, len(q.after), test.passes)
				}
			})
		})
	}
	q := &recordedQueue{}
	if err := (&Reconciler{}).watchGrowth(t.Context(), q); err != nil || len(q.after) > 0 {
		t.Errorf("unknown: %v, %d passes", err, len(q.after))
	}
}
