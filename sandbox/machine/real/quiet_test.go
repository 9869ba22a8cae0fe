//go:build machines

package real

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// withFirmware is PID 1 of a machine until systemd starts. The script gives the machine a firmware with a UUID, below a copy of
// /sys/class, because nothing can be created in /sys. Only directories and links are copied: a read of a file can change the kernel.
const withFirmware = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /sys/class && mkdir -p /run/firmware/dmi/id || exit 1
find . -type d -exec mkdir -p /run/firmware/{} \; && find . -type l -exec cp -d {} /run/firmware/{} \; || exit 1
echo %s >/run/firmware/dmi/id/product_uuid && mount --bind /run/firmware /sys/class || exit 1
exec /lib/systemd/systemd "$@"
`

// bootWithFirmware starts a machine with a firmware UUID. Like a virtual machine, the machine does not look like a container.
func (l *lab) bootWithFirmware(t *testing.T, name, image, uuid string) *machine {
	t.Helper()
	write(t, filepath.Join(l.media, "firmware-"+name), fmt.Sprintf(withFirmware, uuid), 0o755)
	m, options := l.insert(t, name, image, "")
	m.spawn = exec.Command("systemd-nspawn", append(options, "/bin/sh", "/mnt/firmware-"+name, notForOnline)...)
	m.start(t)
	m.sh(t, "rm /run/systemd/container")
	return m
}

// patchUnits are the units of Debian that install or download patches.
var patchUnits = []string{"apt-daily-upgrade.timer", "apt-daily.timer", "unattended-upgrades.service"}

// unitStates are the states of the units: whether each is enabled, and whether each runs. With masks, apt's periodic work is off.
func unitStates(t *testing.T, m *machine) (states []string) {
	t.Helper()
	for _, unit := range patchUnits {
		states = append(states, m.sh(t, "systemctl show -P UnitFileState -P ActiveState "+unit+" | paste -sd' '"))
	}
	return append(states, m.sh(t, "apt-config dump --format '%v' APT::Periodic::Enable"))
}

// TestQuietMachines: the image masks the tools that install patches, with Debian's own units. The donor's tools run again after its
// return, and Kamino patches a clone like any other node.
func TestQuietMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("the core runs without the programs for a signed repository")
	}
	l := newLab(t)
	p := &patching{lab: l, repo: l.serveApt(t)}
	const donorUUID, cloneUUID = "4c4c4544-0042-3510-8052-b4c04f4d3132", "8a1b2c3d-0000-4000-8000-00000000000b"
	donor := l.bootWithFirmware(t, "donor", l.platformImage(t, disk.Static), donorUUID)
	p.machine = donor
	p.repo.use(t, donor)
	p.repo.add(t, suiteStable, aptPackage{name: "tool-a", version: "1.0"})
	p.publishAll(t)
	donor.sh(t, "apt-get update -q && apt-get install -q -y tool-a")
	// The daily work would start apt in the middle of the test.
	donor.sh(t, "systemctl stop apt-daily.service apt-daily-upgrade.service")
	before := unitStates(t, donor)
	if want := []string{"active enabled", "active enabled", "active enabled", ""}; !slices.Equal(before, want) {
		t.Fatalf("the donor's units are %q, want %q", before, want)
	}
	l.lap("the donor serves")
	l.generalizeLive(t, donor, "--quiet-nodes")
	l.lap("the donor is generalized, its power cut")

	clone := l.bootWithFirmware(t, "clone", copyDisk(t, donor.image, l.imageOf("clone")), cloneUUID)
	quiet := []string{"inactive masked", "inactive masked", "inactive masked", "0"}
	if diff := cmp.Diff(quiet, unitStates(t, clone)); diff != "" {
		t.Errorf("a clone's units (-want +got):\n%s", diff)
	}
	if failed := clone.sh(t, "systemctl --failed --plain --no-legend"); failed != "" {
		t.Errorf("units of the clone failed: %s", failed)
	}
	t.Run("second pioneer", func(t *testing.T) { p.testQuietClone(t, clone) })
	testUnmask(t, clone, quiet, before)
	clone.cutPower(t)
	discard(t, clone.image)
	l.lap("a clone is patched, and its masks end")

	again := l.bootWithFirmware(t, "donor", donor.image, donorUUID)
	await(t, "the donor's units to run", func() bool { return slices.Equal(unitStates(t, again), before) })
	if timers := again.sh(t, "systemctl list-timers --no-legend apt-daily*"); strings.Count(timers, "apt-daily") < 4 {
		t.Errorf("the donor's timers are %q", timers)
	}
	if _, err := again.try("test -e /etc/apt/apt.conf.d/99kamino-quiet || test -e /var/lib/kamino/returning"); err == nil {
		t.Error("the donor keeps a file of the image")
	}
	l.lap("the donor is back, with its tools")
}

// testUnmask: the masks of a clone end as soon as its image is older than 14 days, and not before.
func testUnmask(t *testing.T, clone *machine, quiet, unmasked []string) {
	t.Helper()
	if next := clone.sh(t, "systemctl show -P ActiveState -P NextElapseUSecRealtime kamino-unmask.timer"); !strings.Contains(next, "active") || strings.Count(next, "\n") == 0 {
		t.Errorf("the timer that ends the masks: %q", next)
	}
	clone.sh(t, "touch -d '13 days ago' /var/lib/kamino/generalize.json; systemctl start kamino-unmask.service || true")
	if diff := cmp.Diff(quiet, unitStates(t, clone)); diff != "" {
		t.Errorf("an image of 13 days (-want +got):\n%s", diff)
	}
	clone.sh(t, "touch -d '15 days ago' /var/lib/kamino/generalize.json; systemctl start kamino-unmask.service")
	await(t, "the clone's tools to run", func() bool { return slices.Equal(unitStates(t, clone), unmasked) })
	if state := clone.sh(t, "systemctl show -P Result kamino-unmask.service; systemctl is-enabled kamino-unmask.timer || true"); state != "success\ndisabled" {
		t.Errorf("afterwards the timer is %q", state)
	}
}

// testQuietClone: a pioneer on a clone finds and installs patches, and the masks are no obstacle to its capture.
func (p *patching) testQuietClone(t *testing.T, clone *machine) {
	p.machine = clone
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-a", version: "2.0"})
	p.repo.publish(t, suiteSecurity, "good", 24*time.Hour)
	r := p.order(t, v1alpha1.OrderCheck, nil)
	if !r.Complete() || !slices.Equal(names(r.Pending), []string{"tool-a"}) || len(r.OtherPatchers) > 0 {
		t.Errorf("pending are %v, other patchers %v, %+v", names(r.Pending), r.OtherPatchers, r.Failure)
	}
	isComplete(t, p.order(t, v1alpha1.OrderPatch, nil), "tool-a")
	if v := p.version(t, "tool-a"); v != "2.0" {
		t.Errorf("tool-a is %s", v)
	}
	out, err := clone.try("/mnt/kamino-node inspect --root / --profile static --patched-by-kamino Refuse --quiet-nodes")
	if err != nil || !strings.Contains(out, "nothing is in the way") {
		t.Errorf("the inspection of the patched clone: %v\n%s", err, out)
	}
}
