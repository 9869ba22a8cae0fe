package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// consoleSize is the part of a serial console that EC2 keeps, in bytes.
const consoleSize = 64 << 10

// Memory is a Fleet without programs and directories: a machine is a power state, and a disk is texts by file name. The file
// "origin" is the name of the platform image, and a later boot writes the number of boots to the file "boots".
type Memory struct {
	// Before, if set, runs before each copy of a disk and each power-off. An error ends the call.
	Before func(context.Context) error

	mu       sync.Mutex
	machines map[string]*Machine
	disks    map[DiskID]map[string]string
	consoles map[string]string
}

// Machine is a machine of a Memory.
type Machine struct {
	Spec  Spec
	Power Power
	// Boots counts starts, the first included.
	Boots int
	// Further are the further disks, and Booted is the disk of the last boot.
	Further []Further
	Booted  DiskID
	// WasHard says that the last power-off did not wait for the guest.
	WasHard bool
}

// NewMemory returns a Memory without machines.
func NewMemory() *Memory {
	return &Memory{machines: map[string]*Machine{}, disks: map[DiskID]map[string]string{}, consoles: map[string]string{}}
}

func (m *Memory) wait(ctx context.Context) error {
	if m.Before == nil {
		return nil
	}
	return m.Before(ctx)
}

// CopyDisk implements Fleet.
func (m *Memory) CopyDisk(ctx context.Context, dst, src DiskID) error {
	if err := m.wait(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	content, exists := m.disks[src]
	if isPlatform := strings.Contains(string(src), ":"); !exists && !isPlatform && src != Blank {
		return fmt.Errorf("copy disk: there is no %s", src)
	} else if !exists {
		content = map[string]string{"origin": string(src)}
	}
	m.disks[dst] = maps.Clone(content)
	return nil
}

// DeleteDisk implements Fleet.
func (m *Memory) DeleteDisk(_ context.Context, id DiskID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.disks, id)
	return nil
}

// Launch implements Fleet.
func (m *Memory) Launch(_ context.Context, spec Spec) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disks[spec.Disk] == nil && !spec.Light {
		return fmt.Errorf("launch %s: there is no disk %s", spec.ID, spec.Disk)
	}
	m.machines[spec.ID] = &Machine{Spec: spec, Power: On, Boots: 1, Booted: spec.Disk}
	return nil
}

func (m *Memory) change(id string, change func(*Machine)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	machine := m.machines[id]
	if machine == nil {
		return fmt.Errorf("there is no machine %s", id)
	}
	change(machine)
	return nil
}

// PowerOn implements Fleet.
func (m *Memory) PowerOn(_ context.Context, id string) error {
	return m.change(id, func(machine *Machine) {
		if machine.Power == On {
			return
		}
		machine.Power = On
		machine.Boots++
		machine.Booted = machine.Spec.Disk
		for _, f := range machine.Further {
			machine.Booted = f.Disk
		}
		if disk := m.disks[machine.Booted]; disk != nil {
			disk["boots"] = strconv.Itoa(machine.Boots)
		}
	})
}

// Attach implements Fleet.
func (m *Memory) Attach(_ context.Context, id string, disk DiskID, serial string) error {
	if !m.HasDisk(disk) {
		return fmt.Errorf("attach: there is no disk %s", disk)
	}
	return m.change(id, func(machine *Machine) { machine.Further = append(machine.Further, Further{disk, serial}) })
}

// Detach implements Fleet.
func (m *Memory) Detach(_ context.Context, id string, disk DiskID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if machine := m.machines[id]; machine != nil {
		machine.Further = slices.DeleteFunc(slices.Clone(machine.Further), func(f Further) bool { return f.Disk == disk })
	}
	return nil
}

// PowerOff implements Fleet.
func (m *Memory) PowerOff(ctx context.Context, id string, hard bool) error {
	if err := m.wait(ctx); err != nil {
		return err
	}
	return m.change(id, func(machine *Machine) { machine.Power, machine.WasHard = Off, hard })
}

// Power implements Fleet. A missing machine is off.
func (m *Memory) Power(id string) Power {
	if machine := m.Machine(id); machine.Power != "" {
		return machine.Power
	}
	return Off
}

// Console implements Fleet.
func (m *Memory) Console(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := m.consoles[id]
	return text[max(0, len(text)-consoleSize):]
}

// Terminate implements Fleet.
func (m *Memory) Terminate(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.machines, id)
	return nil
}

// Reimage implements Fleet.
func (m *Memory) Reimage(_ context.Context, spec Spec) error {
	return m.change(spec.ID, func(machine *Machine) {
		machine.Spec, machine.Power, machine.Boots, machine.Booted = spec, On, machine.Boots+1, spec.Disk
	})
}

// Machine returns a machine, or the zero Machine.
func (m *Memory) Machine(id string) Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	if machine := m.machines[id]; machine != nil {
		return *machine
	}
	return Machine{}
}

// Size counts the machines.
func (m *Memory) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.machines)
}

// HasDisk says whether a disk, a snapshot's or an image's content exists.
func (m *Memory) HasDisk(id DiskID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disks[id] != nil
}

// File reads a file of a disk. A missing file is empty.
func (m *Memory) File(id DiskID, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disks[id][name]
}

// WriteFile writes a file of a disk, which must exist.
func (m *Memory) WriteFile(id DiskID, name, content string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disks[id][name] = content
}

// SetConsole sets the text of a machine's serial console.
func (m *Memory) SetConsole(id, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consoles[id] = text
}
