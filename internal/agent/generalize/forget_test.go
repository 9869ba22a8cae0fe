package generalize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

const overlayfs = "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"

// index writes the metadata of a snapshotter: the kind of each snapshot, by number.
func index(t *testing.T, root, name string, kinds map[uint64]byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
	db, err := bolt.Open(filepath.Join(root, name), 0o600, &bolt.Options{NoSync: true})
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		version, err := tx.CreateBucketIfNotExists([]byte("v1"))
		if err != nil {
			return err
		}
		all, err := version.CreateBucketIfNotExists([]byte("snapshots"))
		for number, kind := range kinds {
			var snapshot *bolt.Bucket
			if snapshot, err = all.CreateBucket(fmt.Appendf(nil, "k8s.io/%d/name", number)); err != nil {
				return err
			}
			must(t, snapshot.Put([]byte("id"), binary.AppendUvarint(nil, number)))
			must(t, snapshot.Put([]byte("kind"), []byte{kind}))
		}
		return err
	}))
	must(t, db.Close())
}

// database returns the content of a bolt database.
func database(fill func(tx *bolt.Tx)) string {
	dir, err := os.MkdirTemp("", "index-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(func(tx *bolt.Tx) error { fill(tx); return nil }), db.Close())
	}
	if err != nil {
		panic(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "db"))
	if err != nil {
		panic(err)
	}
	return string(content)
}

// putContainer writes a container's record as containerd does.
func putContainer(tx *bolt.Tx, namespace, id, spec string) {
	b, err := tx.CreateBucketIfNotExists([]byte("v1"))
	for _, name := range []string{namespace, "containers", id} {
		if err == nil {
			b, err = b.CreateBucketIfNotExists([]byte(name))
		}
	}
	if err == nil {
		err = b.Put([]byte("spec"), []byte(spec))
	}
	if err != nil {
		panic(err)
	}
}

// lived is a node's container stores: layers of images and of containers.
var lived = map[string]string{
	overlayfs + "/snapshots/1/fs/etc/image":                                         "of an image",
	overlayfs + "/snapshots/2/fs/root/.token":                                       "written by a container",
	overlayfs + "/snapshots/2/fs/tmp/a/b":                                           "the same",
	overlayfs + "/snapshots/2/work/work/#1":                                         "the kernel's",
	overlayfs + "/snapshots/300/fs/view":                                            "looked at",
	overlayfs + "/snapshots/7/fs/orphan":                                            "of a container that is gone",
	overlayfs + "/snapshots/new-12345/fs/orphan":                                    "of one that was never made",
	"var/lib/containerd/io.containerd.snapshotter.v1.native/snapshots/1/image":      "of an image",
	"var/lib/containerd/io.containerd.snapshotter.v1.native/snapshots/2/image":      "of an image, copied",
	"var/lib/soci-snapshotter-grpc/snapshotter/snapshots/1/fs/image":                "of an image",
	"var/lib/soci-snapshotter-grpc/snapshotter/snapshots/2/fs/written":              "by a container",
	"var/lib/docker/image/overlay2/layerdb/mounts/c1/mount-id":                      "0123abcd",
	"var/lib/docker/image/overlay2/layerdb/sha256/aa/cache-id":                      "4567",
	"var/lib/docker/overlay2/0123abcd/diff/written":                                 "by a container",
	"var/lib/docker/overlay2/0123abcd/link":                                         "ABC",
	"var/lib/docker/overlay2/4567/diff/image":                                       "of an image",
	"var/lib/docker/overlay2/89ab/diff/cached":                                      "by a build",
	"var/lib/docker/containers/c1/config.v2.json":                                   "{}",
	"var/lib/containers/storage/overlay-containers/containers.json":                 `[{"id":"c2","layer":"89ab"}]`,
	"var/lib/containers/storage/overlay-layers/layers.json":                         `[{"id":"cdef","created":"2026"},{"id":"ef01","parent":"cdef"},{"id":"89ab","parent":"ef01"}]`,
	"var/lib/containers/storage/overlay-images/images.json":                         `[{"id":"i1","layer":"ef01"}]`,
	"var/lib/containers/storage/overlay/89ab/diff/written":                          "by a container",
	"var/lib/containers/storage/overlay/cdef/diff/image":                            "of an image",
	"var/lib/containers/storage/overlay/ef01/diff/image":                            "of an image",
	"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/0a0b":         "an image",
	"var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/2/fs": "a file of an image",
}

// removedPaths lists paths in lived that must be removed.
var removedPaths = []string{
	overlayfs + "/snapshots/2", overlayfs + "/snapshots/300", overlayfs + "/snapshots/7", overlayfs + "/snapshots/new-12345",
	"var/lib/containerd/io.containerd.snapshotter.v1.native/snapshots/2", "var/lib/soci-snapshotter-grpc/snapshotter/snapshots/2",
	"var/lib/docker/overlay2/0123abcd", "var/lib/docker/overlay2/89ab", "var/lib/docker/containers/c1", "var/lib/docker/image/overlay2/layerdb/mounts/c1",
	"var/lib/containers/storage/overlay/89ab", "var/lib/containers/storage/overlay-containers/containers.json",
}

func plantLayers(t *testing.T) string {
	t.Helper()
	root := plant(t, node)
	for name, content := range lived {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	index(t, root, overlayfs+"/metadata.db", map[uint64]byte{1: 3, 2: 2, 300: 1, 4: 2})
	index(t, root, "var/lib/containerd/io.containerd.snapshotter.v1.native/metadata.db", map[uint64]byte{1: 3, 2: 2})
	index(t, root, "var/lib/soci-snapshotter-grpc/snapshotter/metadata.db", map[uint64]byte{1: 3, 2: 2})
	writeFile(t, root, "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", database(func(tx *bolt.Tx) { putContainer(tx, "k8s.io", "c3", "an environment") }))
	return root
}

func TestRemoveContainerData(t *testing.T) {
	root := plantLayers(t)
	m, err := run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	for _, name := range removedPaths {
		if exists(root, name) {
			t.Errorf("/%s is there", name)
		}
	}
	for name, content := range lived {
		gone := strings.HasSuffix(name, "layers.json") // the file changes
		for _, w := range removedPaths {
			gone = gone || name == w || strings.HasPrefix(name, w+"/")
		}
		if !gone && readFile(t, root, name) != content {
			t.Errorf("/%s is not as it was", name)
		}
	}
	if got := readFile(t, root, "var/lib/containers/storage/overlay-layers/layers.json"); got != `[{"id":"cdef","created":"2026"},{"id":"ef01","parent":"cdef"}]` {
		t.Errorf("the list of layers is %s", got)
	}
	for _, o := range m.Outcomes {
		if o.Rule == "container-layers" && (o.Found != 3 || o.Changed == 0 || o.Bytes == 0) {
			t.Errorf("the manifest says %+v", o)
		}
	}
	// A second run finds nothing to do.
	m, err = run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	for _, o := range m.Outcomes {
		if o.Action == rules.Forget && o.Changed > 0 {
			t.Errorf("the second run changed something: %+v", o)
		}
	}
}

// TestCheckFindsLayers: the check finds layers that the runner skipped.
func TestCheckFindsLayers(t *testing.T) {
	for _, rule := range []string{"containerd-records", "container-layers", "container-layers-docker", "container-layers-storage"} {
		r := runner(load(t, v1alpha1.ProfileStatic))
		r.skip = func(candidate *rules.Rule) bool { return candidate.ID == rule }
		_, err := run(t, plantLayers(t), r)
		if err == nil || !strings.Contains(err.Error(), rule+": /var/lib/") {
			t.Errorf("%s: got %v", rule, err)
		}
	}
}

// TestOwnLayerIsKept: the container that runs Kamino also writes to a layer.
func TestOwnLayerIsKept(t *testing.T) {
	root := plantLayers(t)
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Spare = []string{"/" + overlayfs + "/snapshots/2/fs", "/" + overlayfs + "/snapshots/2/work"}
	_, err := run(t, root, r)
	must(t, err)
	if !exists(root, overlayfs+"/snapshots/2/fs/root/.token") || exists(root, overlayfs+"/snapshots/7/fs/orphan") {
		t.Error("the wrong layer was emptied")
	}
}

// TestUnusableIndexes fail the rule: a layer of unknown kind must not be in a clone.
func TestUnusableIndexes(t *testing.T) {
	damage := func(root string) {
		name := filepath.Join(root, overlayfs, "metadata.db")
		content, err := os.ReadFile(name)
		must(t, err)
		for i := 2 * os.Getpagesize(); i < len(content); i++ {
			content[i] = 0xff
		}
		must(t, os.WriteFile(name, content, 0o600))
	}
	for name, c := range map[string]struct {
		arrange func(root string)
		says    string
	}{
		"not a database": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, overlayfs, "metadata.db"), []byte("text"), 0o600))
		}, "container-layers: "},
		"damaged": {damage, "container-layers: "},
		"a directory": {func(root string) {
			must(t, os.Remove(filepath.Join(root, overlayfs, "metadata.db")))
			must(t, os.Mkdir(filepath.Join(root, overlayfs, "metadata.db"), 0o700))
		}, "not a regular file"},
		"layers on no file system": {func(root string) {
			index(t, root, "var/lib/containerd/io.containerd.snapshotter.v1.devmapper/metadata.db", map[uint64]byte{5: 2})
		}, "lists the writable layer 5, which has no directory"},
		"a way out": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, "var/lib/docker/image/overlay2/layerdb/sha256/aa/cache-id"), []byte("../../.."), 0o600))
		}, "does not name a layer"},
		"another way out": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, "var/lib/containers/storage/overlay-images/images.json"), []byte(`[{"id":".."}]`), 0o600))
		}, "does not name a layer"},
		"no list": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, "var/lib/containers/storage/overlay-layers/layers.json"), []byte(`{`), 0o600))
		}, "are unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			root := plantLayers(t)
			c.arrange(root)
			_, err := run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if !exists(root, overlayfs+"/snapshots/1/fs/etc/image") || !exists(root, "var/lib/docker/overlay2/4567/diff/image") {
				t.Error("a layer of an image is gone")
			}
		})
	}
}

// TestDamagedStores before a change, and so are stores outside the known paths.
func TestDamagedStores(t *testing.T) {
	const elsewhere = "data/containerd/io.containerd.metadata.v1.bolt/meta.db"
	meta := database(func(tx *bolt.Tx) { putContainer(tx, "k8s.io", "c3", "an environment") })
	for says, files := range map[string]map[string]string{
		"containerd-records: /var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db: the database is empty": {"var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db": ""},
		"snapshots/1 is not there": {overlayfs + "/snapshots/1": "-> nowhere"},
		"/etc/containerd/config.toml keeps containers in /" + elsewhere: {
			"etc/containerd/config.toml": "version = 2\nroot = \"/data/containerd\"\n[plugins]\n  root = \"/x\"\n", elsewhere: meta},
		"keeps containers in /data/snapshots/metadata.db": {
			"etc/containerd/config.toml": "[plugins.\"io.containerd.snapshotter.v1.overlayfs\"]\n  root_path = '/data/snapshots'\n", "data/snapshots/metadata.db": meta},
		"keeps containers in /data/docker/image/overlay2/layerdb": {
			"etc/docker/daemon.json": `{"data-root": "/data/docker"}`, "data/docker/image/overlay2/layerdb/sha256/a/cache-id": "a"},
		"keeps containers in /data/storage/overlay-layers/layers.json": {
			"etc/containers/storage.conf": "[storage]\ngraphroot = \"/data/storage\"\n", "data/storage/overlay-layers/layers.json": "[]"},
		"named-volumes: /var/lib/docker/volumes/db/_data/rows is there": {
			"var/lib/docker/volumes/db/_data/rows": "x", "var/lib/docker/volumes/0123456789abcdef/_data/rows": "x"},
	} {
		root := plantLayers(t)
		if says == "snapshots/1 is not there" {
			must(t, os.RemoveAll(filepath.Join(root, overlayfs, "snapshots/1")))
			files = nil
		}
		for name, content := range files {
			must(t, os.RemoveAll(filepath.Join(root, name)))
			writeFile(t, root, name, content)
		}
		untouched := snapshot(t, root)
		_, err := run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
		if why := refusedOf(t, err).Error(); !strings.Contains(why, says) {
			t.Errorf("got %s, want %q", why, says)
		}
		if diff := cmp.Diff(untouched, snapshot(t, root)); diff != "" {
			t.Errorf("refused, but the tree was changed:\n%s", diff)
		}
	}
	// The user's own rule covers the path.
	p, err := loadOurs(t, "version: \"1\"\nrules:\n- {id: ours, action: forget, store: containerd, paths: [/"+elsewhere+"], reason: r, source: s}\n")
	must(t, err)
	root := plant(t, node, map[string]string{"etc/containerd/config.toml": "root = \"/data/containerd\"\n", elsewhere: meta})
	_, err = run(t, root, runner(p))
	must(t, err)
	if strings.Contains(readFile(t, root, elsewhere), "an environment") {
		t.Error("it is still there")
	}
}

// TestLookWhileRunning finds damage, skips open databases and changes nothing.
func TestLookWhileRunning(t *testing.T) {
	look := func(root string) error {
		running, err := tree.OpenRunning(root)
		must(t, err)
		defer running.Close()
		_, err = runner(load(t, v1alpha1.ProfileStatic)).Preflight(t.Context(), running)
		return err
	}
	root := plantLayers(t)
	if err := look(root); err != nil {
		t.Errorf("a machine in order: %v", err)
	}
	if !exists(root, overlayfs+"/snapshots/2/fs/root/.token") {
		t.Error("the look has removed something")
	}
	database := filepath.Join(root, overlayfs, "metadata.db")
	content, err := os.ReadFile(database)
	must(t, err)
	for i := 2 * os.Getpagesize(); i < len(content); i++ {
		content[i] = 0xff
	}
	must(t, os.WriteFile(database, content, 0o600))
	if err := look(root); err == nil || !strings.Contains(err.Error(), "container-layers: ") {
		t.Errorf("a damaged store: %v", err)
	}
	for _, name := range []string{database, filepath.Join(root, "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db")} {
		open, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		defer open.Close()
		must(t, syscall.Flock(int(open.Fd()), syscall.LOCK_EX)) // as containerd does
	}
	if err := look(root); err != nil {
		t.Errorf("a store that a program has open: %v", err)
	}
}

// TestCRIO tests a store of CRI-O: a pod and a container with volatile records and layers, the images and CRI-O's own
// files. Without its own files, CRI-O would remove all images.
//
// Source: CRI-O, internal/storage; containers/storage.
func TestCRIO(t *testing.T) {
	const top, secret = "var/lib/containers/storage/", "kamino-planted-secret"
	dir := plant(t, node, map[string]string{
		top + "overlay-layers/layers.json":          `[{"id":"image"}]`,
		top + "overlay-layers/volatile-layers.json": `[{"id":"written","parent":"image"},{"id":"pause","parent":"image"}]`,
		top + "overlay-images/images.json":          `[{"id":"9","names":["registry.internal/app:1"],"layer":"image"}]`,
		top + "overlay/image/diff/bin/app":          "the image's program",
		top + "overlay/image/link":                  "ABCD",
		top + "overlay/written/diff/var/cache/new":  secret,
		top + "overlay/pause/diff/written":          secret,
		top + "overlay-containers/containers.json":  `[{"id":"old","names":["k8s_old_default"],"image":"9","layer":"gone","metadata":"{\"pod-name\":\"` + secret + `\"}"}]`,
		top + "overlay-containers/volatile-containers.json": `[{"id":"c1","names":["k8s_app_pod_default_uid_0"],"image":"9","layer":"written","metadata":"{\"attempt\":0,\"x\":\"` + secret + `\"}"},` +
			`{"id":"p1","names":["k8s_POD_pod_default_uid_0"],"image":"9","layer":"pause"}]`,
		top + "overlay-containers/c1/userdata/config.json": `{"process":{"args":["app","--key=` + secret + `"],"env":["TOKEN=` + secret + `"]},"annotations":{"io.kubernetes.cri-o.Annotations":"` + secret + `"}}`,
		top + "overlay-containers/c1/userdata/state.json":  `{"annotations":{"x":"` + secret + `"}}`,
		top + "overlay-containers/p1/userdata/config.json": `{"annotations":{"io.kubernetes.cri-o.Labels":"` + secret + `"}}`,
		top + "overlay-containers/p1/userdata/resolv.conf": "search " + secret + "\n",
		"var/log/pods/default_pod_uid/app/0.log":           secret,
		"var/log/crio/pods/p1/c1.log":                      secret,
		"var/lib/crio/version":                             `"1.34.1"`,
		"var/lib/crio/clean.shutdown":                      "",
		"etc/crio/crio.conf":                               "[crio]\nstorage_driver = \"overlay\"\n",
	})
	holds := func() (names []string) {
		for name, content := range snapshot(t, dir) {
			if strings.Contains(content, secret) {
				names = append(names, name)
			}
		}
		return names
	}
	if names := holds(); len(names) != 10 {
		t.Fatalf("planted in %d files: %v", len(names), names)
	}
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	if names := holds(); len(names) > 0 {
		t.Errorf("what the pod was given is still in %v", names)
	}
	for _, name := range []string{"overlay/image/diff/bin/app", "overlay/image/link", "overlay-images/images.json"} {
		if !exists(dir, top+name) {
			t.Errorf("/%s%s is gone, and the image with it", top, name)
		}
	}
	for _, name := range []string{"var/lib/crio/version", "var/lib/crio/clean.shutdown", "etc/crio/crio.conf"} {
		if !exists(dir, name) {
			t.Errorf("/%s is gone", name)
		}
	}
}
