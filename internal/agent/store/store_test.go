package store

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
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

const (
	root     = "var/lib/containerd"
	metaDB   = root + "/io.containerd.metadata.v1.bolt/meta.db"
	overlay  = root + "/io.containerd.snapshotter.v1.overlayfs"
	contents = root + "/io.containerd.content.v1.content"
	needle   = "needle-of-a-container"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
}

func open(t *testing.T, dir string) *tree.Tree {
	t.Helper()
	opened, err := tree.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// put writes keys, by the names of their buckets; a value of nil makes a bucket.
func put(t *testing.T, dir, name string, entries map[string][]byte) {
	t.Helper()
	change(t, dir, name, func(tx *bolt.Tx) error {
		for key, value := range entries {
			at := strings.Split(key, "|")
			b, err := tx.CreateBucketIfNotExists([]byte(at[0]))
			for _, part := range at[1 : len(at)-1] {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(part))
				}
			}
			if err == nil && value == nil {
				_, err = b.CreateBucketIfNotExists([]byte(at[len(at)-1]))
			} else if err == nil {
				err = b.Put([]byte(at[len(at)-1]), value)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	})
}

func change(t *testing.T, dir, name string, do func(tx *bolt.Tx) error) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	db, err := bolt.Open(filepath.Join(dir, name), 0o640, &bolt.Options{NoSync: true})
	must(t, err)
	must(t, errors.Join(db.Update(do), db.Close()))
}

// keys returns all keys of a database in the format of put.
func keys(t *testing.T, dir, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	_, err := readPages(open(t, dir), name, func(at []string, value []byte) error {
		all[strings.Join(at, "|")] = string(value)
		return nil
	})
	must(t, err)
	return all
}

func varint(n int64) []byte { return binary.AppendVarint(nil, n) }

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// archive returns the tar archive of a layer.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		must(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(content)
	must(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

var layerFiles = map[string]string{"etc/image": "of an image", "./usr/empty": "", "usr/bin/tool": strings.Repeat("tool", 5000)}

// containerd creates a store of containerd: an image with one layer, and one container per namespace.
func containerd(t *testing.T, pack func(*testing.T, []byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	unpacked := archive(t, layerFiles)
	blob := pack(t, unpacked)
	config := fmt.Appendf(nil, `{"rootfs":{"diff_ids":[%q]}}`, digest(unpacked))
	manifest := fmt.Appendf(nil, `{"config":{"digest":%q},"layers":[{"digest":%q}]}`, digest(config), digest(blob))
	index := fmt.Appendf(nil, `{"manifests":[{"digest":%q},{"digest":"sha256:of-another-platform"}]}`, digest(manifest))
	chain := digest(unpacked)
	entries := map[string][]byte{"v1|version": varint(4)}
	snapshots := map[string][]byte{}
	for i, ns := range []string{"k8s.io", "moby"} {
		image, active := strconv.Itoa(2*i+1), strconv.Itoa(2*i+2)
		for _, b := range [][]byte{blob, config, manifest, index} {
			entries["v1|"+ns+"|content|blob|"+digest(b)+"|size"] = varint(int64(len(b)))
			writeFile(t, dir, contents+"/blobs/"+strings.Replace(digest(b), ":", "/", 1), b)
		}
		for name, content := range layerFiles {
			writeFile(t, dir, overlay+"/snapshots/"+image+"/fs/"+name, []byte(content))
		}
		writeFile(t, dir, overlay+"/snapshots/"+active+"/fs/tmp/written", []byte(needle))
		room, err := containerdStore{At(open(t, dir), rules.Containerd, metaDB, nil)}.usage(overlay + "/snapshots/" + image + "/fs")
		must(t, err)
		for key, value := range map[string][]byte{
			"images|example.test/tool:1|target|digest":               []byte(digest(index)),
			"containers|c1|spec":                                     []byte(needle + " in an environment"),
			"containers|c1|snapshotter":                              []byte("overlayfs"),
			"containers|c1|snapshotKey":                              []byte("c1"),
			"containers|c1|labels|a":                                 []byte(needle),
			"sandboxes|s1|extensions|x":                              []byte(needle),
			"leases|s1|labels|l":                                     []byte(needle),
			"leases|pull|snapshots|overlayfs|c1":                     {},
			"leases|pull|content|" + digest(blob):                    {},
			"leases|pull|ingests|layer":                              {},
			"content|ingests|layer|ref":                              []byte("1/layer"),
			"snapshots|overlayfs|" + chain + "|name":                 []byte(ns + "/1/" + chain),
			"snapshots|overlayfs|" + chain + "|children|c1":          {},
			"snapshots|overlayfs|c1|name":                            []byte(ns + "/2/c1"),
			"snapshots|overlayfs|c1|parent":                          []byte(chain),
			"snapshots|overlayfs|c1|labels|containerd.io/snapshot/x": []byte(needle),
			"labels|l": []byte("of the namespace"),
		} {
			entries["v1|"+ns+"|"+key] = value
		}
		for name, kind := range map[string]byte{ns + "/1/" + chain: 3, ns + "/2/c1": 2} {
			number, _ := strconv.ParseUint(map[byte]string{3: image, 2: active}[kind], 10, 64)
			snapshots["v1|snapshots|"+name+"|id"] = binary.AppendUvarint(nil, number)
			snapshots["v1|snapshots|"+name+"|kind"] = []byte{kind}
			snapshots["v1|snapshots|"+name+"|size"] = varint(room)
			snapshots["v1|snapshots|"+name+"|labels|l"] = []byte(map[byte]string{3: "of an image", 2: needle}[kind])
		}
		snapshots["v1|parents|"+image+"-"+active] = []byte(ns + "/2/c1")
	}
	put(t, dir, metaDB, entries)
	put(t, dir, overlay+"/metadata.db", snapshots)
	writeFile(t, dir, contents+"/ingest/0a/data", []byte("half"))
	return dir
}

func stores(t *testing.T, dir string, spared ...string) map[rules.Store]Store {
	t.Helper()
	opened := open(t, dir)
	return map[rules.Store]Store{
		rules.Containerd: At(opened, rules.Containerd, metaDB, spared), rules.Snapshots: At(opened, rules.Snapshots, overlay+"/metadata.db", spared),
	}
}

// forget runs the same steps as a run.
func forget(t *testing.T, dir string, spared ...string) {
	t.Helper()
	for _, kind := range []rules.Store{rules.Containerd, rules.Snapshots} {
		s := stores(t, dir, spared...)[kind]
		if what, err := s.Remembers(); what == "" || err != nil {
			t.Errorf("before: %s remembers %q, %v", kind, what, err)
		}
		removed, err := s.Forget()
		must(t, err)
		if removed.Files == 0 {
			t.Errorf("%s removed nothing", kind)
		}
	}
	for kind, s := range stores(t, dir, spared...) {
		if what, err := s.Remembers(); what != "" || err != nil {
			t.Errorf("afterwards: %s remembers %q, %v", kind, what, err)
		}
		if why, err := s.Broken(); why != "" || err != nil {
			t.Errorf("afterwards: %s is broken: %q, %v", kind, why, err)
		}
		if again, err := s.Forget(); err != nil || again != (tree.Removed{}) {
			t.Errorf("a second time %s removed %+v, %v", kind, again, err)
		}
	}
}

// holding lists the files of a tree that contain a text.
func holding(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(p)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, p)
		}
		return err
	}))
	return found
}

func TestContainerdForgets(t *testing.T) {
	dir := containerd(t, zipped)
	// Data that was deleted before the run is in free pages.
	put(t, dir, metaDB, map[string][]byte{"v1|k8s.io|containers|gone|spec": bytes.Repeat([]byte(needle), 500)})
	change(t, dir, metaDB, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("v1")).Bucket([]byte("k8s.io")).Bucket([]byte("containers")).DeleteBucket([]byte("gone"))
	})
	must(t, os.Chmod(filepath.Join(dir, metaDB), 0o604))
	before := keys(t, dir, metaDB)
	forget(t, dir)
	if found := holding(t, dir, needle); len(found) > 0 {
		t.Errorf("these still hold it: %v", found)
	}
	if info, err := os.Stat(filepath.Join(dir, metaDB)); err != nil || info.Mode().Perm() != 0o604 {
		t.Errorf("the new database has mode %v, %v", info.Mode(), err)
	}
	after := keys(t, dir, metaDB)
	for key := range before {
		gone := false
		for _, part := range []string{"|containers", "|sandboxes", "|leases|s1", "|c1", "ingests"} {
			gone = gone || strings.Contains(key, part)
		}
		if _, stays := after[key]; stays == gone || stays && before[key] != after[key] {
			t.Errorf("%s: stays %t, %q", key, stays, after[key])
		}
	}
	for key := range keys(t, dir, overlay+"/metadata.db") {
		if strings.Contains(key, "/c1") || strings.HasPrefix(key, "v1|parents|") {
			t.Errorf("the snapshotter still has %s", key)
		}
	}
	for _, name := range []string{overlay + "/snapshots/2", overlay + "/snapshots/4", contents + "/ingest/0a"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("/%s is there", name)
		}
	}
}

// TestFreePages tests a store whose containers were removed properly.
func TestFreePages(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, metaDB, map[string][]byte{"v1|moby|containers|c1|spec": bytes.Repeat([]byte(needle), 500)})
	change(t, dir, metaDB, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("v1")).Bucket([]byte("moby")).Bucket([]byte("containers")).DeleteBucket([]byte("c1"))
	})
	s := stores(t, dir)[rules.Containerd]
	if what, err := s.Remembers(); err != nil || !strings.Contains(what, "free pages of /"+metaDB) {
		t.Errorf("got %q, %v", what, err)
	}
	if _, err := s.Forget(); err != nil || len(holding(t, dir, needle)) > 0 {
		t.Errorf("it is still there, %v", err)
	}
	if what, err := s.Remembers(); err != nil || what != "" {
		t.Errorf("got %q, %v", what, err)
	}
}

// TestOwnContainer: the layer of the container that runs Kamino stays in the metadata, so that containerd removes
// the layer later. Its specification is removed.
func TestOwnContainer(t *testing.T) {
	dir := containerd(t, zipped)
	forget(t, dir, overlay+"/snapshots/2/fs", overlay+"/snapshots/2/work")
	meta, known := keys(t, dir, metaDB), keys(t, dir, overlay+"/metadata.db")
	if _, found := meta["v1|k8s.io|snapshots|overlayfs|c1|name"]; !found {
		t.Error("containerd does not know the layer")
	}
	if _, found := known["v1|snapshots|k8s.io/2/c1|kind"]; !found {
		t.Error("the snapshotter does not know the layer")
	}
	for key := range meta {
		if strings.Contains(key, "|containers") || strings.Contains(key, "moby|snapshots|overlayfs|c1") {
			t.Errorf("it still has %s", key)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, overlay, "snapshots/2/fs/tmp/written")); err != nil {
		t.Error(err)
	}
}

// TestUnknownFormats stays unchanged, with an error.
func TestUnknownFormats(t *testing.T) {
	for what, c := range map[string]struct {
		arrange func(dir string)
		says    string
	}{
		"a newer version": {func(dir string) { put(t, dir, metaDB, map[string][]byte{"v1|version": varint(5)}) }, "the schema is v1.5: unknown to this version of Kamino"},
		"another schema":  {func(dir string) { put(t, dir, metaDB, map[string][]byte{"v2|k8s.io|x": nil}) }, `the schema is "v2"`},
		"another kind":    {func(dir string) { put(t, dir, metaDB, map[string][]byte{"v1|k8s.io|pods|x": nil}) }, `the namespace "k8s.io" has "pods"`},
		"no content":      {func(dir string) { must(t, os.Truncate(filepath.Join(dir, metaDB), 0)) }, "the database is empty"},
		"half of it": {func(dir string) {
			info, err := os.Stat(filepath.Join(dir, metaDB))
			must(t, err)
			must(t, os.Truncate(filepath.Join(dir, metaDB), info.Size()/2/4096*4096))
		}, "the database is damaged"},
		"a program has it": {func(dir string) {
			db, err := bolt.Open(filepath.Join(dir, metaDB), 0o600, nil)
			must(t, err)
			t.Cleanup(func() { _ = db.Close() })
		}, "stop the container runtime"},
		"a pipe": {func(dir string) {
			must(t, os.Remove(filepath.Join(dir, metaDB)))
			must(t, syscall.Mkfifo(filepath.Join(dir, metaDB), 0o600))
		}, "not a regular file"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := containerd(t, zipped)
			c.arrange(dir)
			s := stores(t, dir)[rules.Containerd]
			_, broken := s.Broken()
			_, err := s.Forget()
			for _, err := range []error{broken, err} {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
			}
			if _, err := os.Lstat(filepath.Join(dir, overlay, "snapshots/2/fs/tmp/written")); err != nil {
				t.Error("something was removed")
			}
		})
	}
}

// TestDamagedPages changes every single byte of the references between pages.
func TestDamagedPages(t *testing.T) {
	dir := containerd(t, zipped)
	whole, err := os.ReadFile(filepath.Join(dir, metaDB))
	must(t, err)
	f, err := os.OpenFile(filepath.Join(dir, metaDB), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	opened := open(t, dir)
	for at := range whole {
		if at%4096 > 96 {
			continue
		}
		_, err := f.WriteAt([]byte{whole[at] ^ 0xff}, int64(at))
		must(t, err)
		_, _ = readPages(opened, metaDB, nil) // must return
		_, err = f.WriteAt(whole[at:at+1], int64(at))
		must(t, err)
	}
	_, err = readPages(opened, metaDB, nil)
	must(t, err)
}

func zstded(t *testing.T, content []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return w.EncodeAll(content, nil)
}

// TestDamagedImages tests stores after a power loss or a copy of a mounted disk.
func TestDamagedImages(t *testing.T) {
	lose := func(name string) func(string) {
		return func(dir string) { must(t, os.Truncate(filepath.Join(dir, name), 0)) }
	}
	for name, pack := range map[string]func(*testing.T, []byte) []byte{
		"gzip": zipped, "zstd": zstded, "tar": func(_ *testing.T, b []byte) []byte { return b },
	} {
		dir := containerd(t, pack)
		for what, c := range map[string]struct {
			damage func(dir string)
			says   string
		}{
			"a file of a layer": {lose(overlay + "/snapshots/1/fs/usr/bin/tool"), "snapshots/1/fs/usr/bin/tool has 0 bytes, and had 20000"},
			"a small one":       {lose(overlay + "/snapshots/3/fs/etc/image"), "snapshots/3/fs/etc/image has 0 bytes, and had 11"},
			"a part of one": {func(dir string) {
				must(t, os.Truncate(filepath.Join(dir, overlay, "snapshots/3/fs/usr/bin/tool"), 8192))
			}, "has 8192 bytes, and had 20000"},
			"nothing but blocks": {func(dir string) { writeFile(t, dir, overlay+"/snapshots/1/fs/more", bytes.Repeat([]byte("x"), 9000)) }, ""},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				copied := t.TempDir()
				must(t, os.CopyFS(copied, os.DirFS(dir)))
				c.damage(copied)
				why, err := stores(t, copied)[rules.Containerd].Broken()
				must(t, err)
				if c.says == "" && why != "" || !strings.Contains(why, c.says) {
					t.Errorf("got %q, want %q", why, c.says)
				}
			})
		}
	}
	dir := containerd(t, zipped)
	blobs, err := filepath.Glob(filepath.Join(dir, contents, "blobs/sha256/*"))
	must(t, err)
	must(t, os.Truncate(blobs[0], 3))
	if why, err := stores(t, dir)[rules.Containerd].Broken(); err != nil || !strings.Contains(why, "has 3 bytes") {
		t.Errorf("a short blob: %q, %v", why, err)
	}
	must(t, os.Remove(blobs[0]))
	if why, err := stores(t, dir)[rules.Containerd].Broken(); err != nil || !strings.Contains(why, "is missing") {
		t.Errorf("no blob: %q, %v", why, err)
	}
	must(t, os.RemoveAll(filepath.Join(dir, overlay, "snapshots/1")))
	if why, err := stores(t, dir)[rules.Snapshots].Broken(); err != nil || !strings.Contains(why, "snapshots/1 is not there") {
		t.Errorf("no layer: %q, %v", why, err)
	}
}

// split returns the tar-split data of a layer's archive, as Docker and containers/storage keep them.
func split(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	for name, content := range files {
		line, err := json.Marshal(map[string]any{"type": 1, "name": name, "size": len(content), "payload": "AA=="})
		must(t, err)
		b.Write(append(line, '\n'))
	}
	return zipped(t, b.Bytes())
}

func TestDamagedLayersOfOthers(t *testing.T) {
	dir := t.TempDir()
	docker, storage := "var/lib/docker", "var/lib/containers/storage"
	for name, content := range layerFiles {
		writeFile(t, dir, docker+"/overlay2/aa/diff/"+name, []byte(content))
		writeFile(t, dir, storage+"/overlay/bb/diff/"+name, []byte(content))
		writeFile(t, dir, storage+"/vfs/dir/cc/"+name, []byte(content))
	}
	writeFile(t, dir, docker+"/image/overlay2/layerdb/sha256/11/cache-id", []byte("aa"))
	writeFile(t, dir, docker+"/image/overlay2/layerdb/sha256/11/tar-split.json.gz", split(t, layerFiles))
	for driver, layer := range map[string]string{"overlay": "bb", "vfs": "cc"} {
		writeFile(t, dir, storage+"/"+driver+"-layers/layers.json", []byte(`[{"id":"`+layer+`"}]`))
		writeFile(t, dir, storage+"/"+driver+"-layers/"+layer+".tar-split.gz", split(t, layerFiles))
		writeFile(t, dir, storage+"/"+driver+"-images/images.json", []byte(`[{"id":"i","layer":"`+layer+`"}]`))
	}
	opened := open(t, dir)
	for file, s := range map[string]Store{
		docker + "/overlay2/aa/diff/usr/bin/tool": At(opened, rules.Docker, docker+"/image/overlay2/layerdb", nil),
		storage + "/overlay/bb/diff/usr/bin/tool": At(opened, rules.Storage, storage+"/overlay-layers/layers.json", nil),
		storage + "/vfs/dir/cc/usr/bin/tool":      At(opened, rules.Storage, storage+"/vfs-layers/layers.json", nil),
	} {
		if why, err := s.Broken(); why != "" || err != nil {
			t.Errorf("%s: %q, %v", file, why, err)
		}
		must(t, os.Truncate(filepath.Join(dir, file), 0))
		if why, err := s.Broken(); err != nil || !strings.Contains(why, "/"+file+" has 0 bytes, and had 20000") {
			t.Errorf("%s: %q, %v", file, why, err)
		}
	}
	writeFile(t, dir, storage+"/btrfs-layers/layers.json", []byte(`[]`))
	if _, err := At(opened, rules.Storage, storage+"/btrfs-layers/layers.json", nil).Forget(); err == nil || !strings.Contains(err.Error(), "driver btrfs") {
		t.Errorf("another driver: %v", err)
	}
}
