package azure

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// bucket is a principal's token bucket.
type bucket struct {
	tokens float64
	filled time.Time
}

// throttle takes a token for the call, and says what is left.
func (s *Server) throttle(header http.Header, c *call) *problem {
	t := s.config.Throttle
	kind, burst, rate := "writes", t.WriteBurst, t.WriteRate
	resource := "PutOperation3Min"
	switch c.r.Method {
	case http.MethodGet, http.MethodHead:
		kind, burst, rate = "reads", t.ReadBurst, t.ReadRate
		resource = "GetOperation3Min"
	case http.MethodDelete:
		kind = "deletes"
	}
	left, wait := s.take(c.principal.ClientID+"/"+kind, burst, rate)
	if wait > 0 {
		p := refuse(http.StatusTooManyRequests, "SubscriptionRequestsThrottled",
			"Number of '%s' requests for subscription '%s' actor '%s' exceeded. Please try again after '%d' seconds after additional tokens are available.",
			kind, s.config.SubscriptionID, c.principal.ObjectID, int(math.Ceil(wait.Seconds())))
		p.header = http.Header{}
		s.retryAfter(p.header, wait)
		return p
	}
	header.Set("x-ms-ratelimit-remaining-subscription-"+kind, strconv.Itoa(left))
	if c.route.noun == "pool" || c.route.noun == "instance" {
		header.Set("x-ms-ratelimit-remaining-resource", fmt.Sprintf("%s/%s;%d", computeNamespace, vmssCounter(c, resource), left))
	}
	return nil
}

// vmssCounter names Compute's own counter.
func vmssCounter(c *call, otherwise string) string {
	if c.r.Method != http.MethodGet {
		return otherwise
	}
	if c.route.noun == "instance" {
		return "GetVMScaleSetVM3Min"
	}
	return "GetVMScaleSet3Min"
}

// take returns what is left in the bucket, or how long (simulated) it takes to have a token again.
func (s *Server) take(name string, burst, rate float64) (int, time.Duration) {
	s.bucketMu.Lock()
	defer s.bucketMu.Unlock()
	now := time.Now()
	b := s.buckets[name]
	if b == nil {
		b = &bucket{tokens: burst, filled: now}
		s.buckets[name] = b
	}
	scale := max(s.config.Clock.Scale, 0)
	if scale == 0 {
		scale = 1
	}
	b.tokens = min(burst, b.tokens+now.Sub(b.filled).Seconds()*scale*rate)
	b.filled = now
	if b.tokens < 1 {
		return 0, time.Duration((1 - b.tokens) / rate * float64(time.Second))
	}
	b.tokens--
	return int(b.tokens), 0
}
