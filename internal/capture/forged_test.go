package capture

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// forged are reservations that an account wrote which may do nothing but patch Nodes: a kubelet, kured.
var forged = map[string]string{
	"a donor that does not return": `{"kind":"Prototype","name":"pool1-2026.03.13","uid":"forged","reservedAt":"2026-03-14T11:00:00Z","unschedulable":false,` +
		`"generalizeBootID":%q,"replacement":{"growFirst":true,"removing":true}}`,
	"the same before its removal": `{"kind":"Prototype","name":"pool1-2026.03.13","uid":"forged","reservedAt":"2026-03-14T11:00:00Z","unschedulable":false,` +
		`"generalizeBootID":%q,"replacement":{}}`,
	"a donor that must reboot": `{"kind":"Prototype","name":"pool1-2026.03.13","uid":"forged","reservedAt":"2026-03-14T11:00:00Z","unschedulable":false,` +
		`"generalizeBootID":%q}`,
	"a donor with annotations to restore": `{"kind":"Prototype","name":"pool1-2026.03.13","uid":"forged","reservedAt":"2026-03-14T11:00:00Z","unschedulable":true,` +
		`"downBootID":%q,"returningSince":"2026-03-14T11:00:00Z","annotations":{"evil.example/key":"written by Kamino"}}`,
	"a donor that was only cordoned": `{"kind":"Prototype","name":"pool1-2026.03.13","uid":"forged","reservedAt":"2026-03-14T11:00:00Z","unschedulable":true,` +
		`"protection":"protected","annotations":{"evil.example/boot":%q}}`,
}

// forge writes a forged reservation on the donor's Node.
func (s *testEnv) forge(text string) {
	s.onNode(func(n *corev1.Node) {
		n.Annotations[v1alpha1.ReservationAnnotation] = fmt.Sprintf(text, n.Status.NodeInfo.BootID)
	})
}

// TestAForgedReservationMovesNothing: a reservation without a Lease of Kamino has neither the Node nor the instance touched.
func TestAForgedReservationMovesNothing(t *testing.T) {
	for name, text := range forged {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the cloud is away: %t", name, away), func(t *testing.T) {
				s := newTestEnv(t)
				s.forge(text)
				before, world := s.tracked("nodes", "", donorName).(*corev1.Node), s.cloud.World()
				if away {
					s.away("")
				}
				r, err := v1alpha1.ReservationOf(before.Annotations)
				s.must(err)
				for range 100 {
					result, _ := s.engine.Orphan(t.Context(), donorName, r.Holder)
					s.tick(max(result.After, 4*time.Second))
				}
				after, _ := s.tracked("nodes", "", donorName).(*corev1.Node)
				if after == nil {
					t.Fatal("the Node is gone")
				}
				if diff := gocmp.Diff(before, after); diff != "" {
					t.Errorf("the Node was changed:\n%s", diff)
				}
				if diff := gocmp.Diff(world.Effects, s.cloud.World().Effects); diff != "" {
					t.Errorf("the cloud was changed:\n%s", diff)
				}
			})
		}
	}
}

// TestAForgedReservationOfALiveCapture: before the reservation, the donor carries a forged reservation with the
// Prototype's UID. The capture refuses the forgery.
func TestAForgedReservationOfALiveCapture(t *testing.T) {
	for name, text := range forged {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			s.forge(text)
			s.onNode(func(n *corev1.Node) {
				r, err := v1alpha1.ReservationOf(n.Annotations)
				s.must(err)
				r.Name, r.UID = s.name, s.prototype().UID
				n.Annotations[v1alpha1.ReservationAnnotation] = s.text(r)
			})
			before := s.tracked("nodes", "", donorName).(*corev1.Node)
			p := s.play()
			if p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Message == "" {
				t.Errorf("it ended otherwise: %s", verdict(p))
			}
			after, _ := s.tracked("nodes", "", donorName).(*corev1.Node)
			if diff := gocmp.Diff(before, after); diff != "" {
				t.Errorf("the Node was changed:\n%s", diff)
			}
			if m := s.cloud.World().Instance(s.donor); m.ID == "" || m.Boots != 1 || m.Power != cloud.PowerRunning {
				t.Errorf("the donor: %+v", m)
			}
		})
	}
}

// TestAPowerIsNotAddedToALiveCapture: during a drain, a client adds removal, reboot or cordon to the reservation on the
// Node. The capture ends as usual, and restores the original state.
func TestAPowerIsNotAddedToALiveCapture(t *testing.T) {
	for name, text := range forged {
		t.Run(name, func(t *testing.T) {
			s := drained(t)
			s.onNode(func(n *corev1.Node) {
				n.Annotations[v1alpha1.ReservationAnnotation] = fmt.Sprintf(text, n.Status.NodeInfo.BootID)
				r, err := v1alpha1.ReservationOf(n.Annotations)
				s.must(err)
				r.Name, r.UID = s.name, s.prototype().UID
				n.Annotations[v1alpha1.ReservationAnnotation] = s.text(r)
			})
			s.must(s.clean.Delete(t.Context(), s.prototype()))
			if p := s.play(); p != nil {
				t.Errorf("it stays: %s", verdict(p))
			}
			s.gaveBack()
			if m := s.cloud.World().Instance(s.donor); m.ID == "" || m.Boots != 1 {
				t.Errorf("the donor: %+v", m)
			}
		})
	}
}

// lease has the Lease of the donor's Node hold a reservation, as the holder itself writes it.
func (s *testEnv) lease(text string) {
	s.t.Helper()
	s.leaseOf(donorName, text)
}

// leaseOf is the same for any Node.
func (s *testEnv) leaseOf(name, text string) {
	s.t.Helper()
	r, err := v1alpha1.ReservationOf(map[string]string{v1alpha1.ReservationAnnotation: text})
	s.must(err)
	n := s.tracked("nodes", "", name).(*corev1.Node)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.ReservationLeaseName(n.Name, n.UID), Namespace: ourspace, Labels: map[string]string{v1alpha1.HolderLabel: string(r.UID)},
		Annotations: map[string]string{
			v1alpha1.ReservedNodeAnnotation: n.Name, v1alpha1.ReservedNodeUIDAnnotation: string(n.UID), v1alpha1.ReservationAnnotation: text,
		},
	}}
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	if err := s.objects.Create(leases, lease, ourspace); apierrors.IsAlreadyExists(err) {
		s.must(s.objects.Update(leases, lease, ourspace))
	} else {
		s.must(err)
	}
}

// leases are the names of the Leases that there are.
func (s *testEnv) leases() (names []string) {
	s.t.Helper()
	object, err := s.objects.List(coordinationv1.SchemeGroupVersion.WithResource("leases"), coordinationv1.SchemeGroupVersion.WithKind("Lease"), ourspace)
	s.must(err)
	for _, lease := range object.(*coordinationv1.LeaseList).Items {
		names = append(names, lease.Name)
	}
	return names
}

// unlease deletes the Leases, as a holder does that gives a node back.
func (s *testEnv) unlease() {
	s.t.Helper()
	for _, name := range s.leases() {
		s.must(s.objects.Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), ourspace, name))
	}
}

// TestAReservationOnAPeer: only a reservation with a Lease makes the donor the last node that takes pods.
func TestAReservationOnAPeer(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		t.Run(fmt.Sprint("confirmed ", confirmed), func(t *testing.T) {
			s := newTestEnv(t)
			text := s.text(&v1alpha1.Reservation{Holder: v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "x", UID: "x"}})
			s.change("peer", func(n *corev1.Node) {
				n.UID = "uid-of-peer"
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.ReservationAnnotation, text)
			})
			if !confirmed {
				s.succeeded(s.decide().play())
				return
			}
			s.leaseOf("peer", text)
			s.decide().refused("OnlyReadyNode", donorName)
		})
	}
}
