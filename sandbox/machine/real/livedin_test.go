//go:build machines

package real

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
)

// The systems are two tests, so that they run at once.
func TestLivedInDebian12(t *testing.T) {
	testLivedIn(t, "bookworm", "/etc/docker/key.json", "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db")
}

func TestLivedInDebian13(t *testing.T) { testLivedIn(t, "trixie") }

// livedInSecrets are the true secrets of such a system, of each release.
var livedInSecrets = []string{"/etc/ssh/ssh_host_*_key", "/etc/ssl/private/ssl-cert-snakeoil.key", "/var/lib/certmonger/local/creds"}

// testLivedIn requires one answer of look, run and verification: a system has its true secrets before the run, and none after. A
// secret in a file of each kind whose content looks like secrets is found.
func testLivedIn(t *testing.T, release string, secrets ...string) {
	bin := agentProgram(t)
	if testing.Short() {
		t.Skip("needs a system of two gigabytes")
	}
	requireTools(t, programs)
	requireSpace(t, t.TempDir())
	root, begun := livedInRoot(t, release), time.Now()
	plants := plantLivedIn(t, root)
	var planted, stay []string
	for _, p := range plants {
		planted = append(planted, "/"+p.path)
		if !p.removed {
			stay = append(stay, "/"+p.path)
		}
	}

	// Other people's state has rules as their owners would write them.
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, livedInScript(t, "rules.yaml"), 0o644)
	code, output := kaminoOn(t, bin, "verify", root, "--profile", "bootstrap", "--profile-file", rules, "-o", "json")
	var found disk.SearchResult
	if err := json.Unmarshal(output, &found); err != nil || code != 4 {
		t.Fatalf("verify ends with %d: %v: %s", code, err, output)
	}
	var before []string
	for _, f := range found.Findings {
		if !slices.Contains(before, f.Path) {
			before = append(before, f.Path)
		}
	}
	testTrueOnly(t, "findings", slices.Concat(livedInSecrets, secrets, planted), before)
	look := []string{"inspect", "--root", root, "--profile", "bootstrap", "--profile-file", rules}
	code, output = kaminoOn(t, bin, look...)
	if code != 3 {
		t.Errorf("the look at planted secrets ends with %d: %s", code, output)
	}
	for _, path := range stay {
		if !bytes.Contains(output, []byte(path)) {
			t.Errorf("the look does not name %s: %s", path, output)
		}
	}

	for _, p := range plants {
		p.remove(t, root)
	}
	if code, output := kaminoOn(t, bin, look...); code != 0 {
		t.Errorf("the look ends with %d: %s", code, output)
	}
	if code, output := kaminoOn(t, bin, "generalize", "--root", root, "--profile", "bootstrap", "--profile-file", rules); code != 0 {
		t.Errorf("the run ends with %d: %s", code, output)
	}
	code, output = kaminoOn(t, bin, "verify", root, "--profile", "bootstrap", "--profile-file", rules, "-o", "json")
	var after disk.SearchResult
	if err := json.Unmarshal(output, &after); err != nil || code != 0 || after.Count > 0 {
		t.Errorf("verify after the run ends with %d: %v: %+v", code, err, after.Findings)
	}
	t.Logf("%s: %d files, %d MiB; %d paths with findings before, %d of them planted, all of %d found; %d findings and %d possible identities after; %.0f s",
		release, found.Files, found.Bytes>>20, len(before), len(planted), len(planted), after.Count, after.Possible.Count, time.Since(begun).Seconds())
}

// kaminoOn runs a command of kamino, and returns exit code and output.
func kaminoOn(t *testing.T, bin string, args ...string) (code int, output []byte) {
	t.Helper()
	command := exec.CommandContext(t.Context(), bin, args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if !slices.Contains(args, "json") {
		output = append(output, problems.Bytes()...)
	}
	return command.ProcessState.ExitCode(), output
}

// livedInPlant is a secret in a file of a kind that also has harmless content that looks like secrets.
type livedInPlant struct {
	path string
	// removed means that a rule removes the file, so that no look refuses it.
	removed bool
	// content was in the file before; nil means that there was no such file.
	content []byte
}

func (p livedInPlant) remove(t *testing.T, root string) {
	t.Helper()
	if p.content != nil {
		write(t, filepath.Join(root, p.path), string(p.content), 0o644)
		return
	}
	if err := os.Remove(filepath.Join(root, p.path)); err != nil {
		t.Fatal(err)
	}
}

// plantLivedIn writes a secret of its own into a file of each kind.
func plantLivedIn(t *testing.T, root string) []livedInPlant {
	t.Helper()
	const (
		cli     = "usr/local/aws-cli/v2/[0-9]*/dist/awscli/"
		ansible = "usr/local/lib/python3.*/dist-packages/"
		dnf     = "var/cache/dnf/amazonlinux-0123456789abcdef/repodata/"
	)
	var plants []livedInPlant
	plant := func(pattern, secret string, removed bool) {
		t.Helper()
		dirs, err := filepath.Glob(filepath.Join(root, filepath.Dir(pattern)))
		if err != nil || len(dirs) > 1 || len(dirs) == 0 && strings.ContainsAny(pattern, "*[") {
			t.Fatalf("the directory of %s: %q, %v", pattern, dirs, err)
		}
		p := livedInPlant{path: pattern, removed: removed}
		if len(dirs) == 1 {
			p.path = strings.TrimPrefix(filepath.Join(dirs[0], filepath.Base(pattern)), root+"/")
		}
		if p.content, err = os.ReadFile(filepath.Join(root, p.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, p.path), string(p.content)+secret, 0o644)
		plants = append(plants, p)
	}
	// Copies of packaged modules, altered.
	plant("boot/grub/i386-pc/legacy_password_test.mod", passwordHash(t, root), false)
	plant("boot/grub/x86_64-efi/legacy_password_test.mod", passwordHash(t, root), false)
	plant("boot/grub/i386-pc/normal.mod", privateKey(t), false)
	// Beside the lists, and not of apt.
	plant("var/lib/apt/lists/mirror.key", privateKey(t), true)
	plant(cli+"examples/iot/create-provisioning-claim.rst", privateKey(t), false)
	plant(cli+"botocore/data/sts/*/paginators-1.json", privateKey(t), false)
	plant(cli+"examples/site.rst", passwordHash(t, root), false)
	plant(ansible+"ansible/plugins/filter/hash.yml", privateKey(t), false)
	plant(ansible+"ansible_collections/community/general/plugins/modules/java_keystore.py", privateKey(t), false)
	plant(ansible+"ansible_collections/users.yml", passwordHash(t, root), false)
	plant("srv/app/node_modules/express/lib/express.js", "\n/*\n"+privateKey(t)+"*/\n", false)
	plant("srv/app/node_modules/axios/README.md", privateKey(t), false)
	plant(dnf+"0123-primary.xml.gz", gzipped(t, "<description>"+privateKey(t)+"</description>"), true)
	plant("var/log/syslog.1", "app: cannot pull https://deploy:"+strings.ToLower(rand.Text())+"@git.lan/app.git\n", true)
	return plants
}

// privateKey makes a key.
func privateKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return "\n" + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// passwordHash makes the hash of a password by the system's own program.
func passwordHash(t *testing.T, root string) string {
	t.Helper()
	return "\npassword: " + strings.TrimSpace(run(t, "chroot", root, "openssl", "passwd", "-6", rand.Text())) + "\n"
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
