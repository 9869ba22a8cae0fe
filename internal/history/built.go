package history

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// BuiltAt is when a version's donor was captured, as well as the cloud can tell: what its tag says, else when the
// cloud made the version, else the day in its name. It is zero where nothing says.
func BuiltAt(image cloud.Image) time.Time {
	if at, err := time.Parse(cloud.BuiltAtLayout, image.Tags[cloud.TagBuiltAt]); err == nil {
		return at
	}
	if !image.CreatedAt.IsZero() {
		return image.CreatedAt
	}
	return dayOf(image.Version)
}

// BuiltAtTag is what a version's tag says of when its donor was captured. What came to the pool's nodes after the
// donor's disk was done, at proof, is not in the image, however long it takes to be made. The donor's clock may be
// ahead: no image is from later than now.
func BuiltAtTag(proof, now time.Time) string {
	if proof.Before(now) {
		now = proof
	}
	return now.UTC().Format(cloud.BuiltAtLayout)
}

// CapturedAt is what BuiltAt will be of a Prototype's version, as well as the Prototype itself can tell: the moment
// of its proof, or that in which publishing began if that was earlier, else its version's day.
func CapturedAt(p *v1alpha1.Prototype) time.Time {
	for i := len(p.Status.Steps) - 1; i >= 0; i-- {
		step := p.Status.Steps[i]
		if step.Phase != v1alpha1.PhasePublishing {
			continue
		}
		if i := p.Status.Image; i != nil && i.Verified != nil && i.Verified.At.Time.Before(step.StartedAt.Time) {
			return i.Verified.At.Time
		}
		return step.StartedAt.Time
	}
	return dayOf(p.Spec.Version)
}

// dayOf is the version's day; zero for a name that is none.
func dayOf(version string) time.Time {
	day, err := imageversion.Day(version)
	if err != nil {
		return time.Time{}
	}
	return day
}
