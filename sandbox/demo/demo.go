// Package demo runs the demos. A cluster starts, its pool grows from the generic image, a node is patched and
// captured, and the pool grows by a copy. The package decides the order of steps and the checks at the end. Each
// check reads real files and API objects. A failed check ends the demo with an error.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// TimeScale of the demo: a minute of a cloud passes in 0.6 seconds.
const TimeScale = 100

// deadline ends a demo that hangs. A demo takes less than a minute on an idle laptop.
const deadline = 5 * time.Minute

// Options of a demo.
type Options struct {
	// Kamino is the path of the kamino binary; required.
	Kamino string
	// Sandbox is the path of the kamino-sandbox binary, which is kubectl as well; required.
	Sandbox string
	// Out receives the text. Styled adds colours for a terminal.
	Out    *os.File
	Styled bool
	// Cloud to simulate; empty means Azure.
	Cloud pool.Cloud
	// Kubeadm shows nodes that join with kubeadm.
	Kubeadm bool
	// ClusterAPI is the directory of Cluster API's binaries, for the demo of a pool that Cluster API builds on AWS;
	// empty for other demos.
	ClusterAPI string
	// Rollback shows a bad version without a trial: its nodes do not join, and Kamino rolls the pool back.
	Rollback bool
	// Pioneer shows a node that Kamino patches with apt before the capture, and new nodes that never run apt.
	Pioneer bool
	// Keep leaves the directory.
	Keep bool
}

// scenario is the state that the steps share.
type scenario struct {
	Options
	print *printer
	dir   string
	world *world.World
	pool  string
	began time.Time

	// before the capture: every machine, by node.
	before map[string]machine.Status
	donor  string
	// served are the donor's pods at its capture.
	served map[types.UID]int32
	// patching is the simulated time of the donor's patch and reboot.
	patching time.Duration
	// asDonor is the identity of the donor at its capture.
	asDonor  identity
	generic  joined
	clone    joined
	capture  outcome
	rollback rollbackState
	pioneer  pioneerState
}

// quickVersions lets the cloud publish an image in six minutes, to keep the demo short.
var quickVersions = azure.Latencies{Version: 6 * time.Minute}

// joined is a node that the pool got by a growth.
type joined struct {
	control.Join
	machine  machine.Status
	identity identity
	// boot and pod are what the node and its first pod waited for, in simulated time.
	boot, pod []clock.Wait
	// images on the disk when the node became Ready.
	images []string
}

// Run runs a demo, stops all processes and removes all files (see Keep).
func Run(ctx context.Context, o Options) (err error) {
	for _, binary := range []string{o.Kamino, o.Sandbox} {
		if _, err := os.Stat(binary); err != nil {
			return fmt.Errorf("the demo needs the binaries kamino and kamino-sandbox (run `make build`): %w", err)
		}
	}
	if o.Cloud == "" {
		o.Cloud = pool.Azure
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, errors.New("the demo exceeded its time limit"))
	defer cancel()
	dir, err := os.MkdirTemp("", "kamino-demo-")
	if err != nil {
		return err
	}
	s := &scenario{Options: o, print: newPrinter(o.Out, o.Styled), dir: dir, pool: world.DefaultPool().Name, began: time.Now()}
	defer func() { err = errors.Join(err, s.end()) }()
	s.print.title(o.Cloud)
	steps := s.steps()
	switch {
	case o.Rollback:
		steps = s.rollbackSteps()
	case s.Pioneer:
		steps = pioneerDemo{s}.pioneerSteps()
	case s.joinsByKubeadm():
		steps = s.kubeadmSteps()
	}
	for _, step := range steps {
		s.print.step(step.title)
		if err := step.do(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			s.print.failed(step.title)
			return err
		}
	}
	return nil
}

// joinsByRole: nodes join with the role of their instance.
func (s *scenario) joinsByRole() bool {
	return s.Cloud == pool.AWS && !s.joinsByKubeadm() && !s.Rollback
}

// joinsByKubeadm: nodes join with kubeadm. apt is on nodes of kubeadm alone on AWS.
func (s *scenario) joinsByKubeadm() bool {
	return s.Kubeadm || s.ClusterAPI != "" || s.Pioneer && s.Cloud == pool.AWS
}

type step struct {
	title string
	do    func(context.Context) error
}

func (s *scenario) steps() []step {
	return []step{
		{"A cluster starts; its pool is built from a generic image", s.clusterComesUp},
		{"A workload runs on the cluster", s.workloadRuns},
		{"The pool grows by a node from the generic image", s.growsSlowly},
		{"A node is patched and rebooted", s.nodeIsPatched},
		{s.captureTitle(), s.nodeIsCaptured},
		{"The pool grows by a node from the golden image", s.growsFast},
		{"Checks", s.everythingIsChecked},
		{"Both nodes, side by side", s.compareNodes},
	}
}

func (s *scenario) captureTitle() string {
	if s.copiesDonor() {
		return "kamino copies the disk of the patched node, which serves, and tests the image before the pool uses the image"
	}
	return "kamino captures the patched node and tests the image before the pool uses the image"
}

func (s *scenario) end() error {
	errs := []error{s.stopController(), pioneerDemo{s}.stopRepository()}
	if s.world != nil {
		var verdict strings.Builder
		errs = append(errs, s.world.Stop(), world.Judge(s.world, &verdict, 1))
		write(s.Out, "%s", output.Fold(verdict.String(), columns))
	}
	if s.Keep {
		s.print.line("the directory of the sandbox is kept: %s", s.dir)
		return errors.Join(errs...)
	}
	errs = append(errs, os.RemoveAll(s.dir))
	s.print.line("the sandbox is stopped and its directory removed; %.0f s in all", time.Since(s.began).Seconds())
	return errors.Join(errs...)
}

func (s *scenario) clusterComesUp(ctx context.Context) (err error) {
	options := world.Options{
		Dir: filepath.Join(s.dir, "sandbox"), TimeScale: TimeScale, Kamino: s.Kamino, Binary: s.Sandbox, Cloud: s.Cloud, ClusterAPI: s.ClusterAPI,
		Azure:    region.AzureOptions{Latencies: quickVersions},
		Progress: func(text string) { s.print.line("%s", text) },
	}
	switch {
	case s.joinsByKubeadm():
		options.Pools = []pool.Spec{kubeadmPool()}
	case s.joinsByRole():
		options.Pools = []pool.Spec{eksPool()}
	}
	s.world, err = world.Start(ctx, options)
	if err != nil {
		return err
	}
	s.print.line("kamino manifests | kubectl apply -f -")
	return s.install(ctx)
}

func (s *scenario) workloadRuns(ctx context.Context) error {
	return s.world.Workload(ctx, s.print.event)
}

func (s *scenario) growsSlowly(ctx context.Context) (err error) {
	s.generic, err = s.grow(ctx)
	return err
}

func (s *scenario) growsFast(ctx context.Context) (err error) {
	s.clone, err = s.grow(ctx)
	return err
}

func (s *scenario) nodeIsPatched(ctx context.Context) error {
	machines, err := s.world.Machines(ctx)
	if err != nil {
		return err
	}
	for _, m := range machines {
		if m.Node != s.generic.Node { // the copy is compared with the generic node
			s.donor = m.Node
			break
		}
	}
	served, err := s.servedBy(ctx, s.donor)
	if err != nil {
		return err
	}
	if err := s.world.Patch(ctx, s.donor, control.Patch{Reboot: true}, s.print.event); err != nil {
		return err
	}
	m, err := s.machineOf(s.donor)
	if err != nil {
		return err
	}
	s.patching = s.world.Fleet().PatchWaits() + clock.Sum(m.Waits)
	return s.podsRestarted(ctx, s.donor, served)
}

func (s *scenario) nodeIsCaptured(ctx context.Context) (err error) {
	s.before = map[string]machine.Status{}
	for _, m := range s.world.Fleet().Machines() {
		s.before[m.Node] = m
	}
	if s.asDonor, err = identify(s.before[s.donor].Disk); err != nil {
		return err
	}
	if s.served, err = s.servedBy(ctx, s.donor); err != nil {
		return err
	}
	order, err := s.order()
	if err != nil {
		return err
	}
	s.print.line("kamino %s", strings.Join(order, " "))
	s.print.gap()
	if err := s.run(ctx, order...); err != nil {
		return fmt.Errorf("kamino capture: %w", err)
	}
	s.print.gap()
	s.capture, err = s.outcome(ctx)
	return err
}

// write is fmt.Fprintf without its error.
func write(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
