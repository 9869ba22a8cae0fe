package trial

import (
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// leastDays is how long the client certificate of a new node must be valid: a pool builds nodes from a version for days.
const leastDays = 7

// endingCertificate is the name of the failure in settings.trial.ignoreDifferences, for kubelets that renew certificates.
const endingCertificate = "certificate"

// Certificate is a client certificate that all nodes of a version share. The zero value is none.
type Certificate struct {
	Path string
	End  time.Time
}

// FirstToEnd returns the certificate that ends first, if the settings do not ignore certificates.
func FirstToEnd(credentials []v1alpha1.Credential, ignored []string) (first Certificate) {
	if slices.ContainsFunc(ignored, func(i string) bool { return matches(i, endingCertificate) }) {
		return Certificate{}
	}
	for _, c := range credentials {
		if first.End.IsZero() || c.NotAfter.Time.Before(first.End) {
			first = Certificate{c.Path, c.NotAfter.Time}
		}
	}
	return first
}

func (c Certificate) endsSoon(now time.Time) bool {
	return !c.End.IsZero() && c.End.Before(now.AddDate(0, 0, leastDays))
}
