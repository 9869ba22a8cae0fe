package capture

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestAPoolWithNothingToHold: the capture works without a protection.
func TestAPoolWithNothingToHold(t *testing.T) {
	s := inFull(t, func(s *stage) { s.holdless = true })
	reserved := false
	s.succeeded(s.play(func(int) {
		if n, _ := s.tracked("nodes", "", donorName).(*corev1.Node); n != nil {
			if r, err := v1alpha1.ReservationOf(n.Annotations); err == nil && r != nil {
				reserved = true
				if r.Hold != "" || r.ScaleInProtected != nil {
					t.Errorf("it is to be given back by %+v", r)
				}
			}
		}
	}))
	s.onlyWhatWasMeant()
	if !reserved || slices.ContainsFunc(s.calls, func(c string) bool {
		return strings.HasPrefix(c, "ProtectFromScaleIn ") || strings.HasPrefix(c, "Unprotect ")
	}) {
		t.Errorf("reserved: %t, calls: %v", reserved, s.calls)
	}
}

// asBefore writes a reservation as versions did that kept no token.
func asBefore(t *testing.T, text string, protected bool) string {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	reservation := fields
	if inner, is := fields["reservation"].(map[string]any); is {
		reservation = inner
	}
	if reservation["uid"] == nil {
		return text
	}
	delete(reservation, "hold")
	reservation["scaleInProtected"] = protected
	now, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(now)
}

// TestWhatAVersionWithoutTokensHoldsIsGivenBack after any pass, and for any state of the donor.
func TestWhatAVersionWithoutTokensHoldsIsGivenBack(t *testing.T) {
	for _, protected := range []bool{false, true} {
		for at := range 24 {
			s := newStage(t, func(s *stage) { s.protected = protected }).decide()
			taken := false
			p := s.play(func(pass int) {
				if pass != at {
					return
				}
				s.onNode(func(n *corev1.Node) {
					if text := n.Annotations[v1alpha1.ReservationAnnotation]; text != "" {
						taken = true
						n.Annotations[v1alpha1.ReservationAnnotation] = asBefore(t, text, protected)
					}
				})
				s.onPrototype(func(p *v1alpha1.Prototype) {
					if text := p.Annotations[v1alpha1.RecordAnnotation]; text != "" {
						p.Annotations[v1alpha1.RecordAnnotation] = asBefore(t, text, protected)
					}
				})
				s.restart()
			})
			s.gaveBack()
			if s.succeeded(p); t.Failed() {
				t.Fatalf("protected %t, taken over after pass %d (%t): %s", protected, at, taken, verdict(p))
			}
		}
	}
}

// TestAnOrphanOfAVersionWithoutTokens is returned as in the earlier version.
func TestAnOrphanOfAVersionWithoutTokens(t *testing.T) {
	for _, protected := range []bool{false, true} {
		s := newStage(t, func(s *stage) { s.protected = protected })
		s.must(s.cloud.ProtectFromScaleIn(t.Context(), s.donor, cloud.TokenUnprotected))
		r := `{"name":"pool1-2026.03.13","uid":"gone","reservedAt":"2026-03-14T11:00:00Z","unschedulable":false,"annotations":{"karpenter.sh/do-not-disrupt":"false","cluster-autoscaler.kubernetes.io/scale-down-disabled":null}}`
		s.onNode(func(n *corev1.Node) {
			n.Annotations[v1alpha1.ScaleDownDisabledAnnotation], n.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true", "true"
			n.Annotations[v1alpha1.ReservationAnnotation] = asBefore(t, r, protected)
			n.Spec.Unschedulable = true
		})
		s.lease(asBefore(t, r, protected))
		s.sweep()
		s.gaveBack()
	}
}
