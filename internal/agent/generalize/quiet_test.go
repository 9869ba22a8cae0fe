package generalize

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// patchTools are the units and settings of tools that install patches. The unit of yum-cron is the user's own, and one timer is
// masked already.
func patchTools() map[string]string {
	return map[string]string{
		uuidPath:                                 donorUUID + "\n",
		"usr/lib/systemd/system/apt-daily.timer": "[Timer]\n",
		"usr/lib/systemd/system/apt-daily-upgrade.timer":                 "[Timer]\n",
		"etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer": "-> /usr/lib/systemd/system/apt-daily-upgrade.timer",
		"lib/systemd/system/unattended-upgrades.service":                 "[Service]\n",
		"usr/lib/systemd/system/dnf-automatic.timer":                     "[Timer]\n",
		"etc/systemd/system/dnf-automatic.timer":                         "-> /dev/null",
		"usr/lib/systemd/system/yum-cron.service":                        "[Service]\n",
		"etc/systemd/system/yum-cron.service":                            "[Service]\nExecStart=/ours\n",
		"etc/apt/apt.conf.d/20auto-upgrades":                             "APT::Periodic::Unattended-Upgrade \"1\";\n",
	}
}

// settingsOf are the files of systemd and apt below /etc, without Kamino's own unit.
func settingsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	state := map[string]string{}
	for name, content := range snapshot(t, dir) {
		if (strings.HasPrefix(name, "etc/systemd/system/") || strings.HasPrefix(name, "etc/apt/")) && !strings.Contains(name, "kamino-first-boot") && !strings.HasPrefix(content, "d") {
			state[name] = content
		}
	}
	return state
}

// TestQuietNodes: the tools that install patches are masked in the image and on its clones. The donor comes back as it was.
func TestQuietNodes(t *testing.T) {
	dir := plant(t, node, patchTools())
	before := settingsOf(t, dir)
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Quiet, r.Returning = true, MachineKey(open(t, dir))
	m, err := run(t, dir, r)
	must(t, err)
	want := []string{
		"/etc/systemd/system/apt-daily.timer", "/etc/systemd/system/apt-daily-upgrade.timer", "/etc/systemd/system/unattended-upgrades.service",
		"/" + quietAPT, "/" + unmaskService, "/" + unmaskTimer, "/" + unmaskWanted,
	}
	if diff := cmp.Diff(want, m.Quiet); diff != "" {
		t.Errorf("the manifest (-want +got):\n%s", diff)
	}
	image := settingsOf(t, dir)
	for _, p := range want[:3] {
		if target, err := os.Readlink(dir + p); err != nil || target != "/dev/null" {
			t.Errorf("%s leads to %q (%v), want a mask", p, target, err)
		}
	}
	if readFile(t, dir, quietAPT) != quietText || len(image) != len(before)+7 {
		t.Errorf("in the image are %v", image)
	}
	clone := t.TempDir()
	must(t, os.CopyFS(clone, os.DirFS(dir)))

	boot(t, dir, donorUUID)
	if diff := cmp.Diff(before, settingsOf(t, dir)); diff != "" {
		t.Errorf("the donor comes back with (-want +got):\n%s", diff)
	}
	boot(t, clone, "8a1b2c3d-0000-4000-8000-00000000000b")
	if diff := cmp.Diff(image, settingsOf(t, clone)); diff != "" {
		t.Errorf("a clone loses its masks (-want +got):\n%s", diff)
	}

	// A capture of the clone finds nothing more to mask, and the clone keeps its masks as a donor.
	r = runner(load(t, v1alpha1.ProfileStatic))
	r.Quiet, r.Returning = true, MachineKey(open(t, clone))
	m, err = run(t, clone, r)
	must(t, err)
	boot(t, clone, "8a1b2c3d-0000-4000-8000-00000000000b")
	if diff := cmp.Diff(image, settingsOf(t, clone)); diff != "" || len(m.Quiet) > 0 {
		t.Errorf("the second image masks %v (-want +got):\n%s", m.Quiet, diff)
	}
}

// TestQuietNodesAfterAFailure: a failed run also returns the donor without masks, and a dry run masks nothing.
func TestQuietNodesAfterAFailure(t *testing.T) {
	dir := plant(t, node, patchTools(), map[string]string{"etc/leaked.pem": pemKey(t)})
	before := settingsOf(t, dir)
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Quiet, r.Returning, r.DryRun = true, MachineKey(open(t, dir)), true
	if m, _ := run(t, dir, r); m == nil || len(m.Quiet) != 7 || cmp.Diff(before, settingsOf(t, dir)) != "" {
		t.Errorf("a dry run: %+v", m)
	}
	r.DryRun = false
	_, err := run(t, dir, r)
	_ = unmetOf(t, err)
	boot(t, dir, donorUUID)
	if diff := cmp.Diff(before, settingsOf(t, dir)); diff != "" {
		t.Errorf("the donor comes back with (-want +got):\n%s", diff)
	}
}

// TestQuietNodesNeedAFirmwareUUID: without a UUID the first boot cannot distinguish the donor from a clone, so the donor would keep the
// masks. The inspection refuses such a donor, before anything is patched.
func TestQuietNodesNeedAFirmwareUUID(t *testing.T) {
	for uuid, want := range map[string]bool{donorUUID: true, "": false, "00000000-0000-0000-0000-000000000000": false} {
		dir := plant(t, node, patchTools(), map[string]string{uuidPath: uuid})
		for _, quiet := range []bool{true, false} {
			r := runner(load(t, v1alpha1.ProfileStatic))
			r.Quiet = quiet
			_, err := r.Preflight(t.Context(), open(t, dir))
			if isAllowed := err == nil; isAllowed != (want || !quiet) {
				t.Errorf("UUID %q, quiet %t: %v", uuid, quiet, err)
			}
			if err != nil && !strings.Contains(err.Error(), "has no UUID") {
				t.Errorf("UUID %q: %v", uuid, err)
			}
		}
	}
}
