package generalize

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Limits of the certificate data that goes from the disk into an annotation.
const (
	maxCredentials = 4
	maxGroups      = 4
	maxName        = 64
)

// embeddedCertificate matches a client certificate in a kubeconfig.
var embeddedCertificate = regexp.MustCompile(`(?m)^[ \t]*"?client-certificate-data"?:[ \t]*"?([A-Za-z0-9+/=]+)`)

// credentials returns the client certificates in kept files: any reader of the disk can use the identities. Unreadable
// files are skipped; the rule names the kept file in any case.
func credentials(p *rules.Profile, t *tree.Tree, before *DonorValues) []v1alpha1.Credential {
	var found []v1alpha1.Credential
	for i := range p.Rules {
		for _, kept := range before.kept[p.Rules[i].ID] {
			info, err := t.Lstat(kept)
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			content, err := t.Read(kept)
			if err != nil {
				continue
			}
			for _, c := range clientCertificates(content) {
				c.Path = "/" + kept
				if len(found) < maxCredentials {
					found = append(found, c)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b v1alpha1.Credential) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// clientCertificates returns the certificates in a file, including those embedded in a kubeconfig. CA certificates are
// public and are skipped.
func clientCertificates(content []byte) (found []v1alpha1.Credential) {
	texts := [][]byte{content}
	for _, match := range embeddedCertificate.FindAllSubmatch(content, maxCredentials) {
		if text, err := base64.StdEncoding.DecodeString(string(match[1])); err == nil {
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			certificate, err := x509.ParseCertificate(block.Bytes)
			if block.Type != "CERTIFICATE" || err != nil || certificate.IsCA {
				continue
			}
			c := v1alpha1.Credential{CommonName: brief(certificate.Subject.CommonName), NotAfter: metav1.NewTime(certificate.NotAfter.UTC())}
			groups := certificate.Subject.Organization
			// Kubernetes' own groups first, because they must survive the limit.
			slices.SortStableFunc(groups, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
			for _, group := range groups[:min(len(groups), maxGroups)] {
				c.Groups = append(c.Groups, brief(group))
			}
			found = append(found, c)
		}
	}
	return found
}

// rank orders groups: administrators, other Kubernetes groups, then all other groups.
func rank(group string) string {
	switch {
	case group == v1alpha1.AdminGroup:
		return "0"
	case strings.HasPrefix(group, "system:"):
		return "1"
	default:
		return "2"
	}
}

// brief returns a printable name of limited length.
func brief(name string) string {
	return string(bytes.ToValidUTF8([]byte(Printable(name))[:min(len(Printable(name)), maxName)], nil))
}
