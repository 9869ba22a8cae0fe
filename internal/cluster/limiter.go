package cluster

import (
	"context"

	"k8s.io/client-go/util/flowcontrol"
)

// contextLimiter waits until the context ends, and returns the context's error. The wrapped limiter returns early, with another
// error, if the deadline comes first. Callers would see a failure.
type contextLimiter struct{ flowcontrol.RateLimiter }

func newContextLimiter(qps float32, burst int) contextLimiter {
	return contextLimiter{flowcontrol.NewTokenBucketRateLimiter(qps, burst)}
}

// Wait implements flowcontrol.RateLimiter.
func (p contextLimiter) Wait(ctx context.Context) error {
	err := p.RateLimiter.Wait(ctx)
	if err == nil {
		return nil
	}
	if _, limited := ctx.Deadline(); limited {
		<-ctx.Done()
	}
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	return err
}
