package audit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/store"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

const (
	root     = "var/lib/containerd/"
	metadata = root + "io.containerd.metadata.v1.bolt/meta.db"
	layers   = root + "io.containerd.snapshotter.v1.overlayfs/"
	blobs    = root + "io.containerd.content.v1.content/blobs/sha256/"
)

// containerd is the machine's own containerd on a root directory.
type containerd struct{ dir, socket string }

// with runs containerd while work runs.
func (c containerd) with(t *testing.T, work func()) {
	t.Helper()
	writeFile(
		t,
		c.dir,
		"config.toml",
		fmt.Sprintf(
			"version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.internal.v1.opt\"]\n[grpc]\naddress = %q\n",
			filepath.Join(c.dir, root), c.dir+"/run", c.socket),
	)
	cmd := exec.CommandContext(t.Context(), "containerd", "--config", filepath.Join(c.dir, "config.toml"))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() { _ = cmd.Process.Signal(unix.SIGTERM); <-ended }()
	for range 600 {
		if exec.CommandContext(t.Context(), "ctr", "--address", c.socket, "version").Run() == nil {
			work()
			return
		}
		select {
		case <-ended:
			unable(t, "containerd does not run here:\n%s", log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("containerd does not answer:\n%s", log.String())
}

func (c containerd) ctr(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ctr", append([]string{"--address", c.socket, "--namespace", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// layerOf returns a layer's archive with two files, an empty one among them.
func layerOf(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for file, content := range map[string]string{"opt/" + name + "/tool": strings.Repeat(name, 30000), "opt/" + name + "/empty": ""} {
		must(t, w.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(1, 0)}))
		_, err := w.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// ociImage writes an image as an archive that ctr imports.
func ociImage(t *testing.T, reference string, all ...[]byte) string {
	t.Helper()
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	type descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	add := func(kind string, content []byte) descriptor {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		files["blobs/sha256/"+digest] = content
		return descriptor{MediaType: kind, Digest: "sha256:" + digest, Size: len(content)}
	}
	var ids []string
	var packed []descriptor
	for _, layer := range all {
		sum := sha256.Sum256(layer)
		ids = append(ids, "sha256:"+hex.EncodeToString(sum[:]))
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(layer)
		must(t, err)
		must(t, z.Close())
		packed = append(packed, add("application/vnd.oci.image.layer.v1.tar+gzip", b.Bytes()))
	}
	config, err := json.Marshal(
		map[string]any{
			"architecture": "amd64",
			"os":           "linux",
			"config":       map[string]any{},
			"rootfs":       map[string]any{"type": "layers", "diff_ids": ids},
		},
	)
	must(t, err)
	manifest, err := json.Marshal(
		map[string]any{
			"schemaVersion": 2,
			"mediaType":     "application/vnd.oci.image.manifest.v1+json",
			"config":        add("application/vnd.oci.image.config.v1+json", config),
			"layers":        packed,
		},
	)
	must(t, err)
	top := add("application/vnd.oci.image.manifest.v1+json", manifest)
	top.Annotations = map[string]string{"io.containerd.image.name": reference}
	files["index.json"], err = json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{top}})
	must(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "image.tar"))
	must(t, err)
	defer file.Close()
	w := tar.NewWriter(file)
	for name, content := range files {
		must(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}))
		_, err := w.Write(content)
		must(t, err)
	}
	must(t, w.Close())
	return file.Name()
}

// images are the images of a test by name, each with its archive.
type images map[string]string

// filled returns a root with images of the real containerd: "one" and "two" share a layer, "three" stands alone.
func filled(t *testing.T) (containerd, images) {
	t.Helper()
	need(t, "containerd", "ctr")
	dir := t.TempDir()
	c := containerd{dir, filepath.Join(dir, "s")}
	shared := layerOf(t, "shared")
	all := images{
		"example.com/one:1": ociImage(
			t,
			"example.com/one:1",
			shared,
			layerOf(t, "one"),
		), "example.com/two:1": ociImage(t, "example.com/two:1", shared, layerOf(t, "two")),
		"example.com/three:1": ociImage(t, "example.com/three:1", layerOf(t, "three")),
	}
	c.with(t, func() {
		for _, archive := range all {
			c.ctr(t, "images", "import", archive)
		}
	})
	unix.Sync()
	return c, all
}

func damageOf(t *testing.T, dir string) *ImageDamage {
	t.Helper()
	d, err := Images(storesOf(t, dir))
	must(t, err)
	return d
}

func storesOf(t *testing.T, dir string) []store.Store {
	t.Helper()
	opened, err := tree.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	return []store.Store{store.At(opened, rules.Containerd, metadata, nil), store.At(opened, rules.Snapshots, layers+"metadata.db", nil)}
}

// fileOf returns the path of an unpacked file below the snapshots.
func fileOf(t *testing.T, dir, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, layers, "snapshots/*/fs/opt", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", name, found, err)
	}
	return found[0]
}

func empty(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		must(t, os.Truncate(name, 0))
	}
}

// TestDamagedStores damages a real store as a copy of a running disk does, removes the damaged images, and lets the real containerd pull
// them again.
func TestDamagedStores(t *testing.T) {
	c, all := filled(t)
	if d := damageOf(t, c.dir); len(d.Damaged)+len(d.Whys) > 0 {
		t.Fatalf("the whole store is damaged: %+v", d)
	}
	blob := func(dir, image string) string { return lastLayer(t, dir, all[image]) }
	for name, test := range map[string]struct {
		damage func(dir string)
		want   []string
		says   string
	}{
		"one file of a layer": {func(dir string) { empty(t, fileOf(t, dir, "one/tool")) }, []string{"example.com/one:1"},
			"has 0 bytes, and had 90000"},
		"a shared layer": {func(dir string) { empty(t, fileOf(t, dir, "shared/tool")) }, []string{"example.com/one:1", "example.com/two:1"},
			"opt/shared/tool has 0 bytes"},
		"every file": {func(dir string) {
			for _, f := range []string{"one/tool", "two/tool", "three/tool", "shared/tool"} {
				empty(t, fileOf(t, dir, f))
			}
		}, []string{"example.com/one:1", "example.com/three:1", "example.com/two:1"}, "has 0 bytes"},
		"no layer": {func(dir string) {
			must(t, os.RemoveAll(filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(fileOf(t, dir, "three/tool")))))))
		}, []string{"example.com/three:1"}, "is missing"},
		"an archive": {func(dir string) { empty(t, blob(dir, "example.com/three:1")) }, []string{"example.com/three:1"},
			"has 0 bytes, and had"},
		"zeros in an archive": {func(dir string) { zero(t, blob(dir, "example.com/three:1")) }, []string{"example.com/three:1"},
			"has another content than its digest"},
		"no archive": {func(dir string) { must(t, os.Remove(blob(dir, "example.com/three:1"))) }, []string{"example.com/three:1"},
			"is missing"},
		"an archive and its layer": {func(dir string) {
			empty(t, blob(dir, "example.com/three:1"), fileOf(t, dir, "three/tool"))
		}, []string{"example.com/three:1"}, "bytes, and"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, err := exec.CommandContext(t.Context(), "cp", "-a", c.dir+"/.", dir).CombinedOutput()
			if err != nil {
				t.Fatalf("%v %s", err, out)
			}
			test.damage(dir)
			d := damageOf(t, dir)
			var got []string
			for _, image := range d.Damaged {
				got = append(got, image.Name)
			}
			if !slices.Equal(got, test.want) || !strings.Contains(fmt.Sprint(d.Damaged), test.says) || len(d.Whys) > 0 {
				t.Fatalf("got %+v, want %v and %q", d, test.want, test.says)
			}
			must(t, d.Remove())
			if again := damageOf(t, dir); len(again.Damaged)+len(again.Whys) > 0 {
				t.Errorf("still damaged: %+v", again)
			}
			for _, s := range storesOf(t, dir) {
				if why, err := s.Broken(); why != "" || err != nil {
					t.Errorf("still broken: %s, %v", why, err)
				}
			}
			pullAgain(t, containerd{dir, filepath.Join(dir, "s")}, all, test.want)
		})
	}
}

// pullAgain lets containerd use the store: the others are there, and the removed ones come back with their content.
func pullAgain(t *testing.T, c containerd, all images, removed []string) {
	t.Helper()
	_ = os.RemoveAll(filepath.Join(c.dir, "run"))
	c.with(t, func() {
		listed := c.ctr(t, "images", "list", "--quiet")
		for name := range all {
			if slices.Contains(removed, name) == strings.Contains(listed, name) {
				t.Errorf("containerd lists\n%s", listed)
			}
		}
		for _, name := range removed {
			c.ctr(t, "images", "import", all[name])
		}
		if check := c.ctr(t, "images", "check"); strings.Count(check, "complete") != len(all) || strings.Contains(check, "incomplete") {
			t.Errorf("containerd finds\n%s", check)
		}
	})
	for _, name := range []string{"one", "two", "three", "shared"} {
		if content, err := os.ReadFile(fileOf(t, c.dir, name+"/tool")); err != nil || string(content) != strings.Repeat(name, 30000) {
			t.Errorf("%s has %d bytes, %v", name, len(content), err)
		}
	}
	if d := damageOf(t, c.dir); len(d.Damaged)+len(d.Whys) > 0 {
		t.Errorf("damaged after the pull: %+v", d)
	}
}

// lastLayer returns the last layer's archive of an image, in the store.
func lastLayer(t *testing.T, dir, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	packed := map[string]bool{}
	var manifest struct {
		Layers []struct {
			Digest string `json:"digest"`
		} `json:"layers"`
	}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		content, err := io.ReadAll(r)
		must(t, err)
		if strings.Contains(string(content), `"layers":[{`) {
			must(t, json.Unmarshal(content, &manifest))
		}
		packed[filepath.Base(h.Name)] = true
	}
	digest := strings.TrimPrefix(manifest.Layers[len(manifest.Layers)-1].Digest, "sha256:")
	if !packed[digest] {
		t.Fatalf("the archive has no layer %s", digest)
	}
	return filepath.Join(dir, blobs, digest)
}

func zero(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	must(t, os.WriteFile(name, make([]byte, info.Size()), 0o600))
}

// TestLayersWithoutArchives: a store that keeps no archives has the recorded size of each layer only.
func TestLayersWithoutArchives(t *testing.T) {
	c, all := filled(t)
	c.with(t, func() {
		for _, archive := range all {
			c.ctr(t, "content", "rm", "sha256:"+filepath.Base(lastLayer(t, c.dir, archive)))
		}
	})
	if d := damageOf(t, c.dir); len(d.Damaged)+len(d.Whys) > 0 {
		t.Fatalf("the whole store is damaged: %+v", d)
	}
	empty(t, fileOf(t, c.dir, "two/tool"))
	d := damageOf(t, c.dir)
	if len(d.Damaged) != 1 || d.Damaged[0].Name != "example.com/two:1" || !strings.Contains(d.Damaged[0].Message, "bytes, and took") {
		t.Errorf("got %+v", d)
	}
	must(t, d.Remove())
	if again := damageOf(t, c.dir); len(again.Damaged)+len(again.Whys) > 0 {
		t.Errorf("still damaged: %+v", again)
	}
}

// TestUnknownSnapshotter: layers of a snapshotter that Kamino cannot check refuse the copy.
func TestUnknownSnapshotter(t *testing.T) {
	c, all := filled(t)
	c.with(t, func() {
		for name := range all {
			c.ctr(t, "snapshots", "--snapshotter", "native", "prepare", "a-"+filepath.Base(name), "")
		}
	})
	if d := damageOf(t, c.dir); len(d.Whys) > 0 {
		t.Errorf("native: %+v", d)
	}
	name := filepath.Join(c.dir, metadata)
	content, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, bytes.ReplaceAll(content, []byte("native"), []byte("erofs2")), 0o600))
	if d := damageOf(t, c.dir); len(d.Whys) != 1 || !strings.Contains(d.Whys[0], "layers of the snapshotter erofs2") {
		t.Errorf("got %+v", d)
	}
}

// TestUnknownStores: the stores of other runtimes have no repair.
func TestUnknownStores(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "var/lib/containers/storage/overlay-layers/layers.json", `[{"id":"bb"}]`)
	writeFile(t, dir, "var/lib/containers/storage/overlay-images/images.json", `[{"id":"i","layer":"bb"}]`)
	writeFile(t, dir, "var/lib/containers/storage/overlay-layers/bb.tar-split.gz", "")
	opened, err := tree.Open(dir)
	must(t, err)
	defer opened.Close()
	d, err := Images([]store.Store{store.At(opened, rules.Storage, "var/lib/containers/storage/overlay-layers/layers.json", nil)})
	if err != nil || len(d.Whys) != 1 || !strings.Contains(d.Whys[0], "a cached image is damaged") {
		t.Errorf("got %+v, %v", d, err)
	}
}
