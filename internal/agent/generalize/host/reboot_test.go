package host

import (
	"slices"
	"strings"
	"testing"
)

// TestRefuseReboots: systemd refuses orderly reboots until the next boot, and a machine with a target of its own is named.
func TestRefuseReboots(t *testing.T) {
	root := t.TempDir()
	s := startSystemd(t, root)
	if err := RefuseReboots(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	want := []string{"MaskUnitFiles reboot.target [true true]", "MaskUnitFiles kexec.target [true true]", "MaskUnitFiles soft-reboot.target [true true]"}
	if got := s.requested(); !slices.Equal(got, want) {
		t.Errorf("requests %q", got)
	}
	if !s.loaded["reboot.target"] {
		t.Error("systemd was not reloaded")
	}

	root = t.TempDir()
	startSystemd(t, root).vendor["reboot.target"] = true
	if err := RefuseReboots(t.Context(), root); err == nil || !strings.Contains(err.Error(), "reboot.target is loaded, and not masked") {
		t.Errorf("with a target of its own: %v", err)
	}
	if err := RefuseReboots(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "reach systemd") {
		t.Errorf("without systemd: %v", err)
	}
}
