package generalize

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// needle is a secret that a test puts on a disk.
type needle struct {
	name, path string
	content    func(n needles) string
}

// needles creates new secrets for each run of the test. Texts that would trigger other scanners are joined from parts.
type needles struct{ t *testing.T }

func (n needles) letters(count int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return n.random(alphabet, count)
}

func (n needles) random(alphabet string, count int) string {
	b := make([]byte, count)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

func (n needles) lower(count int) string {
	return n.random("abcdefghijklmnopqrstuvwxyz0123456789", count)
}
func (n needles) hex(count int) string { return n.random("0123456789abcdef", count) }
func (n needles) base64(count int) string {
	b := make([]byte, count)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// password returns a password like a generator.
func (n needles) password() string { return n.letters(6) + "7x" + n.letters(6) + "!9" }
func (n needles) pem() string      { return pemKey(n.t) }

func (n needles) der() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(n.t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(n.t, err)
	return der
}

func (n needles) block(kind string, size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

func utf16Text(text string, order []byte) string {
	var b []byte
	for _, c := range utf16.Encode([]rune(text)) {
		if order[0] == 0xff {
			b = append(b, byte(c), byte(c>>8))
		} else {
			b = append(b, byte(c>>8), byte(c))
		}
	}
	return string(append(bytes.Clone(order), b...))
}

// jsonText returns a text as a string of JSON.
func jsonText(text string) string { return strings.ReplaceAll(text, "\n", `\n`) }

func base64Text(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func wrapLines(text string, width int) string {
	var lines []string
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return strings.Join(append(lines, text), "\n")
}

// keyPlaces lists paths that no rule covers.
var keyPlaces = []string{
	"opt/app/tls/server.key", "srv/www/tls.key", "usr/local/etc/app.key", "usr/local/share/key.pem", "usr/share/site/key.pem", "usr/lib/site/key.pem",
	"usr/bin/key", "data/app/key.pem", "var/opt/app/key.pem", "var/www/key.pem", "var/local/key.pem", "var/cache/app/key.pem", "var/spool/app/key.pem",
	"boot/key.pem", "mnt/key.pem", "media/key.pem", "key.pem", "etc/app/key.pem", "home/bob/key.pem", "root/key.pem", "var/lib/app/key.pem", "lib/firmware/key.pem",
	"opt/.hidden/..data/key", "opt/a file with blanks.key", "run/key.pem", "dev/key.pem", "proc/key.pem", "sys/key.pem", "lost+found/#12",
}

// keyForms returns the formats of a private key.
func keyForms(n needles) map[string]string {
	key := n.pem()
	return map[string]string{
		"PEM, EC": n.block("EC PRIVATE KEY", 120), "PEM, OpenSSH": n.block("OPENSSH PRIVATE KEY", 300), "PEM, encrypted": n.block("ENCRYPTED PRIVATE KEY", 300),
		"PEM, DSA": n.block("DSA PRIVATE KEY", 400), "PEM, any": n.block("ANY PRIVATE KEY", 100), "PGP block": strings.Replace(n.block("PGP PRIVATE KEY BLOCK", 600), "\n", "\nVersion: GnuPG v2\n\n", 1),
		"in JSON": `{"key":"` + jsonText(key) + `"}`, "in JSON in JSON": `{"a":"{\"key\":\"` + strings.ReplaceAll(jsonText(key), `\`, `\\`) + `\"}"}`,
		"quoted lines": `"` + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\\n\"\n  \"") + `"`, "commented": "# " + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n# "),
		"cited": "> " + strings.ReplaceAll(key, "\n", "\n> "), "indented": "    " + strings.ReplaceAll(key, "\n", "\n    "), "CR LF": strings.ReplaceAll(key, "\n", "\r\n"),
		"one line": strings.ReplaceAll(key, "\n", ""), "with blanks for lines": strings.ReplaceAll(key, "\n", " "), "in a URL": "k=" + strings.NewReplacer("\n", "%0A", "+", "%2B", "/", "%2F", "=", "%3D").Replace(key),
		"in XML": "<key>" + strings.ReplaceAll(key, "\n", "&#10;") + "</key>", "in a shell script": "cat > k <<'EOF'\n" + key + "EOF\n",
		"base64": base64Text(key), "base64, wrapped": wrapLines(base64Text(key), 76), "base64, not at its begin": base64Text("x: 1\nkey: |\n" + key), "base64 twice": base64Text(base64Text(key)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte("~~~???>>>" + key)),
		"hex": hex.EncodeToString([]byte(key)), "hex, upper case": strings.ToUpper(hex.EncodeToString([]byte(key))), "UTF-16": utf16Text(key, []byte{0xff, 0xfe}), "UTF-16, big": utf16Text(key, []byte{0xfe, 0xff}), "UTF-16, without a mark": utf16Text(key, []byte{0xff, 0xfe})[2:],
		"gzip": gzipped(key), "gzip in base64": base64Text(gzipped(key)), "base64 in gzip": gzipped("data: " + base64Text(key)), "gzip in gzip": gzipped(gzipped(key)), "DER": string(n.der()), "DER in base64": base64Text(string(n.der())), "DER in hex": hex.EncodeToString(n.der()),
		"kubeconfig": "users:\n- user:\n    client-key-data: " + base64Text(key) + "\n", "in a binary": "\x7fELF\x00\x01" + strings.Repeat("\x00\x02", 4000) + key + "\x00",
		"JSON web key":      `{"kty":"EC","crv":"P-256","x":"` + n.letters(43) + `","d":"` + n.letters(43) + `"}`,
		"PuTTY":             "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: x\nPublic-Lines: 1\n" + n.base64(51) + "\nPrivate-Lines: 1\n" + n.base64(36) + "\nPrivate-MAC: " + n.hex(64) + "\n",
		"age":               "AGE-" + "SECRET-KEY-1" + n.random("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58) + "\n",
		"WireGuard":         "[Interface]\nPrivateKey = " + n.letters(42) + "A=\n",
		"WireGuard, shared": "[Peer]\nPresharedKey = " + n.letters(42) + "E=\n",
		"SSH2":              "---- BEGIN SSH2 " + "ENCRYPTED PRIVATE KEY ----\nComment: x\n" + wrapLines(n.base64(300), 70) + "\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
		"GnuPG":             "(11:private-key(3:ecc(5:curve7:Ed25519)(1:q33:" + n.letters(33) + ")(1:d32:" + n.letters(32) + ")))",
		"GnuPG, extended":   "Created: 20260101T000000\nKey: (private-key (ecc (curve #" + strings.ToUpper(n.hex(40)) + "#)))\n",
		"Java key store":    "\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x04main" + n.letters(600),
		"Java, JCEKS":       "\xce\xce\xce\xce\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x04main" + n.letters(600),
		"PKCS #12":          "\x30\x82\x04\x00\x02\x01\x03\x30" + n.letters(80) + "\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x02" + n.letters(600),
		"LUKS header":       "LUKS\xba\xbe\x00\x02" + n.letters(600),
		"keytab":            "\x05\x02\x00\x00\x00\x30\x00\x01\x00\x05EXAMP\x00\x04host" + n.letters(60),
		"OpenSSH, binary":   "openssh-key-v1\x00\x00\x00\x00\x04none" + n.letters(200),
	}
}

// tokens returns secrets that are no private keys, by the usual file.
func tokens(n needles) map[string]string {
	jwt := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"x"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"kubernetes","sub":"x"}`)) + "." + n.letters(86)
	shadow := "$6$" + n.letters(8) + "$" + n.letters(86)
	return map[string]string{
		"opt/app/aws.json":                    `{"AccessKeyId":"x","SecretAccessKey": "` + n.letters(40) + `"}`,
		"opt/app/aws.env":                     `AWS_SECRET_ACCESS_KEY="` + n.letters(40) + `"`,
		"opt/app/aws-credentials":             "[default]\naws_secret_access_key = " + n.letters(40) + "\n",
		"opt/app/aws-id":                      "key AKIA" + n.random("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16) + "\n",
		"etc/default/app":                     "AZURE_CLIENT_ID=x\nAZURE_CLIENT_SECRET=" + n.letters(3) + "8Q~" + n.letters(34) + "\n",
		"etc/default/app2":                    "AZURE_CLIENT_SECRET='" + n.password() + "'\n",
		"etc/default/storage":                 "AZURE_STORAGE_KEY=" + n.base64(64) + "\n",
		"etc/app/storage.yaml":                "storageAccountKey: " + n.base64(64) + "\n",
		"etc/app/storage.json":                `{"account_key": "` + n.base64(64) + `"}`,
		"etc/app/connection":                  "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + n.base64(64) + ";EndpointSuffix=core.example",
		"etc/app/servicebus":                  "Endpoint=sb://x.example/;SharedAccessKeyName=root;SharedAccessKey=" + n.base64(32),
		"etc/app/cloud.yaml":                  "azure:\n  clientSecret: " + n.password() + "\n",
		"etc/app/cloud.json":                  `{"aadClientSecret": "` + n.letters(34) + `"}`,
		"etc/systemd/system/app.service.d/x":  "[Service]\nEnvironment=DB_PASSWORD=" + n.password() + "\n",
		"etc/systemd/system/app2.service":     "[Service]\nExecStart=/usr/bin/app --password " + n.password() + " --port 1\n",
		"srv/kubeconfig":                      "users:\n- name: x\n  user:\n    username: x\n    password: " + n.password() + "\n",
		"srv/kubeconfig-token":                "users:\n- name: x\n  user:\n    token: " + n.lower(48) + "\n",
		"opt/app/vault":                       "VAULT_TOKEN=hvs." + n.letters(95) + "\n",
		"home/bob/.vault-token":               "s." + n.letters(24),
		"opt/app/github":                      "ghp_" + n.letters(36),
		"opt/app/github-app":                  "ghs_" + n.letters(36),
		"opt/app/github-new":                  "github_pat_" + n.letters(82),
		"opt/app/gitlab":                      "glpat-" + n.letters(20) + "\n",
		"opt/app/slack":                       "xox" + "b-" + n.random("0123456789", 12) + "-" + n.random("0123456789", 12) + "-" + n.letters(24) + "\n",
		"opt/app/slack-hook":                  "https://hooks.slack.com/services/T" + strings.ToUpper(n.lower(8)) + "/B" + strings.ToUpper(n.lower(8)) + "/" + n.letters(24) + "\n",
		"opt/app/stripe":                      "sk_" + "live_" + n.letters(30) + "\n",
		"opt/app/npmrc":                       "//registry.example/:_authToken=npm_" + n.lower(36) + "\n",
		"opt/app/hub":                         "dckr_pat_" + n.letters(27) + "\n",
		"opt/app/google":                      "AIza" + n.letters(35) + "\n",
		"opt/app/sendgrid":                    "SG." + n.letters(66) + "\n",
		"opt/app/heroku":                      "HEROKU_API_KEY=" + n.hex(8) + "-" + n.hex(4) + "-" + n.hex(4) + "-" + n.hex(4) + "-" + n.hex(12) + "\n",
		"opt/app/jwt":                         jwt,
		"opt/app/bearer":                      "curl -H 'Authorization: Bearer " + n.letters(40) + "' x\n",
		"opt/app/basic":                       "Authorization: Basic " + base64Text("user:"+n.password()) + "\n",
		"opt/app/sas":                         "https://x.example/c?sv=2021-08-06&sr=c&sig=" + strings.NewReplacer("+", "a", "/", "b", "=", "%3D").Replace(n.base64(32)) + "\n",
		"opt/app/join.sh":                     "kubeadm join 10.0.0.1:6443 --token " + n.lower(6) + "." + n.lower(16) + "\n",
		"opt/app/bootstrap.yaml":              "stringData:\n  token-id: " + n.lower(6) + "\n  token-secret: " + n.lower(16) + "\n",
		"opt/app/.env":                        "SECRET_KEY=" + n.password() + "\n",
		"opt/app/.env.production":             "API_TOKEN=" + n.hex(32) + "\n",
		"opt/app/settings.ini":                "[db]\npassword = " + n.password() + "\n",
		"opt/app/settings.xml":                "<db><password>" + n.password() + "</password></db>\n",
		"opt/app/settings.toml":               "db_password = \"" + n.password() + "\"\n",
		"opt/app/settings.py":                 "DB_PASSWORD = '" + n.password() + "'\n",
		"opt/app/run.sh":                      "export DB_PASSWORD=" + n.password() + "\nexec app\n",
		"opt/app/.htpasswd":                   "admin:" + n.letters(13) + "\n",
		"opt/app/users":                       "admin:$apr1$" + n.letters(8) + "$" + n.letters(22) + "\n",
		"opt/app/users-bcrypt":                "admin:$2y$05$" + n.letters(53) + "\n",
		"opt/app/ldif":                        "userPassword: {SSHA}" + n.base64(24) + "\n",
		"opt/backup/shadow-copy":              "root:*:19000::::::\nbob:" + shadow + ":19000:0:99999:7:::\n",
		"opt/backup/accounts":                 "bob:$y$j9T$" + n.letters(22) + "$" + n.letters(43) + ":19000::::::\n",
		"etc/shadow":                          "root:*:19000::::::\nbob:" + shadow + ":19000:0:99999:7:::\n",
		"boot/grub/grub.cfg":                  "password_pbkdf2 root grub.pbkdf2.sha512.10000." + strings.ToUpper(n.hex(128)) + "." + strings.ToUpper(n.hex(128)) + "\n",
		"etc/apt/sources.list.d/own.list":     "deb https://bob:" + n.letters(16) + "@apt.example/debian stable main\n",
		"etc/apt/auth.conf.d/own.conf":        "machine apt.example login bob password " + n.letters(16) + "\n",
		"etc/apt/apt.conf.d/proxy":            `Acquire::http::Proxy "http://bob:` + n.letters(12) + `@proxy.example:3128";` + "\n",
		"srv/app/.netrc":                      "machine x.example\n  login bob\n  password " + n.letters(10) + "\n",
		"srv/app/.git-credentials":            "https://bob:" + n.letters(20) + "@git.example\n",
		"srv/app/.pgpass":                     "db.example:5432:*:bob:" + n.letters(8) + "\n",
		"srv/app/docker.json":                 `{"auths":{"r.example":{"username":"bob","password":"` + n.password() + `"}}}`,
		"srv/app/docker-auth.json":            `{"auths":{"r.example":{"auth":"` + base64Text("bob:"+n.letters(12)) + `"}}}`,
		"etc/containerd/config.toml":          "[plugins.x.registry.configs.\"r.example\".auth]\n  auth = \"" + base64Text("bob:"+n.letters(12)) + "\"\n",
		"etc/containerd/conf.d/a.toml":        "  username = \"bob\"\n  password = \"" + n.password() + "\"\n",
		"etc/containerd/certs.d/r/hosts.toml": "[host.\"https://r.example\".header]\n  authorization = \"Basic " + base64Text("bob:"+n.letters(12)) + "\"\n",
		"etc/containerd/conf.d/b.toml":        "  identitytoken = \"" + n.letters(40) + "\"\n",
		"etc/wireguard/private.key":           n.letters(42) + "Q=\n",
		"etc/ipsec.secrets":                   "10.0.0.1 10.0.0.2 : PSK \"" + n.letters(12) + "\"\n",
		"etc/swanctl/conf.d/x.conf":           "secrets { ike-1 { secret = 0s" + n.base64(24) + " } }\n",
		"etc/racoon/psk.txt":                  "10.0.0.2 " + n.letters(8) + "\n",
		"etc/wpa_supplicant/wpa.conf":         "network={\n  ssid=\"x\"\n  psk=\"" + n.letters(12) + "\"\n}\n",
		"etc/hostapd/hostapd.conf":            "wpa_passphrase=" + n.letters(12) + "\n",
		"etc/netplan/60-wifi.yaml":            "access-points:\n  x:\n    password: \"" + n.password() + "\"\n",
		"etc/ppp/chap-secrets":                "bob * " + n.letters(8) + " *\n",
		"etc/samba/.smbcredentials":           "username=bob\npassword=" + n.lower(6) + "\n",
		"etc/crypttab":                        "data UUID=" + n.hex(8) + " /etc/data.key luks,nofail\n",
		"etc/cryptsetup-keys.d/data.key":      n.letters(512),
		"boot/crypto_keyfile.bin":             n.letters(2048),
		"etc/bind/rndc.key":                   "key \"rndc\" { algorithm hmac-sha256; secret \"" + n.base64(32) + "\"; };\n",
		"etc/kubernetes/encryption.yaml":      "keys:\n- name: key1\n  secret: " + n.base64(32) + "\n",
		"opt/app/secret.yaml":                 "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: " + base64Text(n.password()) + "\n",
		"opt/app/release.gz":                  gzipped("DB_PASSWORD=" + n.password() + "\n"),
		"opt/app/user-data":                   "write_files:\n- encoding: b64\n  content: " + base64Text("#!/bin/sh\nexport DB_PASSWORD="+n.password()+"\nexec /usr/bin/something --with arguments\n") + "\n",
	}
}

// TestNeedles puts each secret on a disk and generalizes the disk. The run must remove the secret, or refuse the
// proof without revealing the secret.
func TestNeedles(t *testing.T) {
	n, p := needles{t}, load(t, v1alpha1.ProfileStatic)
	var all []needle
	for _, place := range keyPlaces {
		all = append(all, needle{"key in /" + place, place, func(n needles) string { return n.pem() }})
	}
	for form, content := range keyForms(n) {
		all = append(all, needle{"form: " + form, fmt.Sprintf("opt/form/%d", len(all)), func(needles) string { return content }})
	}
	for place, content := range tokens(n) {
		all = append(all, needle{"/" + place, place, func(needles) string { return content }})
	}
	if len(all) < 123 {
		t.Errorf("%d ways are fewer than were once found by hand", len(all))
	}
	stopped, removed := 0, 0
	for some := range slices.Chunk(all, 40) { // a report lists at most 100 findings
		files := map[string]string{}
		for _, planted := range some {
			files[planted.path] = planted.content(n)
		}
		dir := plant(t, node, files)
		look := lookAt(t, dir, runner(p))
		_, err := run(t, dir, runner(p))
		for _, planted := range some {
			found := names(unmetOf(t, err).Findings, planted.path)
			if seen := names(refusedOf(t, look).Findings, planted.path); seen != found {
				t.Errorf("%s: the look finds it: %t, and the run: %t", planted.name, seen, found)
			}
			switch {
			case found:
				stopped++
			case exists(dir, planted.path):
				t.Errorf("%s: it is still there, and was not found", planted.name)
			default:
				removed++
			}
		}
	}
	t.Logf("%d secrets planted: %d stopped the proof, %d were removed", len(all), stopped, removed)
}

// names reports whether a finding is in a file.
func names(findings []scan.Finding, file string) bool {
	return slices.ContainsFunc(findings, func(f scan.Finding) bool { return f.Path == "/"+file })
}

// TestSecretsOutsideContent tests secrets outside the content of files.
func TestSecretsOutsideContent(t *testing.T) {
	n, p := needles{t}, load(t, v1alpha1.ProfileStatic)
	token := "ghp_" + n.letters(36)
	for name, planted := range map[string]func(dir string) error{
		"in its name in /opt/app/…; no rule": func(dir string) error { return os.WriteFile(filepath.Join(dir, "opt/app/backup-"+token), nil, 0o600) },
		"in /opt/app/…/x": func(dir string) error {
			writeFile(t, dir, "opt/app/"+token+"/x", pemKey(t))
			return nil
		},
		"the target of a link": func(dir string) error { return os.Symlink("/nowhere/"+token, filepath.Join(dir, "opt/app/link")) },
		"an extended attribute": func(dir string) error {
			return syscall.Setxattr(filepath.Join(dir, "opt/app/file"), "user.token", []byte(token), 0)
		},
		"an extended attribute ": func(dir string) error {
			return syscall.Setxattr(filepath.Join(dir, "opt/app"), "user.key", []byte(pemKey(t)), 0)
		},
		"another name (hard link) of /root/.ssh/id_rsa": func(dir string) error {
			writeFile(t, dir, "root/.ssh/id_rsa", "an unknown form of key")
			return os.Link(filepath.Join(dir, "root/.ssh/id_rsa"), filepath.Join(dir, "opt/app/innocent"))
		},
		"another name (hard link) of /etc/hosts": func(dir string) error {
			return os.Link(filepath.Join(dir, "etc/hosts"), filepath.Join(dir, "opt/app/hosts-of-the-donor"))
		},
	} {
		dir := plant(t, node, map[string]string{"opt/app/file": "nothing"})
		if err := planted(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := run(t, dir, runner(p))
		if why := unmetOf(t, err).Error(); !strings.Contains(why, strings.TrimSpace(name)) || strings.Contains(why, token) {
			t.Errorf("%s: got %q", name, why)
		}
	}
}

// TestUndetectableNeedles has the list at the start of docs/concepts/image.md. Update the page if a secret is found.
func TestUndetectableNeedles(t *testing.T) {
	n, p := needles{t}, load(t, v1alpha1.ProfileStatic)
	key := n.pem()
	for why, content := range map[string]string{
		"a password that is a word":                 "password: sunshine\n",
		"a password without its name":               n.password() + "\n",
		"a key of random bytes":                     n.letters(32),
		"compressed by a form that is not unpacked": "\xfd7zXZ\x00" + n.letters(400),
		"encrypted":            "Salted__" + n.letters(400),
		"in pieces":            strings.Join(strings.SplitAfter(strings.ReplaceAll(key, "\n", "!"), "A"), "@@@@@\x00"),
		"in base64 six times":  base64Text(base64Text(base64Text(base64Text(base64Text(base64Text(key)))))),
		"a dump in hex":        strings.Join(strings.SplitAfter(wrapLines(hex.EncodeToString([]byte(key)), 4), "\n"), " "),
		"turned by 13 letters": strings.Map(rot13, key),
	} {
		dir := plant(t, node, map[string]string{"opt/app/file": content})
		if _, err := run(t, dir, runner(p)); err != nil {
			t.Errorf("%s is found: take it off the list. %v", why, err)
		}
	}
}

func rot13(c rune) rune {
	switch {
	case c >= 'a' && c <= 'z':
		return 'a' + (c-'a'+13)%26
	case c >= 'A' && c <= 'Z':
		return 'A' + (c-'A'+13)%26
	default:
		return c
	}
}

// TestNearMisses: texts that look like secrets do not prevent a capture.
func TestNearMisses(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	begin, end := "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
	files := map[string]string{}
	for i, content := range []string{
		begin + "\nMIIEpAIBAAKCAQEA...\n" + end, "A key begins with " + begin + " and ends with " + end + ".\n", begin + "\n" + strings.Repeat("x", 64) + "\n" + end,
		"kubeadm join --token abcdef.0123456789abcdef 10.0.0.1:6443\n", "\x00kubeadm join --discovery-token abcdef.1234567890abcdef 1.2.3.4:6443\x00", "token: <token>\npassword: ${PASSWORD}\nsecret: {{ .Values.secret }}\n",
		"password: changeme\npassword = \"\"\nPASSWORD=your-password\n", "passwd: files systemd\nshadow: files\n", "secretName: my-app-tls-7f9c2\nsecret:\n  secretName: x\n  defaultMode: 420\n",
		"imagePullSecrets:\n- name: registry-2\n", "tokenFile: /var/run/secrets/token\n--token-auth-file=/etc/x1/y2\n", "password_file=/etc/app/password1.txt\nprivateKey: /etc/app/key1.pem\n",
		"kind: Secret\nmetadata:\n  name: token-controller-token-abc12\n", "url: https://user:password@example.com/\n", "https://example.com:8443/path@v1.2.3\n", "git@github.com:org/repo.git\n",
		"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n", "AccountKey=...\nAWS_SECRET_ACCESS_KEY=\n", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI bob@host\n",
		`{"auths":{"r.example":{"auth":""}},"credHelpers":{"r.example":"acr"}}`, "Authorization: Bearer <token>\nAuthorization: Basic xxx\n", "root:*:19000::::::\ndaemon:!:19000::::::\n",
		"$6$ is SHA-512 and $y$ is yescrypt\n", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  file\n",
		"token = parser.next_token2()\nself.password = password2\n", "--bootstrap-token-ttl=24h0m0s --token-ttl 1h\n", "apiKey: os.environ[\"API_KEY2\"]\n", "cert-key: etcd/healthcheck-client\n",
		"credential.helper=store2cache\n", "publicKey: " + strings.Repeat("AbCd", 11) + "\n", "data none none luks\nroot UUID=1 /dev/urandom swap\n",
		"\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\x02ca\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05X.509\x00\x00\x00\x04abcd",
		"# 25 SHA1 HEX:1dc764e0791b11fa67efc7ecbc4b0d73f68a070c\n#1 MD5 ASCII:AVeryLongPassword7\n", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n", "PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=\n",
	} {
		files[fmt.Sprintf("opt/near/%02d", i)] = content
	}
	files["etc/crypttab"] = "data UUID=1 none luks,nofail\nswap /dev/sdb /dev/urandom swap,nofail\n"
	files["etc/shadow"] = "root:*:19000::::::\nbob:!:19000::::::\nsys:!*:19000::::::\n"
	m, err := run(t, plant(t, node, files), runner(p))
	must(t, err)
	if m.Scan.Unknown.Files < len(files)-2 {
		t.Errorf("%d files of no package", m.Scan.Unknown.Files)
	}
}

// TestUnknownFiles: if the option is set, a disk with unknown files is refused, except for exempt files.
func TestUnknownFiles(t *testing.T) {
	r := runner(load(t, v1alpha1.ProfileStatic))
	dir := plant(t, map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/kubernetes/certs/client.key": "x", "opt/tool/bin/tool": "x", "opt/tool/lib/a": "x"})
	m, err := run(t, dir, r)
	must(t, err)
	if m.Scan.Unknown.Files != 2 || m.Scan.Unknown.List[0].Dir != "/opt/tool/bin" {
		t.Errorf("got %+v", m.Scan.Unknown)
	}
	r.UnknownFiles = v1alpha1.UnknownFilesRefuse
	m, err = run(t, dir, r)
	if why := unmetOf(t, err).Error(); !strings.Contains(why, "unknown files: 2 in 2 directories") || !strings.Contains(why, "/opt/tool/bin/tool") {
		t.Errorf("got %q", why)
	}
	if _, err := m.Proof(r.Now()); err == nil {
		t.Error("there is a proof")
	}
	r.Profile.Exempt = append(r.Profile.Exempt, rules.Exemption{Paths: []string{"/opt/tool"}, Reason: "our tool"})
	if _, err := run(t, dir, r); err != nil {
		t.Errorf("exempt: %v", err)
	}
}

// TestUnknownFilesInTheLook: the setting refuses a donor before its outage. Files that a rule removes do not count, and
// neither do files that are equal on another node of the pool.
func TestUnknownFilesInTheLook(t *testing.T) {
	files := func(id string) map[string]string {
		return map[string]string{
			"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/kubernetes/certs/client.key": "x",
			"opt/tool/settings": "equal", "opt/tool/id": id, "opt/tool/only-" + id: "x", "var/log/tool.log": id,
		}
	}
	r := runner(load(t, v1alpha1.ProfileStatic))
	note := ""
	look := func(dir string) error {
		root, err := tree.Open(dir)
		must(t, err)
		defer root.Close()
		note, err = r.Preflight(t.Context(), root)
		return err
	}
	donor, peer := plant(t, files("first")), plant(t, files("second"))
	must(t, look(donor))

	r.UnknownFiles = v1alpha1.UnknownFilesRefuse
	if why := refusedOf(t, look(donor)).Error(); !strings.Contains(why, "unknown files: 3 in 1 directory, from no package") || strings.Contains(why, "/var/log") {
		t.Errorf("got %q", why)
	}
	r.UnknownFiles = v1alpha1.UnknownFilesRefuseDifferent
	if why := refusedOf(t, look(donor)).Error(); !strings.Contains(why, "no other Ready node") {
		t.Errorf("got %q", why)
	}
	root, err := tree.Open(peer)
	must(t, err)
	defer root.Close()
	r.PeerName = "node2"
	r.Peer, err = r.Summarize(t.Context(), root, make([]byte, scan.SummaryKeyBytes))
	must(t, err)
	const want = "unknown files: 1 have another content on node node2, and may hold an identity: /opt/tool/id;"
	if why := refusedOf(t, look(donor)).Error(); !strings.Contains(why, want) {
		t.Errorf("got %q", why)
	}
	for name, secret := range map[string]string{"opt/tool/shared": pemKey(t), "opt/tool/own": pemKey(t)} {
		writeFile(t, donor, name, secret)
		if name == "opt/tool/shared" {
			writeFile(t, peer, name, secret)
		}
	}
	r.Peer, err = r.Summarize(t.Context(), root, make([]byte, scan.SummaryKeyBytes))
	must(t, err)
	why := refusedOf(t, look(donor)).Error()
	if !strings.Contains(why, "(node node2 has the same file) in /opt/tool/shared") || !strings.Contains(why, "private key (PEM) in /opt/tool/own") {
		t.Errorf("got %q", why)
	}
	must(t, os.Remove(filepath.Join(donor, "opt/tool/shared")))
	must(t, os.Remove(filepath.Join(donor, "opt/tool/own")))
	r.UnknownFiles = v1alpha1.UnknownFilesReportDifferent
	if must(t, look(donor)); !strings.HasPrefix(note, want) {
		t.Errorf("the note is %q", note)
	}
	r.UnknownFiles = v1alpha1.UnknownFilesRefuseDifferent
	r.Profile.Exempt = append(r.Profile.Exempt, rules.Exemption{Paths: []string{"/opt/tool/id"}, Reason: "our tool"})
	if must(t, look(donor)); note != "unknown files: none of 2 has another content on node node2" {
		t.Errorf("the note is %q", note)
	}
	r.UnknownFiles, r.Peer = v1alpha1.UnknownFilesReportDifferent, nil
	if must(t, look(donor)); note != "unknown files: not compared, because the inspection of node node2 failed" {
		t.Errorf("the note is %q", note)
	}
}
