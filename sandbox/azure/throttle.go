package azure

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// throttle takes a token for the call, and writes the rest into a header.
func (s *front) throttle(header http.Header, c *call) *problem {
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
	left, wait := s.buckets.Take(c.principal.ClientID+"/"+kind, burst, rate)
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
