//go:build machines

package real

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStores creates stores with real container runtimes, with needles in each place of a container: environment,
// argument, label, log, writable layer, volume, secret. Every byte of the generalized stores is searched. The
// runtimes must start again, without containers and with a working image.
func TestStores(t *testing.T) {
	requireTools(t, programs)
	bin := agentProgram(t)
	image := handmadeImage(t)
	t.Run("containerd of Debian", func(t *testing.T) { testStore(t, bin, image, &containerdStore{dir: "/usr/bin"}) })
	t.Run("containerd of today", func(t *testing.T) {
		dir := os.Getenv("KAMINO_CONTAINERD_BIN")
		if testing.Short() {
			t.Skip("needs a containerd that is built from source")
		}
		if dir == "" {
			t.Fatal("KAMINO_CONTAINERD_BIN names no containerd: run `make containerd`")
		}
		testStore(t, bin, image, &containerdStore{dir: dir})
	})
	t.Run("docker", func(t *testing.T) { testStore(t, bin, image, &dockerStore{}) })
	t.Run("podman", func(t *testing.T) { testStore(t, bin, image, podmanStore{}) })
}

// runtimeStore is a real container runtime with all data below a root.
type runtimeStore interface {
	// start starts the daemon of the runtime, if any, for the store below a root, and returns a function that stops
	// the daemon.
	start(t *testing.T, root string) (stop func())
	load(t *testing.T, root, image string)
	// live runs containers with a needle in all places, and removes some containers.
	live(t *testing.T, root, needle string)
	containers(t *testing.T, root string) string
	// use runs the image and returns the output.
	use(t *testing.T, root string) string
}

const imageName = "example.test/tool:1"

func testStore(t *testing.T, bin, image string, s runtimeStore) {
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/machine-id"), strings.Repeat("0a", 16)+"\n", 0o444)
	// The search for secrets does not find this needle, so the rules of the stores must remove the needle.
	needle := "needle" + strings.ToLower(rand.Text())
	stop := s.start(t, root)
	s.load(t, root, image)
	s.live(t, root, needle)
	if listed := s.containers(t, root); listed == "" {
		t.Fatal("there are no containers to be forgotten")
	}
	stop()
	before := holdingText(t, root, needle)
	if len(before) == 0 {
		t.Fatal("nothing holds the needle, so that nothing can be shown")
	}
	t.Logf("before, %d files hold the needle: %s", len(before), strings.Join(before, ", "))

	generalized(t, bin, root, "--profile", "bootstrap")
	if left := holdingText(t, root, needle); len(left) > 0 {
		t.Errorf("afterwards these hold it: %s", strings.Join(left, ", "))
	}

	clone := filepath.Join(t.TempDir(), "clone")
	run(t, "cp", "-a", root, clone)
	stop = s.start(t, clone)
	defer stop()
	if listed := s.containers(t, clone); listed != "" {
		t.Errorf("the runtime still knows containers:\n%s", listed)
	}
	if messages := s.use(t, clone); !strings.Contains(messages, "of the second layer") {
		t.Errorf("the image does not run: %s", messages)
	}
}

// holdingText lists files below a directory that contain a text.
func holdingText(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(p)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, strings.TrimPrefix(p, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// handmadeImage is an archive for all runtimes. Its program prints a file of a different layer.
func handmadeImage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.test/tool\n\ngo 1.26\n", 0o644)
	write(t, filepath.Join(dir, "main.go"), `package main

import (
	"fmt"
	"os"
)

func main() {
	for _, name := range os.Args[min(2, len(os.Args)):] {
		if err := os.WriteFile(name, []byte(os.Getenv("NEEDLE")), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	said, err := os.ReadFile("/etc/said")
	fmt.Println(os.Getenv("NEEDLE"), string(said), err)
}
`, 0o644)
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", "tool", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "tool"))
	if err != nil {
		t.Fatal(err)
	}
	layers := [][]byte{
		tarOf(t, map[string][]byte{"tool": program, "etc/empty": nil}),
		tarOf(t, map[string][]byte{"etc/said": []byte("of the second layer"), "tmp/keep": nil}),
	}
	blobs := map[string][]byte{}
	add := func(kind string, content []byte) map[string]any {
		sum := sha256.Sum256(content)
		blobs["blobs/sha256/"+hex.EncodeToString(sum[:])] = content
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + hex.EncodeToString(sum[:]), "size": len(content)}
	}
	var packed []any
	var ids, paths []string
	for _, layer := range layers {
		sum := sha256.Sum256(layer)
		ids = append(ids, "sha256:"+hex.EncodeToString(sum[:]))
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(layer); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		blob := add("layer.v1.tar+gzip", z.Bytes())
		packed, paths = append(packed, blob), append(paths, "blobs/"+strings.Replace(blob["digest"].(string), ":", "/", 1))
	}
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	config := add("config.v1+json", text(map[string]any{"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Cmd": []string{"/tool"}}, "rootfs": map[string]any{"type": "layers", "diff_ids": ids}}))
	manifest := add("manifest.v1+json", text(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": packed}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": imageName, "org.opencontainers.image.ref.name": "1"}
	blobs["oci-layout"] = text(map[string]string{"imageLayoutVersion": "1.0.0"})
	blobs["index.json"] = text(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	blobs["manifest.json"] = text([]any{map[string]any{"Config": "blobs/" + strings.Replace(config["digest"].(string), ":", "/", 1), "RepoTags": []string{imageName}, "Layers": paths}})
	write(t, filepath.Join(dir, "image.tar"), string(tarOf(t, blobs)), 0o644)
	return filepath.Join(dir, "image.tar")
}

func tarOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// daemon starts a program, waits until ready returns true, and returns a function for an orderly stop.
func daemon(t *testing.T, ready func() bool, env []string, name string, args ...string) (stop func()) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := false
	stop = func() {
		if over {
			return
		}
		over = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		cancel()
	}
	t.Cleanup(stop)
	for !ready() {
		select {
		case err := <-ended:
			over = true
			cancel()
			_, _ = log.Seek(0, io.SeekStart)
			messages, _ := io.ReadAll(log)
			t.Fatalf("%s: %v\n%s", name, err, messages)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return stop
}

// containerdStore is containerd from a directory of programs.
type containerdStore struct{ dir, socket string }

func (c *containerdStore) start(t *testing.T, root string) func() {
	state := t.TempDir()
	c.socket = filepath.Join(state, "sock")
	config := filepath.Join(state, "config.toml")
	write(t, config, fmt.Sprintf("version = 2\nroot = %q\nstate = %q\n[grpc]\naddress = %q\n", filepath.Join(root, "var/lib/containerd"), filepath.Join(state, "state"), c.socket), 0o644)
	ready := func() bool {
		_, err := attempt(filepath.Join(c.dir, "ctr"), "-a", c.socket, "namespaces", "ls")
		return err == nil
	}
	return daemon(t, ready, []string{"PATH=" + c.dir + ":" + os.Getenv("PATH")}, filepath.Join(c.dir, "containerd"), "--config", config)
}

func (c *containerdStore) ctr(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, filepath.Join(c.dir, "ctr"), append([]string{"-a", c.socket, "-n", "k8s.io"}, args...)...)
}

func (c *containerdStore) load(t *testing.T, _, image string) { c.ctr(t, "images", "import", image) }

func (c *containerdStore) live(t *testing.T, _, needle string) {
	// runc uses these names for containers of the whole host.
	c1, c2, c3 := "c1-"+rand.Text(), "c2-"+rand.Text(), "c3-"+rand.Text()
	for _, id := range []string{c1, c2, c3} {
		c.ctr(t, "run", "--null-io", "--env", "NEEDLE="+needle, "--label", "l="+needle, imageName, id, "/tool", needle, "/tmp/written")
	}
	// Removed records stay in free pages.
	c.ctr(t, "containers", "rm", c3)
}

func (c *containerdStore) containers(t *testing.T, _ string) string {
	// The client prints deprecation warnings.
	lines := strings.Split(c.ctr(t, "containers", "ls", "-q"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "level=warning") })
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func (c *containerdStore) use(t *testing.T, _ string) string {
	return c.ctr(t, "run", "--rm", imageName, "again-"+rand.Text(), "/tool")
}

// dockerStore is Docker with its own containerd.
type dockerStore struct{ socket string }

func (d *dockerStore) start(t *testing.T, root string) func() {
	state := t.TempDir()
	d.socket = "unix://" + filepath.Join(state, "sock")
	config := filepath.Join(state, "daemon.json")
	write(t, config, "{}", 0o644)
	ready := func() bool { _, err := attempt("docker", "-H", d.socket, "version"); return err == nil }
	return daemon(t, ready, nil, "dockerd", "--data-root", filepath.Join(root, "var/lib/docker"), "--exec-root", filepath.Join(state, "exec"),
		"--pidfile", filepath.Join(state, "pid"), "--host", d.socket, "--iptables=false", "--ip6tables=false", "--bridge=none", "--config-file", config,
		"--storage-driver", "overlay2")
}

func (d *dockerStore) docker(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, "docker", append([]string{"-H", d.socket}, args...)...)
}

func (d *dockerStore) load(t *testing.T, _, image string) { d.docker(t, "load", "-i", image) }

func (d *dockerStore) live(t *testing.T, _, needle string) {
	for _, id := range []string{"c1", "c2"} {
		d.docker(t, "run", "--name", id, "--network=none", "-v", "/data", "-e", "NEEDLE="+needle, "--label", "l="+needle, imageName, "/tool", needle, "/tmp/written", "/data/written")
	}
	d.docker(t, "rm", "c2")
}

func (d *dockerStore) containers(t *testing.T, _ string) string {
	return strings.TrimSpace(d.docker(t, "ps", "-aq"))
}

func (d *dockerStore) use(t *testing.T, _ string) string {
	return d.docker(t, "run", "--rm", "--network=none", imageName, "/tool")
}

// podmanStore is Podman, which has no daemon. The host's limits on processes may be lower than Podman's.
type podmanStore struct{}

func (podmanStore) start(*testing.T, string) func() { return func() {} }

func (podmanStore) podman(t *testing.T, root string, args ...string) string {
	t.Helper()
	state := filepath.Join(os.TempDir(), fmt.Sprintf("podman-%x", sha256.Sum256([]byte(root)))[:16]) // podman refuses long paths
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	return run(t, "podman", append([]string{"--root", filepath.Join(root, "var/lib/containers/storage"), "--runroot", state + "/run", "--tmpdir", state + "/tmp",
		"--cgroup-manager", "cgroupfs", "--events-backend", "file", "--storage-driver", "overlay", "--runtime", "runc"}, args...)...)
}

func (p podmanStore) run(t *testing.T, root string, args ...string) string {
	t.Helper()
	return p.podman(t, root, append([]string{"run", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"}, args...)...)
}

func (p podmanStore) load(t *testing.T, root, image string) { p.podman(t, root, "load", "-i", image) }

func (p podmanStore) live(t *testing.T, root, needle string) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, needle, 0o600)
	p.podman(t, root, "secret", "create", "s1", secret)
	for _, id := range []string{"c1", "c2"} {
		p.run(t, root, "--name", id, "-v", "/data", "--secret", "s1", "-e", "NEEDLE="+needle, "--annotation", "a="+needle, imageName, "/tool", needle, "/tmp/written", "/data/written")
	}
	p.podman(t, root, "rm", "c2")
}

func (p podmanStore) containers(t *testing.T, root string) string {
	return strings.TrimSpace(p.podman(t, root, "ps", "-aq"))
}

func (p podmanStore) use(t *testing.T, root string) string {
	return p.run(t, root, "--rm", imageName, "/tool")
}
