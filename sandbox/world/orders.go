package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/workload"
)

// machineNamed finds a machine by the name of its Node.
func (w *World) machineNamed(node string) (machine.Status, error) {
	var names []string
	for _, m := range w.fleet.Machines() {
		if m.Node != "" && strings.EqualFold(m.Node, node) {
			return m, nil
		}
		names = append(names, m.Node)
	}
	if len(names) > 10 {
		names = append(names[:10], "...")
	}
	return machine.Status{}, fmt.Errorf("machine %s not found; machines: %s", node, strings.Join(names, ", "))
}

// Patch implements control.World.
func (w *World) Patch(ctx context.Context, node string, p control.Patch, report func(control.Event)) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	packages, err := parsePackages(m, p.Packages)
	if err != nil {
		return err
	}
	follow := w.follow(m, report)
	follow.event("installs updates")
	err = w.fleet.Patch(ctx, m.ID, machine.PatchOptions{Packages: packages, Kured: true, NoReboot: !p.Reboot})
	follow.stop()
	if err != nil {
		return err
	}
	after, err := w.fleet.Machine(m.ID)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(after.Packages)) {
		if before := m.Packages[name]; before != after.Packages[name] {
			follow.event("%s %s, was %s", name, after.Packages[name], orNone(before))
		}
	}
	if p.Reboot {
		follow.event("Ready, with kernel %s", after.Kernel)
	} else {
		follow.event("a reboot is pending")
	}
	return nil
}

func orNone(version string) string {
	if version == "" {
		return "not installed"
	}
	return version
}

// parsePackages reads "name" and "name=version". A name alone asks for the version after the installed version.
func parsePackages(m machine.Status, packages []string) (map[string]string, error) {
	if len(packages) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, text := range packages {
		name, version, _ := strings.Cut(text, "=")
		if version == "" {
			installed := m.Packages[name]
			if installed == "" {
				return nil, fmt.Errorf("package %s is not installed on %s: pass its version, as %s=VERSION", name, m.Node, name)
			}
			version = disk.NextVersion(installed)
		}
		out[name] = version
	}
	return out, nil
}

// Reboot implements control.World.
func (w *World) Reboot(ctx context.Context, node string, report func(control.Event)) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	follow := w.follow(m, report)
	defer follow.stop()
	if err := w.fleet.Restart(ctx, m.ID); err != nil {
		return err
	}
	if m.Hung {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.joinTimeout(), errPatience)
	defer cancel()
	err = w.nodes.until(ctx, func() (bool, string) {
		machines, err := w.Machines(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, now := range machines {
			if now.Instance == m.ID {
				return now.State == stateRunning, "node " + node + " is not Ready after its reboot"
			}
		}
		return false, "machine " + node + " is gone"
	})
	if err == nil {
		follow.event("Ready")
	}
	return err
}

// Age implements control.World.
func (w *World) Age(ctx context.Context, node string, by time.Duration, report func(control.Event)) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	if err := w.fleet.Age(ctx, m.ID, by); err != nil {
		return err
	}
	report(control.Event{Subject: m.Node, Text: fmt.Sprintf("is %s older", by)})
	return nil
}

// Crash implements control.World.
func (w *World) Crash(_ context.Context, node string) error { return w.trouble(node, w.fleet.Crash) }

// Hang implements control.World.
func (w *World) Hang(_ context.Context, node string) error { return w.trouble(node, w.fleet.Hang) }

// Unhang implements control.World.
func (w *World) Unhang(_ context.Context, node string) error { return w.trouble(node, w.fleet.Unhang) }

func (w *World) trouble(node string, do func(id string) error) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	return do(m.ID)
}

// Workload implements control.World.
func (w *World) Workload(ctx context.Context, report func(control.Event)) error {
	began := time.Now()
	if err := workload.Apply(ctx, w.kube); err != nil {
		return err
	}
	report(control.Event{Subject: workload.Namespace, Text: "deployment, budget and daemon set are applied", Seconds: time.Since(began).Seconds()})
	ctx, cancel := context.WithTimeoutCause(ctx, w.joinTimeout(), errPatience)
	defer cancel()
	if err := workload.Await(ctx, w.kube); err != nil {
		return err
	}
	report(control.Event{Subject: workload.Namespace, Text: "all pods are ready", Seconds: time.Since(began).Seconds()})
	return nil
}

// RequestStop implements control.World: the owner of the sandbox reads Asked.
func (w *World) RequestStop(context.Context) error {
	w.once.Do(func() { close(w.asked) })
	return nil
}

// powerWatcher reports the power changes of a machine during an order.
type powerWatcher struct {
	node   string
	began  time.Time
	report func(control.Event)
	end    context.CancelFunc
	ended  chan struct{}
}

// followEvery is how often the power is looked at.
const followEvery = 50 * time.Millisecond

func (w *World) follow(m machine.Status, report func(control.Event)) *powerWatcher {
	ctx, cancel := context.WithCancel(w.ctx)
	f := &powerWatcher{node: m.Node, began: time.Now(), report: report, end: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		last := w.fleet.Power(m.ID)
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if power := w.fleet.Power(m.ID); power != last {
				last = power
				f.event("power: %s", power)
			}
		}
	}()
	return f
}

func (f *powerWatcher) stop() {
	f.end()
	<-f.ended
}

func (f *powerWatcher) event(format string, args ...any) {
	f.report(control.Event{Subject: f.node, Text: fmt.Sprintf(format, args...), Seconds: time.Since(f.began).Seconds()})
}
