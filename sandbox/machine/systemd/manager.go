package systemd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

// unitStatus is a row of ListUnits: signature (ssssssouso).
type unitStatus struct {
	Name, Description, LoadState, ActiveState, SubState, Followed string
	Path                                                          dbus.ObjectPath
	JobID                                                         uint32
	JobType                                                       string
	JobPath                                                       dbus.ObjectPath
}

// handler answers a method, with the reply's body and a function that runs after the reply.
type handler func(*Manager, call) (body []any, after func(), failure *dbus.Error)

// handlers are the methods of the private socket.
var handlers = map[string]handler{
	managerInterface + ".ListUnits":           func(m *Manager, _ call) ([]any, func(), *dbus.Error) { return m.list(nil, nil) },
	managerInterface + ".ListUnitsFiltered":   (*Manager).listFiltered,
	managerInterface + ".ListUnitsByPatterns": (*Manager).listByPatterns,
	managerInterface + ".ListUnitsByNames":    (*Manager).listByNames,
	managerInterface + ".GetUnit":             (*Manager).getUnit,
	managerInterface + ".LoadUnit":            (*Manager).getUnit,
	managerInterface + ".StartUnit":           job(start),
	managerInterface + ".StopUnit":            job(stop),
	managerInterface + ".RestartUnit":         job(restart),
	managerInterface + ".TryRestartUnit":      job(tryRestart),
	managerInterface + ".Subscribe":           empty,
	managerInterface + ".Unsubscribe":         empty,
	managerInterface + ".ResetFailedUnit":     empty,
	managerInterface + ".Reload":              empty,
	"org.freedesktop.DBus.AddMatch":           empty,
	"org.freedesktop.DBus.RemoveMatch":        empty,
	"org.freedesktop.DBus.Peer.Ping":          empty,
	"org.freedesktop.DBus.Hello":              func(*Manager, call) ([]any, func(), *dbus.Error) { return []any{":1.1"}, nil, nil },
	"org.freedesktop.DBus.Properties.Get":     (*Manager).property,
	"org.freedesktop.DBus.Properties.GetAll":  (*Manager).properties,
	managerInterface + ".GetUnitFileState":    (*Manager).unitFileState,
	managerInterface + ".GetUnitByPID":        noUnit,
	managerInterface + ".StartTransientUnit":  (*Manager).startTransient,
}

func (m *Manager) dispatch(c call) ([]any, func(), *dbus.Error) {
	handle, found := handlers[c.method]
	if !found {
		return nil, nil, dbus.NewError("org.freedesktop.DBus.Error.UnknownMethod", []any{"the sandbox's systemd has no method " + c.method})
	}
	return handle(m, c)
}

func empty(*Manager, call) ([]any, func(), *dbus.Error) { return nil, nil, nil }

func noUnit(*Manager, call) ([]any, func(), *dbus.Error) {
	return nil, nil, noSuchUnit("of this process")
}

func noSuchUnit(name string) *dbus.Error {
	return dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{fmt.Sprintf("Unit %s not loaded.", name)})
}

func (c call) text(i int) string {
	if i >= len(c.arguments) {
		return ""
	}
	text, _ := c.arguments[i].(string)
	return text
}

func (c call) texts(i int) []string {
	if i >= len(c.arguments) {
		return nil
	}
	texts, _ := c.arguments[i].([]string)
	return texts
}

// job takes a unit through the states from steps. The reply comes first, then the work, and then the signal of the
// job's end.
func job(steps func(active bool) []bool) handler {
	return func(m *Manager, c call) ([]any, func(), *dbus.Error) {
		name := c.text(0)
		units := m.match([]string{name})
		if len(units) != 1 {
			return nil, nil, noSuchUnit(name)
		}
		id := m.nextJob()
		path := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, id))
		finish := func() {
			result := "done"
			for _, active := range steps(units[0].Active) {
				if m.Set(name, active) != nil {
					result = "failed"
				}
			}
			m.broadcast("JobRemoved", id, path, name, result)
		}
		return []any{path}, finish, nil
	}
}

var (
	start      = func(bool) []bool { return []bool{true} }
	stop       = func(bool) []bool { return []bool{false} }
	restart    = func(bool) []bool { return []bool{false, true} }
	tryRestart = func(active bool) []bool {
		if active {
			return restart(active)
		}
		return nil
	}
)

func (m *Manager) list(patterns, states []string) ([]any, func(), *dbus.Error) {
	rows := []unitStatus{}
	for _, unit := range m.match(patterns) {
		if len(states) == 0 || slices.Contains(states, unit.activeState()) {
			rows = append(rows, unit.status())
		}
	}
	return []any{rows}, nil, nil
}

func (m *Manager) listFiltered(c call) ([]any, func(), *dbus.Error) { return m.list(nil, c.texts(0)) }

func (m *Manager) listByPatterns(c call) ([]any, func(), *dbus.Error) {
	return m.list(c.texts(1), c.texts(0))
}

// listByNames returns a row for each name: an unknown unit is "not-found" and inactive.
func (m *Manager) listByNames(c call) ([]any, func(), *dbus.Error) {
	rows := []unitStatus{}
	for _, name := range c.texts(0) {
		row := Unit{Name: name, Description: name}.status()
		row.LoadState = "not-found"
		if units := m.match([]string{name}); len(units) == 1 {
			row = units[0].status()
		}
		rows = append(rows, row)
	}
	return []any{rows}, nil, nil
}

func (m *Manager) getUnit(c call) ([]any, func(), *dbus.Error) {
	name := c.text(0)
	if len(m.match([]string{name})) != 1 {
		return nil, nil, noSuchUnit(name)
	}
	return []any{unitPath(name)}, nil, nil
}

func (m *Manager) unitFileState(c call) ([]any, func(), *dbus.Error) {
	if len(m.match([]string{c.text(0)})) != 1 {
		return nil, nil, noSuchUnit(c.text(0))
	}
	return []any{"enabled"}, nil, nil
}

// property answers Get for a unit's or the manager's property.
func (m *Manager) property(c call) ([]any, func(), *dbus.Error) {
	value, found := m.allProperties(c.path)[c.text(1)]
	if !found {
		return nil, nil, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", []any{"no property " + c.text(1) + " of " + string(c.path)})
	}
	return []any{value}, nil, nil
}

func (m *Manager) properties(c call) ([]any, func(), *dbus.Error) {
	return []any{m.allProperties(c.path)}, nil, nil
}

// allProperties of the object at a path. As in systemd, the object of a unit that is not loaded exists
// and says "not-found".
func (m *Manager) allProperties(path dbus.ObjectPath) map[string]dbus.Variant {
	if path == managerPath {
		return map[string]dbus.Variant{
			"Version":     dbus.MakeVariant("249"),
			"SystemState": dbus.MakeVariant("running"),
		}
	}
	load, unit := "not-found", Unit{}
	for _, candidate := range m.match(nil) {
		if unitPath(candidate.Name) == path {
			load, unit = "loaded", candidate
		}
	}
	return map[string]dbus.Variant{
		"Id":            dbus.MakeVariant(unit.Name),
		"Names":         dbus.MakeVariant([]string{unit.Name}),
		"Description":   dbus.MakeVariant(unit.Description),
		"LoadState":     dbus.MakeVariant(load),
		"ActiveState":   dbus.MakeVariant(unit.activeState()),
		"SubState":      dbus.MakeVariant(unit.subState()),
		"UnitFileState": dbus.MakeVariant("enabled"),
		"TriggeredBy":   dbus.MakeVariant(append([]string{}, unit.TriggeredBy...)),
		"WatchdogUSec":  dbus.MakeVariant(uint64(0)),

		"ExecMainStatus": dbus.MakeVariant(unit.code),
		"Result":         dbus.MakeVariant(unit.result()),
	}
}

func (u Unit) activeState() string {
	if u.transient {
		active, _ := u.transientState()
		return active
	}
	if u.Active {
		return "active"
	}
	return "inactive"
}

func (u Unit) subState() string {
	switch {
	case u.transient:
		_, sub := u.transientState()
		return sub
	case !u.Active:
		return "dead"
	case strings.HasSuffix(u.Name, ".socket"):
		return "listening"
	case strings.HasSuffix(u.Name, ".timer"):
		return "waiting"
	default:
		return "running"
	}
}

func (u Unit) status() unitStatus {
	return unitStatus{
		Name: u.Name, Description: u.Description, LoadState: "loaded",
		ActiveState: u.activeState(), SubState: u.subState(),
		Path: unitPath(u.Name), JobPath: "/",
	}
}

func unitPath(name string) dbus.ObjectPath { return dbus.ObjectPath(unitPathPrefix + escape(name)) }
