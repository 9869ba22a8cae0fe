package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

const further = fleet.DiskID("vol-0123456789abcdef0")

// withFurther starts a donor and another machine, and attaches a copy of the donor's disk to the other.
func (w *fleetEnv) withFurther() (donor, other fleet.Spec) {
	w.Helper()
	donor, other = w.donor(), spec(2)
	w.launch(other, platformImage)
	w.ready("pool000002", other.ID)
	if err := w.copyFlushed(further, donor.Disk); err != nil {
		w.Fatal(err)
	}
	if err := w.fleet.Attach(w.Context(), other.ID, further, "vol0123456789abcdef0"); err != nil {
		w.Fatal(err)
	}
	return donor, other
}

// TestFurtherDisk: a running machine sees a further disk by its serial number. The disk is no part of the machine's own disk.
func TestFurtherDisk(t *testing.T) {
	w := newFleetEnv(t)
	donor, other := w.withFurther()
	link := filepath.Join(w.tree(other.ID), disk.Further, "vol0123456789abcdef0")
	if got, want := disk.MachineID(link), disk.MachineID(w.tree(donor.ID)); got != want || got == disk.MachineID(w.tree(other.ID)) {
		t.Errorf("the further disk has machine ID %q, and the donor %q", got, want)
	}
	if err := w.fleet.CopyDisk(t.Context(), "snap-1", other.Disk); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(w.fleet.DiskTree("snap-1"), disk.Further)); !os.IsNotExist(err) {
		t.Errorf("the further disk is on the machine's own: %v", err)
	}
	if err := w.fleet.DeleteDisk(t.Context(), further); err == nil {
		t.Error("the disk of a running machine was deleted")
	}
	for range 2 {
		if err := w.fleet.Detach(t.Context(), other.ID, further); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(link); !os.IsNotExist(err) {
		t.Errorf("detached, the disk is still there: %v", err)
	}
	if err := w.fleet.DeleteDisk(t.Context(), further); err != nil {
		t.Error(err)
	}
}

// TestFurtherDiskThatIsMounted: a disk of the machine's own directories prevents a copy of the running machine. Volumes of pods, and disks
// that nothing mounts, do not.
func TestFurtherDiskThatIsMounted(t *testing.T) {
	for dir, refused := range map[string]bool{"": false, "/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pv/mount": false, "/var/lib/containerd": true} {
		w := newFleetEnv(t)
		_, other := w.withFurther()
		root := w.tree(other.ID)
		if dir != "" {
			if err := disk.Mount(root, "vol0123456789abcdef0", dir); err != nil {
				t.Fatal(err)
			}
		}
		host, err := tree.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		err = quiesce.CheckDisk(host)
		host.Close()
		if why := (*quiesce.RefusedError)(nil); errors.As(err, &why) != refused || !refused && err != nil {
			t.Errorf("mounted at %q: %v", dir, err)
		} else if refused && (!strings.Contains(err.Error(), dir+" is on another disk (nvme1n1)") || !strings.Contains(err.Error(), "capture the node in place, if it can return")) {
			t.Errorf("it says: %v", err)
		}
	}
}

// TestBootWithFurtherDisk: a machine that boots with a copy of another root boots the copy, also after the end of the fleet.
func TestBootWithFurtherDisk(t *testing.T) {
	w := newFleetEnv(t)
	_, other := w.withFurther()
	bootID := func(root string) bool {
		_, err := os.Stat(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
		return err == nil
	}
	if !bootID(w.tree(other.ID)) || bootID(w.fleet.DiskTree(further)) {
		t.Fatal("before, the machine runs from another disk")
	}
	if err := w.fleet.PowerOff(t.Context(), other.ID, false); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.PowerOn(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if bootID(w.tree(other.ID)) || !bootID(w.fleet.DiskTree(further)) {
		t.Error("the machine booted from its own disk")
	}
	if err := w.fleet.PowerOff(t.Context(), other.ID, true); err != nil {
		t.Fatal(err)
	}
	w.fleet.Close()
	w.open(nil)
	if err := w.fleet.PowerOn(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if !bootID(w.fleet.DiskTree(further)) {
		t.Error("the next fleet has forgotten the further disk")
	}
}
