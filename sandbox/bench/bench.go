// Package bench measures captures in a sandbox: how long the donor is out of service, compared with cloud and
// cluster, and the cost of the command. The package also measures the controller in a cluster of 15,000 nodes, commands
// in a large cluster, and the work on a disk. The report names the limits.
//
// The sandbox of the capture runs in real time, because waiting is compared with Kamino's own work. The report lists the
// latencies that are shorter than a cloud's.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
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

// Limits of a capture's figures.
const (
	maxRatio = 1.05
	// maxCPU is relative to `kubectl get nodes` of the same run, because seconds depend on the machine.
	maxCPU      = 5
	maxMemory   = 28 << 20
	maxRequests = 38
	// maxReturned limits the whole capture of a donor that returns, in simulated time. 100 s of it belong to the cloud.
	maxReturned = 160 * time.Second
	// maxAway is for how long a donor may be out of service.
	maxAway = 100 * time.Second
	// original is the time out of service with the Python original, in the same sandbox. There, the stop of a stopped
	// guest took 5 s. The original's wait for its published log adds about 110 s.
	original = 113 * time.Second
)

// RunCapture starts a sandbox, captures nodes and returns the figures. Call RunCapture once per process.
func RunCapture(ctx context.Context, o Options) (r Report, err error) {
	o = o.withDefaults()
	dir, err := os.MkdirTemp("", "kamino-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	cloud, machines := latencies()
	o.Say("starting a sandbox with a cloud as slow as a real cloud, except for: %s", shortened())
	w, err := world.Start(ctx, world.Options{
		Dir: filepath.Join(dir, "sandbox"), TimeScale: o.TimeScale, Kamino: o.Kamino, Binary: o.Sandbox,
		Azure: region.AzureOptions{Latencies: cloud}, Machines: machines,
	})
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	donor, err := o.prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	returned, err := o.measureReturn(ctx, w, donor, &r)
	if err != nil {
		return r, err
	}
	return r, o.measureTrial(ctx, w, donor, returned, &r)
}

// captureCost is the cost of the command, and the requests to Azure. Polls read unfinished work: long operations, and the same
// resource again without a write in between. Requests are the others.
type captureCost struct {
	CommandCost
	requests, polls int
	// simulated is the whole time of the capture.
	simulated time.Duration
}

// capture runs a capture of a node.
func (o Options) capture(ctx context.Context, w *world.World, args ...string) (captureCost, error) {
	w.Cloud().ResetStats()
	command, err := measured(ctx, o.programs(w.Environment()), o.Kamino, args...)
	stats := w.Cloud().Stats()
	return captureCost{
		CommandCost: command, requests: stats.Reads + stats.Writes, polls: stats.Polls + stats.Repeats,
		simulated: time.Duration(float64(command.Wall) * o.TimeScale),
	}, err
}

// whole is the row of a whole capture.
func (c captureCost) whole(r *Report, what string, limit time.Duration) {
	r.limited(what, fmt.Sprintf("CPU %s, %s, %d requests with %d polls and repeats, %.1f min of the cloud's time",
		short(c.CPU), mebibytes(c.PeakMemory), c.requests+c.polls, c.polls, c.simulated.Minutes()), c.simulated > limit, atMost(fmt.Sprintf("%.0f s", limit.Seconds())))
}

// measureReturn captures a donor that returns.
func (o Options) measureReturn(ctx context.Context, w *world.World, donor control.Machine, r *Report) (captureCost, error) {
	// An open watch delays the stop of the API server by a minute.
	watching, stop := context.WithCancel(ctx)
	defer stop()
	observed, err := observe(watching, w, donor)
	if err != nil {
		return captureCost{}, err
	}
	o.Say("capturing %s, as long as on a real cloud without the publishing", donor.Node)
	c, yardstick, err := o.captureWithReference(ctx, w, unverified.Capture(donor.Node)...)
	if err != nil {
		return c, err
	}
	requests := w.Cloud().Requests()
	d, err := observed.times(startOf(requests), w.Clock().Real(azure.Latencies{}.Defaulted().Snapshot))
	if err != nil {
		return c, err
	}
	r.limited("donor out of service", seconds(d.OutOfService), d.OutOfService > maxAway,
		fmt.Sprintf("at most %s; the original %s", brief(maxAway), brief(original)))
	r.add("cloud and cluster within", fmt.Sprintf("%s (drain %s, stop %s, snapshot %s, start to Ready %s)",
		seconds(d.Cloud()), seconds(d.Drain), seconds(d.Stop), seconds(d.Snapshot), seconds(d.Start)))
	r.add("latencies of this run", shortened())
	r.limited("ratio of the two", fmt.Sprintf("%.3f", d.Ratio()), d.Ratio() > maxRatio, atMost(fmt.Sprint(maxRatio)))
	stops := countStops(requests)
	r.limited("requests to stop the donor after the power-off", fmt.Sprint(stops), stops > 0, "0")
	r.limited("CPU of the command, whole capture", fmt.Sprintf("%s: %.1f times one `kubectl get nodes`", short(c.CPU), ratio(c.CPU, yardstick)),
		ratio(c.CPU, yardstick) > maxCPU, atMost(fmt.Sprintf("%d times", maxCPU)))
	r.limited("peak memory of the command", mebibytes(c.PeakMemory), c.PeakMemory > maxMemory, atMost(mebibytes(maxMemory)))
	r.limited("requests to Azure", fmt.Sprintf("%d, of these %d polls and repeats", c.requests+c.polls, c.polls), c.requests > maxRequests,
		atMost(fmt.Sprint(maxRequests)+" without these"))
	for _, program := range [][2]string{{"size of `kamino`", o.Kamino}, {"size of `kamino-sandbox`, Kubernetes included", o.Sandbox}} {
		info, err := os.Stat(program[1])
		if err != nil {
			return c, err
		}
		r.add(program[0], mebibytes(info.Size()))
	}
	c.whole(r, "a capture whose donor returns", maxReturned)
	return c, nil
}

// captureWithReference runs a capture, and the yardstick meanwhile.
func (o Options) captureWithReference(ctx context.Context, w *world.World, args ...string) (captureCost, time.Duration, error) {
	var cost time.Duration
	var failed error
	var measuring sync.WaitGroup
	done := make(chan struct{})
	measuring.Go(func() { cost, failed = yardstick(ctx, o.programs(w.Environment()), done) })
	captured, err := o.capture(ctx, w, args...)
	close(done)
	measuring.Wait()
	return captured, cost, errors.Join(err, failed)
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
