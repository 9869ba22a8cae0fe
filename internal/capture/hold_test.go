package capture

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestPoolWithoutProtection: the capture works without a protection.
func TestPoolWithoutProtection(t *testing.T) {
	s := inFull(t, func(s *testEnv) { s.holdless = true })
	reserved := false
	s.succeeded(s.play(func(int) {
		if n, _ := s.tracked("nodes", "", donorName).(*corev1.Node); n != nil {
			if r, err := v1alpha1.ReservationOf(n.Annotations); err == nil && r != nil {
				reserved = true
				if r.Protection != "" {
					t.Errorf("its release is %+v", r)
				}
			}
		}
	}))
	s.checkIntendedChanges()
	if !reserved || slices.ContainsFunc(s.calls(), func(c string) bool {
		return strings.HasPrefix(c, "ProtectFromScaleIn ") || strings.HasPrefix(c, "Unprotect ")
	}) {
		t.Errorf("reserved: %t, calls: %v", reserved, s.calls())
	}
}
