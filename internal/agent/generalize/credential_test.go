package generalize

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// certificate returns a new certificate for the test.
func certificate(t *testing.T, subject pkix.Name, authority bool, until time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotBefore: until.AddDate(-30, 0, 0), NotAfter: until, IsCA: authority, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestManifestCertificates tests certificates that the profile keeps, in files and in kubeconfigs. Certificates of
// an authority are not listed.
func TestManifestCertificates(t *testing.T) {
	until := time.Date(2056, 11, 21, 6, 0, 0, 0, time.UTC)
	masters := certificate(t, pkix.Name{CommonName: "client", Organization: []string{"system:masters"}}, false, until)
	own := certificate(t, pkix.Name{CommonName: "system:node:a\x1b[2J" + strings.Repeat("x", 200), Organization: []string{"system:nodes", "b", "c", "d", "e", "a-very-long-group-name-that-der-sorts-last"}}, false, until.AddDate(-29, 0, 0))
	dir := plant(t, node, map[string]string{
		"etc/kubernetes/certs/client.crt": masters,
		"etc/kubernetes/certs/ca.crt":     certificate(t, pkix.Name{CommonName: "ca"}, true, until),
		"etc/kubernetes/azure.json":       "{}\n",
		"var/lib/kubelet/kubeconfig":      "users:\n- name: client\n  user:\n    client-certificate-data: " + base64.StdEncoding.EncodeToString([]byte(own)) + "\n",
		"etc/ssl/certs/other.crt":         masters,
	})
	m, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	proof, err := m.Proof(runner(nil).Now())
	must(t, err)
	want := []v1alpha1.Credential{
		{Path: "/etc/kubernetes/certs/client.crt", CommonName: "client", Groups: []string{"system:masters"}, NotAfter: metav1.NewTime(until)},
		{Path: "/var/lib/kubelet/kubeconfig", Groups: []string{"system:nodes", "b", "c", "d"}, NotAfter: metav1.NewTime(until.AddDate(-29, 0, 0))},
	}
	for where, got := range map[string][]v1alpha1.Credential{"manifest": m.Credentials, "proof": proof.Credentials} {
		if len(got) == 2 {
			if name := got[1].CommonName; !strings.HasPrefix(name, "system:node:a") || strings.Contains(name, "\x1b") || len(name) > maxName {
				t.Errorf("%s: the name is %q", where, name)
			}
			got = []v1alpha1.Credential{got[0], {Path: got[1].Path, Groups: got[1].Groups, NotAfter: got[1].NotAfter}}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
	}
	if !want[0].Admin() || want[1].Admin() {
		t.Error("only the one of system:masters is the cluster's administrator")
	}
}

// webToken returns a token with claims.
func webToken(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256","kid":"x"}`)) + "." + part([]byte(claims)) + "." + part([]byte(strings.Repeat("s", 64)))
}

// TestTokensThatEnd in a kubeconfig or alone in a file. The token itself stays on the disk.
func TestTokensThatEnd(t *testing.T) {
	want := []v1alpha1.Credential{{CommonName: "token system:serviceaccount:kube-system:node", NotAfter: metav1.NewTime(time.Unix(1764700000, 0).UTC())}}
	token := webToken(`{"sub":"system:serviceaccount:kube-system:node","exp":1764700000}`)
	for _, content := range []string{token, "users:\n- user:\n    token: " + token + "\n", `{"users":[{"user":{"token":"` + token + `"}}]}`} {
		if diff := cmp.Diff(want, webTokens([]byte(content))); diff != "" {
			t.Errorf("%s: %s", content, diff)
		}
	}
	for _, claims := range []string{`{"sub":"never ends"}`, `{"exp":"soon"}`, `{"exp":1e300}`, `{"exp":-1}`, `{`} {
		if got := webTokens([]byte(webToken(claims))); got != nil {
			t.Errorf("%s gives %+v", claims, got)
		}
	}
	dir := plant(t, node, map[string]string{
		"etc/kubernetes/azure.json": "{}\n", "var/lib/kubelet/kubeconfig": "users:\n- name: client\n  user:\n    token: " + token + "\n",
	})
	m, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	want[0].Path = "/var/lib/kubelet/kubeconfig"
	if diff := cmp.Diff(want, m.Credentials); diff != "" {
		t.Error(diff)
	}
}

// TestTheFirstToEndStays of more credentials than a proof may hold.
func TestTheFirstToEndStays(t *testing.T) {
	all := ""
	for i := range 2 * maxCredentials {
		all += certificate(t, pkix.Name{CommonName: "c"}, false, time.Date(2056-i, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	dir := plant(t, node, map[string]string{"etc/kubernetes/azure.json": "{}\n", "etc/kubernetes/certs/client.crt": all})
	m, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	if len(m.Credentials) != maxCredentials || m.Credentials[0].NotAfter.Year() != 2056-2*maxCredentials+1 {
		t.Errorf("%+v", m.Credentials)
	}
}

func TestWithoutCertificate(t *testing.T) {
	for _, content := range []string{"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "client-certificate-data: AAAA\n", "client-certificate-data: =\n"} {
		if got := clientCertificates([]byte(content)); got != nil {
			t.Errorf("%q gives %+v", content, got)
		}
	}
}
