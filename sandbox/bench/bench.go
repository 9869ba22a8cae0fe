// Package bench measures captures in a sandbox: how long the donor is out of service, compared with cloud and
// cluster, and the cost of the command. The package also measures the controller in a cluster of 15,000 nodes. The
// report names the limits.
//
// The sandbox of the capture runs in real time, because waiting is compared with Kamino's own work. One run uses the
// sandbox's own latencies except for publishing. The other run also shortens the creation of nodes, and so shows
// Kamino's share of the time. Each run lists its changed latencies.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/unverified"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Options of a measurement.
type Options struct {
	// Kamino and Sandbox are the paths of two binaries. The directory of Kamino also has kamino-node.
	Kamino, Sandbox string
	// TimeScale of the sandbox; 0 means 1, real time. Kamino's own work is not scaled: a larger scale makes its share
	// larger.
	TimeScale float64
	// Defaults has a capture measured with the sandbox's own latencies, but for publishing.
	Defaults bool
	// Profiles is a directory for the controller's heap profiles; empty for none.
	Profiles string
	// Say receives progress messages; nil drops the messages.
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

// RunCapture starts a sandbox, captures a node and returns the measurement. Call RunCapture once per process.
func RunCapture(ctx context.Context, o Options) (report Capture, err error) {
	o = o.withDefaults()
	dir, err := os.MkdirTemp("", "kamino-bench-")
	if err != nil {
		return Capture{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	cloud, machines := latencies(o.Defaults)
	o.Say("starting a sandbox with a cloud as slow as a real cloud, except for: %s", described(set(cloud, machines)))
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
	// An open watch delays the stop of the API server by a minute.
	watching, stop := context.WithCancel(ctx)
	defer stop()
	observed, err := observe(watching, w, donor)
	if err != nil {
		return Capture{}, err
	}
	w.Cloud().ResetStats()
	o.Say("capturing %s, as long as on a real cloud without the publishing", donor.Node)
	command, yardstick, err := runWithReference(ctx, o.programs(w.Environment()), unverified.Capture(donor.Node)...)
	if err != nil {
		return Capture{}, err
	}
	times, err := observed.times(startOf(w.Cloud().Requests()), w.Clock().Real(snapshotting))
	if err != nil {
		return Capture{}, err
	}
	stats := w.Cloud().Stats()
	report := Capture{
		TimeScale: o.TimeScale, Donor: times, Command: command, Yardstick: yardstick,
		Stops:    countStops(w.Cloud().Requests()),
		Requests: Requests{Counted: stats.Reads + stats.Writes, Polls: stats.Polls + stats.Repeats, ByOperation: stats.ByOperation},
	}
	if !o.Defaults {
		if report.Replacement, err = o.measureLeaving(ctx, w); err != nil {
			return Capture{}, err
		}
		if report.Trial, err = o.measureTrying(ctx, w, donor); err != nil {
			return Capture{}, err
		}
	}
	report.KaminoBytes, err = size(o.Kamino)
	if err == nil {
		report.SandboxBytes, err = size(o.Sandbox)
	}
	return report, err
}

// runWithReference runs kamino, and the yardstick meanwhile.
func runWithReference(ctx context.Context, p child.Programs, args ...string) (CommandCost, time.Duration, error) {
	var cost time.Duration
	var failed error
	var measuring sync.WaitGroup
	done := make(chan struct{})
	measuring.Go(func() { cost, failed = yardstick(ctx, p, done) })
	command, err := measured(ctx, p, p.Kamino, args...)
	close(done)
	measuring.Wait()
	return command, cost, errors.Join(err, failed)
}

// prepare installs Kamino and a workload, and chooses the donor.
func (o Options) prepare(ctx context.Context, w *world.World) (control.Machine, error) {
	if _, err := o.programs(w.Environment()).Install(ctx); err != nil {
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

// countStops counts the orders to stop the donor. A donor that powers itself off needs no order, and an order would take
// minutes.
func countStops(requests []requestlog.Request) (count int) {
	for _, r := range requests {
		if r.Noun == "instance" && r.Operation == "powerOff" {
			count++
		}
	}
	return count
}

// startOf finds when the cloud was asked to start the donor.
func startOf(requests []requestlog.Request) time.Time {
	for _, r := range requests {
		if r.Noun == "instance" && r.Operation == "start" {
			return r.Time
		}
	}
	return time.Time{}
}
