package authority

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, file string, s Subject) Pair {
	t.Helper()
	pair, err := a.Issue(file, s)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestServerIsTrustedByTheAuthority(t *testing.T) {
	a := open(t, t.TempDir())
	pair := issue(t, a, "server", Subject{Name: "server", Hosts: []string{"127.0.0.1", "localhost"}})
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()

	trusting := func(pem []byte) error {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
		defer client.CloseIdleConnections()
		response, err := client.Get(server.URL)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	if err := trusting(a.CertPEM()); err != nil {
		t.Errorf("a client that trusts the authority: %v", err)
	}
	if err := trusting(open(t, t.TempDir()).CertPEM()); err == nil {
		t.Error("a client that trusts another authority was served")
	}
}

func TestCertificatesSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	subject := Subject{Name: "admin", Groups: []string{"system:masters"}}
	kept := content(t, issue(t, first, "admin", subject).CertFile)
	signing, err := first.SigningKey("sa")
	if err != nil {
		t.Fatal(err)
	}
	signed := content(t, signing)

	second := open(t, dir)
	if got := string(second.CertPEM()); got != string(first.CertPEM()) {
		t.Error("the second start founded another authority")
	}
	if got := content(t, issue(t, second, "admin", subject).CertFile); got != kept {
		t.Error("a certificate that still serves was issued again")
	}
	if _, err := second.SigningKey("sa"); err != nil {
		t.Fatal(err)
	}
	if content(t, signing) != signed {
		t.Error("the signing key was replaced: every token issued before is worthless")
	}
}

func TestReissueForNewSubject(t *testing.T) {
	a := open(t, t.TempDir())
	kept := content(t, issue(t, a, "server", Subject{Name: "s", Hosts: []string{"localhost"}}).CertFile)
	for _, other := range []Subject{
		{Name: "s", Hosts: []string{"localhost", "127.0.0.1"}},
		{Name: "other", Hosts: []string{"localhost", "127.0.0.1"}},
		{Name: "other", Groups: []string{"g"}, Hosts: []string{"localhost", "127.0.0.1"}},
	} {
		got := content(t, issue(t, a, "server", other).CertFile)
		if got == kept {
			t.Errorf("%+v: the certificate kept says something else and was used all the same", other)
		}
		kept = got
	}
}

func TestSecretFileModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := open(t, dir)
	issue(t, a, "admin", Subject{Name: "admin"})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", entry.Name(), info.Mode().Perm())
		}
	}
}

func TestDamagedAuthorityIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir)
	if err := os.WriteFile(a.CertFile(), []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a damaged authority was opened")
	}
}
