package capi_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
)

// countingTransport counts requests.
type countingTransport struct {
	http.RoundTripper
	asked *atomic.Int32
}

func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// TestRequestsOfAnObservation counts the requests to the management cluster for each read of an unchanged pool.
// docs/reference/cluster-api.md lists the numbers.
func TestRequestsOfAnObservation(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	var asked atomic.Int32
	config := rest.CopyConfig(p.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return countingTransport{inner, &asked} })
	r, id := p.recipesBy(config), p.id()
	nodes := []cloud.NodeValues{{ProviderID: p.instances()[0]}, {ProviderID: p.instances()[1]}}
	if _, err := r.Pool(t.Context(), id); err != nil { // discovery, and the read of the Cluster
		t.Fatal(err)
	}
	for what, look := range map[string]struct {
		do   func(*capi.PoolProvider) error
		cost int32
	}{
		"pool":        {func(r *capi.PoolProvider) error { return errorOf(r.Pool(t.Context(), id)) }, 3},
		"nodes":       {func(r *capi.PoolProvider) error { return errorOf(r.PoolsOf(t.Context(), nodes)) }, 2},
		"instances":   {func(r *capi.PoolProvider) error { return errorOf(r.Instances(t.Context(), id)) }, 7},
		"permissions": {func(r *capi.PoolProvider) error { return errorOf(r.Permissions(t.Context(), id)) }, 4},
	} {
		asked.Store(0)
		if err := look.do(r); err != nil || asked.Load() != look.cost {
			t.Errorf("a look at %s takes %d requests, want %d (%v)", what, asked.Load(), look.cost, err)
		}
	}
}
