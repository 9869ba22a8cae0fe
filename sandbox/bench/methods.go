package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// methodsScale is the speed of the simulated AWS for both methods. Kamino's own work is not scaled, and looks as many times as long.
const methodsScale = 10

// maxFrozen is for how long the disk of a donor may be frozen.
const maxFrozen = time.Second

// RunMethods captures a node of an Auto Scaling group by each method in one sandbox, at AWS's own latencies, and compares what the donor
// notices. Call RunMethods once per process.
func RunMethods(ctx context.Context, o Options) (r Report, err error) {
	o = o.withDefaults()
	o.TimeScale *= methodsScale
	dir, err := os.MkdirTemp("", "kamino-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Say("starting a sandbox of AWS, %g times as fast as AWS", o.TimeScale)
	w, err := world.Start(ctx, world.Options{
		Dir: filepath.Join(dir, "sandbox"), Cloud: pool.AWS, TimeScale: o.TimeScale, Kamino: o.Kamino, Binary: o.Sandbox,
		Pools: []pool.Spec{pool.Spec{Name: "pool1", Nodes: 2, Max: 10, Profile: string(v1alpha1.ProfileEKS)}.Complete()},
	})
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	donor, err := o.prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	var all [2]methodCost
	for i, method := range []v1alpha1.CaptureMethod{v1alpha1.MethodInPlace, v1alpha1.MethodCopy} {
		if all[i], err = o.measureMethod(ctx, w, donor.Node, method, fmt.Sprintf("%02d", i+2)); err != nil {
			return r, fmt.Errorf("%s: %w", method, err)
		}
	}
	return compareMethods(all[0], all[1]), nil
}

// methodCost is what a capture by a method takes, in simulated time. frozen is real time.
type methodCost struct {
	away, whole, frozen time.Duration
	boots, requests     int
	workshop            *estimate.Bill
}

// compareMethods returns the figures of a capture in place beside those of a capture by copy.
func compareMethods(inPlace, copied methodCost) (r Report) {
	r.limited("donor not Ready or cordoned, on AWS: in place, by copy", fmt.Sprintf("%s, %s", seconds(inPlace.away), seconds(copied.away)),
		copied.away > 0 || inPlace.away == 0, "by copy 0 s")
	r.limited("boots of the donor: in place, by copy", fmt.Sprintf("%d, %d", inPlace.boots, copied.boots), copied.boots > 0, "by copy 0")
	r.limited("donor's disk frozen, by copy", fmt.Sprintf("%.2f s", copied.frozen.Seconds()), copied.frozen > maxFrozen || copied.frozen == 0,
		atMost(brief(maxFrozen)))
	r.add("whole capture without a trial: in place, by copy", fmt.Sprintf("%.1f min, %.1f min; %d, %d requests to AWS",
		inPlace.whole.Minutes(), copied.whole.Minutes(), inPlace.requests, copied.requests))
	if b := copied.workshop; b != nil {
		r.add("workshop of this", fmt.Sprintf("%.1f min of an instance; per GiB of the donor's disk at most %.2f GiB-hours of a disk, %.2f of a snapshot",
			b.InstanceHours*60, b.DiskGBHours, b.SnapshotGBHours))
	}
	return r
}

// measureMethod captures a node by a method. number is that of the version of the day.
func (o Options) measureMethod(ctx context.Context, w *world.World, donor string, method v1alpha1.CaptureMethod, number string) (cost methodCost, err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := watchService(watching, w, donor)
	if err != nil {
		return cost, err
	}
	version := w.Clock().Now().UTC().Format("2006.01.02") + number
	o.Say("capturing %s on AWS, method %s", donor, method)
	c, err := o.capture(ctx, w, "capture", donor, "--version", version, "--trial", string(v1alpha1.TrialOff), "--method", string(method))
	if err != nil {
		return cost, err
	}
	all, err := prototypes(ctx, w)
	if err != nil {
		return cost, err
	}
	for _, p := range all {
		if p.Spec.Version != version || p.Status.Phase != v1alpha1.PhaseSucceeded {
			continue
		}
		if p.Status.Donor != nil && p.Status.Donor.FrozenFor != nil {
			cost.frozen = p.Status.Donor.FrozenFor.Duration
		}
		cost.workshop = estimate.Of([]v1alpha1.Prototype{*p}, method == v1alpha1.MethodCopy).Billed("", 1).Bill
		if b := cost.workshop; b != nil { // the steps have real times
			b.InstanceHours, b.DiskGBHours, b.SnapshotGBHours = b.InstanceHours*o.TimeScale, b.DiskGBHours*o.TimeScale, b.SnapshotGBHours*o.TimeScale
		}
		away, boots := seen.total()
		cost.away, cost.boots = time.Duration(float64(away)*o.TimeScale), boots
		cost.whole, cost.requests = c.simulated, c.requests+c.polls
		return cost, nil
	}
	return cost, fmt.Errorf("no Prototype of version %s has succeeded", version)
}

// serviceTimes adds up for how long a node was not Ready or cordoned, and how often it booted.
type serviceTimes struct {
	mu    sync.Mutex
	node  string
	boot  string
	since time.Time
	away  time.Duration
	boots int
}

func watchService(ctx context.Context, w *world.World, node string) (*serviceTimes, error) {
	now, err := w.Kube().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	s := &serviceTimes{node: node, boot: now.Status.NodeInfo.BootID}
	return s, watchNodes(ctx, w, s.saw)
}

func (s *serviceTimes) saw(object any) {
	n, is := object.(*corev1.Node)
	if !is || n.Name != s.node {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch serves := nodestate.Available(n); {
	case !serves && s.since.IsZero():
		s.since = time.Now()
	case serves && !s.since.IsZero():
		s.away += time.Since(s.since)
		s.since = time.Time{}
	}
	if n.Status.NodeInfo.BootID != s.boot {
		s.boot = n.Status.NodeInfo.BootID
		s.boots++
	}
}

func (s *serviceTimes) total() (away time.Duration, boots int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() {
		return s.away + time.Since(s.since), s.boots
	}
	return s.away, s.boots
}
