package conformance

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/cloudtest"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// TestContract runs every sentence of the provider contract against the simulated cloud.
func TestContract(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		w := newWorld(t, options{})
		return cloudtest.Harness{
			Provider:  w.p,
			Pool:      w.pool,
			Instances: w.list(),
			Missing:   cloud.InstanceID("azure://" + string(w.pool) + "/virtualMachines/999"),
			Advance:   advance,
			Looks:     2000,
			FoldsCase: true,
			List:      func(testing.TB) []cloud.InstanceID { return w.list() },
			PowerOffGuest: func(t testing.TB, id cloud.InstanceID) {
				t.Helper()
				w.powerOffGuest(id)
			},
			SetUpgrades: func(t testing.TB, automatic bool) {
				t.Helper()
				w.setUpgrades(automatic)
			},
		}
	})
}

// powerOffGuest switches a machine off from within.
func (w *world) powerOffGuest(id cloud.InstanceID) {
	w.t.Helper()
	for _, spec := range w.cloud.Specs() {
		if w.p.SameInstance(cloud.InstanceID(spec.ProviderID), id) {
			w.must(w.fleet.set(spec.ID, fleet.Off))
			return
		}
	}
	w.t.Fatalf("there is no machine %s", id)
}
