package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const (
	// unitLimit ends a unit that hangs, for example in a package's script.
	unitLimit = time.Hour
	// unitPoll is the interval between two looks at a unit.
	unitPoll = 2 * time.Second
	// maxLog is how much of a unit's output is read, in bytes from the end.
	maxLog = 256 << 10
)

// unitName is the name of the order's unit for a step. The installation has no suffix.
func (n *Node) unitName(suffix string) string { return "kamino-patch-" + n.UID + suffix + ".service" }

// UnitState is how a unit stands.
type UnitState struct {
	// Known: systemd has the unit. Ended: the program has exited, with this code and systemd's result.
	Known, Ended bool
	Code         int
	Result       string
}

// Unit is a transient unit that runs a program of the host.
type Unit struct {
	Name, Program string
	Args          []string
	Environment   []string
	// Log is the absolute path of the file for all output.
	Log string
}

// Units starts and observes transient units.
type Units interface {
	// State returns how a unit stands; the zero state for an unknown unit.
	State(ctx context.Context, name string) (UnitState, error)
	// Start starts a unit and returns at once. A unit of the name that exists already is no error: another pod of the order
	// has started the unit.
	Start(ctx context.Context, u Unit) error
	// Active returns the active units among the names, sorted.
	Active(ctx context.Context, names []string) ([]string, error)
	// Reboot begins a reboot of the host in good order.
	Reboot(ctx context.Context) error
}

// systemdUnits are units of the host's systemd.
type systemdUnits struct{ bus *systemd.Conn }

// State asks systemd. A succeeded unit stays active, because of RemainAfterExit; a failed unit stays failed. A unit whose job
// waits is loaded and inactive.
func (s systemdUnits) State(ctx context.Context, name string) (UnitState, error) {
	properties, err := s.bus.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return UnitState{}, fmt.Errorf("look at unit %s: %w", name, err)
	}
	load, _ := properties["LoadState"].(string)
	active, _ := properties["ActiveState"].(string)
	if load != "loaded" {
		return UnitState{}, nil
	}
	code, _ := properties["ExecMainStatus"].(int32)
	result, _ := properties["Result"].(string)
	return UnitState{Known: true, Ended: active == "active" || active == "failed", Code: int(code), Result: result}, nil
}

// Start asks systemd for a transient unit with the distribution's own program.
func (s systemdUnits) Start(ctx context.Context, u Unit) error {
	property := func(name string, value any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	_, err := s.bus.StartTransientUnitContext(ctx, u.Name, "fail", []systemd.Property{
		systemd.PropDescription("Kamino changes the packages of this node"),
		systemd.PropType("oneshot"),
		systemd.PropRemainAfterExit(true),
		systemd.PropExecStart(append([]string{u.Program}, u.Args...), true),
		property("Environment", u.Environment),
		// Source: systemd.exec(5), file:PATH, since systemd 236.
		property("StandardOutputFile", u.Log),
		property("StandardErrorFile", u.Log),
		property("TimeoutStartUSec", uint64(unitLimit/time.Microsecond)),
	}, nil)
	var answer dbus.Error
	if errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1.UnitExists" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start unit %s: %w", u.Name, err)
	}
	return nil
}

// Active lists systemd's units.
func (s systemdUnits) Active(ctx context.Context, names []string) (active []string, err error) {
	units, err := s.bus.ListUnitsContext(ctx)
	for _, u := range units {
		if slices.Contains(names, u.Name) && u.ActiveState == "active" {
			active = append(active, u.Name)
		}
	}
	slices.Sort(active)
	return active, err
}

// Reboot does what systemctl reboot does without logind.
func (s systemdUnits) Reboot(ctx context.Context) error {
	_, err := s.bus.StartUnitContext(ctx, "reboot.target", "replace-irreversibly", nil)
	return err
}

func (n *Node) logOf(unit string) string { return n.stateDir() + "/" + unit + ".log" }

// await waits for the end of a unit, and returns its output.
func (n *Node) await(ctx context.Context, name string) (output, error) {
	for {
		s, err := n.Units.State(ctx, name)
		if err != nil {
			return output{}, err
		}
		switch {
		case !s.Known:
			return output{}, fmt.Errorf("unit %s has vanished from systemd", name)
		case s.Ended:
			text, err := n.tail(n.logOf(name))
			code := s.Code
			if s.Result != "success" && code == 0 {
				code = -1
				text += "E: systemd ended the unit: " + s.Result + "\n"
			}
			return output{stdout: text, code: code}, err
		}
		if err := n.Wait(ctx, unitPoll); err != nil {
			return output{}, err
		}
	}
}

// tail returns the end of a file; empty if absent.
func (n *Node) tail(p string) (string, error) {
	f, err := n.tree.OpenFile(p, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxLog {
		if _, err := f.Seek(-maxLog, io.SeekEnd); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(f)
	return string(text), err
}

// unit runs a program as the order's unit for a step, or finds and awaits the unit.
func (n *Node) unit(ctx context.Context, suffix string, environment []string, program string, args ...string) (output, error) {
	root, err := os.OpenRoot(n.Root)
	if err != nil {
		return output{}, err
	}
	defer root.Close()
	if err := root.MkdirAll(n.stateDir(), 0o700); err != nil {
		return output{}, err
	}
	name := n.unitName(suffix)
	u := Unit{Name: name, Program: program, Args: args, Environment: environment, Log: "/" + n.logOf(name)}
	if err := n.Units.Start(ctx, u); err != nil {
		return output{}, err
	}
	n.logf("unit %s runs %s", name, program)
	o, err := n.await(ctx, name)
	if err == nil {
		n.logf("unit %s has ended with exit code %d", name, o.code)
	}
	return o, err
}
