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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// soaking is for how long the trial node is watched. A node must have been Ready for two minutes anyway.
const soaking = 2 * time.Minute

// maxVerdict is the limit for a trial without the time of the cloud, the boots and the soaks. Polls are at most half a
// minute apart, and the pods run during the soak.
const maxVerdict = time.Minute

// measureTrial captures a node once more, with a trial.
func (o Options) measureTrial(ctx context.Context, w *world.World, donor control.Machine, without captureCost, r *Report) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := watchNewcomers(watching, w)
	if err != nil {
		return err
	}
	o.Say("capturing %s, and trying the version for %s", donor.Node, soaking)
	settings := filepath.Join(w.Dir(), "settings.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "settings: {trial: {soak: %s}}\n", soaking), 0o600); err != nil {
		return err
	}
	second := w.Clock().Now().UTC().Format("2006.01.02") + "02" // the day's own version is there already
	c, err := o.capture(ctx, w, "capture", donor.Node, "--version", second, "--trial", string(v1alpha1.TrialApart), "-f", settings)
	if err != nil {
		return err
	}
	p, err := triedOf(ctx, w, donor.Node)
	if err != nil {
		return err
	}
	trial := p.Status.Trial
	boots := seen.bootsOf(trial.Node)
	if len(boots) != 2 || p.Status.Record == nil || p.Status.Record.Trial.Reboot == nil || p.Status.Record.Trial.Reboot.AcceptedAt == nil {
		return fmt.Errorf("the trial node %s was Ready in %d boots, and a trial has two", trial.Node, len(boots))
	}
	whole, join := trial.FinishedAt.Sub(trial.StartedAt.Time), boots[0].Sub(trial.StartedAt.Time)
	again := boots[1].Sub(p.Status.Record.Trial.Reboot.AcceptedAt.Time)
	own := whole - join - again - 2*soaking // the node must stay Ready for two minutes in its second boot, too
	r.add("a trial next to the pool, from begin to verdict", fmt.Sprintf("%s (node Ready after %s, again after %s, soak %s in each boot)",
		seconds(whole), seconds(join), seconds(again), seconds(soaking)))
	r.limited("of this, Kamino alone: without the cloud, the boots and the soaks", seconds(own), own > maxVerdict, atMost(brief(maxVerdict)))
	r.add("what the trial adds to a capture",
		fmt.Sprintf("CPU %s, %d requests with %d polls and repeats", short(c.CPU-without.CPU), c.requests+c.polls-without.requests-without.polls, c.polls-without.polls))
	r.limited("peak memory of a capture with a trial", mebibytes(c.PeakMemory), c.PeakMemory > maxMemory, atMost(mebibytes(maxMemory)))
	return nil
}

// triedOf returns the node's newest Prototype with a passed trial.
func triedOf(ctx context.Context, w *world.World, node string) (*v1alpha1.Prototype, error) {
	all, err := prototypes(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if t := p.Status.Trial; p.Spec.Donor.NodeName == node && t != nil && t.Result == v1alpha1.TrialPassed && t.StartedAt != nil && t.FinishedAt != nil {
			return p, nil
		}
	}
	return nil, errors.New("no Prototype has a passed trial")
}

func prototypes(ctx context.Context, w *world.World) (all []*v1alpha1.Prototype, err error) {
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
		all = append(all, p)
	}
	return all, nil
}

func prototype(object *unstructured.Unstructured) (*v1alpha1.Prototype, error) {
	var p v1alpha1.Prototype
	return &p, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &p)
}

// readyTimes notes when nodes were first Ready in each boot.
type readyTimes struct {
	mu    sync.Mutex
	boots map[string][]time.Time
	last  map[string]string
}

func watchNewcomers(ctx context.Context, w *world.World) (*readyTimes, error) {
	n := &readyTimes{boots: map[string][]time.Time{}, last: map[string]string{}}
	return n, watchNodes(ctx, w, n.saw)
}

// watchNodes calls saw with each Node, and with each change of one, until the end of ctx.
func watchNodes(ctx context.Context, w *world.World, saw func(node any)) error {
	factory := informers.NewSharedInformerFactory(w.Kube(), 0)
	if _, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: saw, UpdateFunc: func(_, now any) { saw(now) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

func (n *readyTimes) saw(object any) {
	node, ok := object.(*corev1.Node)
	if !ok || !nodestate.Ready(node) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if boot := node.Status.NodeInfo.BootID; n.last[node.Name] != boot {
		n.last[node.Name], n.boots[node.Name] = boot, append(n.boots[node.Name], time.Now())
	}
}

func (n *readyTimes) bootsOf(name string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.boots[name]
}
