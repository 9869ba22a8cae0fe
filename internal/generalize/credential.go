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
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// What is told of a certificate comes from a disk and goes into an annotation, so that it is bounded.
const (
	maxCredentials = 4
	maxGroups      = 4
	maxName        = 64
)

// embeddedCertificate is a client certificate in a kubeconfig.
var embeddedCertificate = regexp.MustCompile(`(?m)^[ \t]*"?client-certificate-data"?:[ \t]*"?([A-Za-z0-9+/=]+)`)

// credentials are the client certificates among the files that the profile keeps: whom whoever reads the disk can be.
// A file that cannot be read as one tells nothing; that it stays is said by its rule.
func (p *Profile) credentials(t *tree.Tree, before *Before) []v1alpha1.Credential {
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

// clientCertificates reads the certificates in a file, those that a kubeconfig embeds included. An authority's is
// public and opens nothing.
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
			// The cluster's own groups first: they are what must not be cut off.
			slices.SortStableFunc(groups, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
			for _, group := range groups[:min(len(groups), maxGroups)] {
				c.Groups = append(c.Groups, brief(group))
			}
			found = append(found, c)
		}
	}
	return found
}

// rank of a group: the administrators', then others that Kubernetes itself knows, then anybody's.
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

// brief is a name that may be printed and is not long.
func brief(name string) string {
	return string(bytes.ToValidUTF8([]byte(Printable(name))[:min(len(Printable(name)), maxName)], nil))
}
