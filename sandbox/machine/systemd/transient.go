package systemd

import (
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Command is what a transient unit runs in the machine's root.
type Command struct {
	// Words are the path of the program and its arguments.
	Words, Environment []string
	// Log is the path of the file for the output.
	Log string
}

// Runs lets clients start transient units of type oneshot with RemainAfterExit. run ends with the command or with the
// boot, and returns the exit code. Call Runs before Serve.
func (m *Manager) Runs(run func(Command) int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = run
}

// startTransient answers StartTransientUnit.
func (m *Manager) startTransient(c call) ([]any, func(), *dbus.Error) {
	name, command := c.text(0), commandOf(c)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.run == nil || len(command.Words) == 0 || command.Log == "":
		return nil, nil, dbus.NewError("org.freedesktop.DBus.Error.NotSupported", []any{"the sandbox's systemd cannot run unit " + name})
	case m.find(name) != nil || m.transient[name] != nil:
		return nil, nil, dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{fmt.Sprintf("Unit %s was already loaded or has a fragment file.", name)})
	}
	unit := &Unit{Name: name, Description: name, transient: true}
	m.transient[name] = unit
	m.lastJob++
	path := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, m.lastJob))
	m.serving.Go(func() {
		code := m.run(command)
		m.mu.Lock()
		defer m.mu.Unlock()
		unit.ended, unit.code, unit.Active = true, code, code == 0
	})
	return []any{path}, nil, nil
}

// commandOf reads the properties of a transient unit.
func commandOf(c call) (command Command) {
	if len(c.arguments) < 3 {
		return command
	}
	properties, _ := c.arguments[2].([][]any)
	for _, p := range properties {
		name, _ := p[0].(string)
		variant, _ := p[1].(dbus.Variant)
		switch value := variant.Value().(type) {
		case [][]any: // path, arguments with the program, and a flag
			if name == "ExecStart" && len(value) == 1 {
				path, _ := value[0][0].(string)
				words, _ := value[0][1].([]string)
				command.Words = append([]string{path}, words[min(1, len(words)):]...)
			}
		case []string:
			if name == "Environment" {
				command.Environment = value
			}
		case string:
			if name == "StandardOutputFile" {
				command.Log = value
			}
		}
	}
	return command
}

// transientState is the ActiveState and the SubState of a transient unit.
func (u Unit) transientState() (active, sub string) {
	switch {
	case !u.ended:
		return "activating", "start"
	case u.code != 0:
		return "failed", "failed"
	}
	return "active", "exited"
}

// result is the Result of a unit.
func (u Unit) result() string {
	if u.code != 0 {
		return "exit-code"
	}
	return "success"
}
