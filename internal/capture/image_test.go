package capture

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		entry, image string
		want         bool
	}{
		{"ghcr.io/us/kamino:v1", "ghcr.io/us/kamino:v1", true},
		{"ghcr.io/us/kamino:v1", "ghcr.io/us/kamino:v10", false},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino:v1", true},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino@sha256:0", true},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino-evil:v1", false},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino/evil:v1", false},
		{"ghcr.io", "ghcr.io:5000/evil", false},
		{"ghcr.io/us/", "ghcr.io/us/kamino:v1", true},
		{"ghcr.io/us/", "ghcr.io/usurper/kamino:v1", false},
		{"", "anything", false},
	} {
		if got := allows(c.entry, c.image); got != c.want {
			t.Errorf("%q allows %q: %t", c.entry, c.image, got)
		}
	}
}

// TestAnImageThatNobodyAllowed does not run on a donor, whoever writes it into a Prototype.
func TestAnImageThatNobodyAllowed(t *testing.T) {
	for _, c := range []struct {
		image   string
		allowed []string
		reason  string
	}{
		{image: "example.com/evil:v1", reason: ImageNotAllowed},
		{image: "example.com/ours/kamino:v1", allowed: []string{"example.com/ours/"}},
		{image: "kamino:test"},
	} {
		s := newStage(t)
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
