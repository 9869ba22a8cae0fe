package node

import (
	"os"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// nodeEnv is a test with one node on a real API server.
type nodeEnv struct {
	*testing.T
	kube kubernetes.Interface
	name string
}

func newYard(t *testing.T, annotations map[string]string) *nodeEnv {
	t.Helper()
	kube, err := kubernetes.NewForConfig(apitest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := kube.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Annotations: annotations}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &nodeEnv{t, kube, n.Name}
}

func (y *nodeEnv) getNode() *corev1.Node {
	y.Helper()
	n, err := y.kube.CoreV1().Nodes().Get(y.Context(), y.name, metav1.GetOptions{})
	if err != nil {
		y.Fatal(err)
	}
	return n
}

func (y *nodeEnv) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *nodeEnv) reservation() *v1alpha1.Reservation {
	y.Helper()
	r, err := v1alpha1.ReservationOf(y.getNode().Annotations)
	y.must(err)
	return r
}

// takers are the holders that reserve nodes. One kind is unknown to this version.
var takers = []v1alpha1.Holder{
	holder,
	v1alpha1.ReplacementHolder("pool1", "/pools/1", "2026.03.01"),
	v1alpha1.ReplacementHolder("pool1", "/pools/1", "2026.03.02"),
	{Kind: "Pioneer", Name: "pool1", UID: "pioneer"},
}

func now() metav1.Time { return metav1.NewTime(time.Unix(1_800_000_000, 0)) }

// TestConcurrentReservationsHaveOneHolder: if several holders reserve a free node at once, one succeeds and the others get an
// error.
func TestConcurrentReservationsHaveOneHolder(t *testing.T) {
	for round := range 8 {
		y := newYard(t, nil)
		errs := make([]error, len(takers))
		read := y.getNode()
		var all sync.WaitGroup
		for i, taker := range takers {
			all.Go(func() { errs[i] = Reserve(t.Context(), y.kube, read, NewReservation(taker, read, "", now())) })
		}
		all.Wait()
		var won []v1alpha1.Holder
		for i, err := range errs {
			switch {
			case err == nil:
				won = append(won, takers[i])
			case !apierrors.IsConflict(err):
				t.Errorf("round %d: %s got %v, want a conflict", round, takers[i], err)
			}
		}
		if r := y.reservation(); len(won) != 1 || r == nil || r.Holder != won[0] {
			t.Errorf("round %d: %v have the reservation, and the Lease has %+v", round, won, r)
		}
	}
}

// TestHolderUsesReturnedNode tests that a holder writes again with the Node that Reserve and Note return.
func TestHolderUsesReturnedNode(t *testing.T) {
	y := newYard(t, nil)
	s, err := reservations(t.Context(), y.kube)
	y.must(err)
	read := y.getNode()
	r := NewReservation(holder, read, "", now())
	reserved, err := s.Reserve(t.Context(), read, r)
	y.must(err)
	if err := Cordon(t.Context(), y.kube, read); !apierrors.IsConflict(err) {
		t.Errorf("the Node as it was read is cordoned: %v", err)
	}
	r.GeneralizeBootID = "boot"
	noted, err := s.Note(t.Context(), reserved, r)
	y.must(err)
	y.must(Cordon(t.Context(), y.kube, noted))
	y.must(s.Restore(t.Context(), y.getNode(), r, nil))
	if lease, err := s.Confirmed(t.Context(), read); err != nil || lease == nil {
		t.Errorf("Restore leaves the Lease %+v, %v", lease, err)
	}
}

// TestReservationOfAnotherHolderStays tests reads from before and from after the other holder's reservation.
func TestReservationOfAnotherHolderStays(t *testing.T) {
	for i, first := range takers {
		t.Run(first.Brief(), func(t *testing.T) {
			y := newYard(t, map[string]string{v1alpha1.DoNotDisruptAnnotation: "maybe"})
			free := y.getNode()
			y.must(Reserve(t.Context(), y.kube, free, NewReservation(first, free, "", now())))
			y.must(Cordon(t.Context(), y.kube, y.getNode()))
			held := y.getNode()
			for j, second := range takers {
				if i == j {
					continue
				}
				r := NewReservation(second, held, "", now())
				if err := Reserve(t.Context(), y.kube, y.getNode(), r); !apierrors.IsConflict(err) {
					t.Errorf("%s takes it: %v", second, err)
				}
				if err := Release(t.Context(), y.kube, y.getNode(), r, nil); !apierrors.IsConflict(err) {
					t.Errorf("%s releases the node: %v", second, err)
				}
			}
			if after := y.getNode(); after.ResourceVersion != held.ResourceVersion {
				t.Error("it was written")
			}
			// A second reservation by the same holder changes nothing. The release restores the node.
			y.must(Reserve(t.Context(), y.kube, y.getNode(), *y.reservation()))
			y.must(Release(t.Context(), y.kube, y.getNode(), *y.reservation(), &Marks{Labels: map[string]string{"kamino.dev/given": "back"}}))
			after := y.getNode()
			if diff := gocmp.Diff(free.Annotations, after.Annotations); diff != "" || after.Spec.Unschedulable || after.Labels["kamino.dev/given"] != "back" {
				t.Errorf("it is not as it was: cordoned %t, labels %v\n%s", after.Spec.Unschedulable, after.Labels, diff)
			}
		})
	}
}

// TestUnreadableReservationStays tests an unreadable reservation, until a Note replaces the reservation.
func TestUnreadableReservationStays(t *testing.T) {
	y := newYard(t, map[string]string{v1alpha1.ReservationAnnotation: "?"})
	r := NewReservation(holder, y.getNode(), "", now())
	for what, err := range map[string]error{
		"taken": Reserve(t.Context(), y.kube, y.getNode(), r), "released": Release(t.Context(), y.kube, y.getNode(), r, nil),
	} {
		if !apierrors.IsConflict(err) {
			t.Errorf("it is %s: %v", what, err)
		}
	}
	y.must(Note(t.Context(), y.kube, y.getNode(), r))
	y.must(Release(t.Context(), y.kube, y.getNode(), *y.reservation(), nil))
	if n := y.getNode(); len(n.Annotations) > 0 {
		t.Errorf("it carries %v", n.Annotations)
	}
}

// TestAWriteOfAnEarlierReadIsRefused tests the four writes after a write by another client.
func TestAWriteOfAnEarlierReadIsRefused(t *testing.T) {
	y := newYard(t, nil)
	stale := y.getNode()
	y.must(Cordon(t.Context(), y.kube, y.getNode()))
	r := NewReservation(holder, stale, "", now())
	for what, err := range map[string]error{
		"Reserve": Reserve(t.Context(), y.kube, stale, r),
		"Note":    Note(t.Context(), y.kube, stale, r),
		"Cordon":  Cordon(t.Context(), y.kube, stale),
		"Release": Release(t.Context(), y.kube, stale, r, nil),
	} {
		if !apierrors.IsConflict(err) {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
	if n := y.getNode(); !n.Spec.Unschedulable || len(n.Annotations) > 0 {
		t.Errorf("it was written: %+v", n.Annotations)
	}
}
