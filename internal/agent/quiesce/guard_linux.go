package quiesce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const (
	// guardLimit is how long systemd lets the helper run: longer than the helper itself, which waits and freezes.
	guardLimit = 5 * time.Second
	// guardStop is how long systemd waits for a helper that does not end, before the thaw.
	guardStop = 2 * time.Second
)

// guard is a transient unit: the helper, and the command that thaws after the helper, however it ends.
type guard struct {
	name         string
	helper, thaw []string
	// socket is the helper's end of the connection, as its standard input and outputs.
	socket *os.File
}

// starter starts the unit of a guard.
type starter = func(ctx context.Context, t *tree.Tree, g guard) error

// guardOf describes the unit for a host. An error says why a freeze would not be guarded.
func guardOf(t *tree.Tree, name string, socket *os.File) (guard, error) {
	pid := strconv.Itoa(os.Getpid())
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return guard{}, err
	}
	// The host's systemd starts this program by the process that runs it: the program is in no directory of the host.
	seen, err := os.Stat(filepath.Join(t.Dir(), "proc", pid, "exe"))
	if err != nil || !os.SameFile(own, seen) {
		return guard{}, errors.New("the host does not see this process: the pod needs the host's PID namespace")
	}
	// SELinux lets systemd start programs of the system only, such as env, which may start any.
	env, err := programOf(t, "env", "usr/bin", "bin")
	if err != nil {
		return guard{}, err
	}
	thaw, err := programOf(t, thawProgram, "usr/sbin", "sbin", "usr/bin", "bin")
	if err != nil {
		return guard{}, err
	}
	return guard{
		name:   "kamino-quiesce-" + name + ".service",
		helper: []string{env, "/proc/" + pid + "/exe", "freeze", "/"}, thaw: []string{thaw, "--unfreeze", "/"},
		socket: socket,
	}, nil
}

// thawProgram of util-linux thaws a file system.
const thawProgram = "fsfreeze"

// programOf finds a program of the host.
func programOf(t *tree.Tree, name string, dirs ...string) (string, error) {
	for _, dir := range dirs {
		if _, info, err := t.Resolve(dir + "/" + name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return "/" + dir + "/" + name, nil
		}
	}
	return "", fmt.Errorf("the host has no program %s", name)
}

// execCommand is an entry of ExecStart and the like. Source: org.freedesktop.systemd1(5), a(sasb).
type execCommand struct {
	Path string
	Args []string
	// IgnoreFailure: a failed command does not fail the unit.
	IgnoreFailure bool
}

// properties of the unit. systemd before 236 does not know all of them, and refuses the unit.
func (g guard) properties() []systemd.Property {
	property := func(name string, value any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	fd := dbus.UnixFD(g.socket.Fd()) //nolint:gosec // a descriptor is small
	return []systemd.Property{
		systemd.PropDescription("Kamino freezes the root file system of this node for a moment"),
		property("ExecStart", []execCommand{{g.helper[0], g.helper, false}}),
		// It runs for a helper that ended, was killed, or did not end, and fails if the helper itself has thawed.
		property("ExecStopPost", []execCommand{{g.thaw[0], g.thaw, true}}),
		property("RuntimeMaxUSec", uint64(guardLimit/time.Microsecond)),
		property("TimeoutStopUSec", uint64(guardStop/time.Microsecond)),
		property("CollectMode", "inactive-or-failed"),
		property("StandardInputFileDescriptor", fd),
		property("StandardOutputFileDescriptor", fd),
		property("StandardErrorFileDescriptor", fd),
		// The scheduler of Go interrupts no call, and starts with the collector off.
		property("Environment", []string{"GODEBUG=asyncpreemptoff=1", "GOGC=off"}),
		property("LimitMEMLOCK", ^uint64(0)),
		property("OOMScoreAdjust", int32(-1000)),
	}
}

// start asks the host's systemd for the unit.
func (g guard) start(ctx context.Context, t *tree.Tree) error {
	bus, err := host.Dial(ctx, t)
	if err != nil {
		return fmt.Errorf("systemd of the host cannot be reached: %w", err)
	}
	defer bus.Close()
	if _, err := bus.StartTransientUnitContext(ctx, g.name, "fail", g.properties(), nil); err != nil {
		return fmt.Errorf("systemd of the host refuses the unit %s: %w", g.name, err)
	}
	return nil
}
