// Package bench measures one capture in a sandbox: how long the donor is away against what the cloud and the
// cluster take by themselves, and what the command costs; and what the controller costs in a cluster of 15,000
// nodes. It decides what is measured and how; it holds nothing against a limit but those that the report names.
//
// The sandbox of the capture runs in real time, because what is compared is waiting with our own work. One run has the
// sandbox's own latencies but for publishing; in the other what makes a node is short as well, so that it says how much of
// the time is ours. Each says which latencies it sets.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/book"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/unverified"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Options of a measurement.
type Options struct {
	// Kamino and Sandbox are the paths of the two binaries.
	Kamino, Sandbox string
	// TimeScale of the sandbox; 0 means 1, real time. Our own work is not scaled, so that a larger scale
	// makes its share look larger.
	TimeScale float64
	// Defaults has a capture measured with the sandbox's own latencies, but for publishing.
	Defaults bool
	// Profiles is a directory for the controller's heap profiles; empty for none.
	Profiles string
	// Say is told what happens; nil tells nobody.
	Say func(format string, args ...any)
}

func (o Options) withDefaults() Options {
	if o.TimeScale <= 0 {
		o.TimeScale = 1
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return o
}

// RunCapture starts a sandbox, captures one of its nodes and returns what was measured. A process can do it once.
func RunCapture(ctx context.Context, o Options) (report Capture, err error) {
	o = o.withDefaults()
	dir, err := os.MkdirTemp("", "kamino-bench-")
	if err != nil {
		return Capture{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	cloud, machines := latencies(o.Defaults)
	o.Say("starting a sandbox whose cloud is as slow as a real one, but for: %s", described(set(cloud, machines)))
	w, err := world.Start(ctx, world.Options{
		Dir: filepath.Join(dir, "sandbox"), TimeScale: o.TimeScale, Kamino: o.Kamino, Binary: o.Sandbox,
		Azure: region.AzureOptions{Latencies: cloud}, Machines: machines,
	})
	if err != nil {
		return Capture{}, fmt.Errorf("start the sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	report, err = o.measure(ctx, w)
	report.Latencies = set(cloud, machines)
	return report, err
}

func (o Options) measure(ctx context.Context, w *world.World) (Capture, error) {
	donor, err := o.prepare(ctx, w)
	if err != nil {
		return Capture{}, err
	}
	// Whoever still watches when the sandbox is stopped holds up its API server for a minute.
	watching, stop := context.WithCancel(ctx)
	defer stop()
	observed, err := observe(watching, w, donor)
	if err != nil {
		return Capture{}, err
	}
	w.Cloud().ResetStats()
	o.Say("capturing %s; this takes as long as on a real cloud, less the publishing", donor.Node)
	child, yardstick, err := runBesideYardstick(ctx, o, environment(w), unverified.Capture(donor.Node)...)
	if err != nil {
		return Capture{}, err
	}
	times, err := observed.times(startOf(w.Cloud().Requests()), w.Clock().Real(snapshotting))
	if err != nil {
		return Capture{}, err
	}
	stats := w.Cloud().Stats()
	report := Capture{
		TimeScale: o.TimeScale, Donor: times, Child: child, Yardstick: yardstick,
		Stops:    stopsIn(w.Cloud().Requests()),
		Requests: Requests{Counted: stats.Reads + stats.Writes, Polls: stats.Polls + stats.Repeats, ByOperation: stats.ByOperation},
	}
	if !o.Defaults {
		if report.Leaving, err = o.measureLeaving(ctx, w); err != nil {
			return Capture{}, err
		}
		if report.Trying, err = o.measureTrying(ctx, w, donor); err != nil {
			return Capture{}, err
		}
	}
	report.KaminoBytes, err = size(o.Kamino)
	if err == nil {
		report.SandboxBytes, err = size(o.Sandbox)
	}
	return report, err
}

// runBesideYardstick runs kamino, and the yardstick meanwhile.
func runBesideYardstick(ctx context.Context, o Options, env []string, args ...string) (Child, time.Duration, error) {
	var cost time.Duration
	var failed error
	var measuring sync.WaitGroup
	done := make(chan struct{})
	measuring.Go(func() { cost, failed = yardstick(ctx, o, env, done) })
	child, err := runChild(ctx, o.Kamino, env, args...)
	close(done)
	measuring.Wait()
	return child, cost, errors.Join(err, failed)
}

// prepare installs what a capture needs, puts pods on the nodes and chooses the donor.
func (o Options) prepare(ctx context.Context, w *world.World) (control.Machine, error) {
	if err := install(ctx, o, environment(w)); err != nil {
		return control.Machine{}, err
	}
	o.Say("running a workload with a disruption budget")
	if err := w.Workload(ctx, func(control.Event) {}); err != nil {
		return control.Machine{}, fmt.Errorf("workload: %w", err)
	}
	machines, err := w.Machines(ctx)
	if err != nil || len(machines) == 0 {
		return control.Machine{}, errors.Join(err, errors.New("the sandbox has no machines"))
	}
	return machines[0], nil
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// stopsIn counts how often the cloud was asked to stop the donor. One that powers itself off needs none, and who asks
// all the same waits for minutes.
func stopsIn(requests []book.Request) (count int) {
	for _, r := range requests {
		if r.Noun == "instance" && r.Operation == "powerOff" {
			count++
		}
	}
	return count
}

// startOf finds when the cloud was asked to start the donor.
func startOf(requests []book.Request) time.Time {
	for _, r := range requests {
		if r.Noun == "instance" && r.Operation == "start" {
			return r.Time
		}
	}
	return time.Time{}
}
