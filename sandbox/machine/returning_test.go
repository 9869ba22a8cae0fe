package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

const (
	bootstrapLog = "var/log/azure/Microsoft.Azure.Extensions.CustomScript/extension.log"
	billingLog   = "var/log/azure/Microsoft.AKS.Compute.AKS.Linux.Billing/extension.log"
)

var billing = fleet.Extension{Name: "AKSLinuxBilling", Publisher: "Microsoft.AKS", Type: "Compute.AKS.Linux.Billing"}

// generalizeLikeCapture generalizes the disk of a running machine with the real rules, and takes the power away.
func (w *fleetEnv) generalizeLikeCapture(s fleet.Spec) {
	w.Helper()
	t, err := tree.OpenRunning(w.tree(s.ID))
	if err != nil {
		w.Fatal(err)
	}
	defer t.Close()
	key := generalize.MachineKey(t)
	if key == "" {
		w.Fatal("the machine has no value that its clones lack")
	}
	if err := w.fleet.PowerOff(w.Context(), s.ID, true); err != nil {
		w.Fatal(err)
	}
	profile, err := rules.Load(v1alpha1.ProfileStatic)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := (&generalize.Runner{Profile: profile, Now: time.Now, Returning: key}).Run(w.Context(), t); err != nil {
		w.Fatal(err)
	}
}

// hasRun reports whether a machine has run a command since the removal of its log.
func (w *fleetEnv) hasRun(id, log string) bool {
	_, err := os.Stat(filepath.Join(w.tree(id), log))
	return err == nil
}

// TestReturningDonorSkipsItsRecipe: a returning donor runs neither extensions nor customData, and keeps its files.
// A clone runs the extensions of its recipe, and so does a clone of an unchanged recipe.
func TestReturningDonorSkipsItsRecipe(t *testing.T) {
	w := newFleetEnv(t)
	donor := spec(1)
	donor.Extensions = append(donor.Extensions, billing)
	w.launch(donor, platformImage)
	w.ready("pool000001", donor.ID)
	for _, log := range []string{bootstrapLog, billingLog} {
		if !w.hasRun(donor.ID, log) {
			t.Fatalf("%s is not even there after the first boot", log)
		}
	}
	credential := filepath.Join(w.tree(donor.ID), "etc/kubernetes/certs/client.crt")
	if err := os.WriteFile(credential, []byte("rotated since"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.generalizeLikeCapture(donor)
	if err := w.copyFlushed("snapshot", donor.Disk); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.PowerOn(t.Context(), donor.ID); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", donor.ID)
	for _, log := range []string{bootstrapLog, billingLog} {
		if w.hasRun(donor.ID, log) {
			t.Errorf("the donor ran it again: %s", log)
		}
	}
	if got := w.readFile(donor.ID, "etc/kubernetes/certs/client.crt"); got != "rotated since" {
		t.Errorf("cloud-init wrote the recipe's files again: %q", got)
	}

	promoted, whole := spec(2), spec(3)
	promoted.CustomData, promoted.Extensions = []byte(emptyCloudConfig), []fleet.Extension{billing}
	whole.Extensions = append(whole.Extensions, billing)
	w.launch(promoted, "snapshot")
	w.ready("pool000002", promoted.ID)
	w.launch(whole, "snapshot")
	w.ready("pool000003", whole.ID)
	if w.hasRun(promoted.ID, bootstrapLog) || !w.hasRun(promoted.ID, billingLog) {
		t.Error("a clone of a promoted recipe runs the bootstrap, or not what the recipe still has")
	}
	if !w.hasRun(whole.ID, bootstrapLog) || !w.hasRun(whole.ID, billingLog) {
		t.Error("a clone whose recipe has them does not run its extensions")
	}
	for _, s := range []fleet.Spec{donor, promoted, whole} {
		if _, err := os.Stat(filepath.Join(w.tree(s.ID), generalize.ReturningPath)); err == nil {
			t.Errorf("%s keeps what was kept for the donor", s.ComputerName)
		}
	}
}

// TestReturningDonorBootTime: the donor is back at once, although the work of the recipe needs a month.
func TestReturningDonorBootTime(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	w.generalizeLikeCapture(donor)
	w.fleet.Close()
	const month = 30 * 24 * time.Hour
	f, err := New(t.Context(), Config{
		Dir: w.dir, Clock: clock.Clock{Scale: timeScale, Calendar: &w.calendar}, Client: w.client,
		Latencies: Latencies{Install: month, Join: month, Extension: month},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.fleet = f
	t.Cleanup(f.Close)
	if err := f.PowerOn(t.Context(), donor.ID); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", donor.ID)
}
