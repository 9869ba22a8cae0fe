package runner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// imageLimitCloud is a cloud with a limit of ten images per pool.
type imageLimitCloud struct{ *memory.Faulty }

func (l imageLimitCloud) MaxImages(cloud.PoolID) int { return 10 }

// poolEnv is a real API server, a cloud in memory, and the parts of a controller that rebuild nodes. The pool has eight
// nodes, each of another image. No kubelet runs: the test updates the Nodes.
type poolEnv struct {
	*testing.T
	api   client.WithWatch
	kube  *kubernetes.Clientset
	clock *memory.Clock
	cloud *memory.Cloud
	pool  cloud.PoolID
	ids   map[string]cloud.InstanceID
	ended []plan.Action
	// worst is the largest number of nodes out of service at the same time.
	worst int
}

func newYard(t *testing.T) *poolEnv {
	t.Helper()
	y := &poolEnv{T: t, api: apitest.Client(t), kube: kubernetes.NewForConfigOrDie(apitest.Server(t)), ids: map[string]cloud.InstanceID{},
		clock: memory.NewClock(time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour))}
	if err := y.api.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultNamespace}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	y.clean()
	t.Cleanup(y.clean)
	y.cloud = memory.New(memory.Config{Now: y.clock.Now, Latency: memory.Latency{Start: time.Minute}})
	y.pool = y.cloud.AddPool(memory.PoolSpec{Name: "crowd", Capacity: 8, MaxSize: 100})
	for i := range 8 {
		at := y.clock.Now().AddDate(0, 0, i-10)
		y.cloud.AddVersion(y.pool, memory.VersionSpec{Version: imageversion.Of(at),
			Tags: map[string]string{cloud.TagBuiltAt: at.Format(cloud.BuiltAtLayout)}, CreatedAt: at})
		y.cloud.ChangeRecipe(y.pool, string(y.pool)+"/versions/"+imageversion.Of(at))
		name := fmt.Sprintf("crowd-%d", i)
		y.ids[name] = y.cloud.AddInstance(y.pool, name)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		n.Spec.ProviderID = string(y.ids[name])
		y.must(y.api.Create(t.Context(), n))
		y.kubelet(name)
	}
	p := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	p.Spec.Rebuild = &v1alpha1.RebuildSettings{}
	y.must(y.api.Create(t.Context(), p))
	return y
}

func (y *poolEnv) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *poolEnv) clean() {
	for _, kind := range []client.Object{&corev1.Node{}, &v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}} {
		y.must(y.api.DeleteAllOf(context.Background(), kind))
	}
}

func (y *poolEnv) node(name string) *corev1.Node {
	y.Helper()
	n, err := y.kube.CoreV1().Nodes().Get(y.Context(), name, metav1.GetOptions{})
	y.must(err)
	return n
}

// kubelet updates a Node from its machine.
func (y *poolEnv) kubelet(name string) {
	y.Helper()
	n, machine := y.node(name), y.cloud.World().Instance(y.ids[name])
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(y.clock.Now())}
	if machine.Power == cloud.PowerRunning {
		ready.Status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, machine.BootID
	}
	if len(n.Status.Conditions) == 1 && n.Status.Conditions[0].Status == ready.Status && n.Status.NodeInfo.BootID == machine.BootID {
		return
	}
	n.Status.Conditions = []corev1.NodeCondition{ready}
	y.must(y.api.Status().Update(y.Context(), n))
}

// controllerProcess holds the parts of a new controller process.
type controllerProcess struct {
	*rebuild.Controller
	cluster *cluster.Connection
	decider *policy.Decider
}

func (y *poolEnv) process(calls memory.Calls) *controllerProcess {
	y.Helper()
	provider := memory.Provider(calls)
	c := &cluster.Connection{Client: y.api, Kube: y.kube, Config: apitest.Server(y.T)}
	options := Options{Now: y.clock.Now, Log: logr.Discard()}
	decider, _, err := NewDecider(y.Context(), c, provider, NewEngine(c, provider, options, nil), options)
	y.must(err)
	recorder := events.NewFakeRecorder(1000)
	rebuilds := &rebuild.Controller{Kube: c.Kube, Cloud: provider, Nodes: decider.Nodes, Policies: y.api, Recorder: recorder,
		Now: y.clock.Now, Log: logr.Discard(),
		Ended: func(a plan.Action) { y.ended = append(y.ended, a) }}
	decider.Read, decider.Recorder, decider.Rebuild = y.api, recorder, rebuilds.Take
	return &controllerProcess{rebuilds, c, decider}
}

// turn plays ten seconds of a controller: a cache update, a decision, and a step.
func (y *poolEnv) turn(p *controllerProcess) {
	y.Helper()
	_, err := ReadNodes(y.Context(), p.cluster, p.decider.Cloud, p.Nodes)
	y.must(err)
	_, err = p.decider.Pass(y.Context())
	y.must(err)
	_, err = ReadNodes(y.Context(), p.cluster, p.decider.Cloud, p.Nodes)
	y.must(err)
	p.Pass(y.Context())
	y.clock.Advance(10 * time.Second)
	y.cloud.Settle()
	out := 0
	for name := range y.ids {
		y.kubelet(name)
		if n := y.node(name); n.Spec.Unschedulable || n.Status.Conditions[0].Status != corev1.ConditionTrue {
			out++
		}
	}
	y.worst = max(y.worst, out)
}

func (y *poolEnv) builtFrom(name string) string {
	return y.cloud.World().Instance(y.ids[name]).BuiltFrom
}

// counted counts the images in a process, as the hourly list does.
func (y *poolEnv) counted(p *controllerProcess) {
	y.Helper()
	plans, err := p.decider.Plan(y.Context(), []v1alpha1.PrototypePolicy{y.policy()}, nil)
	y.must(err)
	if len(plans.Pools) != 1 || plans.Pools[0].Status.Rebuild == nil || plans.Pools[0].Status.Rebuild.Reason != policy.OldestImage &&
		plans.Pools[0].Status.Rebuild.Reason != policy.Rebuilding &&
		plans.Pools[0].Status.Rebuild.Reason != selection.UpToDate {
		y.Fatalf("plans: %+v", plans)
	}
}

func (y *poolEnv) policy() v1alpha1.PrototypePolicy {
	y.Helper()
	var p v1alpha1.PrototypePolicy
	y.must(y.api.Get(y.Context(), client.ObjectKey{Name: "all"}, &p))
	return p
}

// TestAPolicyHasTheOldestImageRebuilt: only the node of the oldest image, because seven images remain.
func TestAPolicyHasTheOldestImageRebuilt(t *testing.T) {
	y := newYard(t)
	p := y.process(imageLimitCloud{memory.NewFaulty(y.cloud, nil)})
	y.counted(p)
	for range 60 {
		y.turn(p)
	}
	y.wantRebuilt()
	if len(y.ended) != 1 || y.ended[0] != plan.Release || y.worst != 1 {
		t.Errorf("ended: %v, %d out of service at once", y.ended, y.worst)
	}
	if d := y.policy().Status.Pools[0].Rebuild; d == nil || d.Reason != selection.UpToDate {
		t.Errorf("the status says %+v", d)
	}
}

// TestPolicyRebuildsOutdatedNodes: every node gets the current version in a cloud without a limit of images. Kamino
// rebuilds the first node alone, and never more nodes at once than the policy allows. A new process continues.
func TestPolicyRebuildsOutdatedNodes(t *testing.T) {
	y := newYard(t)
	outdated := y.policy()
	two := intstr.FromInt32(2)
	outdated.Spec.MaxConcurrent, outdated.Spec.Settings.OutOfService.MaxUnavailable = 2, &two
	outdated.Spec.Rebuild.Outdated = &v1alpha1.OutdatedSettings{PerHour: 120}
	y.must(y.api.Update(t.Context(), &outdated))
	provider := memory.NewFaulty(y.cloud, nil)
	start := func() *controllerProcess {
		p := y.process(provider)
		_, err := p.decider.Plan(t.Context(), []v1alpha1.PrototypePolicy{y.policy()}, nil) // counts the images
		y.must(err)
		return p
	}
	p := start()
	for i := range 120 {
		if y.turn(p); len(y.ended) == 0 && y.worst > 1 {
			t.Fatal("a second node is rebuilt before the first is back")
		}
		if i == 30 {
			p = start()
		}
	}
	newest := imageversion.Of(y.clock.Now().AddDate(0, 0, -3))
	for name := range y.ids {
		if n := y.node(name); y.builtFrom(name) != newest || n.Spec.Unschedulable {
			t.Errorf("%s runs %s, cordoned %t", name, y.builtFrom(name), n.Spec.Unschedulable)
		}
	}
	if n := y.cloud.World().Count(memory.ByCaller, memory.EffectRebuild, ""); n != 7 || len(y.ended) != 7 || y.worst != 2 {
		t.Errorf("%d rebuilds, ended: %v, %d out of service at once", n, y.ended, y.worst)
	}
	if d := y.policy().Status.Pools[0].Rebuild; d == nil || d.Reason != selection.UpToDate {
		t.Errorf("the status says %+v", d)
	}
}

// wantRebuilt checks that the oldest node is rebuilt and in service, and that other nodes are unchanged.
func (y *poolEnv) wantRebuilt() {
	y.Helper()
	newest := imageversion.Of(y.clock.Now().AddDate(0, 0, -3))
	for name := range y.ids {
		n := y.node(name)
		for key := range n.Annotations {
			if strings.Contains(key, "kamino.dev") || strings.Contains(key, "karpenter") || strings.Contains(key, "autoscaler") {
				y.Errorf("%s carries %s", name, key)
			}
		}
		if n.Spec.Unschedulable {
			y.Errorf("%s is cordoned", name)
		}
		if rebuilt := y.builtFrom(name) == newest; rebuilt != (name == "crowd-0" || name == "crowd-7") {
			y.Errorf("%s runs %s", name, y.builtFrom(name))
		}
	}
	if n := y.cloud.World().Count(memory.ByCaller, memory.EffectRebuild, ""); n != 1 {
		y.Errorf("%d rebuilds", n)
	}
}

// TestARebuildOutlivesItsController: after a kill before or after each call to the cloud, or at any other moment, the next
// process continues, also with a suspended policy.
func TestARebuildOutlivesItsController(t *testing.T) {
	kills := []int{1, 2, 3, 5, 8}
	if testing.Short() {
		kills = []int{3}
	}
	for _, kill := range kills {
		t.Run(fmt.Sprintf("after %d turns", kill), func(t *testing.T) {
			y := newYard(t)
			provider := imageLimitCloud{memory.NewFaulty(y.cloud, nil)}
			p := y.process(provider)
			y.counted(p)
			for range kill {
				y.turn(p)
			}
			suspended := y.policy()
			suspended.Spec.Suspend = true
			y.must(y.api.Update(t.Context(), &suspended))
			for range 40 {
				y.turn(y.process(provider)) // a process that lives for ten seconds
			}
			y.wantRebuilt()
		})
	}
	for name, outcome := range map[string]memory.Outcome{"before": memory.CrashBefore(), "behind": memory.CrashAfter()} {
		t.Run(name+" the rebuild", func(t *testing.T) {
			y := newYard(t)
			died := false
			provider := imageLimitCloud{memory.NewFaulty(y.cloud, func(c memory.Call) memory.Outcome {
				if c.Op != "EnsureRebuilt" || died {
					return memory.Pass()
				}
				died = true
				return outcome
			})}
			p := y.process(provider)
			y.counted(p)
			for range 60 {
				if memory.RunUntilCrash(func() { y.turn(p) }) {
					p = y.process(provider)
				}
			}
			if !died {
				t.Fatal("it was never asked")
			}
			y.wantRebuilt()
		})
	}
}

// TestAPersonsNodesAreLeftToThem: the controller leaves nodes of an interrupted command alone.
func TestAPersonsNodesAreLeftToThem(t *testing.T) {
	y := newYard(t)
	provider := imageLimitCloud{memory.NewFaulty(y.cloud, nil)}
	held := y.node("crowd-3")
	metav1.SetMetaDataAnnotation(&held.ObjectMeta, v1alpha1.ReservationAnnotation,
		`{"kind":"Replacement","name":"crowd-v","uid":"u","reservedAt":"2026-03-03T12:00:00Z","rebuild":{"to":"v","startedAt":"2026-03-03T12:00:00Z"}}`)
	r, err := v1alpha1.ReservationOf(held.Annotations)
	y.must(err)
	_, err = node.Reservations{Kube: y.kube}.Note(t.Context(), held, *r)
	y.must(err)
	p := y.process(provider)
	y.counted(p)
	for range 10 {
		y.turn(p)
	}
	if n := y.cloud.World().Count(memory.ByCaller, memory.EffectRebuild, ""); n != 0 || y.node("crowd-3").Spec.Unschedulable {
		t.Errorf("%d rebuilds; %+v", n, y.node("crowd-3").Spec)
	}
}
