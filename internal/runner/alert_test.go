package runner

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/metrics"
	"github.com/kamino-dev/kamino/internal/notify/delivery"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// alertEnv is a cluster with a real API server, a cloud in memory, and the controller of `kamino controller`.
type alertEnv struct {
	*testing.T
	api    client.WithWatch
	cloud  *memory.Cloud
	clock  *memory.Clock
	counts *metrics.Metrics
	// endpoints receive the notices of the controller.
	endpoints []delivery.Endpoint
}

func newAlarmed(t *testing.T) *alertEnv {
	clock := memory.NewClock(time.Now().UTC().Truncate(time.Second))
	a := &alertEnv{T: t, api: apitest.Client(t), clock: clock,
		cloud: memory.New(memory.Config{Now: clock.Now, Latency: memory.Latency{Start: time.Second}}), counts: metrics.New(clock.Now)}
	kube := kubernetes.NewForConfigOrDie(apitest.Server(t))
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { // behind the controller, which has ended by then
		a.must(kube.EventsV1().Events("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		for _, kind := range []client.Object{&v1alpha1.PrototypePolicy{}, &v1alpha1.Prototype{}, &corev1.Node{}} {
			list := &v1alpha1.PrototypeList{}
			a.must(a.api.List(ctx, list))
			for i := range list.Items {
				list.Items[i].Finalizers = nil
				_ = a.api.Update(ctx, &list.Items[i])
			}
			a.must(a.api.DeleteAllOf(ctx, kind))
		}
	})
	return a
}

func (a *alertEnv) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// pool adds a pool with a version and two Ready nodes of an old image; with used, the recipe names the version.
func (a *alertEnv) pool(name string, used bool, tags map[string]string) cloud.PoolID {
	a.Helper()
	id := a.cloud.AddPool(memory.PoolSpec{Name: name, MaxSize: 10})
	for _, number := range []string{"0", "1"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + number, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		n.Spec.ProviderID = string(a.cloud.AddInstance(id, number))
		a.must(a.api.Create(a.Context(), n))
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(a.clock.Now().Add(-time.Hour))}}
		a.must(a.api.Status().Update(a.Context(), n))
	}
	a.cloud.AddVersion(id, memory.VersionSpec{Version: goodVersion})
	a.cloud.AddVersion(id, memory.VersionSpec{Version: badVersion, Tags: tags})
	if used {
		a.cloud.ChangeRecipe(id, string(id)+"/versions/"+badVersion)
	}
	return id
}

// captured is a capture of the pool with a complete version, in the state that an engine has written.
func (a *alertEnv) captured(name string, settle func(*v1alpha1.Settings)) {
	a.Helper()
	const version = "2026.03.03"
	id := a.pool(name, false, nil)
	p := &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + version, Finalizers: []string{v1alpha1.CaptureFinalizer}},
		Spec: v1alpha1.PrototypeSpec{Pool: name, PoolID: string(id), Version: version,
			Donor: v1alpha1.Donor{NodeName: name + "-0", ProviderID: string(a.cloud.InstanceIDs(id)[0])}},
	}
	p.Spec.Settings = v1alpha1.Settings{Generalize: v1alpha1.GeneralizeSettings{Profile: v1alpha1.ProfileStatic}}.Defaulted()
	settle(&p.Spec.Settings)
	a.must(a.api.Create(a.Context(), p))
	proof := v1alpha1.Proof{UID: p.UID, Order: "order", BootID: "boot", Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", Rules: 7, Met: 7,
		ManifestDigest: "sha256:0", At: metav1.NewTime(a.clock.Now())}
	a.cloud.AddVersion(id, memory.VersionSpec{Version: version, Tags: map[string]string{
		cloud.TagPrototype: p.Name, cloud.TagUID: string(p.UID), cloud.TagProof: proof.Tag(), cloud.TagBuiltAt: a.clock.Now().Format(cloud.BuiltAtLayout)}})
	pool, err := a.cloud.Pool(a.Context(), id)
	a.must(err)
	record := v1alpha1.Record{UID: p.UID, GeneralizeBootID: "boot", Order: &v1alpha1.OrderRecord{UID: "order", Key: "key"}, Returning: true,
		Recipe: pool.Recipe.Image}
	controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
	a.must(a.api.Update(a.Context(), p))
	p.Status.Record, p.Status.Proof = &record, &proof
	a.must(a.api.Status().Update(a.Context(), p))
}

func (a *alertEnv) text(value any) string {
	a.Helper()
	text, err := json.Marshal(value)
	a.must(err)
	return string(text)
}

// run runs the controller until the test ends.
func (a *alertEnv) run() {
	config := apitest.Server(a)
	web, err := rest.HTTPClientFor(config)
	a.must(err)
	a.runWith(&cluster.Connection{HTTP: web, Client: a.api, Kube: kubernetes.NewForConfigOrDie(config), Config: config,
		Skew: func() (time.Duration, bool) { return 0, false }})
}

func (a *alertEnv) runWith(c *cluster.Connection) {
	k := &Controller{
		Options: Options{Namespace: "default", PodNamespace: "default", Image: "kamino:test", Now: a.clock.Now, Log: logr.Discard()},
		Cluster: c, Cloud: a.cloud.Provider, Counts: a.counts, Health: "0", Metrics: "0", Pprof: "0",
		ClusterName: "test", Endpoints: a.endpoints,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	a.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.Errorf("the controller: %v", err)
		}
	})
}

// reports is the value of the metric; false if absent.
func (a *alertEnv) reports(name, label, value string) (float64, bool) {
	a.Helper()
	registry := prometheus.NewPedanticRegistry()
	a.must(registry.Register(a.counts))
	families, err := registry.Gather()
	a.must(err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
				}
			}
		}
	}
	return 0, false
}

// TestMetricsOfAlerts drives a controller into the cause of each alert of trust, and reads the metrics and labels of
// the alerts' expressions as Prometheus does. A receiver gets one notice of each change over HTTP, next to a dead endpoint.
func TestMetricsOfAlerts(t *testing.T) {
	a := newAlarmed(t)
	// KaminoTrialFailed
	a.cloud.FailTrials(1, memory.TrialFailure{Trouble: "OSProvisioningTimedOut: no", BlamesImage: true})
	a.captured("tried", func(s *v1alpha1.Settings) { s.Trial.Mode = v1alpha1.TrialApart })
	// KaminoAwaitingPromotion
	a.captured("waiting", func(s *v1alpha1.Settings) { s.Promotion.Mode = v1alpha1.PromotionManual })
	// KaminoPoolRolledBack: the pool rolled back, and no person has acknowledged the rollback.
	went := a.clock.Now().Add(-time.Hour).Format(time.RFC3339)
	back := a.pool("back", false, map[string]string{cloud.TagRolledBackAt: went, cloud.TagSuspect: "nodes do not join",
		cloud.TagQuarantined: "join health: nodes do not join", cloud.TagRolledBackTo: goodVersion})
	a.cloud.ChangeRecipe(back, string(back)+"/versions/"+goodVersion)
	// KaminoNodesDoNotJoin: two instances of the pool's version never become nodes, and the policy may not roll back.
	frozen := a.pool("frozen", true, nil)
	for _, number := range []string{"8", "9"} {
		a.cloud.AddInstance(frozen, number)
	}
	policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	policy.Spec.Schedule.Cron, policy.Spec.Rollback.Mode = "0 3 1 1 *", v1alpha1.RollbackOff
	a.must(a.api.Create(t.Context(), policy))
	inbox := a.receiver()
	a.run()

	wants := []struct{ name, label, value string }{
		{"kamino_trials_total", "result", "failed"},
		{"kamino_captures_in_flight", "phase", "AwaitingPromotion"},
		{"kamino_pool_rolled_back", "pool", "back"},
		{"kamino_pool_nodes_do_not_join", "pool", "frozen"},
	}
	for look := 0; ; look++ {
		var open []string
		for _, want := range wants {
			if is, _ := a.reports(want.name, want.label, want.value); is != 1 {
				open = append(open, want.name)
			}
		}
		open = append(open, inbox.missing()...)
		if len(open) == 0 {
			break
		}
		if look == 600 {
			t.Fatalf("never reported: %v\n%s", open, a.world())
		}
		// Time passes, and a person touches the policy, so that the controller looks.
		a.clock.Advance(20 * time.Second)
		a.must(client.IgnoreNotFound(a.api.Patch(t.Context(), policy,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"test/look":"`+time.Now().String()+`"}}}`)))))
		time.Sleep(100 * time.Millisecond) // the controller is another goroutine
	}
	for event, times := range inbox.all() {
		if times != 1 {
			t.Errorf("%d notices of %s", times, event)
		}
	}
	for _, quiet := range []string{"tried", "waiting", "frozen"} {
		if is, reported := a.reports("kamino_pool_rolled_back", "pool", quiet); !reported || is != 0 {
			t.Errorf("pool %s rolled back: %v (%t)", quiet, is, reported)
		}
	}
}

// world describes the state for a reader of a failed test.
func (a *alertEnv) world() string {
	policies, prototypes := &v1alpha1.PrototypePolicyList{}, &v1alpha1.PrototypeList{}
	a.must(a.api.List(a.Context(), policies))
	a.must(a.api.List(a.Context(), prototypes))
	text := ""
	for _, p := range policies.Items {
		text += a.text(p.Status) + "\n"
	}
	for _, p := range prototypes.Items {
		text += p.Name + " " + a.text(p.Status) + "\n"
	}
	return text
}
