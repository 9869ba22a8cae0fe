package capture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
)

// count counts the calls that begin so.
func (s *testEnv) count(what string) (n int) {
	for _, call := range s.calls() {
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
		"a policy changed":  {func(s *testEnv) { s.cloud.SetUpgrades(s.pool, true) }, 0, "NodesWouldBeReplaced"},
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

// TestTooManyImages: a capture that leaves no room for images is refused before any change. The preview of a crowded pool warns,
// with the oldest nodes.
func TestTooManyImages(t *testing.T) {
	for images, refused := range map[int]bool{8: false, 9: true} {
		s := newTestEnv(t).decide()
		s.crowd(images)
		preview, err := s.engine.Preview(t.Context(), s.prototype(), nil)
		s.must(err)
		if !strings.Contains(preview.ImageLimitWarning, "on "+donorName+", peer: ") {
			t.Errorf("%d images, and the oldest nodes are not named: %s", images, preview.ImageLimitWarning)
		}
		if p := s.play(); refused {
			s.failed(p, imagecount.TooManyImages)
		} else {
			s.succeeded(p)
		}
	}
}
