package history

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// BuiltAt returns when a version's donor was captured: the time in its tag, else the creation time in the cloud, else
// the day in its name; zero if all are missing.
func BuiltAt(image cloud.Image) time.Time {
	if at, err := time.Parse(cloud.BuiltAtLayout, image.Tags[cloud.TagBuiltAt]); err == nil {
		return at
	}
	if !image.CreatedAt.IsZero() {
		return image.CreatedAt
	}
	return dayOf(image.Version)
}

// BuiltAtTag returns the tag value for the capture time. Changes to the pool's nodes after proof are not in the image,
// no matter how long publishing takes. The donor's clock may be ahead, so the value is at most now.
func BuiltAtTag(proof, now time.Time) string {
	if proof.Before(now) {
		now = proof
	}
	return now.UTC().Format(cloud.BuiltAtLayout)
}

// CapturedAt returns the future BuiltAt of a Prototype's version: the time of the proof or the start of publishing,
// whichever is earlier; else the version's day.
func CapturedAt(p *v1alpha1.Prototype) time.Time {
	for i := len(p.Status.Steps) - 1; i >= 0; i-- {
		step := p.Status.Steps[i]
		if step.Phase != v1alpha1.PhasePublishing {
			continue
		}
		if proof := p.Status.Proof; proof != nil && proof.At.Time.Before(step.StartedAt.Time) {
			return proof.At.Time
		}
		return step.StartedAt.Time
	}
	return dayOf(p.Spec.Version)
}

// dayOf returns the version's day; zero for a name without a day.
func dayOf(version string) time.Time {
	day, err := imageversion.Day(version)
	if err != nil {
		return time.Time{}
	}
	return day
}
