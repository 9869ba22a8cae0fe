package kubelet

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// Latencies are the simulated durations of a kubelet's work. Zero means the default, negative none.
type Latencies struct {
	// ImagePull of an image outside the warm cache; 12 s.
	ImagePull time.Duration
	// ContainerStart of a simulated container; 1 s. ContainerStop of a terminated container; 2 s, or a shorter grace
	// period.
	ContainerStart, ContainerStop time.Duration
	// JobRun is how long a simulated container of a Job works; 5 s.
	JobRun time.Duration
	// Heartbeat between two renewals of the node's Lease; 10 s, but never less than 1 s of real time.
	Heartbeat time.Duration
	// Lost is the time from the last heartbeat to Unknown conditions; 40 s. The service does the node lifecycle
	// controller's work, because the controller's times do not scale.
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

// Config is the configuration of all kubelets of a sandbox.
type Config struct {
	// Client needs the rights of a cluster administrator and should have no limit on its rate.
	Client kubernetes.Interface
	// REST is the API server's address for processes. Without REST, no process runs.
	REST  *rest.Config
	Clock clock.Clock
	// Binaries maps a prefix of an image's name to a local program for its containers.
	Binaries map[string]string
	// OfCopies is the command that replaces kamino-node for the commands of a copy; see package kernel. None: the program itself.
	OfCopies []string
	// Broken are parts of image names that cannot be pulled.
	Broken    []string
	Latencies Latencies
	// Dir holds the logs of processes, and their volumes while they run.
	Dir string
	Log *slog.Logger
}

// Service watches pods for all kubelets, so that thousands of nodes need only one watch.
type Service struct {
	Config
	informer cache.SharedIndexInformer
	nextIP   atomic.Uint32
	// base is the first reachable pod address, so that two sandboxes use different addresses.
	base uint32

	mu sync.Mutex
	// kubelets by node name. Several kubelets with a name are a collision: the last kubelet has the pods.
	kubelets map[string][]*Kubelet
	// silent nodes that will be marked as lost.
	silent map[string]*time.Timer
	// outage of the pod network; empty is none.
	outage NetworkOutage
	// names is the name server of the cluster; nil before Run.
	names  net.PacketConn
	closed bool
}

const byNode = "node"

// New creates a service, and removes leftover volumes of a crashed service. Kubelets see pods only after Run.
func New(config Config) *Service {
	config.Latencies = config.Latencies.withDefaults()
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	_ = os.RemoveAll(filepath.Join(config.Dir, volumeDir))
	s := &Service{Config: config, kubelets: map[string][]*Kubelet{}, silent: map[string]*time.Timer{}, base: rand.Uint32()}
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
	if err := s.serveNames(ctx); err != nil {
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

// current is the kubelet with the pods of a node.
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
		left[len(left)-1].handlePods()
	}
}

// podSource lists and watches pods with a node.
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
