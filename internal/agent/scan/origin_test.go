package scan

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func gzipOf(t *testing.T, text string) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// foundIn returns the paths with findings of a tree with files.
func foundIn(t *testing.T, files map[string]string, o Options) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		writeFile(t, dir, name, content)
	}
	for _, f := range scanTree(t, dir, o).Findings {
		paths = append(paths, f.Path)
	}
	return slices.Compact(paths)
}

// TestConditionsOfRules: a rule of gitleaks for some files searches only these, also inside of archives.
func TestConditionsOfRules(t *testing.T) {
	const sentence = "Enter your password, \"Continue\" and wait.\n"
	secret := "administrator_login_password = \"" + strings.ToLower(base64ed(12))[:16] + "\"\n"
	secret = strings.NewReplacer("+", "a", "/", "b").Replace(secret)
	for name, test := range map[string]struct {
		file, content string
		want          bool
	}{
		"a sentence in a text":           {"opt/doc/readme.txt", sentence, false},
		"a sentence, compressed":         {"opt/doc/readme.txt.gz", gzipOf(t, sentence), false},
		"a password of Terraform":        {"opt/site/main.tf", secret, true},
		"a password of Terraform, again": {"opt/site/main.tf.gz", gzipOf(t, secret), true},
		"a Secret in YAML":               {"opt/site/secret.yaml", "kind: Secret\ndata:\n  user: " + base64.StdEncoding.EncodeToString([]byte("of the site's database")) + "\n", true},
		"the same in a page":             {"opt/site/secret.txt", "kind: Secret\ndata:\n  user: " + base64.StdEncoding.EncodeToString([]byte("of the site's database")) + "\n", false},
	} {
		if got := foundIn(t, map[string]string{test.file: test.content}, Options{}); len(got) > 0 != test.want {
			t.Errorf("%s: found %v, want %t", name, got, test.want)
		}
	}
}

// TestCopiesOfPackagedFiles: grub-install copies modules with password hashes for its own test to /boot.
func TestCopiesOfPackagedFiles(t *testing.T) {
	module := "\x7fELF module $1$oaL" + "$" + base64ed(30)[:22] + "\x00"
	module = strings.NewReplacer("+", ".").Replace(module)
	files := map[string]string{
		"usr/lib/grub/i386-pc/legacy_password_test.mod": module,
		"boot/grub/i386-pc/legacy_password_test.mod":    module,
		"boot/grub/i386-pc/altered.mod":                 module + "x",
	}
	if got := foundIn(t, files, Options{}); len(got) != 3 {
		t.Fatalf("without packages: %v", got)
	}
	files["var/lib/dpkg/info/grub-pc-bin.md5sums"] = fmt.Sprintf("%x  usr/lib/grub/i386-pc/legacy_password_test.mod\n", md5.Sum([]byte(module)))
	if got := foundIn(t, files, Options{}); !slices.Equal(got, []string{"/boot/grub/i386-pc/altered.mod"}) {
		t.Errorf("found %v", got)
	}
	if got := foundIn(t, files, Options{All: true}); len(got) != 3 {
		t.Errorf("of all files: %v", got)
	}
}

// TestPythonPackages: pip and other installers leave checksums beside a package.
func TestPythonPackages(t *testing.T) {
	key := secrets(t)["PKCS #8 in PEM"]
	sum := sha256.Sum256([]byte(key))
	const site = "usr/local/lib/python3.11/dist-packages/"
	line := func(name string) string {
		return fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(key))
	}
	files := map[string]string{
		site + "ansible/example.py":               key,
		site + "ansible/changed.py":               key + "\n",
		site + "site.key":                         key + "\n",
		"etc/site.key":                            key + "\n",
		site + "ansible-1.0.dist-info/RECORD":     line("ansible/example.py") + line(`"ansible/changed.py"`) + line("../../../../../etc/site.key") + "no line",
		site + "broken-1.0.dist-info/RECORD":      "\"",
		site + "empty-1.0.dist-info/other":        "",
		site + "directory-1.0.dist-info/RECORD/x": "",
	}
	want := []string{"/etc/site.key", "/" + site + "ansible/changed.py", "/" + site + "site.key"}
	got := foundIn(t, files, Options{})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestAnsibleCollections: Galaxy leaves checksums in a collection.
func TestAnsibleCollections(t *testing.T) {
	key := secrets(t)["PKCS #8 in PEM"]
	sum := sha256.Sum256([]byte(key))
	list := fmt.Sprintf(`{"files": [{"name": ".", "ftype": "dir", "chksum_sha256": null}, {"name": "example.py", "chksum_sha256": "%[1]x"},
		{"name": "changed.py", "chksum_sha256": "%[1]x"}, {"name": "../../site.key", "chksum_sha256": "%[1]x"}], "format": 1}`, sum)
	const collections = "usr/share/ansible/collections/ansible_collections/"
	files := map[string]string{
		collections + "a/b/FILES.json": list, collections + "a/b/MANIFEST.json": "{}", collections + "a/b/example.py": key, collections + "a/b/changed.py": key + "\n",
		collections + "site.key": key + "\n",
		"opt/app/FILES.json":     list, "opt/app/example.py": key + "\n\n", // no collection
		"opt/broken/FILES.json": "{", "opt/broken/MANIFEST.json": "{}", "opt/broken/example.py": key + "\n\n\n",
	}
	want := []string{"/opt/app/example.py", "/opt/broken/example.py", "/" + collections + "a/b/changed.py", "/" + collections + "site.key"}
	got := foundIn(t, files, Options{})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestTextsAboutSecrets: sentences and examples of package descriptions and of API models are no secrets, values like them are.
func TestTextsAboutSecrets(t *testing.T) {
	random := base64ed(18)
	for text, want := range map[string]bool{
		"the login page password field, as in a form":                          false,
		"machine esm.example login bearer password wordonly":                   true,
		"login bearer password " + random + "1":                                true,
		"mod_turncredentials: XEP-0215: Implementation for":                    false,
		"turncredentials: " + random + "1":                                     true,
		"connection = mysql://keystone:foobar@127.0.0.1/db":                    false,
		"connection = mysql://keystone:f00barX@127.0.0.1/db":                   true,
		"$2a$00$uD709vfamulimlGcq0qq3UvuUasvEaVUrPmXD6q/nVSSp7pNDhCR9071IfIRe": false, // the self-test of libcrypt
		"$2b$12$" + strings.Repeat("Zk3aQ", 10) + "aB1":                        true,
		`key "StorageAccountKey=` + base64ed(32) + `"`:                         true,
		"<code>sp=r&amp;sv=2021-06-08&amp;sig=" + base64ed(36) + "</code>":     false,
		"url: https://a.test/c?sp=r&amp;sv=2021-06-08&amp;sig=" + base64ed(36): true,
		`"input_token": "ExclusiveStartBackupArn"`:                             false,
		`"access_token": "` + random + `1"`:                                    true,
		`"NextContinuationToken": "` + random + `1"`:                           false,
		`arn:aws:secretsmanager:eu:1:secret:SiteDb-a1b2c3`:                     false,
		`secret: ` + random + `1`:                                              true,
		`"ClientSecret": "CLIENT_SECRET"`:                                      false,
		`"ClientSecret": "` + random + `1"`:                                    true,
		`"WebIdentityToken": "amzn1.account.AF6RHO7KZU5XRVQ"`:                  false,
		`"identitytoken": "` + random + `"`:                                    true,
	} {
		if got := foundIn(t, map[string]string{"opt/site/api.json": text}, Options{}); len(got) > 0 != want {
			t.Errorf("%s: found %v, want %t", text, got, want)
		}
	}
	key := secrets(t)["PKCS #8 in PEM"]
	example := key[:28] + "EXAMPLE" + key[35:]
	for name, want := range map[string]bool{"opt/docs/rotate-encryption-key.rst": false, "opt/docs/encryption-key": true} {
		if got := foundIn(t, map[string]string{name: "a text of some length"}, Options{}); len(got) > 0 != want {
			t.Errorf("%s: found %v, want %t", name, got, want)
		}
	}
	// The mark is far behind the beginning, and each second line is short.
	lines := strings.Split(strings.TrimSpace(example), "\n")
	broken := lines[0] + "\\n" + base64ed(48) + "\n    " + base64ed(6) + "\\n" + base64ed(48) + "\n    " + base64ed(6) + "\\n" + base64ed(24) + "EXAMPLE" + base64ed(24)
	account := "StorageAccountKey=" + base64ed(32)
	for content, want := range map[string]bool{key: true, example: false, broken: false, strings.ReplaceAll(broken, "EXAMPLE", "example"): true, account: true, strings.Replace(account, "StorageAccount", "RawSecretAccess", 1): false} {
		if got := foundIn(t, map[string]string{"opt/docs/create-key-pair.rst": content}, Options{}); len(got) > 0 != want {
			t.Errorf("found %v, want %t", got, want)
		}
	}
}

// TestRotatedFilesAreNoManual: the number at the end of a name is the age of a file, except in a manual.
func TestRotatedFilesAreNoManual(t *testing.T) {
	password := strings.NewReplacer("/", "a", "+", "b").Replace(strings.ToLower(base64ed(18))) // no slash is part of it
	text := "cannot pull https://deploy:" + password + "@git.lan/app.git\n"
	for name, want := range map[string]bool{
		"var/log/syslog.1": true, "opt/agent/config.json.2": true, "var/log/app.log.8.gz": true, "opt/man.1": true,
		"usr/share/man/man1/pull.1": false, "opt/tool/man/pull.8": false,
	} {
		content := text
		if strings.HasSuffix(name, ".gz") {
			content = gzipOf(t, text)
		}
		if got := foundIn(t, map[string]string{name: content}, Options{}); len(got) > 0 != want {
			t.Errorf("%s: found %v, want %t", name, got, want)
		}
	}
}

// TestBeforeARun searches what a run will leave.
func TestBeforeARun(t *testing.T) {
	key := secrets(t)["PKCS #8 in PEM"]
	id := strings.Repeat("4c4c4544004b4e10", 2)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"removed/key": key, "removed/kept/key": key, "edited": key, "edited-in-vain": key,
		"entries/" + id + "-6.1.conf": "x", "other/" + id + ".conf": "x", "linked": key,
	} {
		writeFile(t, dir, name, content)
	}
	if err := os.Link(filepath.Join(dir, "removed/key"), filepath.Join(dir, "another-name")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "removed/linked")); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(id))
	report := scanTree(t, dir, Options{
		Identities: []Value{{Path: "/etc/machine-id", SHA256: fmt.Sprintf("%x", sum), Bytes: int64(len(id))}},
		Changed: func(p string) Change {
			switch {
			case p == "/removed", p == "/removed/key", p == "/removed/linked":
				return Change{Removed: true}
			case p == "/edited":
				return Change{Content: []byte("nothing")}
			case p == "/edited-in-vain":
				return Change{Content: []byte(key + "\n")}
			case strings.HasPrefix(p, "/entries/"):
				return Change{Name: "/entries/0-6.1.conf", Content: []byte("x")}
			default:
				return Change{}
			}
		},
	})
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Path+": "+f.What)
	}
	slices.Sort(got)
	want := []string{
		"/another-name: another name (hard link) of /removed/key", "/another-name: private key (PEM)", "/edited-in-vain: private key (PEM)",
		"/linked: another name (hard link) of /removed/linked", "/linked: private key (PEM)",
		"/other/….conf: the donor's machine-id in its name", "/removed/kept/key: private key (PEM)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
