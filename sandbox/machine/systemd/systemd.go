// Package systemd is the service manager of a sandbox machine: its units, and the D-Bus interface
// org.freedesktop.systemd1 on the private socket. Clients can list, stop and start units and wait for jobs. The
// package decides which units run. A callback of the owner applies the changes.
package systemd

import (
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
)

// Unit is a service or socket of the machine.
type Unit struct {
	Name, Description string
	Active            bool
	// TriggeredBy names sockets that restart this service at the next message, while the sockets are active.
	TriggeredBy []string

	// transient units run a command once; ended and code are the end of the command.
	transient, ended bool
	code             int32
}

// Manager holds the units of a boot.
type Manager struct {
	onChange func(name string, active bool) error
	run      func(Command) int32

	// order serializes jobs: onChange is never called twice at a time.
	order sync.Mutex

	mu          sync.Mutex
	units       []Unit
	transient   map[string]*Unit
	lastJob     uint32
	connections map[*connection]bool
	listener    net.Listener
	closed      bool
	serving     sync.WaitGroup
}

// New creates the manager of a machine after a boot. onChange runs before a unit's state changes. An error of
// onChange fails the job and keeps the state. onChange must not start a job.
func New(units []Unit, onChange func(name string, active bool) error) *Manager {
	return &Manager{onChange: onChange, units: slices.Clone(units), transient: map[string]*Unit{}, connections: map[*connection]bool{}}
}

// Default returns the units of a node. Socket activation restarts journald if only its service is stopped: as on a
// real machine, its sockets must be stopped, too.
func Default() []Unit {
	journald := []string{"systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald-audit.socket"}
	units := []Unit{
		{Name: "systemd-journald.service", Description: "Journal Service", TriggeredBy: journald},
		{Name: "systemd-journald.socket", Description: "Journal Socket"},
		{Name: "systemd-journald-dev-log.socket", Description: "Journal Socket (/dev/log)"},
		{Name: "systemd-journald-audit.socket", Description: "Journal Audit Socket"},
		{Name: "rsyslog.service", Description: "System Logging Service", TriggeredBy: []string{"syslog.socket"}},
		{Name: "syslog.socket", Description: "Syslog Socket"},
		{Name: "systemd-networkd.service", Description: "Network Configuration"},
		{Name: "systemd-resolved.service", Description: "Network Name Resolution"},
		{Name: "systemd-timesyncd.service", Description: "Network Time Synchronization"},
		{Name: "systemd-udevd.service", Description: "Rule-based Manager for Device Events and Files"},
		{Name: "dbus.service", Description: "D-Bus System Message Bus"},
		{Name: "ssh.service", Description: "OpenBSD Secure Shell server"},
		{Name: "cron.service", Description: "Regular background program processing daemon"},
		{Name: "walinuxagent.service", Description: "Azure Linux Agent"},
		{Name: "unattended-upgrades.service", Description: "Unattended Upgrades Shutdown"},
		{Name: "apt-daily.timer", Description: "Daily apt download activities"},
		{Name: "apt-daily-upgrade.timer", Description: "Daily apt upgrade and clean activities"},
		{Name: "systemd-tmpfiles-clean.timer", Description: "Daily Cleanup of Temporary Directories"},
	}
	for i := range units {
		units[i].Active = true
	}
	return append(units,
		Unit{Name: "containerd.service", Description: "containerd container runtime"},
		Unit{Name: "kubelet.service", Description: "kubelet: The Kubernetes Node Agent"},
		Unit{Name: RebootTarget, Description: "System Reboot"})
}

// RebootTarget reboots the machine in good order when a client starts the unit.
const RebootTarget = "reboot.target"

// Active reports whether a unit runs. An unknown unit does not run.
func (m *Manager) Active(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	unit := m.find(name)
	return unit != nil && unit.Active
}

// Message delivers a message to a service through its sockets, and reports the delivery. A stopped service with an
// active socket starts again.
func (m *Manager) Message(name string) bool {
	m.mu.Lock()
	unit := m.find(name)
	if unit == nil || unit.Active {
		defer m.mu.Unlock()
		return unit != nil
	}
	triggered := slices.ContainsFunc(unit.TriggeredBy, func(socket string) bool {
		trigger := m.find(socket)
		return trigger != nil && trigger.Active
	})
	m.mu.Unlock()
	return triggered && m.Set(name, true) == nil
}

// Set starts or stops a unit and waits for the end.
func (m *Manager) Set(name string, active bool) error {
	m.order.Lock()
	defer m.order.Unlock()
	m.mu.Lock()
	unit := m.find(name)
	m.mu.Unlock()
	if unit == nil {
		return fmt.Errorf("unit %s not found", name)
	}
	if m.Active(name) == active {
		return nil
	}
	if m.onChange != nil {
		if err := m.onChange(name, active); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	unit.Active = active
	return nil
}

// find needs m.mu. The units never move; only the states change.
func (m *Manager) find(name string) *Unit {
	for i := range m.units {
		if m.units[i].Name == name {
			return &m.units[i]
		}
	}
	return nil
}

// match returns copies of the units whose names match a shell pattern; all units without patterns.
func (m *Manager) match(patterns []string) []Unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Unit
	all := slices.Clone(m.units)
	for _, name := range slices.Sorted(maps.Keys(m.transient)) {
		all = append(all, *m.transient[name])
	}
	for _, unit := range all {
		matches := func(pattern string) bool {
			ok, err := path.Match(pattern, unit.Name)
			return err == nil && ok
		}
		if len(patterns) == 0 || slices.ContainsFunc(patterns, matches) {
			found = append(found, unit)
		}
	}
	return found
}

// Serve answers D-Bus clients until the listener or the manager is closed.
func (m *Manager) Serve(listener net.Listener) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		_ = listener.Close()
		return
	}
	m.listener = listener
	m.mu.Unlock()
	for {
		socket, err := listener.Accept()
		if err != nil {
			return
		}
		c := &connection{manager: m, socket: socket}
		if !m.add(c) {
			_ = socket.Close()
			return
		}
		go func() {
			defer m.remove(c)
			c.serve()
		}()
	}
}

// Close closes all connections and waits for the end of their goroutines.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	if m.listener != nil {
		_ = m.listener.Close()
	}
	for c := range m.connections {
		_ = c.socket.Close()
	}
	m.mu.Unlock()
	m.serving.Wait()
}

func (m *Manager) add(c *connection) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.connections[c] = true
	m.serving.Add(1)
	return true
}

func (m *Manager) remove(c *connection) {
	_ = c.socket.Close()
	m.mu.Lock()
	delete(m.connections, c)
	m.mu.Unlock()
	m.serving.Done()
}

func (m *Manager) nextJob() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastJob++
	return m.lastJob
}

// broadcast sends a signal to every client: on its private socket, systemd does so without a subscription.
func (m *Manager) broadcast(member string, body ...any) {
	m.mu.Lock()
	connections := make([]*connection, 0, len(m.connections))
	for c := range m.connections {
		connections = append(connections, c)
	}
	m.mu.Unlock()
	for _, c := range connections {
		c.signal(member, body...)
	}
}

// escape is systemd's way to make a unit's name a part of an object path.
func escape(name string) string {
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if letter || c >= '0' && c <= '9' && i > 0 {
			out.WriteByte(c)
			continue
		}
		fmt.Fprintf(&out, "_%02x", c)
	}
	return out.String()
}
