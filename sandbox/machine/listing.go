package machine

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Status is the visible state of a machine.
type Status struct {
	ID    string      `json:"id"`
	Pool  string      `json:"pool"`
	Node  string      `json:"node,omitempty"`
	Power fleet.Power `json:"power"`
	Boots int         `json:"boots"`
	// BootID of the present boot; empty if the machine is off.
	BootID string `json:"bootID,omitempty"`
	// Image of the machine.
	Image string `json:"image,omitempty"`
	Light bool   `json:"light,omitempty"`
	Hung  bool   `json:"hung,omitempty"`
	// Disk is the path of the tree. MachineID, Kernel, Packages and Images are read from the disk. All are empty for
	// a light machine.
	Disk      string            `json:"disk,omitempty"`
	MachineID string            `json:"machineID,omitempty"`
	Kernel    string            `json:"kernel,omitempty"`
	Packages  map[string]string `json:"packages,omitempty"`
	Images    []string          `json:"images,omitempty"`
	// Waits of the present boot, up to the start of the kubelet.
	Waits []clock.Wait `json:"waits,omitempty"`
}

// Machines lists all machines, sorted by ID.
func (f *Fleet) Machines() []Status {
	f.mu.Lock()
	machines := f.all()
	f.mu.Unlock()
	list := make([]Status, 0, len(machines))
	for _, m := range machines {
		list = append(list, m.status())
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Machine returns the status of a machine.
func (f *Fleet) Machine(id string) (Status, error) {
	m, err := f.machine(id)
	if err != nil {
		return Status{}, err
	}
	return m.status(), nil
}

// DiskPath is where the tree of a machine's disk is.
func (f *Fleet) DiskPath(id string) (string, error) {
	m, err := f.machine(id)
	if err != nil {
		return "", err
	}
	return m.root()
}

func (m *machine) status() Status {
	m.mu.Lock()
	r, power, s := m.record, m.power, m.session
	m.mu.Unlock()
	status := Status{
		ID: r.Spec.ID, Pool: r.Spec.Pool, Node: r.Node, Power: power, Boots: r.Boots,
		Image: r.Spec.Image, Light: r.Spec.Light, Hung: r.Hung,
	}
	if s != nil {
		status.BootID, status.Waits = s.bootID, s.waits.List()
	}
	if r.Spec.Light {
		return status
	}
	status.Disk = m.fleet.path(r.Spec.Disk)
	status.MachineID, status.Kernel = disk.MachineID(status.Disk), disk.Kernel(status.Disk)
	status.Images = disk.Images(status.Disk)
	// A disk that is being replaced has no packages for a moment: the listing goes without.
	status.Packages, _ = disk.Packages(status.Disk)
	return status
}
