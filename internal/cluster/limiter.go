package cluster

import (
	"context"

	"k8s.io/client-go/util/flowcontrol"
)

// patient is a limit of requests that ends a wait when its context ends, and says so with the context's own error. The one
// that it is made of gives up as soon as it sees that the deadline comes first, with an error that is no deadline's: who
// asks the context then finds it going on, and takes the end of the time that it set for a failure.
type patient struct{ flowcontrol.RateLimiter }

func newPatient(qps float32, burst int) patient {
	return patient{flowcontrol.NewTokenBucketRateLimiter(qps, burst)}
}

// Wait implements flowcontrol.RateLimiter.
func (p patient) Wait(ctx context.Context) error {
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
