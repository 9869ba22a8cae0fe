package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

const (
	// stopTimeout is the time for stopping one unit: systemd's default of 90 s before it kills, and a margin.
	stopTimeout = 100 * time.Second
	// refusesStop is systemd's error for a unit with RefuseManualStop=yes, for example auditd.
	refusesStop = "org.freedesktop.systemd1.OnlyByDependency"
	noSuchUnit  = "org.freedesktop.systemd1.NoSuchUnit"
)

// Dial connects to the host's systemd on its private socket, because the message bus may be stopped. The directory's descriptor
// opens the socket: a socket's name is limited to 107 bytes, and no link can lead out of the root.
func Dial(ctx context.Context, t *tree.Tree) (*systemd.Conn, error) {
	return systemd.NewConnection(func() (*dbus.Conn, error) {
		dir, err := t.OpenFile("run/systemd", os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		conn, err := dbus.Dial(fmt.Sprintf("unix:path=/proc/self/fd/%d/private", dir.Fd()), dbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		// The private socket has no bus, and accepts no Hello.
		if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
			return nil, unless(dbus.ErrClosed, err, conn.Close())
		}
		return conn, nil
	})
}

// stopUnits stops the units of the profile in order, and checks that all stay stopped. It returns the stopped units
// even after an error.
func (h *Host) stopUnits(ctx context.Context, bus *systemd.Conn) (stopped []string, err error) {
	groups := slices.Clone(h.Runner.Profile.Stop)
	watched, err := h.watched(ctx, bus)
	if err != nil {
		return nil, err
	}
	if len(watched.Units) > 0 {
		groups = append(groups, watched)
	}
	for _, group := range groups {
		names, err := running(ctx, bus, group)
		if err != nil {
			return stopped, err
		}
		for _, name := range names {
			stopped = append(stopped, name)
			if err := h.stopUnit(ctx, bus, name); err != nil {
				return stopped, err
			}
		}
	}
	// A restarted unit was started by a unit that is stopped by now.
	for round := range 3 {
		var left []string
		for _, group := range groups {
			names, err := running(ctx, bus, group)
			if err != nil {
				return stopped, err
			}
			left = append(left, names...)
		}
		if len(left) == 0 {
			h.logf("stopped %d units", len(stopped))
			return stopped, nil
		}
		if round == 2 {
			return stopped, fmt.Errorf("units do not stay stopped: %s", strings.Join(left, ", "))
		}
		for _, name := range left {
			if err := h.stopUnit(ctx, bus, name); err != nil {
				return stopped, err
			}
		}
	}
	return stopped, nil
}

// watched returns the services with a watchdog (WatchdogSec). systemd would restart such a service when its process is
// frozen, and the new process could write after the search.
func (h *Host) watched(ctx context.Context, bus *systemd.Conn) (group rules.Stop, err error) {
	services, err := running(ctx, bus, rules.Stop{Units: []string{"*.service"}})
	if err != nil {
		return group, err
	}
	for _, name := range services {
		if strings.HasPrefix(name, daemons) || slices.Contains(goOn, strings.TrimSuffix(name, ".service")) {
			continue
		}
		watchdog, err := bus.GetUnitTypePropertyContext(ctx, name, "Service", "WatchdogUSec")
		if err != nil {
			h.logf("the watchdog of %s is not known: %v", name, err)
			continue
		}
		if interval, ok := watchdog.Value.Value().(uint64); ok && interval != 0 && interval != math.MaxUint64 {
			group.Units = append(group.Units, strings.ReplaceAll(name, `\`, `\\`))
		}
	}
	return group, nil
}

// running returns the active units of a group, in the group's order.
func running(ctx context.Context, bus *systemd.Conn, group rules.Stop) ([]string, error) {
	units, err := bus.ListUnitsContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the host's units: %w", err)
	}
	var names []string
	for _, pattern := range group.Units {
		var matched []string
		for _, unit := range units {
			ok, err := path.Match(pattern, unit.Name)
			if err == nil && ok && !slices.Contains([]string{"inactive", "failed"}, unit.ActiveState) {
				matched = append(matched, unit.Name)
			}
		}
		slices.Sort(matched)
		names = append(names, matched...)
	}
	return names, nil
}

func (h *Host) stopUnit(ctx context.Context, bus *systemd.Conn, name string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	done := make(chan string, 1)
	_, err := bus.StopUnitContext(ctx, name, "replace", done)
	var answer dbus.Error
	switch {
	case errors.As(err, &answer) && answer.Name == noSuchUnit:
		return nil
	case errors.As(err, &answer) && answer.Name == refusesStop:
		return h.killUnit(ctx, bus, name)
	case err != nil:
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case result := <-done:
		if result != "done" && result != "skipped" {
			return fmt.Errorf("stop %s: systemd says %q", name, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: not done in time: %w", name, ctx.Err())
	}
}

// killUnit kills the processes of a unit that refuses a stop, and waits for their end.
func (h *Host) killUnit(ctx context.Context, bus *systemd.Conn, name string) error {
	if err := bus.KillUnitWithTarget(ctx, name, systemd.All, int32(syscall.SIGTERM)); err != nil {
		return fmt.Errorf("end the processes of %s: %w", name, err)
	}
	for {
		names, err := running(ctx, bus, rules.Stop{Units: []string{name}})
		if err != nil || len(names) == 0 {
			return err
		}
		if err := h.Wait(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not end: %w", name, err)
		}
	}
}

// startAgain starts the stopped units in reverse order after a failure, so that the pod's end is reported. The donor then
// restarts at once, which repairs the host's state. So a failing start is only logged.
func (h *Host) startAgain(ctx context.Context, bus *systemd.Conn, stopped []string) {
	// The run's own context may have expired.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, name := range slices.Backward(stopped) {
		if _, err := bus.StartUnitContext(ctx, name, "replace", nil); err != nil {
			h.logf("start %s again: %v", name, err)
		}
	}
}
