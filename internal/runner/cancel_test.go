package runner

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// TestCancel deletes a running capture once, by its UID, and leaves an ended capture alone.
func TestCancel(t *testing.T) {
	running, ended, going := prior("running", "2026.03.09", "n", v1alpha1.PhaseDraining), prior("ended", "2026.03.08", "n", v1alpha1.PhaseSucceeded),
		prior("going", "2026.03.07", "n", v1alpha1.PhaseFailed)
	for _, p := range []*v1alpha1.Prototype{&running, &ended, &going} {
		p.UID, p.Finalizers = "uid", []string{v1alpha1.CaptureFinalizer}
	}
	going.DeletionTimestamp = &metav1.Time{Time: testNow}
	away := apierrors.NewServiceUnavailable("away")
	for name, test := range map[string]struct {
		name   string
		answer error
		why    string
		fails  bool
	}{
		"running": {name: "running"}, "going already": {name: "going"},
		"another client was faster": {name: "running",
			answer: apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("prototypes").GroupResource(), "running")},
		"ended":     {name: "ended", why: "has ended (Succeeded), and nothing was changed"},
		"none":      {name: "none", why: "Prototype none does not exist, and nothing was changed"},
		"not heard": {name: "running", answer: away, fails: true},
	} {
		scheme, err := cluster.Scheme()
		if err != nil {
			t.Fatal(err)
		}
		c := &cluster.Connection{Skew: func() (time.Duration, bool) { return 0, false }}
		c.Client = clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(running.DeepCopy(), ended.DeepCopy(),
			going.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if by := (&client.DeleteOptions{}).ApplyOptions(opts); by.Preconditions == nil || by.Preconditions.UID == nil ||
					*by.Preconditions.UID != "uid" {
					t.Errorf("%s: deleted by %+v", name, by)
				}
				if test.answer != nil {
					return test.answer
				}
				return w.Delete(ctx, o, opts...)
			},
		}).Build()
		p, err := Cancel(t.Context(), c, test.name)
		if refused(err) != (test.why != "") || (err == nil) != (test.why == "" && !test.fails) || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && test.answer == nil {
			seen := &v1alpha1.Prototype{}
			if look := c.Client.Get(t.Context(), client.ObjectKeyFromObject(p), seen); look != nil || seen.DeletionTimestamp.IsZero() {
				t.Errorf("%s is not marked (%v)", name, look)
			}
		}
		if err != nil {
			seen := &v1alpha1.PrototypeList{}
			if look := c.Client.List(t.Context(), seen); look != nil || len(seen.Items) != 3 || !seen.Items[0].DeletionTimestamp.IsZero() {
				t.Errorf("%s: something was changed (%v)", name, look)
			}
		}
	}
}

func TestNodeNow(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, annotations map[string]string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	kube := fake.NewClientset(
		node("ready", corev1.ConditionTrue, nil), node("down", corev1.ConditionFalse, nil),
		node("held", corev1.ConditionTrue, map[string]string{v1alpha1.ReservationAnnotation: "{}"}),
	)
	c := &cluster.Connection{Kube: kube}
	for name, want := range map[string]string{
		"ready": "is Ready", "down": "is not Ready", "none": "has no Node any more",
		"held": "is still reserved: run `kamino reservations` to see the holder, or `kamino return-node held` to release the node",
	} {
		if got := NodeNow(t.Context(), c, name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("away")
	})
	if got := NodeNow(t.Context(), c, "ready"); got != "could not be read" {
		t.Errorf("away: %s", got)
	}
}
