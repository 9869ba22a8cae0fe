package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// count counts the calls that begin so.
func (s *testEnv) count(what string) (n int) {
	for _, call := range s.calls {
		if strings.HasPrefix(call, what) {
			n++
		}
	}
	return n
}

// TestAPreflightIsNotMadeTwice: a capture reuses a preflight of the same process for a minute. Changes of pool and
// instance are seen anyway.
func TestAPreflightIsNotMadeTwice(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(s *testEnv)
		again     int
		refused   string
	}{
		"at once":           {func(*testEnv) {}, 0, ""},
		"after two minutes": {func(s *testEnv) { s.clock.Advance(2 * time.Minute) }, 1, ""},
		"another process":   {func(s *testEnv) { s.restart() }, 1, ""},
		"a policy changed":  {func(s *testEnv) { s.cloud.SetUpgrades(s.pool, true) }, 0, "UpgradePolicyAutomatic"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			refusals, err := s.engine.Refusals(t.Context(), s.prototype())
			if err != nil || len(refusals) > 0 {
				t.Fatalf("%v %v", refusals, err)
			}
			test.meanwhile(s)
			before := s.count("Preflight ")
			if _, err := s.engine.Pass(t.Context(), s.name); err != nil {
				t.Fatal(err)
			}
			if again := s.count("Preflight ") - before; again != test.again {
				t.Errorf("%d preflights more, want %d", again, test.again)
			}
			p := s.prototype()
			switch record, _ := v1alpha1.RecordOf(p); {
			case test.refused == "" && p.Status.Failure != nil:
				t.Errorf("the capture does not begin: %+v", p.Status.Failure)
			case test.refused != "" && (p.Status.Failure == nil || p.Status.Failure.Reason != test.refused || record.Reservation != nil):
				t.Errorf("it is not refused for %s: %+v", test.refused, p.Status.Failure)
			}
		})
	}
}

// TestOnlySnapshotIsReadWhileCopying, and the donor's power before anything is made of it.
func TestOnlySnapshotIsReadWhileCopying(t *testing.T) {
	s := newTestEnv(t).decide()
	waits, begun := 0, 0
	p := s.play(func(int) {
		p := s.prototype()
		if p == nil || p.Status.Phase != v1alpha1.PhaseSnapshotting {
			return
		}
		before := len(s.calls)
		if _, err := s.engine.Pass(t.Context(), s.name); err != nil {
			t.Fatal(err)
		}
		calls := slices.DeleteFunc(slices.Clone(s.calls[before:]), func(call string) bool {
			return !strings.HasPrefix(call, "Instance ") && !strings.HasPrefix(call, "Snapshot ")
		})
		if s.prototype().Status.Phase == v1alpha1.PhaseSnapshotting {
			waits++
			if len(calls) != 1 || !strings.HasPrefix(calls[0], "Snapshot ") {
				t.Errorf("while the copy is made: %v", calls)
			}
			return
		}
		if begun++; !slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(call, "Instance ") }) {
			t.Errorf("the copy is complete, and the power was not looked at: %v", calls)
		}
	})
	s.succeeded(p)
	if waits == 0 {
		t.Error("nothing was waited for")
	}
}

// crowd gives the pool nodes of so many images, what the recipe names included.
func (s *testEnv) crowd(images int) {
	s.t.Helper()
	s.cloud.SetMaxImages(10)
	for i := range images - 1 {
		s.cloud.ChangeRecipe(s.pool, fmt.Sprintf("image-%d", i))
		id := s.cloud.AddInstance(s.pool, fmt.Sprintf("crowd-%d", i))
		s.must(s.objects.Add(s.node(fmt.Sprintf("node-%d", i), id)))
	}
}

// TestTooManyImages: a capture that leaves no room for images is refused before any change, with the oldest nodes. From
// seven images on, the preview warns.
func TestTooManyImages(t *testing.T) {
	for images := 5; images <= 10; images++ {
		s := newTestEnv(t).decide()
		s.crowd(images)
		preview, err := s.engine.Preview(t.Context(), s.prototype())
		if err != nil {
			t.Fatal(err)
		}
		refused := slices.ContainsFunc(preview.Refusals, func(r cloud.Refusal) bool { return r.Reason == imagecount.TooManyImages })
		if refused != (images >= 9) || (preview.ImageLimitWarning != "") != (images >= 7) {
			t.Errorf("%d images: %+v", images, preview)
		}
		if preview.ImageLimitWarning != "" && !strings.Contains(preview.ImageLimitWarning, "on "+donorName+", peer: ") {
			t.Errorf("%d images, and the oldest nodes are not named: %s", images, preview.ImageLimitWarning)
		}
		if images < 9 {
			continue
		}
		p := s.play()
		if p.Status.Failure == nil || p.Status.Failure.Reason != imagecount.TooManyImages || s.cloud.World().Count(memory.ByCaller, memory.EffectProtect, "") > 0 {
			t.Errorf("%d images: %+v", images, p.Status.Failure)
		}
	}
}

// TestPodRemovalSendsNoCloudRequest: the inspecting pod is removed from a reserved node without a request to the
// cloud.
func TestPodRemovalSendsNoCloudRequest(t *testing.T) {
	s := newTestEnv(t).decide()
	removed, before := 0, 0
	p := s.play(func(int) {
		record, err := v1alpha1.RecordOf(s.prototype())
		s.must(err)
		if record.Reservation == nil || removed > 0 {
			before = len(s.calls)
			return
		}
		calls := s.calls[before:]
		reserved, gone := slices.Index(calls, "patch nodes/"), slices.Index(calls, "delete pods/")
		if reserved < 0 || gone < reserved {
			t.Fatalf("the donor was reserved, and then the pod removed, by none of %v", calls)
		}
		if asked := slices.DeleteFunc(slices.Clone(calls[reserved:gone]), func(call string) bool { return !isCloudCall(call) }); len(asked) > 0 {
			t.Errorf("the cloud was asked %v", asked)
		}
		if removed++; s.generalizePod() != nil {
			t.Error("the pod that looked is still there")
		}
		looked := slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, "Instance ") })
		held := slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, "ProtectFromScaleIn ") })
		if looked < 0 || held < looked {
			t.Errorf("it is held unseen: %v", calls)
		}
	})
	s.succeeded(p)
	if removed != 1 {
		t.Errorf("it was removed %d times", removed)
	}
}
