package capture

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestReservationOfNewerKaminoStays: a holder of an unknown kind overwrites our reservation at every moment.
// Kamino waits for that holder, and returns the donor afterwards.
func TestReservationOfNewerKaminoStays(t *testing.T) {
	const theirs = `{"kind":"Pioneer","name":"pool1","uid":"p","reservedAt":"2026-03-14T12:00:00Z"}`
	for at := range 40 {
		s := newTestEnv(t, donors[at%len(donors)].is).decide()
		var struck, gone bool
		p := s.play(func(pass int) {
			n, _ := s.tracked("nodes", "", donorName).(*corev1.Node)
			if n == nil {
				return
			}
			now := n.Annotations[v1alpha1.ReservationAnnotation]
			switch {
			case pass == at && now != "":
				struck = true
				s.lease(theirs)
				s.reservation(theirs)
			case !struck || gone:
			case now != theirs:
				t.Fatalf("struck after pass %d: the recipe has %q", at, now)
			case pass >= at+30:
				gone = true
				s.onNode(func(n *corev1.Node) { delete(n.Annotations, v1alpha1.ReservationAnnotation) })
				s.unlease()
			}
		})
		if !struck {
			continue
		}
		if !gone {
			t.Errorf("struck after pass %d: it ended over a node that another holds: %s", at, verdict(p))
		}
		s.gaveBack()
	}
}

// TestRecipeChangedDuringCapture: what the recipe names then is left as it is, and reported; the version stays.
func TestRecipeChangedDuringCapture(t *testing.T) {
	s := inFull(t)
	changed := false
	p := s.play(func(int) {
		if now := s.prototype(); !changed && now != nil && now.Status.Phase == v1alpha1.PhasePublishing {
			s.cloud.ChangeRecipe(s.pool, "theirs", "customData")
			changed = true
		}
	})
	s.failed(p, "RecipeChanged")
	s.gaveBack()
	if !strings.Contains(p.Status.Failure.Message, "theirs") || !strings.Contains(p.Status.Failure.Message, "kamino promote pool1 2026.03.14") {
		t.Errorf("it says %q", p.Status.Failure.Message)
	}
	if got := s.cloud.World().Pools[0].Recipe.Image; got != "theirs" {
		t.Errorf("the recipe names %s", got)
	}
	if image, err := s.cloud.Image(t.Context(), s.ref(p)); err != nil || image.State != cloud.Complete {
		t.Errorf("the version is %s, %v", image.State, err)
	}
}

// TestPoolDeletedDuringCapture: no recipe can name the version, the version stays, and the capture ends.
func TestPoolDeletedDuringCapture(t *testing.T) {
	s := inFull(t)
	deleted := false
	p := s.play(func(int) {
		if now := s.prototype(); !deleted && now != nil && now.Status.Phase == v1alpha1.PhasePublishing {
			s.cloud.DeletePool(s.pool)
			deleted = true
		}
	})
	if p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Reason != "RecipeChanged" {
		t.Fatalf("it is %s", verdict(p))
	}
	if want := "pool pool1 no longer exists"; !strings.Contains(p.Status.Failure.Message, want) {
		t.Errorf("it does not say %q: %q", want, p.Status.Failure.Message)
	}
	if left := s.cloud.World().Snapshots; len(left) > 0 {
		t.Errorf("snapshots are left: %+v", left)
	}
}
