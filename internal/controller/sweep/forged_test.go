package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/controller/sweep"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// forgedCluster is two pools in a cloud in memory, their nodes in an API server in memory, and a sweeper over them.
type forgedCluster struct {
	*testing.T
	clock   *memory.Clock
	cloud   *memory.Cloud
	kube    *fake.Clientset
	ids     map[string]cloud.InstanceID
	engine  *capture.Engine
	sweeper *sweep.Sweeper
}

func newField(t *testing.T) *forgedCluster {
	t.Helper()
	f := &forgedCluster{T: t, clock: memory.NewClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)), kube: fake.NewClientset(),
		ids: map[string]cloud.InstanceID{}}
	f.cloud = memory.New(memory.Config{Now: f.clock.Now})
	for _, pool := range []string{"pool1", "pool2"} {
		id := f.cloud.AddPool(memory.PoolSpec{Name: pool, Capacity: 3})
		for i := range 3 {
			name := fmt.Sprintf("%s-%d", pool, i)
			f.ids[name] = f.cloud.AddInstance(id, name)
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
			n.Spec.ProviderID = string(f.ids[name])
			n.Status.NodeInfo.BootID = f.cloud.BootID(f.ids[name])
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			f.must(f.kube.Tracker().Add(n))
		}
	}
	f.engine = &capture.Engine{Client: inmemory.New(f.clock.Now).Client(nil), Kube: f.kube, Cloud: f.cloud.Provider, Now: f.clock.Now, Log: logr.Discard()}
	f.sweeper = &sweep.Sweeper{Held: f.reservedNodes, Orphan: f.engine.Orphan, Sweep: f.engine.SweepLeftovers, Now: f.clock.Now, Log: logr.Discard()}
	return f
}

func (f *forgedCluster) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *forgedCluster) nodes() []corev1.Node {
	f.Helper()
	list, err := f.kube.CoreV1().Nodes().List(f.Context(), metav1.ListOptions{})
	f.must(err)
	return list.Items
}

// reservedNodes is the state by the Nodes only.
func (f *forgedCluster) reservedNodes(context.Context) ([]reservations.Node, []cloud.PoolID, error) {
	captures := reservations.CapturesOf(nil)
	var found []reservations.Node
	for _, n := range f.nodes() {
		if n, isHeld := captures.Of(&n); isHeld {
			found = append(found, n)
		}
	}
	return found, nil, nil
}

// passes runs the sweeper so many times, with kubelets of the machines.
func (f *forgedCluster) passes(n int) {
	f.Helper()
	for range n {
		f.must(f.sweeper.Pass(f.Context()))
		f.clock.Advance(2 * time.Minute)
		f.cloud.Settle()
		for _, n := range f.nodes() {
			machine := f.cloud.World().Instance(f.ids[n.Name])
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			if machine.Power == cloud.PowerRunning {
				n.Status.Conditions[0].Status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, machine.BootID
			}
			f.must(f.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), &n, ""))
		}
	}
}

// TestAForgedReservationOnEveryNode of two pools: the sweeper removes, stops, cordons and writes no node, even with the
// Nodes' own claims as input.
func TestAForgedReservationOnEveryNode(t *testing.T) {
	for name, replacement := range map[string]string{
		"removed": `,"replacement":{"growFirst":true,"removing":true}`, "rebooted": "", "annotated": `,"annotations":{"evil.example/key":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			for _, n := range f.nodes() {
				n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: fmt.Sprintf(
					`{"kind":"Prototype","name":"pool1-2026.03.13","uid":"forged","reservedAt":"2026-03-14T11:00:00Z","unschedulable":true,"generalizeBootID":%q%s}`, n.Status.NodeInfo.BootID, replacement)}
				f.must(f.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), &n, ""))
			}
			before, effects := f.nodes(), f.cloud.World().Effects
			f.passes(30)
			if diff := cmp.Diff(before, f.nodes()); diff != "" {
				t.Errorf("Nodes were changed:\n%s", diff)
			}
			if diff := cmp.Diff(effects, f.cloud.World().Effects); diff != "" {
				t.Errorf("the cloud was changed:\n%s", diff)
			}
		})
	}
}

// reserve reserves a node as a capture does after the order to generalize, with cordon and power.
func (f *forgedCluster) reserve(name string, cordoned bool) {
	f.Helper()
	n, err := f.kube.CoreV1().Nodes().Get(f.Context(), name, metav1.GetOptions{})
	f.must(err)
	r := node.NewReservation(v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: n.Name, UID: types.UID("gone-" + n.Name)}, n, "",
		metav1.NewTime(f.clock.Now()))
	r.GeneralizeBootID = n.Status.NodeInfo.BootID
	_, err = node.Reservations{Kube: f.kube, Now: f.clock.Now}.Note(f.Context(), n, r)
	f.must(err)
	if cordoned {
		n, err = f.kube.CoreV1().Nodes().Get(f.Context(), name, metav1.GetOptions{})
		f.must(err)
		f.must(node.Cordon(f.Context(), f.kube, n))
	}
}

// confirmed is held with the facts of the Leases.
func (f *forgedCluster) confirmed(ctx context.Context) ([]reservations.Node, []cloud.PoolID, error) {
	leases, err := node.Reservations{Kube: f.kube}.All(ctx)
	captures := reservations.CapturesOf(nil)
	var found []reservations.Node
	for _, n := range f.nodes() {
		said, isHeld := captures.Of(&n)
		if n, isHeld := captures.Confirm(&n, said, isHeld, node.ReservationOf(leases, &n)); isHeld {
			found = append(found, n)
		}
	}
	reservations.Sort(found)
	return found, nil, err
}

// TestUncordonedDonorIsOnlyReported: the sweeper leaves an uncordoned donor under the old boot alone, and reports the
// donor once.
func TestUncordonedDonorIsOnlyReported(t *testing.T) {
	f := newField(t)
	var reported []string
	f.sweeper.Held, f.sweeper.Report = f.confirmed, func(n reservations.Node, _ string) { reported = append(reported, n.Name) }
	f.reserve("pool1-0", false)
	before, effects := f.nodes(), f.cloud.World().Effects
	f.passes(20)
	if diff := cmp.Diff(before, f.nodes()); diff != "" {
		t.Errorf("Nodes were changed:\n%s", diff)
	}
	if diff := cmp.Diff(effects, f.cloud.World().Effects); diff != "" {
		t.Errorf("the cloud was changed:\n%s", diff)
	}
	if _, err := f.engine.Orphan(t.Context(), "pool1-0",
		v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-0", UID: "gone-pool1-0"}); !errors.Is(err, capture.ErrInService) {
		t.Errorf("the engine says %v", err)
	}
	if len(reported) != 1 {
		t.Errorf("reported: %v", reported)
	}
}

// TestAForgedReservationIsReportedOnce with its node, after a look at the Leases; a Lease without a Node goes.
func TestAForgedReservationIsReportedOnce(t *testing.T) {
	f := newField(t)
	var reported []string
	f.sweeper.Held, f.sweeper.Report = f.confirmed, func(_ reservations.Node, why string) { reported = append(reported, why) }
	f.reserve("pool1-0", true)
	n, err := f.kube.CoreV1().Nodes().Get(t.Context(), "pool1-0", metav1.GetOptions{})
	f.must(err)
	text := n.Annotations[v1alpha1.ReservationAnnotation]
	f.must(f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "pool1-0"))
	other, err := f.kube.CoreV1().Nodes().Get(t.Context(), "pool2-1", metav1.GetOptions{})
	f.must(err)
	other.Annotations = map[string]string{v1alpha1.ReservationAnnotation: text}
	f.must(f.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), other, ""))
	f.passes(6)
	if len(reported) != 1 || !strings.Contains(reported[0], "node pool2-1 carries a reservation of prototype pool1-0 that no Lease of Kamino confirms") {
		t.Errorf("reported: %v", reported)
	}
	leases, err := node.Reservations{Kube: f.kube}.All(t.Context())
	f.must(err)
	if len(leases) > 0 {
		t.Errorf("the Lease of a Node that is gone is left: %+v", leases)
	}
}
