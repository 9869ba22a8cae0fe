package conformance

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
)

// TestContract runs every sentence of the provider contract against the simulated cloud, with a pool whose nodes join by an extension
// once, and with a pool whose nodes join by customData.
func TestContract(t *testing.T) {
	for _, profile := range []string{"static", "bootstrap"} {
		t.Run(profile, func(t *testing.T) {
			cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
				w := newCloudEnv(t, options{pool: func(p *simulator.PoolSpec) { p.Profile = profile }})
				h := w.harness()
				h.Provider, h.Pool, h.NotCopyable = w.p, w.pool, profile == "static"
				return h
			})
		})
	}
}

// powerOffGuest switches a machine off from within.
func (w *cloudEnv) powerOffGuest(id cloud.InstanceID) {
	w.t.Helper()
	for _, spec := range w.cloud.Specs() {
		if w.p.SameInstance(cloud.InstanceID(spec.ProviderID), id) {
			w.must(w.fleet.PowerOff(w.t.Context(), spec.ID, false))
			return
		}
	}
	w.t.Fatalf("there is no machine %s", id)
}
