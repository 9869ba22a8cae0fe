package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Times of the donor, as observed at the API server and the machine.
type Times struct {
	// OutOfService is the time from the reservation on the Node to its removal.
	OutOfService time.Duration
	// Drain is the time from the first deletion of a pod to the end of the last pod.
	Drain time.Duration
	// Stop is from the proof to the power being off.
	Stop time.Duration
	// Snapshot is the simulated cloud's time for a snapshot.
	Snapshot time.Duration
	// Start is from the cloud's being asked to start the machine to its Node being Ready under a new boot.
	Start time.Duration
}

// Cloud is the time of cloud and cluster.
func (t Times) Cloud() time.Duration { return t.Drain + t.Stop + t.Snapshot + t.Start }

// Ratio of the donor's time out of service to Cloud.
func (t Times) Ratio() float64 { return t.OutOfService.Seconds() / t.Cloud().Seconds() }

// observer records when events were seen first.
type observer struct {
	mu    sync.Mutex
	donor string
	boot  string

	reserved, released     time.Time
	drainBegan, drainEnded time.Time
	proven, off, ready     time.Time
}

// observe starts to watch. The watch ends with the context.
func observe(ctx context.Context, w *world.World, donor control.Machine) (*observer, error) {
	o := &observer{donor: donor.Node}
	node, err := w.Kube().CoreV1().Nodes().Get(ctx, donor.Node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	o.boot = node.Status.NodeInfo.BootID

	onNode := informers.NewSharedInformerFactory(w.Kube(), 0)
	onPod := informers.NewSharedInformerFactoryWithOptions(w.Kube(), 0, informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", donor.Node).String()
	}))
	dynamicClient, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	prototypes := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	resource := schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "prototypes"}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{onNode.Core().V1().Nodes().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: o.sawNode, UpdateFunc: func(_, now any) { o.sawNode(now) }}},
		{onPod.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, now any) { o.sawPod(now) }, DeleteFunc: o.lostPod}},
		{prototypes.ForResource(resource).Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: o.sawPrototype, UpdateFunc: func(_, now any) { o.sawPrototype(now) }}},
	} {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, err
		}
	}
	onNode.Start(ctx.Done())
	onPod.Start(ctx.Done())
	prototypes.Start(ctx.Done())
	onNode.WaitForCacheSync(ctx.Done())
	onPod.WaitForCacheSync(ctx.Done())
	prototypes.WaitForCacheSync(ctx.Done())
	go o.watchPower(ctx, w, donor.Instance)
	return o, ctx.Err()
}

// first records the time unless a time was recorded before.
func first(at *time.Time) {
	if at.IsZero() {
		*at = time.Now()
	}
}

func (o *observer) sawNode(object any) {
	node, ok := object.(*corev1.Node)
	if !ok || node.Name != o.donor {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, held := node.Annotations[v1alpha1.ReservationAnnotation]
	if held {
		first(&o.reserved)
	}
	if !held && !o.reserved.IsZero() {
		first(&o.released)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && node.Status.NodeInfo.BootID != o.boot {
			first(&o.ready)
		}
	}
}

func (o *observer) sawPod(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil || pod.Namespace == v1alpha1.DefaultGeneralizeNamespace {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	first(&o.drainBegan)
}

func (o *observer) lostPod(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Namespace == v1alpha1.DefaultGeneralizeNamespace {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.proven.IsZero() {
		o.drainEnded = time.Now()
	}
}

func (o *observer) sawPrototype(object any) {
	p, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if _, proven, err := unstructured.NestedMap(p.Object, "status", "proof"); err != nil || !proven {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	first(&o.proven)
}

// powerEvery is how often the machine's power is looked at.
const powerEvery = 10 * time.Millisecond

func (o *observer) watchPower(ctx context.Context, w *world.World, instance string) {
	tick := time.NewTicker(powerEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.Fleet().Power(instance) == fleet.Off {
			o.mu.Lock()
			first(&o.off)
			o.mu.Unlock()
			return
		}
	}
}

// times combines the observations.
func (o *observer) times(started time.Time, snapshot time.Duration) (Times, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var missing []error
	for what, at := range map[string]time.Time{
		"the reservation": o.reserved, "the release": o.released, "an eviction": o.drainBegan, "the last pod's end": o.drainEnded,
		"the proof": o.proven, "the power going off": o.off, "the order to start": started, "Ready under a new boot": o.ready,
	} {
		if at.IsZero() {
			missing = append(missing, fmt.Errorf("%s was not seen", what))
		}
	}
	if len(missing) > 0 {
		return Times{}, errors.Join(missing...)
	}
	return Times{
		OutOfService: o.released.Sub(o.reserved),
		Drain:        o.drainEnded.Sub(o.drainBegan),
		Stop:         max(o.off.Sub(o.proven), 0),
		Snapshot:     snapshot,
		Start:        o.ready.Sub(started),
	}, nil
}
