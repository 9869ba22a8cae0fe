package capture

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
)

// TestForbiddenImage: an image without permission does not run on a donor, although a Prototype names it.
func TestForbiddenImage(t *testing.T) {
	for _, c := range []struct {
		image   string
		allowed []string
		reason  string
	}{
		{image: "example.com/evil:v1", reason: admission.NotAllowed},
		{image: "example.com/ours/kamino:v1", allowed: []string{"example.com/ours/"}},
		{image: "kamino:test"},
	} {
		s := newTestEnv(t)
		before := len(s.cloud.World().Effects)
		s.decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Image = c.image })
		s.engine.AllowedImages = c.allowed
		p := s.play()
		if c.reason == "" {
			s.succeeded(p)
			continue
		}
		if f := p.Status.Failure; f == nil || f.Reason != c.reason {
			t.Errorf("%s: failure %+v, want %s", c.image, f, c.reason)
		}
		if effects := s.cloud.World().Effects[before:]; len(effects) > 0 {
			t.Errorf("%s: the cloud was changed: %v", c.image, effects)
		}
		s.gaveBack()
	}
}
