package capture

import "github.com/kamino-dev/kamino/api/v1alpha1"

// podImage is the image of the generalize pod: the settings' own, else the engine's.
func podImage(p *v1alpha1.Prototype, fallback string) string {
	if image := p.Spec.Settings.Generalize.Image; image != "" {
		return image
	}
	return fallback
}
