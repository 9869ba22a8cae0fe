// Package kubelet is the node agent of sandbox machines: it registers Nodes, keeps them Ready and runs
// the pods that are bound to them. Most containers are simulated; one whose image is mapped to a local
// program is a real process. It decides what a pod's status is and nothing about the machine under it.
package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// Latencies are the simulated durations of a kubelet's work. Zero means the default, negative none.
type Latencies struct {
	// ImagePull of one image that is not in the warm cache; 12 s.
	ImagePull time.Duration
	// ContainerStart of a simulated container; 1 s. ContainerStop of one that is asked to end; 2 s, or
	// its grace period if that is shorter.
	ContainerStart, ContainerStop time.Duration
	// JobRun is how long a simulated container of a Job works; 5 s.
	JobRun time.Duration
	// Heartbeat between two renewals of the node's Lease; 10 s, but never less than 1 s of real time.
	Heartbeat time.Duration
	// Lost is the time from a kubelet's last word to the Node's conditions becoming Unknown; 40 s. It
	// does a node lifecycle controller's work, whose own times cannot be scaled.
	Lost time.Duration
}

func (l Latencies) withDefaults() Latencies {
	for field, fallback := range map[*time.Duration]time.Duration{
		&l.ImagePull: 12 * time.Second, &l.ContainerStart: time.Second, &l.ContainerStop: 2 * time.Second,
		&l.JobRun: 5 * time.Second, &l.Heartbeat: 10 * time.Second, &l.Lost: 40 * time.Second,
	} {
		if *field == 0 {
			*field = fallback
		}
		*field = max(*field, 0)
	}
	return l
}

// Config is what all kubelets of a sandbox share.
type Config struct {
	// Client needs the rights of a cluster administrator and should have no limit on its rate.
	Client kubernetes.Interface
	// REST tells processes where the API server is. Without it no process can be run.
	REST  *rest.Config
	Clock clock.Clock
	// Binaries maps a prefix of an image's name to the local program that its containers run.
	Binaries map[string]string
	// Broken are parts of names of images that cannot be pulled.
	Broken    []string
	Latencies Latencies
	// Dir keeps the logs of processes, and their volumes while they run.
	Dir string
	Log *slog.Logger
}

// Service watches pods for all kubelets, so that thousands of nodes cost one watch.
type Service struct {
	Config
	informer cache.SharedIndexInformer
	nextIP   atomic.Uint32

	mu sync.Mutex
	// kubelets by node name. More than one of a name is a collision: the last one has the pods.
	kubelets map[string][]*Kubelet
	// silent nodes that will be marked as lost.
	silent map[string]*time.Timer
	closed bool
}

const byNode = "node"

// New makes a service. Run must be called for its kubelets to see pods.
func New(config Config) *Service {
	config.Latencies = config.Latencies.withDefaults()
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{Config: config, kubelets: map[string][]*Kubelet{}, silent: map[string]*time.Timer{}}
	s.informer = cache.NewSharedIndexInformer(podSource(config.Client), &corev1.Pod{}, 0, cache.Indexers{
		byNode: func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Spec.NodeName}, nil },
	})
	return s
}

// Run watches pods until the context ends.
func (s *Service) Run(ctx context.Context) error {
	_, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.notice(object) },
		UpdateFunc: func(_, object any) { s.notice(object) },
		DeleteFunc: func(object any) { s.notice(object) },
	})
	if err != nil {
		return err
	}
	s.informer.RunWithContext(ctx)
	s.close()
	return nil
}

// notice brings a change of a pod to the kubelet of its node.
func (s *Service) notice(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if k := s.current(pod.Spec.NodeName); k != nil {
		k.notice(pod)
	}
}

// current is the kubelet that has the pods of a node.
func (s *Service) current(node string) *Kubelet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.kubelets[node]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

func (s *Service) enlist(k *Kubelet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kubelets[k.node.Name] = append(s.kubelets[k.node.Name], k)
}

func (s *Service) dismiss(k *Kubelet) {
	s.mu.Lock()
	left := slices.DeleteFunc(s.kubelets[k.node.Name], func(other *Kubelet) bool { return other == k })
	s.kubelets[k.node.Name] = left
	if len(left) == 0 {
		delete(s.kubelets, k.node.Name)
	}
	s.mu.Unlock()
	if len(left) > 0 {
		left[len(left)-1].takePods()
	}
}

// Node is what a kubelet knows of its machine.
type Node struct {
	Name, ProviderID, IP string
	Labels               map[string]string
	Info                 corev1.NodeSystemInfo
	// Root of the machine's disk tree; empty for a light machine.
	Root string
}

// Kubelet is one machine's, from its start until the power goes.
type Kubelet struct {
	service *Service
	node    Node
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// starting is held by Start, and by Kill from when nothing can start any more.
	starting sync.Mutex
	// enlisted tells that the Node was registered and the service knows this kubelet.
	enlisted bool
	// cache is held while the warm cache on the disk changes.
	cache sync.Mutex

	mu      sync.Mutex
	closed  bool
	active  bool
	workers map[types.UID]*worker
}

// Prepare makes a machine's kubelet, which does nothing before Start.
func (s *Service) Prepare(ctx context.Context, node Node) *Kubelet {
	k := &Kubelet{service: s, node: node, workers: map[types.UID]*worker{}}
	// A kubelet's life is its machine's, not that of the call that makes it.
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return k
}

// Start starts the kubelet's process. The first time it registers the Node, marks it Ready and takes its
// pods; later, after Pause, it reports at once what happened meanwhile. On an error nothing has started.
func (k *Kubelet) Start(ctx context.Context) error {
	k.starting.Lock()
	defer k.starting.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	if !k.enlisted {
		if err := k.register(ctx); err != nil {
			return err
		}
	}
	if !k.activate() {
		return fmt.Errorf("the machine of node %s has no power", k.node.Name)
	}
	k.service.heard(k.node.Name)
	if k.enlisted {
		k.spawn(k.beat)
	} else {
		k.enlisted = true
		k.service.enlist(k)
		if k.node.Root != "" {
			k.spawn(k.heartbeat)
		}
	}
	k.takePods()
	return nil
}

func (k *Kubelet) activate() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = !k.closed
	return k.active
}

// Node tells what this kubelet registered.
func (k *Kubelet) Node() Node { return k.node }

// Pause is the end of the kubelet's process: no heartbeat, no report, no new pods. Containers go on.
func (k *Kubelet) Pause() {
	k.mu.Lock()
	k.active = false
	k.mu.Unlock()
	k.service.watchSilence(k.node.Name)
}

// Kill is the loss of power: processes die at once and nobody hears of it. It returns when all is over.
func (k *Kubelet) Kill() {
	k.mu.Lock()
	k.closed, k.active = true, false
	workers := k.all()
	k.mu.Unlock()
	k.cancel()
	for _, w := range workers {
		w.killProcesses()
	}
	k.running.Wait()
	k.starting.Lock()
	defer k.starting.Unlock()
	if k.enlisted {
		k.service.dismiss(k)
	}
	k.service.watchSilence(k.node.Name)
}

// Shutdown is the machine's orderly way down: the Node says that it is not Ready, processes are asked to
// end and get the time until the context ends, at most 30 simulated seconds. Then it is as after Kill.
func (k *Kubelet) Shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(k.service.Clock.Real(30*time.Second), time.Second))
	defer cancel()
	err := k.setReady(ctx, corev1.ConditionFalse, "KubeletNotReady", "node is shutting down")
	if err != nil && !apierrors.IsNotFound(err) {
		k.service.Log.Warn("node not marked as shutting down", "node", k.node.Name, "error", err)
	}
	k.mu.Lock()
	k.active = false
	workers := k.all()
	k.mu.Unlock()
	for _, w := range workers {
		w.stopProcesses(ctx)
	}
	k.Kill()
}

// all needs k.mu.
func (k *Kubelet) all() []*worker {
	workers := make([]*worker, 0, len(k.workers))
	for _, w := range k.workers {
		workers = append(workers, w)
	}
	return workers
}

// spawn runs work that Kill waits for; nothing is spawned once the power is gone.
func (k *Kubelet) spawn(work func(context.Context)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.running.Add(1)
	go func() {
		defer k.running.Done()
		work(k.ctx)
	}()
	return true
}

func (k *Kubelet) isActive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active && !k.closed
}

// takePods looks at every pod that is bound to the node, and at every one that is not any more.
func (k *Kubelet) takePods() {
	objects, err := k.service.informer.GetIndexer().ByIndex(byNode, k.node.Name)
	if err != nil {
		return
	}
	for _, object := range objects {
		k.notice(object.(*corev1.Pod))
	}
	k.mu.Lock()
	workers := k.all()
	k.mu.Unlock()
	for _, w := range workers {
		w.kick(nil)
	}
}

func (k *Kubelet) notice(pod *corev1.Pod) {
	k.mu.Lock()
	w := k.workers[pod.UID]
	if w == nil && k.active && !k.closed {
		w = newWorker(k, pod)
		k.workers[pod.UID] = w
	}
	k.mu.Unlock()
	if w != nil {
		w.kick(pod)
	}
}

func (k *Kubelet) forget(w *worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.workers, w.uid)
}

// podSource lists and watches pods that are bound to a node.
func podSource(client kubernetes.Interface) cache.ListerWatcher {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}, client)
}
