package sandboxdir

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

func open(t *testing.T, dir string) *Directory {
	t.Helper()
	s, err := Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestFactsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if !first.Fresh {
		t.Error("a new directory is not fresh")
	}
	first.APIPort = 4711
	first.Pools = []pool.Spec{{Name: "pool1", Nodes: 3}}
	if err := errors.Join(first.Save(), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	if second.Fresh {
		t.Error("a used directory is fresh")
	}
	if diff := cmp.Diff(first.Identity, second.Identity); diff != "" {
		t.Errorf("facts changed (-first +second):\n%s", diff)
	}
}

func TestSecretsDifferBetweenDirectories(t *testing.T) {
	a, b := open(t, t.TempDir()), open(t, t.TempDir())
	for name, pair := range map[string][2]string{
		"tenant": {a.TenantID, b.TenantID}, "client": {a.ClientID, b.ClientID},
		"secret": {a.ClientSecret, b.ClientSecret}, "header": {a.IdentityHeader, b.IdentityHeader},
	} {
		if pair[0] == pair[1] || pair[0] == "" {
			t.Errorf("%s: %q and %q", name, pair[0], pair[1])
		}
	}
}

func TestDirectoryLock(t *testing.T) {
	dir := t.TempDir()
	owner := open(t, dir)
	_, err := Open(dir, "")
	var inUse *InUseError
	if !errors.As(err, &inUse) || !strings.Contains(err.Error(), "kamino-sandbox down --dir "+dir) {
		t.Fatalf("a second owner: %v", err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestDamagedFactsAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, factsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged facts: %v", err)
	}
}

func written(t *testing.T, dir string) (*Directory, Servers) {
	t.Helper()
	s := open(t, dir)
	v := Servers{Cloud: "https://127.0.0.1:4000", CA: []byte("ca"), Kubeconfig: []byte("kubeconfig")}
	if err := s.WriteClientFiles(v); err != nil {
		t.Fatal(err)
	}
	return s, v
}

// awkward is a path with characters that a shell would interpret.
const awkward = "it's a dir"

func TestEnvFileInShell(t *testing.T) {
	s, v := written(t, filepath.Join(t.TempDir(), awkward))
	out, err := exec.Command("sh", "-eu", "-c", `. "$1"; . "$1"; env; echo "PATHS=$PATH"`, "sh", s.Path(EnvFile)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	has := func(line string) bool {
		for _, l := range lines {
			if l == line {
				return true
			}
		}
		return false
	}
	for _, e := range s.Environment(v) {
		if !has(e.Name + "=" + e.Value) {
			t.Errorf("%s is not %q after the file was read", e.Name, e.Value)
		}
	}
	if path := s.Path("bin") + ":"; strings.Count(string(out), "PATHS="+path) != 1 || strings.Contains(string(out), path+path) {
		t.Error("PATH does not begin with the sandbox's programs, or does so twice")
	}
	out, err = exec.Command("sh", "-eu", "-c", `. "$1"; . "$2"; env`, "sh", s.Path(EnvFile), s.Path(IdentityEnvFile)).CombinedOutput()
	if err != nil || strings.Contains(string(out), s.ClientSecret) || !strings.Contains(string(out), "IDENTITY_HEADER="+s.IdentityHeader) {
		t.Errorf("managed identity: %v", err)
	}
}

func TestAzScriptIsAShellScript(t *testing.T) {
	s, _ := written(t, filepath.Join(t.TempDir(), awkward))
	if out, err := exec.Command("sh", "-n", s.Path(AzFile)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSecretFileModes(t *testing.T) {
	s, _ := written(t, t.TempDir())
	err := filepath.WalkDir(s.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		secret := strings.Contains(string(raw), s.ClientSecret) || strings.Contains(string(raw), s.IdentityHeader)
		if secret && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s holds a secret and has mode %o", d.Name(), info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNodeFilesAreDocuments(t *testing.T) {
	s, v := written(t, t.TempDir())
	for name, want := range map[string]map[string]any{
		ClusterFile: {"cloud": "AzureStackCloud", "aadClientId": s.ClientID, "subscriptionId": s.SubscriptionID},
		CloudFile:   {"resourceManagerEndpoint": v.Cloud + "/", "activeDirectoryEndpoint": v.Cloud + "/"},
	} {
		raw, err := os.ReadFile(s.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %v, want %v", name, key, got[key], value)
			}
		}
	}
}

func TestLinkProgramsFollowsTheBinary(t *testing.T) {
	s := open(t, t.TempDir())
	for _, binary := range []string{"/opt/one", "/opt/one", "/opt/two"} {
		if err := s.LinkPrograms(binary, "kubectl"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(s.Path("bin", "kubectl")); got != binary {
			t.Errorf("kubectl leads to %q (%v), want %q", got, err, binary)
		}
	}
}

// TestEnvironmentOfAWS: variables for a foreign account are replaced, and a directory stays on its cloud.
func TestEnvironmentOfAWS(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, pool.AWS)
	if err != nil {
		t.Fatal(err)
	}
	v := Servers{Cloud: "https://127.0.0.1:2", CA: []byte("ca"), Kubeconfig: []byte("config")}
	if err := s.WriteClientFiles(v); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sh", "-c", `. "$1"; echo "$AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY $AWS_REGION $AWS_ENDPOINT_URL $AWS_CA_BUNDLE ${AWS_PROFILE-none} ${AWS_SESSION_TOKEN-none}"`, "sh", s.Path(EnvFile))
	shell.Env = append(os.Environ(), "AWS_PROFILE=prod", "AWS_SESSION_TOKEN=t", "AWS_REGION=us-east-1")
	out, err := shell.Output()
	want := strings.Join([]string{s.AWS.KeyID, s.AWS.Secret, s.AWS.Region, v.Cloud, s.Path(CAFile), "none", "none"}, " ")
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("a shell has %q (%v), want %q", got, err, want)
	}
	if info, err := os.Stat(s.Path(EnvFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s holds a secret, and is %v: %v", EnvFile, info.Mode(), err)
	}
	if _, err := os.Stat(s.Path(ClusterFile)); !os.IsNotExist(err) {
		t.Errorf("there is a file of Azure's: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, pool.Azure); err == nil || !strings.Contains(err.Error(), "is on aws, want azure") {
		t.Errorf("it was opened as Azure's: %v", err)
	}
	again := open(t, dir)
	if again.Cloud != pool.AWS || again.AWS != s.AWS {
		t.Errorf("opened again it is on %s, with the account %+v", again.Cloud, again.AWS)
	}
}
