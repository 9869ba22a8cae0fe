package capture

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// Observe gets every written status, in order and without a gap.
func TestObserveSeesEveryStatus(t *testing.T) {
	s := newTestEnv(t).decide()
	var shown []v1alpha1.Phase
	last := v1alpha1.PrototypeStatus{}
	s.engine.Observe = func(_ context.Context, before, after *v1alpha1.Prototype) {
		if diff := cmp.Diff(last, before.Status); diff != "" {
			t.Errorf("a pass began with another status than the last one ended with (-last +now):\n%s", diff)
		}
		if diff := cmp.Diff(s.prototype().Status, after.Status); diff != "" {
			t.Errorf("reported another status than the stored one (-stored +reported):\n%s", diff)
		}
		last = *after.Status.DeepCopy()
		for _, step := range after.Status.Steps[len(before.Status.Steps):] {
			shown = append(shown, step.Phase)
		}
		if after.Status.Terminal() && !before.Status.Terminal() {
			shown = append(shown, after.Status.Phase)
		}
	}
	s.play()
	want := []v1alpha1.Phase{}
	for _, step := range s.prototype().Status.Steps {
		want = append(want, step.Phase)
	}
	if diff := cmp.Diff(append(want, v1alpha1.PhaseSucceeded), shown); diff != "" {
		t.Errorf("phases reported (-status +reported):\n%s", diff)
	}

	count := 0
	s.engine.Observe = func(_ context.Context, before, after *v1alpha1.Prototype) {
		if count++; !before.Status.Terminal() || !after.Status.Terminal() {
			t.Error("an end was reported twice")
		}
	}
	if _, err := s.engine.Pass(t.Context(), s.name); err != nil || count != 1 {
		t.Errorf("a pass over an ended capture reported %d times, %v", count, err)
	}
}

// Observe does not get a status that was not written.
func TestObserveSkipsLostStatus(t *testing.T) {
	s := newTestEnv(t).decide()
	s.lose = func(what string) memory.Outcome {
		if what == "patch prototype status" {
			return memory.FailBefore(cloud.Unavailable)
		}
		return memory.Pass()
	}
	s.engine.Observe = func(_ context.Context, _, after *v1alpha1.Prototype) { t.Errorf("reported %s", after.Status.Phase) }
	if _, err := s.engine.Pass(t.Context(), s.name); err == nil {
		t.Error("the pass got through without its status")
	}
}
