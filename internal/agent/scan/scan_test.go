package scan

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func must[T any](t testing.TB, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func letters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)[:n]
}

// lettersOnly has 24 letters: after `s.` a word of a program, and at the start of a longer token no word.
const lettersOnly = "kQwErTyUiOpAsDfGhJkLzXcV"

func base64ed(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// secrets returns a new secret of each form. Markers are joined from parts, so that scanners of repositories ignore
// this file.
func secrets(t testing.TB) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, key, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must(t, edKey, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, ecKey, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(edKey)
	must(t, pkcs8, err)
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	must(t, sec1, err)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	openssh := make([]byte, 400)
	_, _ = rand.Read(openssh)
	copy(openssh, "openssh-key-v1\x00\x00\x00\x00\x04none\x00\x00\x00\x04none")
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"x"}`))
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"kubernetes/serviceaccount","sub":"x"}`))
	encrypted := strings.Replace(text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), "\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"+strings.ToUpper(letters(32))+"\n\n", 1)
	return map[string]string{
		"Vault token that begins with letters": "VAULT_TOKEN=" + "hvs." + lettersOnly + letters(71) + "\n",
		"PKCS #1 in PEM":                       text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)),
		"PKCS #8 in PEM":                       text("PRIVATE KEY", pkcs8),
		"SEC 1 in PEM":                         text("EC PRIVATE KEY", sec1),
		"OpenSSH":                              text("OPENSSH PRIVATE KEY", openssh),
		"encrypted":                            encrypted,
		"PEM in JSON":                          strings.ReplaceAll(text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), "\n", `\n`),
		"PEM, indented":                        strings.ReplaceAll(text("EC PRIVATE KEY", sec1), "\n", "\n      "),
		"PEM, CR LF":                           strings.ReplaceAll(text("EC PRIVATE KEY", sec1), "\n", "\r\n"),
		"kubeconfig":                           "client-key-data: " + base64.StdEncoding.EncodeToString([]byte(text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)))),
		"service account":                      header + "." + payload + "." + base64.RawURLEncoding.EncodeToString([]byte(base64ed(96))),
		"SAS":                                  "https://x.blob.core.example/c/b?sv=2021-08-06&se=2030-01-01T00%3A00%3A00Z&sp=r&sig=" + strings.TrimRight(strings.ReplaceAll(base64ed(36), "/", "%2F"), "=") + "%3D",
		"SAS, other order":                     "https://x.blob.core.example/c/b?sig=" + strings.NewReplacer("/", "%2F", "+", "%2B", "=", "").Replace(base64ed(48)) + "&se=2030&sv=2021-08-06",
		"storage key":                          "DefaultEndpointsProtocol=https;AccountKey=" + base64ed(64),
		"bootstrap token":                      "token: " + letters(6) + "." + letters(16) + "\n",
		"kubeadm join":                         "kubeadm join 10.0.0.1:6443 --token " + letters(6) + "." + letters(16) + " --discovery-token-ca-cert-hash sha256:x",
		"bearer":                               "Authorization: Bearer " + letters(40) + "\n",
		"docker config":                        `{"auths":{"r.example":{"auth": "` + base64.StdEncoding.EncodeToString([]byte("user:"+letters(12))) + `"}}}`,
		"identity token":                       `{"auths":{"r.example":{"identitytoken": "` + letters(40) + `"}}}`,
		"azure.json":                           `{"aadClientId":"x","aadClientSecret": "` + letters(32) + `"}`,
		"AWS":                                  "[default]\naws_secret_access_key = " + letters(40) + "\n",
		"GitHub":                               "ghp_" + letters(36),
	}
}

// lookalikes returns texts that must not count as secrets.
func lookalikes(t testing.TB) map[string]string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, key, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}}, &x509.Certificate{}, key.Public(), key)
	must(t, der, err)
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	must(t, public, err)
	begin, end := "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
	return map[string]string{
		"certificate":            certificate,
		"24 letters behind s.":   "is." + "s." + lettersOnly + "\n",
		"certificate in DER":     string(der),
		"public key":             string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"certificate-authority":  "certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(certificate)),
		"marker in a program":    "\x00" + begin + "\x00" + end + "\x00ssh-rsa\x00",
		"manual":                 "A key begins with " + begin + " and ends with " + end + ".\n",
		"example with dots":      begin + "\nMIIEpAIBAAKCAQEA...\n" + end + "\n",
		"example, cut":           begin + "\n(your key)\n" + end + "\n",
		"kubeadm's example":      "token: abcdef.0123456789abcdef\n",
		"token file name":        "tokenFile: /var/run/secrets/token\n--token-ttl 24h0m0s --token <token>\n",
		"managed identity":       `{"aadClientId":"msi","aadClientSecret":"msi"}`,
		"unsigned JSON":          base64.RawURLEncoding.EncodeToString([]byte(`{"a":"bbbbbbbbbbbbbbbbb"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"c":"ddddddddddddd"}`)) + "." + letters(60),
		"query without a key":    "https://x.example/?sv=2021-08-06&se=2030&sp=r",
		"docker config, helper":  `{"auths":{"r.example":{"auth": ""}},"credHelpers":{"r.example":"acr"}}`,
		"authorized_keys":        "ssh-ed25519 " + base64ed(51) + " user@host\n",
		"first-boot script":      "openssl genrsa -out \"$certs/kubeletserver.key\" 2048\n",
		"OpenSSH's own constant": "\x00openssh-key-v1\x00" + "-----BEGIN OPENSSH PRIVATE KEY-----\n\x00" + "-----END OPENSSH PRIVATE KEY-----\n",
		"template in a library":  "code" + string([]byte{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}) + letters(64),
	}
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// packaged marks files, with their current content, as files of an installed package.
func packaged(t testing.TB, dir string, names ...string) {
	t.Helper()
	var lines strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		must(t, content, err)
		fmt.Fprintf(&lines, "%x  %s\n", md5.Sum(content), name)
	}
	writeFile(t, dir, "var/lib/dpkg/info/site.md5sums", lines.String())
}

func scanTree(t testing.TB, dir string, o Options) *Report {
	t.Helper()
	report, err := Tree(t.Context(), dir, o)
	return must(t, report, err)
}

func TestSecrets(t *testing.T) {
	for name, secret := range secrets(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "etc/some/file", "first line\n"+secret+"\nlast line\n")
			report := scanTree(t, dir, Options{Owner: func(p string) Owner { return Owner{Rule: "rule-of" + strings.ReplaceAll(p, "/", "-")} }})
			if report.Count != 1 || report.Files != 1 {
				t.Fatalf("got %+v, want one finding", report)
			}
			f := report.Findings[0]
			if f.Path != "/etc/some/file" || f.Rule != "rule-of-etc-some-file" || f.Offset < 10 || f.Offset > 140 {
				t.Errorf("got %+v", f)
			}
			wantHidden(t, report, secret)
		})
	}
}

// wantHidden requires that the report contains no eight characters of a secret's random part.
func wantHidden(t *testing.T, report *Report, secret string) {
	t.Helper()
	encoded, err := json.Marshal(report)
	must(t, encoded, err)
	for i := len(secret) / 2; i+12 <= len(secret)-8; i += 4 {
		if bytes.Contains(encoded, []byte(secret[i:i+12])) {
			t.Errorf("the report holds %q", secret[i:i+12])
		}
	}
}

func TestLookalikes(t *testing.T) {
	dir := t.TempDir()
	for name, content := range lookalikes(t) {
		writeFile(t, dir, "etc/"+name, content)
	}
	for _, f := range scanTree(t, dir, Options{}).Findings {
		t.Errorf("%s was taken for a %s", f.Path, f.What)
	}
}

func TestBinaryKeys(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, key, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, rsaKey, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	must(t, pkcs8, err)
	sec1, err := x509.MarshalECPrivateKey(key)
	must(t, sec1, err)
	pfx := append(append([]byte{0x30, 0x82, 0x40, 0x00, 0x02, 0x01, 0x03, 0x30}, base64ed(64)...), shroudedKeyBag...)
	trust := append([]byte{0x30, 0x82, 0x40, 0x00, 0x02, 0x01, 0x03, 0x30}, base64ed(64)...)
	dir := t.TempDir()
	for name, content := range map[string][]byte{"8": pkcs8, "1": x509.MarshalPKCS1PrivateKey(rsaKey), "ec": sec1, "pfx": pfx, "trust": trust, "short": sec1[:40], "zeros": make([]byte, 4096)} {
		writeFile(t, dir, "etc/"+name, string(content))
	}
	var got []string
	for _, f := range scanTree(t, dir, Options{}).Findings {
		got = append(got, f.Path+" "+f.What)
	}
	want := []string{"/etc/1 private key (PKCS #1)", "/etc/8 private key (PKCS #8)", "/etc/ec private key (SEC 1)", "/etc/pfx private key (PKCS #12)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestKeptAndShared(t *testing.T) {
	dir, all := t.TempDir(), secrets(t)
	writeFile(t, dir, "etc/kept.key", all["PKCS #8 in PEM"])
	writeFile(t, dir, "etc/other.key", all["SEC 1 in PEM"])
	writeFile(t, dir, "usr/share/doc/example.key", all["OpenSSH"])
	writeFile(t, dir, "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/key", all["OpenSSH"])
	writeFile(t, dir, "srv/changed.key", "as it came")
	packaged(t, dir, "usr/share/doc/example.key", "srv/changed.key")
	writeFile(t, dir, "srv/changed.key", all["OpenSSH"]+"\n")
	writeFile(t, dir, "srv/copied.key", all["OpenSSH"])
	if err := os.Symlink("/usr/share/doc", filepath.Join(dir, "etc/doc")); err != nil {
		t.Fatal(err)
	}
	ofDpkg := func(p string) bool { return strings.HasPrefix(p, "/var/lib/dpkg/") }
	report := scanTree(t, dir, Options{Base: ofDpkg, Owner: func(p string) Owner {
		if p == "/etc/kept.key" {
			return Owner{Rule: "cluster-credential", Keeps: "nothing joins without it"}
		}
		return Owner{}
	}})
	if report.Count != 2 || report.Findings[0].Path != "/etc/other.key" || report.Findings[1].Path != "/srv/changed.key" {
		t.Errorf("found %+v", report.Findings)
	}
	if len(report.Kept) != 1 || report.Kept[0].Kept != "nothing joins without it" {
		t.Errorf("kept %+v", report.Kept)
	}
	if report.Packages.Files != 1 || report.Changed.Count != 1 || report.Changed.First[0] != "/srv/changed.key" {
		t.Errorf("of packages %+v, changed %+v", report.Packages, report.Changed)
	}
	want := Directories{Files: 3, Dirs: 2, List: []Directory{{Dir: "/etc", Files: 2, Names: []string{"kept.key", "other.key"}}, {Dir: "/srv", Files: 1, Names: []string{"copied.key"}}}}
	if diff := cmp.Diff(want, report.Unknown); diff != "" {
		t.Errorf("of no package (-want +got):\n%s", diff)
	}
	if len(report.Images) != 1 || report.Images[0].Entries != 1 {
		t.Errorf("images %+v", report.Images)
	}
	if all := scanTree(t, dir, Options{All: true}); all.Count != 6 {
		t.Errorf("with all that was brought: %+v", all)
	}
}

func TestIdentitiesInTree(t *testing.T) {
	dir := t.TempDir()
	id, uuid := letters(32), fmt.Sprintf("%s-%s-%s-%s-%s", letters(8), letters(4), letters(4), letters(4), letters(12))
	journal := make([]byte, 256)
	copy(journal, journalMagic)
	raw, err := hex.DecodeString(id)
	must(t, raw, err)
	copy(journal[journalMachineID:], raw)
	keytab := []byte("\x05\x02\x00\x00\x00secret\x00")
	values := []Value{
		{Path: "/etc/machine-id", SHA256: sum([]byte(id + "\n")), Bytes: 33},
		{Path: "/etc/nvme/hostid", SHA256: sum([]byte(uuid + "\n"))},
		{Path: "/etc/krb5.keytab", SHA256: sum(keytab), Bytes: int64(len(keytab))},
	}
	writeFile(t, dir, "etc/copy-of-id", id+"\n")
	writeFile(t, dir, "etc/dhcp", "duid \""+id+"\";")
	writeFile(t, dir, "etc/longer", id+"0")
	writeFile(t, dir, "etc/other", letters(32))
	writeFile(t, dir, "var/nvme.json", `{"host":"`+uuid+`"}`)
	writeFile(t, dir, "var/journal", strings.Repeat("x", 100)+string(journal))
	writeFile(t, dir, "var/keytab", string(keytab))
	report := scanTree(t, dir, Options{Identities: values})
	var got []string
	for _, f := range report.Findings {
		got = append(got, fmt.Sprintf("%s %d %s", f.Path, f.Offset, f.What))
	}
	slices.Sort(got)
	want := []string{
		"/etc/copy-of-id 0 the donor's /etc/machine-id", "/etc/dhcp 6 the donor's machine-id", "/etc/longer 0 the donor's machine-id", "/var/journal 100 the donor's journal",
		"/var/keytab 0 the donor's /etc/krb5.keytab", "/var/nvme.json 9 the donor's hostid",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantHidden(t, report, id)
	wantHidden(t, report, uuid)
}

// TestBorders cuts the same stream in many ways: the result must not depend on the cut.
func TestBorders(t *testing.T) {
	all := secrets(t)
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range all {
			if !yield(name) {
				return
			}
		}
	})
	id := letters(32)
	k := knownOf([]Value{{Path: "/etc/machine-id", SHA256: sum([]byte(id))}})
	rapid.Check(t, func(r *rapid.T) {
		var stream []byte
		var want []string
		for range rapid.IntRange(1, 6).Draw(r, "secrets") {
			filler := []byte{'\n', 0, ' '}[rapid.IntRange(0, 2).Draw(r, "filler")]
			stream = append(stream, bytes.Repeat([]byte{filler}, 1100+rapid.IntRange(0, 5000).Draw(r, "gap"))...)
			if name := rapid.SampledFrom(append(names, "id")).Draw(r, "secret"); name == "id" {
				want = append(want, fmt.Sprintf("%s at %d", Identity, len(stream)))
				stream = append(stream, id...)
			} else {
				want = append(want, name)
				stream = append(stream, all[name]...)
			}
		}
		stream = append(stream, '\n')
		look := func(source io.Reader, buffer int) (hits []secretHit) {
			secrets := everything().sweep("", true, func(h secretHit) { hits = append(hits, h) })
			err := windows(source, 0, make([]byte, buffer), func(w *window) error {
				secrets.window(w)
				k.ids(w, func(h secretHit) { hits = append(hits, h) })
				return nil
			})
			if err != nil {
				r.Fatal(err)
			}
			secrets.finish()
			slices.SortFunc(hits, func(a, b secretHit) int { return int(a.offset - b.offset) })
			return hits
		}
		whole := look(bytes.NewReader(stream), len(stream)+before+after+1)
		if len(whole) != len(want) {
			r.Fatalf("planted %v, found %v", want, whole)
		}
		cut := look(iotest.HalfReader(bytes.NewReader(stream)), before+after+1+rapid.IntRange(0, 3000).Draw(r, "own"))
		if !slices.Equal(whole, cut) {
			r.Errorf("in one piece %v, in pieces %v", whole, cut)
		}
	})
}

func TestLists(t *testing.T) {
	h := sum([]byte("x"))
	values, literals, err := ReadList(strings.NewReader("value  00:0D:3A:12:34:56\n" + h + "  /etc/machine-id\n\n" + strings.ToUpper(h) + " */etc/ssh/ssh_host_rsa_key\n"))
	must(t, values, err)
	if diff := cmp.Diff([]Value{{Path: "/etc/machine-id", SHA256: h}, {Path: "/etc/ssh/ssh_host_rsa_key", SHA256: h}}, values); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(literals) != 3 || literals[1].Text != "00-0d-3a-12-34-56" || literals[1].What != "value in line 1 of the list" {
		t.Errorf("got %+v", literals)
	}
	for _, bad := range []string{"", "\n", "machine-id\n", h + "\n", h[:40] + "  /x\n", "value 10.1\n"} {
		if _, _, err := ReadList(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken for a list", bad)
		}
	}
}
