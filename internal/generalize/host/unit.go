package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

const (
	// stopTimeout is how long one unit may take: systemd's own default (90 s), after which it kills, and some.
	stopTimeout = 100 * time.Second
	// refusesStop is systemd's answer for a unit with RefuseManualStop=yes, such as auditd.
	refusesStop = "org.freedesktop.systemd1.OnlyByDependency"
	noSuchUnit  = "org.freedesktop.systemd1.NoSuchUnit"
)

// dial connects to the systemd that runs the host, on its private socket: the message bus is one of the
// things that may stop. The socket is reached through its directory's descriptor, because the name of a
// socket may have 107 bytes only, and so that no link leads out of the root.
func dial(ctx context.Context, t *tree.Tree) (*systemd.Conn, error) {
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
		// systemd's own socket takes no Hello: there is no bus behind it.
		if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
			return nil, unless(dbus.ErrClosed, err, conn.Close())
		}
		return conn, nil
	})
}

// stopUnits stops what the profile lists, in its order, and makes sure that it stays stopped. It returns
// what it stopped even if it fails.
func (h *Host) stopUnits(ctx context.Context, bus *systemd.Conn) (stopped []string, err error) {
	for _, group := range h.Runner.Profile.Stop {
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
	// What came back meanwhile was started by something that is stopped by now.
	for round := range 3 {
		var left []string
		for _, group := range h.Runner.Profile.Stop {
			names, err := running(ctx, bus, group)
			if err != nil {
				return stopped, err
			}
			left = append(left, names...)
		}
		if len(left) == 0 {
			h.say("stopped %d units", len(stopped))
			return stopped, nil
		}
		if round == 2 {
			return stopped, fmt.Errorf("these units do not stay stopped: %s", strings.Join(left, ", "))
		}
		for _, name := range left {
			if err := h.stopUnit(ctx, bus, name); err != nil {
				return stopped, err
			}
		}
	}
	return stopped, nil
}

// running returns the units of a group that do something now, in the group's order.
func running(ctx context.Context, bus *systemd.Conn, group generalize.Stop) ([]string, error) {
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

// killUnit ends the processes of a unit that may not be stopped by hand, and waits until they are gone.
func (h *Host) killUnit(ctx context.Context, bus *systemd.Conn, name string) error {
	if err := bus.KillUnitWithTarget(ctx, name, systemd.All, int32(syscall.SIGTERM)); err != nil {
		return fmt.Errorf("end the processes of %s: %w", name, err)
	}
	for {
		names, err := running(ctx, bus, generalize.Stop{Units: []string{name}})
		if err != nil || len(names) == 0 {
			return err
		}
		if err := h.Wait(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not end: %w", name, err)
		}
	}
}

// startAgain starts what was stopped, in reverse, after a failure: with its runtime and its kubelet back
// the pod's end is reported and the donor restarted at once, not at a deadline. The host's own state is
// lost by then and mended by that restart, so what does not start is only logged.
func (h *Host) startAgain(ctx context.Context, bus *systemd.Conn, stopped []string) {
	// The run may have failed for lack of time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, name := range slices.Backward(stopped) {
		if _, err := bus.StartUnitContext(ctx, name, "replace", nil); err != nil {
			h.say("start %s again: %v", name, err)
		}
	}
}
