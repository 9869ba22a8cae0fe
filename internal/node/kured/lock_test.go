package kured

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func daemonSet(key, text string, args ...string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kured"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "kured", Command: append([]string{"/usr/bin/kured"}, args...)}}
	if text != "" {
		set.Annotations = map[string]string{key: text}
	}
	return set
}

// TestRead reads the lock of kured 1.x, with one owner and with several.
func TestRead(t *testing.T) {
	created := noon.Add(-10 * time.Minute).Format(time.RFC3339Nano)
	one := func(node string, ttl time.Duration) string {
		return fmt.Sprintf(`{"nodeID":%q,"metadata":{"unschedulable":false},"created":%q,"TTL":%d}`, node, created, ttl)
	}
	for name, c := range map[string]struct {
		set     *appsv1.DaemonSet
		node    string
		unknown string
	}{
		"free":               {set: daemonSet(annotation, "")},
		"for good":           {set: daemonSet(annotation, one("n1", 0)), node: "n1"},
		"for a time":         {set: daemonSet(annotation, one("n1", 11*time.Minute)), node: "n1"},
		"run out":            {set: daemonSet(annotation, one("n1", 10*time.Minute))},
		"several":            {set: daemonSet(annotation, `{"maxOwners":2,"locks":[`+one("n1", time.Minute)+`,`+one("n2", 0)+`]}`), node: "n2"},
		"several, free":      {set: daemonSet(annotation, `{"maxOwners":2,"locks":[]}`)},
		"another annotation": {set: daemonSet("example.com/lock", one("n1", 0), "--period=1h", "--lock-annotation=example.com/lock"), node: "n1"},
		"not readable": {set: daemonSet(annotation, "{"),
			unknown: "annotation weave.works/kured-node-lock of DaemonSet kube-system/kured is no lock of kured's: "},
	} {
		kube := fake.NewClientset(c.set, node("n1"), node("n2"))
		lock, err := Read(t.Context(), kube, Default, noon)
		if err != nil || lock.Release != "" || lock.Node != c.node || !strings.HasPrefix(lock.Unknown, c.unknown) || c.unknown == "" && lock.Unknown != "" {
			t.Errorf("%s: %+v, %v", name, lock, err)
		}
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestALockOfANodeThatIsGone: the Lock names an existing Node first, and otherwise the command that releases the lock.
func TestALockOfANodeThatIsGone(t *testing.T) {
	both := daemonSet("example.com/lock", `{"maxOwners":2,"locks":[{"nodeID":"n1"},{"nodeID":"n2"}]}`, "--lock-annotation=example.com/lock")
	want := Lock{Node: "n1", Release: "kubectl -n kube-system annotate daemonset kured example.com/lock-"}
	if lock, err := Read(t.Context(), fake.NewClientset(both), Default, noon); err != nil || lock != want {
		t.Errorf("both are gone: %+v, %v", lock, err)
	}
	if lock, err := Read(t.Context(), fake.NewClientset(both, node("n2")), Default, noon); err != nil || lock != (Lock{Node: "n2"}) {
		t.Errorf("one is gone: %+v, %v", lock, err)
	}
	kube := fake.NewClientset(both)
	kube.PrependReactor("get", "nodes", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("timeout") })
	if lock, err := Read(t.Context(), kube, Default, noon); err != nil || lock != (Lock{Node: "n1"}) {
		t.Errorf("Nodes cannot be read: %+v, %v", lock, err)
	}
	for lock, want := range map[Lock]string{
		{Node: "n1"}: "kured holds its lock for node n1",
		want: "kured holds its lock for node n1, which does not exist: if the node does not come back, " +
			"release the lock with `kubectl -n kube-system annotate daemonset kured example.com/lock-`",
	} {
		if got := lock.Holder(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReadWithoutKured(t *testing.T) {
	ctx := t.Context()
	kube := fake.NewClientset(daemonSet(annotation, `{"nodeID":"n1"}`))
	for _, other := range []string{"", "kured", "default/kured"} {
		if lock, err := Read(ctx, kube, other, noon); err != nil || lock != (Lock{}) {
			t.Errorf("DaemonSet %q: %+v, %v", other, lock, err)
		}
	}
	if lock, err := Read(ctx, kube, Default, noon); err != nil || lock.Node != "n1" {
		t.Fatalf("%+v, %v", lock, err)
	}
}

func TestReadThatIsRefused(t *testing.T) {
	answer := func(err error) (Lock, error) {
		kube := fake.NewClientset()
		kube.PrependReactor("get", "daemonsets", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		return Read(t.Context(), kube, Default, noon)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "kured", errors.New("no right"))
	if lock, err := answer(forbidden); err != nil || lock.Node != "" || !strings.HasPrefix(lock.Unknown, "DaemonSet kube-system/kured may not be read: ") {
		t.Errorf("forbidden: %+v, %v", lock, err)
	}
	away := errors.New("connection refused")
	if lock, err := answer(away); !errors.Is(err, away) || lock != (Lock{}) {
		t.Errorf("an API server that is away: %+v, %v", lock, err)
	}
}

func TestRunsOn(t *testing.T) {
	yes := true
	of := func(kind, name, on string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-" + on,
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}}}
		pod.Spec.NodeName = on
		return pod
	}
	kube := fake.NewClientset(of("DaemonSet", "kured", "n1"), of("DaemonSet", "proxy", "n2"), of("ReplicaSet", "kured", "n2"))
	kube.PrependReactor("list", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		_, all, err := ktesting.ObjectReaction(kube.Tracker())(a)
		on, _ := a.(ktesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName")
		pods := all.(*corev1.PodList)
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != on })
		return true, pods, err
	})
	for _, c := range []struct {
		daemonSet, node string
		want            bool
	}{{Default, "n1", true}, {Default, "n2", false}, {"", "n1", false}} {
		if got, err := RunsOn(t.Context(), kube, c.daemonSet, c.node); err != nil || got != c.want {
			t.Errorf("%q on %s: %t, %v", c.daemonSet, c.node, got, err)
		}
	}
}
