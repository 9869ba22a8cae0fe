package generalize

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"regexp"
	"slices"
	"strings"
	"time"

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
	// maxEnd is the end of the year 9999, the last that a Kubernetes time has.
	maxEnd = 253402300799
)

// embeddedCertificate matches a client certificate in a kubeconfig.
var embeddedCertificate = regexp.MustCompile(`(?m)^[ \t]*"?client-certificate-data"?:[ \t]*"?([A-Za-z0-9+/=]+)`)

// embeddedToken matches a JSON web token, in a kubeconfig or alone in a file.
var embeddedToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.(eyJ[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+`)

// credentials returns the client certificates and tokens in kept files: any reader of the disk can use the identities. Of too many,
// administrators and those that end first stay. Unreadable files are skipped; the rule names the kept file in any case.
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
			for _, c := range append(clientCertificates(content), webTokens(content)...) {
				c.Path = "/" + kept
				found = append(found, c)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b v1alpha1.Credential) int {
		if a.Admin() != b.Admin() {
			return map[bool]int{true: -1, false: 1}[a.Admin()]
		}
		return a.NotAfter.Compare(b.NotAfter.Time)
	})
	found = found[:min(len(found), maxCredentials)]
	slices.SortStableFunc(found, func(a, b v1alpha1.Credential) int { return strings.Compare(a.Path, b.Path) })
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

// webTokens returns the JSON web tokens in a file that end. Only the user and the end leave the disk.
func webTokens(content []byte) (found []v1alpha1.Credential) {
	for _, match := range embeddedToken.FindAllSubmatch(content, maxCredentials) {
		var claims struct {
			Subject string  `json:"sub"`
			Ends    float64 `json:"exp"`
		}
		text, err := base64.RawURLEncoding.DecodeString(string(match[1]))
		if err != nil || json.Unmarshal(text, &claims) != nil || claims.Ends <= 0 || claims.Ends > maxEnd {
			continue
		}
		found = append(found, v1alpha1.Credential{
			CommonName: brief("token " + claims.Subject), NotAfter: metav1.NewTime(time.Unix(int64(claims.Ends), 0).UTC()),
		})
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
