package trial

import (
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// interval is the assumed time between two versions of a pool. Each kept version may be in use again, after a rollback.
const interval = 7 * 24 * time.Hour

// endingCertificate is the name of the failure in settings.trial.ignoreDifferences, for kubelets that renew credentials.
const endingCertificate = "certificate"

// Certificate is a credential that all nodes of a version share: a client certificate or a token. The zero value is none.
type Certificate struct {
	Path string
	End  time.Time
	// Keep is the number of versions that the pool keeps. Ignored: the settings ignore the end.
	Keep    int32
	Ignored bool
}

// FirstToEnd returns the credential that ends first.
func FirstToEnd(credentials []v1alpha1.Credential, ignored []string, keep int32) (first Certificate) {
	for _, c := range credentials {
		if first.End.IsZero() || c.NotAfter.Time.Before(first.End) {
			first.Path, first.End = c.Path, c.NotAfter.Time
		}
	}
	if first.Path != "" {
		first.Keep, first.Ignored = keep, slices.ContainsFunc(ignored, func(i string) bool { return matches(i, endingCertificate) })
	}
	return first
}

// String is the end of a sentence about the version; empty without a credential.
func (c Certificate) String() string {
	if c.End.IsZero() {
		return ""
	}
	return fmt.Sprintf("; its credential %s ends at %s", c.Path, c.End.UTC().Format(time.RFC3339))
}

// use is how long nodes need the credentials of a version: as long as a kept version, or the oldest node of a version.
func (f Facts) use() time.Duration {
	use := time.Duration(max(1, f.Certificate.Keep)) * interval
	if f.Comparison != nil && !f.Comparison.Oldest.IsZero() {
		use = max(use, f.Now.Sub(f.Comparison.Oldest))
	}
	return use
}

// credential returns the end of the first credential in a sentence; ends reports that it ends while nodes need it.
func (f Facts) credential() (sentence string, ends bool) {
	c := f.Certificate
	if c.End.IsZero() {
		return "", false
	}
	if c.Ignored || !c.End.Before(f.Now.Add(f.use())) {
		return c.String(), false
	}
	return fmt.Sprintf("the credential %s on the disk of node %s ends at %s, and nodes may use this version for %d days "+
		"(see kept versions and the oldest node); renew the credential of the donor, then capture again",
		c.Path, f.Node, c.End.UTC().Format(time.RFC3339), int(f.use().Hours()/24)), true
}
