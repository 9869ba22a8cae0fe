package generalize

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

const overlayfs = "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"

// index writes what a snapshotter knows: the kind of each snapshot, by its number.
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

// emptyIndex is that of a snapshotter which knows nothing, so that all it has is left over.
func emptyIndex() string {
	dir, err := os.MkdirTemp("", "index-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err == nil {
		err = db.Close()
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

// lived is a node's container stores: layers of images, and what containers wrote.
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
	"var/lib/docker/image/overlay2/layerdb/mounts/c1/mount-id":                      "0123abcd",
	"var/lib/docker/overlay2/0123abcd/diff/written":                                 "by a container",
	"var/lib/docker/overlay2/0123abcd/link":                                         "ABC",
	"var/lib/docker/overlay2/4567/diff/image":                                       "of an image",
	"var/lib/docker/containers/c1/config.v2.json":                                   "{}",
	"var/lib/containers/storage/overlay-containers/containers.json":                 `[{"id":"c2","layer":"89ab"}]`,
	"var/lib/containers/storage/overlay/89ab/diff/written":                          "by a container",
	"var/lib/containers/storage/overlay/cdef/diff/image":                            "of an image",
	"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/0a0b":         "an image",
	"var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/2/fs": "a file of an image",
}

var written = []string{
	overlayfs + "/snapshots/2/fs/root", overlayfs + "/snapshots/2/fs/tmp", overlayfs + "/snapshots/2/work/work",
	overlayfs + "/snapshots/7/fs/orphan", overlayfs + "/snapshots/new-12345/fs/orphan",
	"var/lib/containerd/io.containerd.snapshotter.v1.native/snapshots/2/image",
	"var/lib/docker/overlay2/0123abcd/diff/written", "var/lib/docker/containers/c1",
	"var/lib/containers/storage/overlay/89ab/diff/written",
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
	return root
}

func there(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

func TestWhatContainersWroteGoes(t *testing.T) {
	root := plantLayers(t)
	m, err := run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	for _, name := range written {
		if there(root, name) {
			t.Errorf("/%s is there", name)
		}
	}
	for name, content := range lived {
		gone := strings.HasPrefix(name, "var/lib/docker/containers/")
		for _, w := range written {
			gone = gone || name == w || strings.HasPrefix(name, w+"/")
		}
		if !gone && read(t, root, name) != content {
			t.Errorf("/%s is not as it was", name)
		}
	}
	for _, dir := range []string{overlayfs + "/snapshots/2/fs", overlayfs + "/snapshots/2/work", "var/lib/docker/overlay2/0123abcd/diff"} {
		if !there(root, dir) {
			t.Errorf("/%s, which its store knows, is gone", dir)
		}
	}
	for _, o := range m.Outcomes {
		if o.Rule == "container-layers" && (o.Found != 5 || o.Changed == 0 || o.Bytes == 0) {
			t.Errorf("the manifest says %+v", o)
		}
	}
	// A second run finds nothing to do.
	m, err = run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	for _, o := range m.Outcomes {
		if o.Action == Empty && o.Changed > 0 {
			t.Errorf("the second run changed something: %+v", o)
		}
	}
}

// TestTheSecondLookSeesLayers has the runner leave out what it should do.
func TestTheSecondLookSeesLayers(t *testing.T) {
	for _, rule := range []string{"container-layers", "container-layers-docker", "container-layers-storage"} {
		r := runner(load(t, v1alpha1.ProfileStatic))
		r.skip = func(candidate *Rule) bool { return candidate.ID == rule }
		_, err := run(t, plantLayers(t), r)
		if err == nil || !strings.Contains(err.Error(), rule+": /var/lib/") || !strings.Contains(err.Error(), "holds what a container wrote") {
			t.Errorf("%s: got %v", rule, err)
		}
	}
}

// TestTheOwnLayerIsSpared: the container that does the work writes to one itself.
func TestTheOwnLayerIsSpared(t *testing.T) {
	root := plantLayers(t)
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Spare = []string{"/" + overlayfs + "/snapshots/2/fs", "/" + overlayfs + "/snapshots/2/work"}
	_, err := run(t, root, r)
	must(t, err)
	if !there(root, overlayfs+"/snapshots/2/fs/root/.token") || there(root, overlayfs+"/snapshots/7/fs/orphan") {
		t.Error("the wrong layer was emptied")
	}
}

// TestIndexesThatTellNothing fail the rule: what cannot be told from an image must not be in a clone.
func TestIndexesThatTellNothing(t *testing.T) {
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
		}, "knows the writable layer 5, and there is no directory"},
		"a way out": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, "var/lib/docker/image/overlay2/layerdb/mounts/c1/mount-id"), []byte("../../.."), 0o600))
		}, "does not name a layer"},
		"another way out": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, "var/lib/containers/storage/overlay-containers/containers.json"), []byte(`[{"layer":".."}]`), 0o600))
		}, "does not name a layer"},
		"no list": {func(root string) {
			must(t, os.WriteFile(filepath.Join(root, "var/lib/containers/storage/overlay-containers/containers.json"), []byte(`{`), 0o600))
		}, "does not tell"},
	} {
		t.Run(name, func(t *testing.T) {
			root := plantLayers(t)
			c.arrange(root)
			_, err := run(t, root, runner(load(t, v1alpha1.ProfileStatic)))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if !there(root, overlayfs+"/snapshots/1/fs/etc/image") || !there(root, "var/lib/docker/overlay2/4567/diff/image") {
				t.Error("a layer of an image is gone")
			}
		})
	}
}
