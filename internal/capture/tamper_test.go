package capture

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// onNode changes the donor's Node, if it is there.
func (s *testEnv) onNode(change func(*corev1.Node)) {
	n, _ := s.tracked("nodes", "", donorName).(*corev1.Node)
	if n == nil {
		return
	}
	change(n)
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
}

func (s *testEnv) onPrototype(change func(*v1alpha1.Prototype)) {
	p := s.prototype()
	if p == nil {
		return
	}
	change(p)
	s.must(s.clean.Update(context.Background(), p))
}

// onStatus changes the status of the Prototype, as only the engine's account may.
func (s *testEnv) onStatus(change func(*v1alpha1.Prototype)) {
	p := s.prototype()
	if p == nil {
		return
	}
	change(p)
	s.must(s.clean.Status().Update(context.Background(), p))
}

// loseStatus loses the status of a capture, as a backup without statuses does.
func loseStatus(p *v1alpha1.Prototype) {
	if !p.Status.Terminal() {
		p.Status = v1alpha1.PrototypeStatus{}
	}
}

func (s *testEnv) reservation(text string) {
	s.onNode(func(n *corev1.Node) {
		if n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			n.Annotations[v1alpha1.ReservationAnnotation] = text
		}
	})
}

// tamperings are changes by other clients to the state of a capture.
var tamperings = []struct {
	name   string
	strike func(*testEnv)
}{
	{"the record is removed", func(s *testEnv) {
		s.onStatus(func(p *v1alpha1.Prototype) { p.Status.Record = nil })
	}},
	{"the record is of another Prototype", func(s *testEnv) {
		s.onStatus(func(p *v1alpha1.Prototype) {
			if p.Status.Record != nil {
				p.Status.Record.UID = "another"
			}
		})
	}},
	{"the status is lost", func(s *testEnv) { s.onStatus(loseStatus) }},
	{"the finalizer is stripped", func(s *testEnv) {
		s.onPrototype(func(p *v1alpha1.Prototype) { p.Finalizers = nil })
		if p := s.prototype(); p != nil {
			s.must(s.clean.Delete(context.Background(), p))
		}
	}},
	{"the reservation is removed", func(s *testEnv) {
		s.onNode(func(n *corev1.Node) { delete(n.Annotations, v1alpha1.ReservationAnnotation) })
	}},
	{"the reservation is garbled", func(s *testEnv) { s.reservation("?") }},
	{"a reservation without a holder is over it", func(s *testEnv) {
		s.reservation(
			`{"kind":"Prototype","name":"pool1-2020.01.01","uid":"nobody","reservedAt":"2026-03-14T12:00:00Z","unschedulable":true,"scaleInProtected":true}`)
	}},
	{"a replacement's reservation stands over it", func(s *testEnv) {
		s.reservation(
			`{"kind":"Replacement","name":"kamino-rollback","uid":"kamino-rollback","reservedAt":"2026-03-14T12:00:00Z","unschedulable":true,"scaleInProtected":true}`)
	}},
	{"the Node is deleted", func(s *testEnv) {
		_ = s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName)
		_ = s.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podspace, s.podName())
	}},
	{"the donor is stopped", func(s *testEnv) {
		s.onNode(func(n *corev1.Node) {
			if n.Annotations[v1alpha1.ReservationAnnotation] != "" { // otherwise no donor, and free for other clients to stop
				s.cloud.GuestPowerOff(s.donor)
			}
		})
	}},
	{"Node and instance are deleted", func(s *testEnv) {
		s.cloud.RemoveInstance(s.donor)
		_ = s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName)
		_ = s.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podspace, s.podName())
	}},
}

// TestATamperingAtAnyMoment tampers after each pass in each way (short: in one). Afterwards no node is off, cordoned or
// protected, and a sweep removes the leftovers.
func TestATamperingAtAnyMoment(t *testing.T) {
	short := testing.Short()
	for i, tampering := range tamperings {
		t.Run(tampering.name, func(t *testing.T) {
			t.Parallel()
			for at := 0; ; at++ {
				if isSkipped(short, at, i, len(tamperings)) {
					continue
				}
				s := newTestEnv(t, donors[at%len(donors)].is).decide()
				last := -1
				began := s.clock.Now()
				p := s.play(func(pass int) {
					if last = pass; pass == at {
						tampering.strike(s)
					}
				})
				if last < at {
					if at < 10 {
						t.Fatalf("only %d moments were tried", at)
					}
					return
				}
				s.sweep()
				s.tick(time.Minute)
				s.gaveBack()
				if p != nil && !p.Status.Terminal() {
					t.Errorf("it has not ended: %s", verdict(p))
				}
				if took := s.clock.Now().Sub(began); took > 20*time.Minute {
					t.Errorf("it took %s, which is the patience of a deadline", took)
				}
				if t.Failed() {
					t.Fatalf("struck after pass %d: %s\n%s", at, verdict(p), s.lastCalls(60))
				}
			}
		})
	}
}

// sweep returns donors without an active capture, as a controller does from time to time.
func (s *testEnv) sweep() {
	s.t.Helper()
	for range 100 {
		n, _ := s.tracked("nodes", "", donorName).(*corev1.Node)
		if n == nil {
			break
		}
		r, err := v1alpha1.ReservationOf(n.Annotations)
		if err != nil || r == nil {
			break
		}
		result, err := s.engine.Orphan(context.Background(), donorName, r.Holder)
		s.must(err)
		if result.Done {
			break
		}
		s.tick(max(result.After, 4*time.Second))
	}
	for range 3 {
		_, err := s.engine.SweepLeftovers(context.Background(), []cloud.PoolID{s.pool})
		s.must(err)
		s.tick(30 * time.Second)
	}
}
