// Package world runs a whole sandbox in one process: the control plane, the machines, the simulated cloud, and the
// files for clients. The package decides the order of start and stop, the content of the directory, and when a
// sandbox is ready. Other packages implement the parts.
package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	"github.com/kamino-dev/kamino/sandbox/machine/kernel"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// DefaultTimeScale is how many seconds of a cloud pass in one of a sandbox.
const DefaultTimeScale = 60

// Options of a sandbox. Only Dir is required: the default is a sandbox with one pool.
type Options struct {
	// Dir holds the sandbox; required. A directory with a sandbox continues with the same sandbox.
	Dir string
	// Pools to create. An existing pool stays unchanged. In a new directory, nil means DefaultPool.
	Pools []pool.Spec
	// Cloud to simulate; empty means the cloud of the directory, and Azure in a new directory.
	Cloud pool.Cloud
	// ClusterAPI is the directory of Cluster API's binaries (`make clusterapi`). Empty if the cloud's own pools build
	// the nodes.
	ClusterAPI string
	// AWSProvider is the directory of the real infrastructure provider for AWS (`make clusterapi-aws`). If empty, the
	// sandbox imitates the provider.
	AWSProvider string
	// ClusterClass creates a new sandbox's Cluster from a ClusterClass. Pools of kind ClusterClass do the same.
	ClusterClass bool
	// TimeScale is how many simulated seconds pass in a real one; 0 means DefaultTimeScale.
	TimeScale float64
	// Calendar is the simulated time; nil means real time. A restart of the sandbox must not set the calendar back.
	Calendar *clock.Calendar
	// APIPort and CloudPort on 127.0.0.1; 0 means the port of the last start, or a free port.
	APIPort, CloudPort int
	// Kamino is the path of the binary that containers of Kamino's image run. If empty, these containers only wait,
	// and no capture succeeds.
	Kamino string
	// Images maps prefixes of other images to the programs that their containers run.
	Images map[string]string
	// NodeGrace of the control plane; 0 means a value for the time scale and the pools.
	NodeGrace time.Duration
	// KeepNodes keeps the Node of a deleted instance, as in a cluster without a node lifecycle controller of the
	// cloud.
	KeepNodes bool
	// Machines overrides simulated durations of machines. Azure and AWS hold options of one cloud.
	Machines machine.Latencies
	Azure    region.AzureOptions
	AWS      region.AWSOptions
	// Binary is this program, for links in the directory's bin; empty means the running executable.
	Binary string
	// Progress receives messages until the sandbox is ready; nil drops the messages.
	Progress func(string)
}

// Prefixes of the names of Kamino's own images: KaminoImage of the control plane, and NodeImage of the pods on nodes.
const (
	KaminoImage = sandboxdir.KaminoImage
	NodeImage   = sandboxdir.NodeImage
)

// DefaultPool is the pool of a sandbox without configured pools.
func DefaultPool() pool.Spec {
	return pool.Spec{Name: "pool1", Nodes: 3, Max: 10}.Complete()
}

// World is a running sandbox.
type World struct {
	options   Options
	directory *sandboxdir.Directory
	// poolsMu guards the pools of the site, because AddPool adds pools.
	poolsMu sync.Mutex
	clock   clock.Clock
	plane   *controlplane.ControlPlane
	fleet   *machine.Fleet
	cloud   region.Region
	kube    kubernetes.Interface
	nodes   *nodeWatch
	servers sandboxdir.Servers
	tokens  authenticator
	record  *record
	since   time.Time

	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup
	// undo stops the started parts, the last part first.
	undo []func() error
	// asked is closed by a request to stop. lost receives the reason why the sandbox cannot continue.
	asked chan struct{}
	once  sync.Once
	lost  chan error
}

// ErrStopRequested is the error of Start if a stop was requested before the sandbox was ready.
var ErrStopRequested = errors.New("the sandbox received the order to stop before it was ready")

// Start starts a sandbox and returns when all its nodes are Ready. On an error, nothing runs. A process can start a
// single sandbox. The context limits the start, not the life of the sandbox.
func Start(ctx context.Context, o Options) (*World, error) {
	w := &World{options: o.withDefaults(), since: time.Now(), asked: make(chan struct{}), tokens: authenticator{answers: make(chan struct{})},
		lost: make(chan error, 8)}
	w.clock = clock.Clock{Scale: w.options.TimeScale, Calendar: w.options.Calendar}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	ctx, started := w.untilTrouble(ctx)
	defer started()
	for _, step := range []func(context.Context) error{
		w.openSite, w.startAuthenticator, w.startControlPlane, w.startMachines, w.startCloud, w.startClusterAPI, w.writeFiles, w.makePools,
		w.startControl, w.awaitNodes,
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
			cancel(ErrStopRequested)
		case err := <-w.lost:
			// Keep the error for readers of Lost after the start.
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

// StopRequested is closed when a verb or a client has asked the sandbox to end.
func (w *World) StopRequested() <-chan struct{} { return w.asked }

// Lost delivers the reason why the sandbox cannot continue. The caller must call Stop then.
func (w *World) Lost() <-chan error { return w.lost }

// Administrator is the user with all rights in the cluster.
const Administrator = "admin"

// Config is a client configuration with all rights in the cluster.
func (w *World) Config() *rest.Config { return w.plane.Admin() }

// Kubeconfig is the kubeconfig of another user, with a certificate.
func (w *World) Kubeconfig(user string, groups ...string) ([]byte, error) {
	return w.plane.Kubeconfig(user, groups...)
}

// Kube is a client of the cluster with all rights.
func (w *World) Kube() kubernetes.Interface { return w.kube }

// Cloud is the simulated cloud.
func (w *World) Cloud() region.Region { return w.cloud }

// baseCloud is the cloud without the layer of Cluster API.
func baseCloud(w *World) region.Region {
	if over, is := w.cloud.(*region.ClusterAPI); is {
		return over.Base()
	}
	return w.cloud
}

// Azure is the simulated Azure; nil on AWS.
func (w *World) Azure() *region.Azure {
	a, _ := baseCloud(w).(*region.Azure)
	return a
}

// AWS is the simulated AWS; nil on Azure.
func (w *World) AWS() *region.AWS {
	a, _ := baseCloud(w).(*region.AWS)
	return a
}

// Fleet is the machines.
func (w *World) Fleet() *machine.Fleet { return w.fleet }

// Clock is the clock of the simulated time.
func (w *World) Clock() clock.Clock { return w.clock }

// Facts are the names and secrets of the simulated cloud.
func (w *World) Facts() sandboxdir.Identity { return w.directory.Identity }

// Dir is the sandbox's directory, absolute.
func (w *World) Dir() string { return w.directory.Dir }

// Environment holds the variables for a child process that uses the sandbox.
func (w *World) Environment() []sandboxdir.Variable { return w.directory.Environment(w.servers) }

// IdentityVariables make a child process use a managed identity in place of the service principal.
func (w *World) IdentityVariables() []sandboxdir.Variable {
	return w.directory.IdentityVariables(w.servers)
}

func (w *World) progress(format string, args ...any) {
	w.options.Progress(fmt.Sprintf(format, args...))
}

func (w *World) onStop(undo func() error) { w.undo = append(w.undo, undo) }

func (w *World) openSite(context.Context) error {
	s, err := sandboxdir.Open(w.options.Dir, w.options.Cloud)
	if err != nil {
		return err
	}
	w.directory = s
	w.onStop(s.Close)
	if w.record, err = openRecord(s.Path(sandboxdir.RecordDir)); err != nil {
		return err
	}
	w.onStop(w.record.close)
	if s.Fresh {
		s.ClusterAPI = w.options.ClusterAPI != ""
	}
	if s.ClusterAPI != (w.options.ClusterAPI != "") {
		return fmt.Errorf("the sandbox in %s was created %s Cluster API: start the sandbox the same way, or use another --dir",
			s.Dir, map[bool]string{true: "with", false: "without"}[s.ClusterAPI])
	}
	if s.Fresh {
		w.progress("new sandbox in %s", s.Dir)
	} else {
		w.progress("sandbox in %s continues", s.Dir)
	}
	return w.adoptPools()
}

// adoptPools adds new pools to the facts of the directory.
func (w *World) adoptPools() error {
	wanted := w.options.Pools
	if wanted == nil && len(w.directory.Pools) == 0 {
		wanted = []pool.Spec{DefaultPool()}
	}
	for _, spec := range wanted {
		if !slices.ContainsFunc(w.directory.Pools, func(p pool.Spec) bool { return p.Is(spec.Name) }) {
			spec, err := forSandbox(w.directory, spec)
			if err != nil {
				return err
			}
			w.directory.Pools = append(w.directory.Pools, spec)
		} else if !w.directory.Fresh {
			w.progress("pool %s exists and stays unchanged", spec.Name)
		}
	}
	return nil
}

func (w *World) startControlPlane(ctx context.Context) error {
	began := time.Now()
	ca, err := authority.Open(w.directory.Path("pki"))
	if err != nil {
		return err
	}
	w.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: w.directory.Path("control-plane"), Audit: w.record.dir, Authority: ca, Port: either(w.options.APIPort, w.directory.APIPort),
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
	w.directory.APIPort = w.plane.Port()
	w.servers.CA = ca.CertPEM()
	if w.servers.Kubeconfig, err = w.plane.Kubeconfig(Administrator, "system:masters"); err != nil {
		return err
	}
	w.progress("control plane: etcd, API server, controller manager and scheduler serve %s (%.1f s)", w.plane.URL(), time.Since(began).Seconds())
	return nil
}

// nodeGrace is 40 s of a real cluster in simulated time, with a minimum for late heartbeats on a busy laptop. Light
// nodes send no heartbeats.
func (w *World) nodeGrace() time.Duration {
	if w.options.NodeGrace != 0 {
		return w.options.NodeGrace
	}
	if slices.ContainsFunc(w.directory.Pools, func(p pool.Spec) bool { return p.Light }) {
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
		Dir: w.directory.Path("machines"), Clock: w.clock, Client: w.kube, RESTConfig: w.plane.Admin(),
		Latencies: w.options.Machines, Region: w.location(), Kubeadm: true, KeepNodes: w.options.KeepNodes, Log: logger,
	}
	if w.directory.Cloud == pool.AWS {
		config.Nodeadm = w.nodeadm
	}
	if w.options.Kamino != "" {
		kamino, err := program(w.options.Kamino)
		if err != nil {
			return err
		}
		node, err := program(filepath.Join(filepath.Dir(kamino), "kamino-node"))
		if err != nil {
			return err
		}
		config.Binaries, config.OfCopies = map[string]string{KaminoImage: kamino, NodeImage: node}, []string{w.options.Binary, kernel.Verb}
		maps.Copy(config.Binaries, w.options.Images)
	}
	// The cloud stops before its machines: it would take the end of their work for a failure.
	if w.fleet, err = machine.New(context.WithoutCancel(w.ctx), config); err != nil {
		return fmt.Errorf("machines: %w", err)
	}
	w.onStop(func() error { w.fleet.Close(); return nil })
	return nil
}

// location is the cloud's region.
func (w *World) location() string {
	if w.directory.Cloud == pool.AWS {
		return w.directory.AWS.Region
	}
	return w.directory.Location
}

// program checks that a path leads to an executable file.
func program(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("the program of a container: %w (run `make build`, or pass another kamino with --kamino, next to its kamino-node)", err)
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("the program of a container: %s is not executable", path)
	}
	return path, nil
}

// openLog opens the log of machines and cloud, which keeps the terminal free for progress.
func (w *World) openLog() (*slog.Logger, error) {
	file, err := os.OpenFile(w.directory.Path("sandbox.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
