package capture

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// podImages decides which image runs on nodes: the settings may name an allowed image.
type podImages struct {
	fallback string
	allowed  []string
}

// of is the image of the pods on nodes: from the settings, else from the engine.
func (i podImages) of(p *v1alpha1.Prototype) string { return podImage(p, i.fallback) }

// mayRun asks whether a pod with the image of the settings may run on a node.
func (i podImages) mayRun(p *v1alpha1.Prototype) error {
	return denied(admission.Image(&admission.Case{Prototype: p, Image: i.fallback, AllowedImages: i.allowed}))
}

// podImage is the image of the generalize pod: from the settings, else from the engine.
func podImage(p *v1alpha1.Prototype, fallback string) string {
	if image := p.Spec.Settings.Generalize.Image; image != "" {
		return image
	}
	return fallback
}

// deniedError is a setting that the process allows no more, or has never allowed.
type deniedError struct{ cloud.Refusal }

func (d *deniedError) Error() string { return d.Message }

func denied(refusals []cloud.Refusal, err error) error {
	if err != nil || len(refusals) == 0 {
		return err
	}
	return &deniedError{refusals[0]}
}
