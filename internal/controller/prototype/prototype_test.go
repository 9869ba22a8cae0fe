package prototype

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
)

func TestReconcileRequeuesAfterEngineDelay(t *testing.T) {
	for name, test := range map[string]struct {
		result capture.Result
		err    error
		want   time.Duration
	}{
		"done":               {capture.Result{Done: true}, nil, 0},
		"at once":            {capture.Result{}, nil, atOnce},
		"later":              {capture.Result{After: 5 * time.Second}, nil, 5 * time.Second},
		"after an error":     {capture.Result{After: time.Minute}, errors.New("throttled"), time.Minute},
		"an error, no delay": {capture.Result{}, errors.New("x"), atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			r := &Reconciler{Pass: func(_ context.Context, name string) (capture.Result, error) {
				asked = name
				return test.result, test.err
			}}
			got, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "p"}})
			if err != nil || got.RequeueAfter != test.want || asked != "p" {
				t.Errorf("Reconcile = %+v, %v (asked for %q), want after %s", got, err, asked, test.want)
			}
		})
	}
}

// A pass that the end of the process interrupts is no error of the capture.
func TestReconcileEndsQuietly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &Reconciler{Pass: func(ctx context.Context, _ string) (capture.Result, error) { return capture.Result{}, ctx.Err() }}
	if got, err := r.Reconcile(ctx, reconcile.Request{}); err != nil || got.RequeueAfter != 0 {
		t.Errorf("Reconcile = %+v, %v", got, err)
	}
}

// cached is a cache of one Prototype's metadata.
type cached struct {
	client.Reader
	of metav1.PartialObjectMetadata
}

func (c cached) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if into, is := o.(*metav1.PartialObjectMetadata); is &&
		o.GetObjectKind().GroupVersionKind() == v1alpha1.GroupVersion.WithKind("Prototype") && key.Name == c.of.Name {
		*into = c.of
		return nil
	}
	return errors.New("not found")
}

func TestWatchedIsTheVersionInTheCache(t *testing.T) {
	watched := Watched(cached{of: metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7"}}})
	if got := watched(t.Context(), "p"); got != "7" {
		t.Errorf("it has heard of version %q, want 7", got)
	}
	if got := watched(t.Context(), "q"); got != "" {
		t.Errorf("it has heard of version %q of a Prototype that there is not", got)
	}
}

func TestOnlyChangesPassPredicate(t *testing.T) {
	object := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", Generation: 1, ResourceVersion: "1", Annotations: map[string]string{v1alpha1.BegunAnnotation: "u"},
		}}
		change(o)
		return o
	}
	old := object(func(*metav1.PartialObjectMetadata) {})
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"a status":          {func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "2" }, false},
		"the engine's mark": {func(o *metav1.PartialObjectMetadata) { o.Annotations[v1alpha1.BegunAnnotation] = "v" }, false},
		"a finalizer":       {func(o *metav1.PartialObjectMetadata) { o.Finalizers = []string{v1alpha1.CaptureFinalizer} }, false},
		"a deletion":        {func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"another object":    {func(o *metav1.PartialObjectMetadata) { o.UID = "v" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := news().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: object(test.change)}); got != test.want {
				t.Errorf("let through: %t, want %t", got, test.want)
			}
		})
	}
	if !news().Create(event.CreateEvent{Object: old}) {
		t.Error("a new Prototype is not let through")
	}
	if news().Delete(event.DeleteEvent{Object: old}) {
		t.Error("a Prototype that is gone is let through")
	}
}

func TestPodChangeEnqueuesPrototype(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.PrototypeLabel: "p"}}}
	if got := prototypeOf(t.Context(), pod); len(got) != 1 || got[0].Name != "p" {
		t.Errorf("requests = %v", got)
	}
	if got := prototypeOf(t.Context(), &corev1.Pod{}); got != nil {
		t.Errorf("requests of a pod that is not ours = %v", got)
	}
}

// The controller caches only its own pods, and only their metadata.
func TestTheCacheHoldsOwnPodsOnly(t *testing.T) {
	options, err := CacheOptions("ns")
	if err != nil {
		t.Fatal(err)
	}
	if len(options.ByObject) != 2 {
		t.Fatalf("by object = %v", options.ByObject)
	}
	for object, by := range options.ByObject {
		if _, metadata := object.(*metav1.PartialObjectMetadata); !metadata {
			t.Errorf("%T is cached whole", object)
		}
		ours := object.GetObjectKind().GroupVersionKind().Kind == "NodeOrder" || by.Label != nil && !by.Label.Empty()
		if _, only := by.Namespaces["ns"]; !only || len(by.Namespaces) != 1 || !ours {
			t.Errorf("the cache of pods is not limited: %+v", by)
		}
	}
}

func TestDonorChangeEnqueuesPrototype(t *testing.T) {
	donor := func(boot string, ready corev1.ConditionStatus, annotations map[string]string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations}}
		n.Status.NodeInfo.BootID = boot
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	old := donor("1", corev1.ConditionTrue, nil)
	for name, test := range map[string]struct {
		now  *corev1.Node
		want bool
	}{
		"a heartbeat": {donor("1", corev1.ConditionTrue, nil), false},
		"a cordon":    {donor("1", corev1.ConditionTrue, map[string]string{"a": "b"}), false},
		"a new boot":  {donor("2", corev1.ConditionTrue, nil), true},
		"not Ready":   {donor("1", corev1.ConditionUnknown, nil), true},
	} {
		if got := donorNews().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: test.now}); got != test.want {
			t.Errorf("%s is let through: %t, want %t", name, got, test.want)
		}
	}
	held := donor("1", corev1.ConditionTrue, map[string]string{v1alpha1.ReservationAnnotation: `{"name":"p","uid":"u"}`})
	if got := holderOf(t.Context(), held); len(got) != 1 || got[0].Name != "p" {
		t.Errorf("requests of a held node = %v", got)
	}
	for _, free := range []*corev1.Node{old, donor("1", corev1.ConditionTrue, map[string]string{v1alpha1.ReservationAnnotation: "?"})} {
		if got := holderOf(t.Context(), free); got != nil {
			t.Errorf("requests of a node without a reservation = %v", got)
		}
	}
}
