package machine

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestWaitsAreSimulated: the waits of a boot are those of its latencies, however long the boot took on the wall.
func TestWaitsAreSimulated(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	if err := w.fleet.PowerOff(t.Context(), donor.ID, true); err != nil {
		t.Fatal(err)
	}
	w.generalize(w.tree(donor.ID))
	if err := w.copyFlushed("snapshot", donor.Disk); err != nil {
		t.Fatal(err)
	}
	l := Latencies{}.Defaulted()
	if err := w.fleet.PowerOn(t.Context(), donor.ID); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", donor.ID)
	second := w.waits(donor.ID)
	if got := clock.Sum(second, WaitInstall, WaitPull); got != 0 {
		t.Errorf("at its second boot, the donor installed and pulled for %s", got)
	}
	fresh := spec(3)
	fresh.Waited = 40 * time.Second
	w.launch(fresh, platformImage)
	w.ready("pool000003", fresh.ID)
	bootstrap := l.Install + l.Join
	for range fresh.Extensions {
		bootstrap += l.Extension
	}
	for range disk.BaseImages {
		bootstrap += l.Kubelet.ImagePull
	}
	if got, want := clock.Sum(w.waits(fresh.ID)), fresh.Waited+l.PowerOn+l.Boot+bootstrap+l.KubeletStart; got != want {
		t.Errorf("a node of the generic image was Ready after %s, want %s", got, want)
	}
	clone := w.clone("snapshot")
	w.ready("pool000002", clone.ID)
	if got, want := clock.Sum(w.waits(clone.ID)), l.PowerOn+l.Boot+l.KubeletStart; got != want {
		t.Errorf("a node of the golden image was Ready after %s, want %s", got, want)
	}
}

// TestFirstReadOfANewDisk: an image of the disk is read slowly once, and a pulled image never.
func TestFirstReadOfANewDisk(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.donor()
	clone := spec(2)
	clone.ReadRate = 50
	w.launch(clone, donor.Disk)
	m := w.fleet.find(clone.ID)
	for what, want := range map[string]time.Duration{disk.BaseImages[0]: 5 * time.Second, "registry.example.com/pulled:1": 0} {
		if got := m.firstRead(what); got != want {
			t.Errorf("the first read of %s takes %s, want %s", what, got, want)
		}
		if got := m.firstRead(what); got != 0 {
			t.Errorf("the second read of %s takes %s", what, got)
		}
	}
	if got := w.fleet.find(donor.ID).firstRead(disk.BaseImages[0]); got != 0 {
		t.Errorf("a read from a disk at full speed takes %s", got)
	}
}

func (w *fleetEnv) waits(id string) []clock.Wait {
	w.Helper()
	status, err := w.fleet.Machine(id)
	if err != nil {
		w.Fatal(err)
	}
	return status.Waits
}
