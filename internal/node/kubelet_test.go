package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var registered = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// heart returns a Lease as a kubelet renews the Lease.
func heart(name string, at time.Time) *coordinationv1.Lease {
	written := metav1.NewTime(at)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: corev1.NamespaceNodeLease, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &written}},
	}}
}

func readyAt(name string, at time.Time) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at)}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// TestANodeWithoutAKubelet: only the kubelet of a Node writes the Node's Lease. If no kubelet has a Lease, the result
// is empty.
func TestANodeWithoutAKubelet(t *testing.T) {
	own, fake1, fake2 := readyAt("own", registered), readyAt("fake-1", registered), readyAt("fake-2", registered.Add(time.Second))
	old, lost := readyAt("old", registered.Add(-time.Hour)), readyAt("lost", registered.Add(-2*time.Hour))
	lost.Status.Conditions[0].Status = corev1.ConditionFalse
	for name, c := range map[string]struct {
		leases []runtime.Object
		asked  []*corev1.Node
		want   string
	}{
		"its own Lease":                       {[]runtime.Object{heart("own", registered.Add(time.Minute))}, []*corev1.Node{own}, ""},
		"no Lease, and another asked has one": {[]runtime.Object{heart("own", registered)}, []*corev1.Node{own, fake1, fake2}, "fake-1 fake-2"},
		"no Lease, and an old node has one":   {[]runtime.Object{heart("old", registered)}, []*corev1.Node{fake1, fake2}, "fake-1 fake-2"},
		"no Lease, as no node of the cluster": {nil, []*corev1.Node{own, fake1}, ""},
		"a Lease of an earlier node": {[]runtime.Object{heart("fake-1", registered.Add(-2*time.Minute)), heart("old", registered)},
			[]*corev1.Node{fake1}, "fake-1"},
		"a Lease that came a little before": {[]runtime.Object{heart("own", registered.Add(-30*time.Second)), heart("old", registered)},
			[]*corev1.Node{own}, ""},
		"only a node that is not Ready has one": {[]runtime.Object{heart("lost", registered)}, []*corev1.Node{fake1}, ""},
	} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, many %t", name, many), func(t *testing.T) {
				asked := slices.Clone(c.asked)
				for many && len(asked) <= mostLeases+mostReferences { // the same Nodes again: the result must not depend on other Leases
					asked = append(asked, c.asked...)
				}
				kube := fake.NewClientset(c.leases...)
				got, err := WithoutKubelet(t.Context(), kube, asked, func() []*corev1.Node { return []*corev1.Node{fake2, fake1, own, lost, old} })
				var names []string
				for uid, without := range got {
					if without {
						names = append(names, string(uid))
					}
				}
				slices.Sort(names)
				if err != nil || strings.Join(names, " ") != c.want {
					t.Errorf("%v, %v; want %q", names, err, c.want)
				}
				if many && len(kube.Actions()) != 1 {
					t.Errorf("%d requests, want one LIST", len(kube.Actions()))
				}
			})
		}
	}
}

// TestLeasesThatCannotBeRead: the caller gets the error, because unreadable Leases prove nothing about a Node.
func TestLeasesThatCannotBeRead(t *testing.T) {
	kube := fake.NewClientset()
	away := errors.New("away")
	kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	if _, err := WithoutKubelet(t.Context(), kube, []*corev1.Node{readyAt("own", registered)}, nil); !errors.Is(err, away) ||
		!strings.Contains(err.Error(), "kube-node-lease/own") {
		t.Error(err)
	}
	kube.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	if _, err := WithoutKubelet(t.Context(), kube, slices.Repeat([]*corev1.Node{readyAt("own", registered)}, mostLeases+mostReferences+1),
		nil); !errors.Is(err, away) {
		t.Error(err)
	}
}

// TestWhenALeaseWasWritten: the API server's time counts. The writer's time counts only if the API server's time is
// missing.
func TestWhenALeaseWasWritten(t *testing.T) {
	renewed := metav1.NewMicroTime(registered.Add(time.Hour))
	lease := heart("own", registered)
	lease.Spec.RenewTime = &renewed
	if got := LeaseWrittenAt(lease); !got.Equal(registered) {
		t.Error(got)
	}
	lease.ManagedFields = nil
	if got := LeaseWrittenAt(lease); !got.Equal(renewed.Time) {
		t.Error(got)
	}
}

// TestLeasesAreReadForAllPoolsAtOnce: requests within seconds share one LIST, and a later request lists again.
func TestLeasesAreReadForAllPoolsAtOnce(t *testing.T) {
	now, kube := registered, fake.NewClientset(heart("old", registered))
	k := &Kubelets{Kube: kube, Now: func() time.Time { return now }}
	old := readyAt("old", registered.Add(-time.Hour))
	for pool := range 100 {
		nodes := []*corev1.Node{readyAt(fmt.Sprint("fake-", pool), registered)}
		got, err := k.Without(t.Context(), nodes, func() []*corev1.Node { return []*corev1.Node{old} })
		if err != nil || !got[nodes[0].UID] {
			t.Fatalf("pool %d: %v, %v", pool, got, err)
		}
	}
	if n := len(kube.Actions()); n > mostLeases+mostReferences+1 {
		t.Errorf("100 pools take %d requests", n)
	}
	kube.ClearActions()
	now = now.Add(leaseLife)
	if _, err := k.Without(t.Context(), []*corev1.Node{old}, nil); err != nil || len(kube.Actions()) != 1 {
		t.Errorf("%v, %d requests", err, len(kube.Actions()))
	}
}

// TestTheClockOfAKubelet: the kubelet writes RenewTime, and the API server the managed fields.
func TestTheClockOfAKubelet(t *testing.T) {
	own, unknown := heart("own", registered.Add(time.Minute)), heart("unknown", registered)
	renewed := metav1.NewMicroTime(registered.Add(-time.Hour - 400*time.Millisecond))
	own.Spec.RenewTime = &renewed
	k := &Kubelets{Kube: fake.NewClientset(own, unknown), Now: time.Now}
	if _, err := k.Without(t.Context(),
		[]*corev1.Node{readyAt("own", registered), readyAt("unknown", registered), readyAt("none", registered)}, nil); err != nil {
		t.Fatal(err)
	}
	if offset, known := k.Offset("own"); !known || offset != -time.Hour-time.Minute {
		t.Errorf("%s, %t", offset, known)
	}
	for _, name := range []string{"unknown", "none"} {
		if offset, known := k.Offset(name); known || offset != 0 {
			t.Errorf("%s: %s", name, offset)
		}
	}
}
