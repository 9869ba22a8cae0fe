package host

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// rebootUnits are what an orderly reboot starts, by anyone who asks: systemctl, shutdown, logind, kured or a package manager.
var rebootUnits = []string{"reboot.target", "kexec.target", "soft-reboot.target"}

// RefuseReboots lets systemd of the running machine refuse orderly reboots until its next boot. A crash, or a reboot by force, still
// reboots the machine.
func RefuseReboots(ctx context.Context, root string) error {
	t, err := tree.OpenRunning(root)
	if err != nil {
		return err
	}
	defer t.Close()
	bus, err := Dial(ctx, t)
	if err != nil {
		return fmt.Errorf("reach systemd of the machine: %w", err)
	}
	defer bus.Close()
	const untilReboot, replacesLinks = true, true
	if _, err := bus.MaskUnitFilesContext(ctx, rebootUnits, untilReboot, replacesLinks); err != nil {
		return fmt.Errorf("mask %s: %w", rebootUnits[0], err)
	}
	if err := bus.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload systemd: %w", err)
	}
	state, err := bus.GetUnitPropertyContext(ctx, rebootUnits[0], "LoadState")
	if err != nil {
		return fmt.Errorf("read the state of %s: %w", rebootUnits[0], err)
	}
	if said := state.Value.Value(); said != "masked" {
		return fmt.Errorf("%s is %v, and not masked: the machine has a unit file of its own", rebootUnits[0], said)
	}
	return nil
}
