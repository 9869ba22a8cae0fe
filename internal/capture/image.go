package capture

import "github.com/kamino-dev/kamino/api/v1alpha1"

// podImage is the image of the generalize pod: from the settings, else from the engine.
func podImage(p *v1alpha1.Prototype, fallback string) string {
	if image := p.Spec.Settings.Generalize.Image; image != "" {
		return image
	}
	return fallback
}
