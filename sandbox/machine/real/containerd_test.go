//go:build machines

package real

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	blobDir     = "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
	snapshotDir = "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
)

// storeCheck has the intact and the damaged parts of a store of containerd.
type storeCheck struct {
	blobs, images, layers, files int
	damage                       []string
}

func (w *storeCheck) damaged(format string, args ...any) {
	w.damage = append(w.damage, fmt.Sprintf(format, args...))
}

// testStoreIntact compares containerd's store on the disk of a stopped machine with the registry: both images, every blob
// by its digest, every unpacked layer by the files of its archive.
func testStoreIntact(t *testing.T, root string) {
	t.Helper()
	w := checkStore(t, root)
	if len(w.damage) > 0 {
		t.Errorf("containerd's store is damaged:\n%s", strings.Join(w.damage, "\n"))
	}
	// The pause image has one layer and one file. The workload has four layers with its program, its files and
	// their list.
	if w.images != 2 || w.layers != 5 || w.files != 1+1+workloadFiles+1 || w.blobs != 2*2+5 {
		t.Errorf("containerd's store is not that of the two images: %+v", w)
	}
	t.Logf("containerd's store: %d blobs by their digests; %d images, %d layers, %d files as in their archives", w.blobs, w.images, w.layers, w.files)
}

// checkStore reads the store without Kamino's code for damage: each blob, and all images or those with the digests.
func checkStore(t *testing.T, root string, digests ...string) *storeCheck {
	t.Helper()
	w := &storeCheck{}
	entries, err := os.ReadDir(filepath.Join(root, blobDir))
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(root, blobDir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if sumOf(content) != entry.Name() {
			w.damaged("blob %s: its content is %s", entry.Name(), sumOf(content))
		}
		blobs["sha256:"+entry.Name()] = content
	}
	w.blobs = len(blobs)
	snapshots := snapshotsOf(t, root)
	for digest, content := range blobs {
		var manifest struct {
			Config descriptor   `json:"config"`
			Layers []descriptor `json:"layers"`
		}
		if json.Unmarshal(content, &manifest) != nil || len(manifest.Layers) == 0 {
			continue // A configuration or a layer.
		}
		if len(digests) > 0 && !slices.Contains(digests, digest) {
			continue
		}
		w.images++
		w.image(digest, manifest.Config, manifest.Layers, blobs, snapshots)
	}
	return w
}

// image compares the layers of an image with their archives.
func (w *storeCheck) image(digest string, config descriptor, layers []descriptor, blobs map[string][]byte, snapshots map[string]string) {
	var settings struct {
		RootFS struct {
			Layers []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(blobs[config.Digest], &settings); err != nil || len(settings.RootFS.Layers) != len(layers) {
		w.damaged("image %s: its configuration does not name its layers (%v)", digest, err)
		return
	}
	chain := ""
	for i, id := range settings.RootFS.Layers {
		// The name of an unpacked layer is the digest of all layers up to this layer (OCI image specification,
		// ChainID).
		if chain == "" {
			chain = id
		} else {
			sum := sha256.Sum256([]byte(chain + " " + id))
			chain = "sha256:" + hex.EncodeToString(sum[:])
		}
		dir, unpacked := snapshots[chain]
		if !unpacked {
			w.damaged("image %s: layer %d is not unpacked", digest, i)
			continue
		}
		if err := w.layer(dir, id, blobs[layers[i].Digest]); err != nil {
			w.damaged("layer %s: %v", layers[i].Digest, err)
		}
		w.layers++
	}
}

// layer compares a directory with an archive, both ways.
func (w *storeCheck) layer(dir, id string, packed []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	plain, err := io.ReadAll(unzipped)
	if err != nil {
		return err
	}
	if "sha256:"+sumOf(plain) != id {
		w.damaged("%s: its archive is not %s", dir, id)
	}
	known := map[string]bool{}
	for archive := tar.NewReader(bytes.NewReader(plain)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		want, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		known[name] = true
		got, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err != nil:
			w.damaged("%s: %v", dir, err)
		case int64(len(got)) != header.Size:
			w.damaged("%s/%s has %d bytes, and %d in the archive", dir, name, len(got), header.Size)
		case !bytes.Equal(got, want):
			w.damaged("%s/%s is not what the archive has", dir, name)
		default:
			w.files++
		}
	}
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(file, dir+"/"); err == nil && entry.Type().IsRegular() && !known[name] {
			w.damaged("%s/%s is not in the archive", dir, name)
		}
		return err
	})
}

// snapshotsOf returns the path of each unpacked layer by the chain's digest, from the overlay snapshotter's index.
// Source: containerd, core/snapshots/storage: v1/snapshots/NAME/id, where a name ends with the key of its creation.
func snapshotsOf(t *testing.T, root string) map[string]string {
	t.Helper()
	db, err := bolt.Open(filepath.Join(root, snapshotDir, "metadata.db"), 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[string]string{}
	err = db.View(func(tx *bolt.Tx) error {
		all := tx.Bucket([]byte("v1")).Bucket([]byte("snapshots"))
		return all.ForEachBucket(func(name []byte) error {
			id, _ := binary.Uvarint(all.Bucket(name).Get([]byte("id")))
			found[path.Base(string(name))] = filepath.Join(root, snapshotDir, "snapshots", fmt.Sprint(id), "fs")
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// testBroken damages the store on an unused disk. The comparison must find each damage, and kamino must refuse
// damage from a loss of power. Kamino compares sizes: changed bytes and a cut within the last block are not found.
func (c *cluster) testBroken(t *testing.T, image string) {
	mounted(t, image, func(root string) {
		layers := filepath.Join(root, snapshotDir, "snapshots/*/fs")
		blob, small, big := largest(t, filepath.Join(root, blobDir, "*")), largest(t, layers+"/data/small/0/*"), largest(t, layers+"/data/big/0/*")
		empty := func([]byte) []byte { return nil }
		half := func(b []byte) []byte { return b[:len(b)/2] }
		flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
		for _, d := range []struct {
			what    string
			path    string
			damage  func(content []byte) []byte
			refused bool
		}{
			{"nothing", "", nil, false},
			{"a small file of a layer without content", small, empty, true},
			{"a large file of a layer cut short", big, half, true},
			{"a file of a layer with a changed byte", small, flip, false},
			{"a blob cut short", blob, half, true},
			{"a blob without content", blob, empty, true},
			{"a blob with a changed byte", blob, flip, false},
		} {
			var content []byte
			if d.path != "" {
				var err error
				if content, err = os.ReadFile(d.path); err != nil {
					t.Fatal(err)
				}
				rewrite(t, d.path, d.damage(slices.Clone(content)))
			}
			if w := checkStore(t, root); (len(w.damage) > 0) != (d.path != "") {
				t.Errorf("%s is damaged, and the comparison finds %v", d.what, w.damage)
			}
			if d.refused || d.path == "" {
				out, err := attempt(c.kamino, "generalize", "--root", root, "--profile", "bootstrap", "--dry-run")
				if refused := code(err) == 3 && strings.Contains(out, "a cached image is damaged"); refused != d.refused || !refused && err != nil {
					t.Errorf("%s is damaged, and kamino ended with %v:\n%s", d.what, err, out)
				}
			}
			if d.path != "" {
				rewrite(t, d.path, content)
			}
		}
	})
}

// largest returns the path of the largest file that matches a pattern.
func largest(t *testing.T, pattern string) (found string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	most := int64(0)
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > most {
			found, most = path, info.Size()
		}
	}
	if found == "" {
		t.Fatalf("there is no %s", pattern)
	}
	return found
}

func rewrite(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
