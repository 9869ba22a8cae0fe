// Package kubelet is the node agent of sandbox machines. A kubelet registers a Node, keeps the Node Ready and runs
// the Node's pods. Most containers are simulated; containers with a mapped image are real processes. The package
// decides the status of pods, and nothing about the machine.
package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Node is a kubelet's view of its machine.
type Node struct {
	Name, ProviderID, IP string
	// Labels of the cloud's controller. The configuration has the kubelet's own.
	Labels map[string]string
	Info   corev1.NodeSystemInfo
	// Config is what the disk says of the node. The zero value is a healthy node of a light machine.
	Config bootconfig.Config
	// Root of the machine's disk tree; empty for a light machine.
	Root string
	// FirstRead is the simulated time of the first read of an image on a new disk, and 0 after it; nil is none.
	FirstRead func(image string) time.Duration
	// Client uses the node's own credential; nil if all nodes share the service's client.
	Client kubernetes.Interface

	// Defects of the node. Isolated cuts the network of pods, except on the host network. Crashes selects DaemonSets
	// (namespace/name) whose pods crash. ReadyFor is the simulated time until the Node is NotReady forever; 0 is never.
	Isolated bool
	Crashes  func(daemonSet string) bool
	ReadyFor time.Duration
}

// Kubelet is the kubelet of a machine, from the start until the loss of power.
type Kubelet struct {
	service *Service
	node    Node
	client  kubernetes.Interface
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// starting is held by Start, and by Kill from when nothing can start any more.
	starting sync.Mutex
	// enlisted: the Node is registered and the service knows this kubelet.
	enlisted bool
	// beating is held during a heartbeat.
	beating sync.Mutex
	// cache is held while the warm cache on the disk changes.
	cache sync.Mutex

	mu     sync.Mutex
	closed bool
	active bool
	// unplugged: the node's own network has failed for good.
	unplugged bool
	// stranded: an outage for new nodes affects this node.
	stranded bool
	workers  map[types.UID]*worker
	// admitted pods use the node's resources.
	admitted map[types.UID]bool
}

// Prepare creates the kubelet of a machine. The kubelet does nothing before Start.
func (s *Service) Prepare(ctx context.Context, node Node) *Kubelet {
	k := &Kubelet{service: s, node: node, client: node.Client, workers: map[types.UID]*worker{}, admitted: map[types.UID]bool{}}
	if k.client == nil {
		k.client = s.Client
	}
	// A kubelet lives as long as its machine, not only during this call.
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return k
}

// Start starts the kubelet. The first start registers the Node, marks the Node Ready and accepts pods. A start after
// Pause reports missed changes at once. On an error nothing has started.
func (k *Kubelet) Start(ctx context.Context) error {
	k.starting.Lock()
	defer k.starting.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	if !k.enlisted {
		k.strand()
		if err := k.register(ctx); err != nil {
			k.service.watchSilence(k.node.Name)
			return err
		}
		if k.node.Root != "" {
			k.mirror(ctx)
		}
	}
	if !k.activate() {
		k.service.watchSilence(k.node.Name)
		return fmt.Errorf("the machine of node %s has no power", k.node.Name)
	}
	k.service.recordHeartbeat(k.node.Name)
	if k.enlisted {
		k.spawn(k.keepReady)
	} else {
		k.enlisted = true
		k.service.enlist(k)
		if k.node.ReadyFor > 0 {
			k.spawn(k.failLater)
		}
		if k.node.Root != "" {
			k.spawn(k.keepReady)
		}
	}
	k.handlePods()
	k.sweep()
	return nil
}

func (k *Kubelet) activate() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = !k.closed
	return k.active
}

// Node returns the registered values.
func (k *Kubelet) Node() Node { return k.node }

// Pause is the end of the kubelet's process: no heartbeat, no report, no new pods. Containers go on.
func (k *Kubelet) Pause() {
	k.mu.Lock()
	k.active = false
	k.mu.Unlock()
	// A heartbeat after the Node was marked as lost would make the Node Ready again.
	k.beating.Lock()
	defer k.beating.Unlock()
	k.service.watchSilence(k.node.Name)
}

// Kill is a loss of power: processes die at once, without a report. Kill waits for their end.
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
	for _, w := range workers {
		// Tokens and secrets were in memory.
		w.volumes.remove()
	}
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

// handlePods handles every pod that is bound to the node, and every pod that was deleted.
func (k *Kubelet) handlePods() {
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

// sweep removes leftovers of pods that were deleted while the machine was off.
func (k *Kubelet) sweep() {
	if k.node.Root == "" || !k.service.informer.HasSynced() {
		return
	}
	for _, record := range disk.Pods(k.node.Root) {
		object, found, err := k.service.informer.GetIndexer().GetByKey(record.Namespace + "/" + record.Name)
		if err != nil || found && string(object.(*corev1.Pod).UID) == record.UID {
			continue
		}
		if err := disk.RemovePod(k.node.Root, record); err != nil {
			k.service.Log.Warn("pod of an earlier boot not removed", "node", k.node.Name, "pod", record.Namespace+"/"+record.Name, "error", err)
		}
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
	delete(k.admitted, w.uid)
}
