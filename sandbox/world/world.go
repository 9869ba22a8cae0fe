// Package world is a whole sandbox: the control plane, the machines, the simulated cloud that orders them,
// and the files that clients read, in one process. It decides the order of start and stop, what is kept in
// the directory, and when a sandbox is ready. What each part does is its own package's business.
package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/controlplane"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/site"
)

// DefaultTimeScale is how many seconds of a cloud pass in one of a sandbox.
const DefaultTimeScale = 60

// Options say what a sandbox is like. The zero value of everything but Dir is a sandbox of one pool.
type Options struct {
	// Dir keeps the sandbox; required. A directory that held one before goes on with it.
	Dir string
	// Pools to make. One that the directory has already stays as it is; nil in a fresh directory means
	// DefaultPool.
	Pools []pool.Spec
	// Cloud that is simulated; empty means the one that the directory has, and Azure in a fresh one.
	Cloud pool.Cloud
	// ClusterAPI is the directory of Cluster API's binaries, which `make clusterapi` makes, where that builds the nodes; empty
	// where the cloud's own pools do.
	ClusterAPI string
	// ClusterClass has a new sandbox's Cluster be made from one, as pools of that kind do.
	ClusterClass bool
	// TimeScale is how many simulated seconds pass in a real one; 0 means DefaultTimeScale.
	TimeScale float64
	// Calendar tells the simulated time; nil is the wall's. It must not be put back by a restart of the sandbox.
	Calendar *clock.Calendar
	// APIPort and CloudPort on 127.0.0.1; 0 means those of the last start, or free ones.
	APIPort, CloudPort int
	// Kamino is the path of the binary that containers of Kamino's image run; empty simulates them like
	// all others, and then no capture gets far.
	Kamino string
	// NodeGrace of the control plane; 0 means what suits the time scale and the pools.
	NodeGrace time.Duration
	// KeepNodes has nobody remove the Node of an instance that is gone, as where the cloud's node lifecycle controller does
	// not run.
	KeepNodes bool
	// Machines override simulated durations of theirs, Azure and AWS what only that cloud has.
	Machines machine.Latencies
	Azure    region.AzureOptions
	AWS      region.AWSOptions
	// Binary is this program, for links in the directory's bin; empty means the running executable.
	Binary string
	// Progress is told what happens until the sandbox is ready; nil tells nobody.
	Progress func(string)
}

// KaminoImage is the prefix of the names of Kamino's own image.
const KaminoImage = site.KaminoImage

// DefaultPool of a sandbox that was told of none.
func DefaultPool() pool.Spec {
	return pool.Spec{Name: "pool1", Nodes: 3, Max: 10}.Complete()
}

// World is a running sandbox.
type World struct {
	options Options
	site    *site.Site
	// poolsMu guards the site's pools, which can grow.
	poolsMu sync.Mutex
	clock   clock.Clock
	plane   *controlplane.ControlPlane
	fleet   *machine.Fleet
	cloud   region.Region
	kube    kubernetes.Interface
	nodes   *nodeWatch
	servers site.Servers
	tokens  authenticator
	since   time.Time

	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup
	// undo stops what was started, last first.
	undo []func() error
	// asked is closed when somebody asks the sandbox to end, lost tells why it cannot go on.
	asked chan struct{}
	once  sync.Once
	lost  chan error
}

// ErrAskedToEnd is why Start failed if somebody asked the sandbox to end before it was ready.
var ErrAskedToEnd = errors.New("the sandbox received the order to stop before it was ready")

// Start starts a sandbox and returns when all its nodes are Ready. On an error nothing is left running. A
// process can start one in its life. The context bounds the start, not the sandbox's life.
func Start(ctx context.Context, o Options) (*World, error) {
	w := &World{options: o.withDefaults(), since: time.Now(), asked: make(chan struct{}), tokens: authenticator{answers: make(chan struct{})}, lost: make(chan error, 8)}
	w.clock = clock.Clock{Scale: w.options.TimeScale, Calendar: w.options.Calendar}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	ctx, started := w.untilTrouble(ctx)
	defer started()
	for _, step := range []func(context.Context) error{
		w.openSite, w.startAuthenticator, w.startControlPlane, w.startMachines, w.startCloud, w.startClusterAPI, w.writeFiles, w.makePools, w.startControl, w.awaitNodes,
	} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = cause
			}
			return nil, errors.Join(err, w.Stop())
		}
	}
	return w, nil
}

// untilTrouble is a context that ends early if the sandbox cannot start any more, or should not.
func (w *World) untilTrouble(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-w.asked:
			cancel(ErrAskedToEnd)
		case err := <-w.lost:
			// Also for whoever looks once the start was over.
			w.lost <- err
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (o Options) withDefaults() Options {
	if o.TimeScale == 0 {
		o.TimeScale = DefaultTimeScale
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Binary == "" {
		o.Binary, _ = os.Executable()
	}
	return o
}

// Stop ends the sandbox: machines lose their power, the cloud its clients, and the control plane is stopped
// in order. The directory stays and can be started again. A second call does nothing.
func (w *World) Stop() error {
	w.cancel()
	var errs []error
	for _, undo := range slices.Backward(w.undo) {
		errs = append(errs, undo())
	}
	w.undo = nil
	w.serving.Wait()
	return errors.Join(errs...)
}

// Asked is closed when a verb or a client has asked the sandbox to end.
func (w *World) Asked() <-chan struct{} { return w.asked }

// Lost delivers why the sandbox cannot go on. Whoever runs it should Stop it then.
func (w *World) Lost() <-chan error { return w.lost }

// Config is a client configuration that may do everything in the cluster.
func (w *World) Config() *rest.Config { return w.plane.Admin() }

// Kube is a client of the cluster that may do everything.
func (w *World) Kube() kubernetes.Interface { return w.kube }

// Cloud is the simulated one.
func (w *World) Cloud() region.Region { return w.cloud }

// under is the cloud itself, whoever builds its nodes.
func (w *World) under() region.Region {
	if over, is := w.cloud.(*region.ClusterAPI); is {
		return over.Under()
	}
	return w.cloud
}

// Azure is the simulated cloud, where it is Azure.
func (w *World) Azure() *region.Azure {
	a, _ := w.under().(*region.Azure)
	return a
}

// AWS is the simulated cloud, where it is AWS.
func (w *World) AWS() *region.AWS {
	a, _ := w.under().(*region.AWS)
	return a
}

// Fleet is the machines.
func (w *World) Fleet() *machine.Fleet { return w.fleet }

// Clock tells the time, and how fast it passes.
func (w *World) Clock() clock.Clock { return w.clock }

// Facts are the names and secrets of the simulated cloud.
func (w *World) Facts() site.Facts { return w.site.Facts }

// Dir is the sandbox's directory, absolute.
func (w *World) Dir() string { return w.site.Dir }

// Environment is what a child process needs to use the sandbox.
func (w *World) Environment() []site.Variable { return w.site.Environment(w.servers) }

// IdentityVariables make a child process use a managed identity in place of the service principal.
func (w *World) IdentityVariables() []site.Variable { return w.site.IdentityVariables(w.servers) }

func (w *World) say(format string, args ...any) { w.options.Progress(fmt.Sprintf(format, args...)) }

func (w *World) onStop(undo func() error) { w.undo = append(w.undo, undo) }

func (w *World) openSite(context.Context) error {
	s, err := site.Open(w.options.Dir, w.options.Cloud)
	if err != nil {
		return err
	}
	w.site = s
	w.onStop(s.Close)
	if s.Fresh {
		s.ClusterAPI = w.options.ClusterAPI != ""
	}
	if s.ClusterAPI != (w.options.ClusterAPI != "") {
		return fmt.Errorf("the sandbox in %s was created %s Cluster API: start the sandbox the same way, or use another --dir", s.Dir, map[bool]string{true: "with", false: "without"}[s.ClusterAPI])
	}
	if s.Fresh {
		w.say("new sandbox in %s", s.Dir)
	} else {
		w.say("sandbox in %s continues", s.Dir)
	}
	return w.adoptPools()
}

// adoptPools adds the pools that the directory does not have yet to its facts.
func (w *World) adoptPools() error {
	wanted := w.options.Pools
	if wanted == nil && len(w.site.Pools) == 0 {
		wanted = []pool.Spec{DefaultPool()}
	}
	for _, spec := range wanted {
		if !slices.ContainsFunc(w.site.Pools, func(p pool.Spec) bool { return p.Is(spec.Name) }) {
			spec, err := here(w.site, spec)
			if err != nil {
				return err
			}
			w.site.Pools = append(w.site.Pools, spec)
		} else if !w.site.Fresh {
			w.say("pool %s exists and stays unchanged", spec.Name)
		}
	}
	return nil
}

func (w *World) startControlPlane(ctx context.Context) error {
	began := time.Now()
	ca, err := authority.Open(w.site.Path("pki"))
	if err != nil {
		return err
	}
	w.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: w.site.Path("control-plane"), Authority: ca, Port: either(w.options.APIPort, w.site.APIPort),
		Join: true, Webhook: w.tokens.webhook, NodeGrace: w.nodeGrace(), EvictAfter: max(w.clock.Real(5*time.Minute), 10*time.Second).Round(time.Second),
	})
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	w.onStop(w.plane.Stop)
	w.serving.Go(func() {
		select {
		case err := <-w.plane.Lost():
			w.lost <- err
		case <-w.ctx.Done():
		}
	})
	if w.kube, err = kubernetes.NewForConfig(protobuf(w.plane.Admin())); err != nil {
		return err
	}
	w.site.APIPort = w.plane.Port()
	w.servers.CA = ca.CertPEM()
	if w.servers.Kubeconfig, err = w.plane.Kubeconfig("admin", "system:masters"); err != nil {
		return err
	}
	w.say("control plane: etcd, API server, controller manager and scheduler serve %s (%.1f s)", w.plane.URL(), time.Since(began).Seconds())
	return nil
}

// nodeGrace is a real cluster's 40 s in this one's time, but never so short that a busy laptop, on which a
// heartbeat is late, loses its nodes. Light nodes send none.
func (w *World) nodeGrace() time.Duration {
	if w.options.NodeGrace != 0 {
		return w.options.NodeGrace
	}
	if slices.ContainsFunc(w.site.Pools, func(p pool.Spec) bool { return p.Light }) {
		return 240 * time.Hour
	}
	return max(w.clock.Real(40*time.Second), 12*time.Second)
}

func (w *World) startMachines(ctx context.Context) error {
	logger, err := w.openLog()
	if err != nil {
		return err
	}
	if w.nodes, err = watchNodes(ctx, w.ctx, w.kube, w.since); err != nil {
		return err
	}
	config := machine.Config{
		Dir: w.site.Path("machines"), Clock: w.clock, Client: w.kube, RESTConfig: w.plane.Admin(),
		Latencies: w.options.Machines, Region: w.location(), Kubeadm: true, KeepNodes: w.options.KeepNodes, Log: logger,
	}
	if w.site.Cloud == pool.AWS {
		config.Nodeadm = w.nodeadm
	}
	if w.options.Kamino != "" {
		path, err := program(w.options.Kamino)
		if err != nil {
			return err
		}
		config.Binaries = map[string]string{KaminoImage: path}
	}
	if w.fleet, err = machine.New(w.ctx, config); err != nil {
		return fmt.Errorf("machines: %w", err)
	}
	w.onStop(func() error { w.fleet.Close(); return nil })
	return nil
}

// location is the cloud's region.
func (w *World) location() string {
	if w.site.Cloud == pool.AWS {
		return w.site.AWS.Region
	}
	return w.site.Location
}

// program checks that a path leads to something that can be run.
func program(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("the kamino binary for nodes: %w (run `make build`, or pass another binary with --kamino)", err)
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("the kamino binary for nodes: %s is not executable", path)
	}
	return path, nil
}

// openLog is where machines and cloud write what a person would not want between the lines of progress.
func (w *World) openLog() (*slog.Logger, error) {
	file, err := os.OpenFile(w.site.Path("sandbox.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w.onStop(file.Close)
	return slog.New(slog.NewTextHandler(file, nil)), nil
}

func protobuf(config *rest.Config) *rest.Config {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

func either(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}
