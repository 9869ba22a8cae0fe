package machine

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// Crash cuts the power of the machine without a shutdown, like a loss of the host.
func (f *Fleet) Crash(id string) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	m.cutPower()
	return m.change(func(r *record) { r.On = false })
}

// Hang stops the machine's kubelet until Unhang, even after a boot.
func (f *Fleet) Hang(id string) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	if err := m.change(func(r *record) { r.Hung = true }); err != nil {
		return err
	}
	s := m.now()
	if s == nil {
		return nil
	}
	if s.spec.Light {
		if k := s.agent(); k != nil {
			k.Pause()
		}
		return nil
	}
	return s.units.Set(kubeletUnit, false)
}

// Unhang restarts a kubelet after Hang.
func (f *Fleet) Unhang(id string) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	if err := m.change(func(r *record) { r.Hung = false }); err != nil {
		return err
	}
	s := m.now()
	if s == nil {
		return nil
	}
	if s.spec.Light {
		return s.startKubelet()
	}
	// An early boot starts the kubelet later on its own.
	if !s.units.Active(containerdUnit) {
		return nil
	}
	return s.units.Set(kubeletUnit, true)
}

// Restart shuts the machine down and boots the machine again, and returns when the power is on. A machine without
// power boots.
func (f *Fleet) Restart(ctx context.Context, id string) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	return m.restart(ctx)
}

func (m *machine) restart(ctx context.Context) error {
	release, err := m.lockPower(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s := m.now(); s != nil {
		m.end(s, true, fleet.Starting)
	}
	return m.switchOn(ctx)
}

// root is the tree of the machine's disk.
func (m *machine) root() (string, error) {
	spec := m.specification()
	if spec.Light {
		return "", fmt.Errorf("machine %s is light and has no disk", spec.ID)
	}
	return m.fleet.path(spec.Disk), nil
}
