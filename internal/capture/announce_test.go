package capture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// recordedEvents keeps what was recorded, as "Warning Reason: note".
type recordedEvents []string

// Eventf implements events.EventRecorder.
func (h *recordedEvents) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	*h = append(*h, fmt.Sprintf("%s %s: %s", kind, reason, fmt.Sprintf(note, args...)))
}

// TestLostCredentialIsAnnouncedOnce takes it away while the image is made, for several passes.
func TestLostCredentialIsAnnouncedOnce(t *testing.T) {
	s := newTestEnv(t).decide()
	var events recordedEvents
	s.engine.Recorder = &events
	lost, begun := 0, false
	s.lose = func(what string) memory.Outcome {
		begun = begun || strings.HasPrefix(what, "EnsureImage")
		if begun && lost < 5 && strings.HasPrefix(what, "Image") {
			lost++
			return memory.FailBefore(cloud.Unauthenticated)
		}
		return memory.Pass()
	}
	s.succeeded(s.play())
	shown := 0
	for _, event := range events {
		if strings.HasPrefix(event, "Warning Unauthenticated: ") && strings.HasSuffix(event, "once this is fixed") {
			shown++
		}
	}
	if lost != 5 || shown != 1 {
		t.Errorf("the credential was missed %d times and %d events say so, want 5 and 1:\n%s", lost, shown, strings.Join(events, "\n"))
	}
}

// TestRecipeWithBootstrapIsReversible by `kamino restore`, so that no warning is due.
func TestRecipeWithBootstrapIsReversible(t *testing.T) {
	for profile, want := range map[v1alpha1.Profile]string{
		v1alpha1.ProfileStatic: "Warning False PartlyRestorable",
		v1alpha1.ProfileEKS:    "Normal True Restorable",
	} {
		p := &v1alpha1.Prototype{}
		p.Spec.Settings.Generalize.Profile = profile
		w := &pass{p: p, promotion: promotionObjects{recipe: cloud.Pool{ID: "pool1", Recipe: cloud.Recipe{Image: "ami-1"}}}}
		reportReversible(w, time.Now())
		var events recordedEvents
		recorder{events: &events}.announceChanges(&v1alpha1.Prototype{}, p)
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReversible)
		kind, _, _ := strings.Cut(strings.Join(events, ""), " ")
		if got := strings.Join([]string{kind, string(c.Status), c.Reason}, " "); got != want || !strings.Contains(c.Message, "`kamino restore`") {
			t.Errorf("%s: %s, want %s: %s", profile, got, want, c.Message)
		}
	}
}

// TestIrreversibleFirstPromotionIsAnnounced, once, by a condition and an event; a pool whose recipe names a version of its
// own has a way back.
func TestIrreversibleFirstPromotionIsAnnounced(t *testing.T) {
	for _, lineage := range []string{"", "2026.03.01"} {
		s := newTestEnv(t, func(s *testEnv) { s.lineage = lineage }).decide()
		var events recordedEvents
		s.engine.Recorder = &events
		p := s.play()
		s.succeeded(p)
		shown, promoted := 0, -1
		for i, event := range events {
			switch {
			case strings.HasPrefix(event, "Warning "+PartlyRestorable+": this is the first version"):
				if shown++; promoted >= 0 {
					t.Errorf("the event comes after the promotion")
				}
			case strings.HasPrefix(event, "Normal Promoting"):
				promoted = i
			}
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReversible)
		if first := lineage == ""; first != (c != nil && c.Reason == PartlyRestorable) || first != (shown > 0) || promoted < 0 {
			t.Errorf("lineage %q: the condition is %+v, and %d of the events report it: %s", lineage, c, shown, strings.Join(events, "\n"))
		}
	}
}
