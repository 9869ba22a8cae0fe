package conformance

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
)

// TestContract runs every sentence of the provider contract against the simulated cloud.
func TestContract(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		w := newCloudEnv(t, options{})
		h := w.harness()
		h.Provider, h.Pool = w.p, w.pool
		return h
	})
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
