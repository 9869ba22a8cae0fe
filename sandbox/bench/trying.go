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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// soaking is for how long the trial node is watched. A node must have been Ready for two minutes anyway.
const soaking = 2 * time.Minute

// maxVerdict is how much longer a trial may take than the cloud, the node and the soak do by themselves: the looks come at
// most half a minute apart, and what the pods find is awaited beside the soak.
const maxVerdict = time.Minute

// Trying is a capture whose version is tried beside its pool before the pool uses it.
type Trying struct {
	// Child is what the command cost, Requests what it sent to Azure.
	Child    Child    `json:"command"`
	Requests Requests `json:"requests"`
	// Trial is from its begin to its verdict, of which Join is until the trial node was Ready, and Soak what was asked for.
	Trial time.Duration `json:"trial"`
	Join  time.Duration `json:"join"`
	Soak  time.Duration `json:"soak"`
}

// Own is what the trial took beyond the cloud, the node and the soak.
func (t Trying) Own() time.Duration { return t.Trial - t.Join - t.Soak }

// measureTrying captures a node once more, with a trial.
func (o Options) measureTrying(ctx context.Context, w *world.World, donor control.Machine) (*Trying, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := watchNewcomers(watching, w)
	if err != nil {
		return nil, err
	}
	w.Cloud().ResetStats()
	o.Say("capturing %s, and trying the version for %s", donor.Node, soaking)
	second := w.Clock().Now().UTC().Format("2006.01.02") + "02" // the day's own version is there already
	child, err := runChild(ctx, o.Kamino, environment(w), "capture", donor.Node, "--version", second, "--trial", string(v1alpha1.TrialApart), "--soak", soaking.String())
	if err != nil {
		return nil, err
	}
	trial, err := trialOf(ctx, w, donor.Node)
	if err != nil {
		return nil, err
	}
	ready := seen.readyAt(trial.Node)
	if ready.IsZero() {
		return nil, fmt.Errorf("nobody saw the trial node %s Ready", trial.Node)
	}
	stats := w.Cloud().Stats()
	return &Trying{
		Child: child, Requests: Requests{Counted: stats.Reads + stats.Writes, Polls: stats.Polls + stats.Repeats, ByOperation: stats.ByOperation},
		Trial: trial.FinishedAt.Sub(trial.StartedAt.Time), Join: ready.Sub(trial.StartedAt.Time), Soak: soaking,
	}, nil
}

// trialOf is what the newest Prototype of the node says of its trial, which has passed.
func trialOf(ctx context.Context, w *world.World, node string) (*v1alpha1.TrialStatus, error) {
	client, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "prototypes"}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		p, err := prototype(&list.Items[i])
		if err != nil {
			return nil, err
		}
		if t := p.Status.Trial; p.Spec.Donor.NodeName == node && t != nil && t.Result == v1alpha1.TrialPassed && t.StartedAt != nil && t.FinishedAt != nil {
			return t, nil
		}
	}
	return nil, errors.New("no Prototype tells of a trial that passed")
}

func prototype(object *unstructured.Unstructured) (*v1alpha1.Prototype, error) {
	var p v1alpha1.Prototype
	return &p, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &p)
}

// newcomers notes when nodes were Ready first.
type newcomers struct {
	mu    sync.Mutex
	ready map[string]time.Time
}

func watchNewcomers(ctx context.Context, w *world.World) (*newcomers, error) {
	n := &newcomers{ready: map[string]time.Time{}}
	factory := informers.NewSharedInformerFactory(w.Kube(), 0)
	informer := factory.Core().V1().Nodes().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: n.saw, UpdateFunc: func(_, now any) { n.saw(now) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return n, ctx.Err()
}

func (n *newcomers) saw(object any) {
	node, ok := object.(*corev1.Node)
	if !ok || !nodestate.Ready(node) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready[node.Name].IsZero() {
		n.ready[node.Name] = time.Now()
	}
}

func (n *newcomers) readyAt(name string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready[name]
}

// tryingRows say what a trial costs, against a capture without one.
func (r Capture) tryingRows() [][3]string {
	t := r.Trying
	if t == nil {
		return nil
	}
	return [][3]string{
		{"a trial beside the pool, from its begin to its verdict", fmt.Sprintf("%s (node Ready after %s, soak %s)", seconds(t.Trial), seconds(t.Join), seconds(t.Soak)), ""},
		{"of this, Kamino alone: without the cloud, the node and the soak", seconds(t.Own()), fmt.Sprintf("at most %.0f s", maxVerdict.Seconds())},
		{"what the trial adds to a capture", fmt.Sprintf("CPU %.2f s, %d requests and %d polls", (t.Child.CPU - r.Child.CPU).Seconds(),
			t.Requests.Counted-r.Requests.Counted, t.Requests.Polls-r.Requests.Polls), ""},
		{"peak memory of a capture with a trial", mebibytes(t.Child.PeakRSS), "at most " + mebibytes(maxRSS)},
	}
}

func (r Capture) tryingChecks() []check {
	if r.Trying == nil {
		return nil
	}
	return []check{{"trial's own time", r.Trying.Own() > maxVerdict}, {"memory with a trial", r.Trying.Child.PeakRSS > maxRSS}}
}
