package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/rules"
)

// DamagedImage is an image without its whole content.
type DamagedImage struct {
	Name string `json:"name"`
	// Message names the first damage.
	Message string `json:"message"`
}

// Damage is what a copy of a running disk lost of a store.
type Damage struct {
	// Images are the damaged images, by name. Remove removes them.
	Images []DamagedImage
	// Fatal are damages, or unknown data, that no removal of an image ends.
	Fatal []string

	store  containerdStore
	remove removal
}

// removal are the records and directories to remove, by namespace and "/" where a namespace has them.
type removal struct {
	images map[string]bool
	// blobs are digests.
	blobs map[string]bool
	// snapshots have the snapshotter after the namespace, then the key, and layers have the snapshotter and its own name.
	snapshots, layers map[string]bool
}

// checkedSnapshotters are the snapshotters whose layers are directories with files.
var checkedSnapshotters = []string{"overlayfs", "native"}

// Damage checks all content by its digest, and all layers by their size after the pull. In contrast to Broken it reads
// everything, and finds all damaged images. The store must not be in use.
func (s Store) Damage() (*Damage, error) {
	s.unclean = stoppedUncleanly(s.tree)
	switch s.kind {
	case rules.Containerd:
		return containerdStore{s}.damage()
	case rules.Snapshots:
		return &Damage{}, nil // found by the database of containerd, which names the layers
	default:
		why, err := s.Broken()
		if err != nil || why == "" {
			return &Damage{}, err
		}
		return &Damage{Fatal: []string{why}}, nil
	}
}

// layerRecord is a snapshot in containerd's database.
type layerRecord struct {
	namespace, snapshotter, key string
	// name is the snapshotter's name, and parent the key of the layer below; empty without one.
	name, parent string
}

func (l layerRecord) at() string { return l.namespace + "/" + l.snapshotter + "/" + l.key }

// inventory is what containerd's database lists.
type inventory struct {
	content
	// images are the digests by namespace, "/" and name.
	images map[string]string
	layers []layerRecord
}

func (s containerdStore) inventory() (v inventory, err error) {
	if v.content, err = s.content(); err != nil {
		return v, err
	}
	v.images = map[string]string{}
	return v, s.withDatabase(s.index, func(tx *bolt.Tx) error {
		return eachBucket(tx.Bucket([]byte("v1")), func(namespace string, b *bolt.Bucket) {
			_ = eachBucket(b.Bucket([]byte("images")), func(name string, image *bolt.Bucket) {
				if target := image.Bucket([]byte("target")); target != nil {
					v.images[namespace+"/"+name] = string(target.Get([]byte("digest")))
				}
			})
			_ = eachBucket(b.Bucket([]byte("snapshots")), func(snapshotter string, keys *bolt.Bucket) {
				_ = eachBucket(keys, func(key string, entry *bolt.Bucket) {
					v.layers = append(v.layers,
						layerRecord{namespace, snapshotter, key, string(entry.Get([]byte("name"))), string(entry.Get([]byte("parent")))})
				})
			})
		})
	})
}

func (s containerdStore) damage() (*Damage, error) {
	v, err := s.inventory()
	if err != nil {
		return nil, err
	}
	d := &Damage{store: s, remove: removal{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}}
	for _, l := range v.layers {
		why := fmt.Sprintf("/%s has layers of the snapshotter %s, which this version of Kamino cannot check: capture the node in place, if it can return",
			s.index, l.snapshotter)
		if !slices.Contains(checkedSnapshotters, l.snapshotter) && !slices.Contains(d.Fatal, why) {
			d.Fatal = append(d.Fatal, why)
		}
	}
	blobs, err := s.damagedBlobs(v.blobs)
	if err != nil {
		return nil, err
	}
	layers, err := s.damagedLayers(v, blobs)
	if err != nil {
		return nil, err
	}
	for digest := range blobs {
		d.remove.blobs[digest] = true
	}
	d.addLayers(v.layers, layers)
	byKey := map[string]string{}
	for _, l := range v.layers {
		if why := layers[l.at()]; why != "" {
			byKey[l.namespace+"/"+l.key] = why
		}
	}
	for _, image := range slices.Sorted(maps.Keys(v.images)) {
		namespace, name, _ := strings.Cut(image, "/")
		if why := s.whyDamaged(v, v.images[image], namespace, blobs, byKey); why != "" {
			d.remove.images[image] = true
			if !strings.HasPrefix(name, "sha256:") {
				d.Images = append(d.Images, DamagedImage{name, why})
			}
		}
	}
	return d, nil
}

// whyDamaged returns the first damage of what an image refers to.
func (s containerdStore) whyDamaged(v inventory, target, namespace string, blobs, layers map[string]string) string {
	archives := map[string]string{}
	s.archivesOf(target, archives, 0)
	for _, digest := range s.references(target, 0) {
		if why := blobs[digest]; why != "" {
			return why
		}
	}
	for _, chain := range slices.Sorted(maps.Keys(archives)) {
		if why := layers[namespace+"/"+chain]; why != "" {
			return why
		}
	}
	if _, listed := v.blobs[target]; !listed && v.blobs != nil {
		return fmt.Sprintf("its manifest %s is not in the store", target)
	}
	return ""
}

// references returns the digests that a manifest or an index refers to, itself included.
func (s containerdStore) references(digest string, depth int) []string {
	all := []string{digest}
	var manifest manifest
	if depth > maxIndexes || !s.parse(digest, &manifest) {
		return all
	}
	all = append(all, manifest.Config.Digest)
	for _, layer := range manifest.Layers {
		all = append(all, layer.Digest)
	}
	for _, m := range manifest.Manifests {
		all = append(all, s.references(m.Digest, depth+1)...)
	}
	return all
}

// damagedBlobs returns the damages of content by digest.
func (s containerdStore) damagedBlobs(sizes map[string]int64) (map[string]string, error) {
	damaged := map[string]string{}
	for digest, size := range sizes {
		p := s.blob(digest)
		info, err := s.tree.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			damaged[digest] = fmt.Sprintf("/%s is missing", p)
		case err != nil:
			return nil, err
		case info.Size() != size:
			damaged[digest] = fmt.Sprintf("/%s has %d bytes, and had %d", p, info.Size(), size)
		default:
			same, err := s.hasDigest(p, digest)
			if err != nil {
				return nil, err
			}
			if !same {
				damaged[digest] = fmt.Sprintf("/%s has another content than its digest", p)
			}
		}
	}
	return damaged, nil
}

// hasDigest compares a file with its digest. Digests of another kind than SHA-256 are not compared.
func (s containerdStore) hasDigest(p, digest string) (bool, error) {
	want, isSHA256 := strings.CutPrefix(digest, "sha256:")
	if !isSHA256 {
		return true, nil
	}
	f, err := s.tree.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(h.Sum(nil)) == want, nil
}

// damagedLayers returns the damages of unpacked layers by namespace, snapshotter and key. Layers that containers write to are left out:
// no clone gets them.
func (s containerdStore) damagedLayers(v inventory, blobs map[string]string) (map[string]string, error) {
	damaged, archives := map[string]string{}, map[string]string{}
	for _, target := range v.targets {
		s.archivesOf(target, archives, 0)
	}
	root := path.Dir(path.Dir(s.index))
	for _, snapshotter := range checkedSnapshotters {
		base := root + "/io.containerd.snapshotter.v1." + snapshotter
		unpacked, err := s.unpacked(base)
		if err != nil {
			return nil, err
		}
		known, err := s.namesIn(base)
		if err != nil {
			return nil, err
		}
		for _, l := range v.layers {
			if l.snapshotter != snapshotter {
				continue
			}
			if !known[l.name] {
				damaged[l.at()] = fmt.Sprintf("the layer %s is missing in the snapshotter %s", l.key, snapshotter)
				continue
			}
			layer, isImage := unpacked[l.name]
			if !isImage {
				continue
			}
			why, err := s.whyIncomplete(layer, archives[l.key], v.blobs, blobs)
			if err != nil {
				return nil, err
			}
			if why != "" {
				damaged[l.at()] = why
			}
		}
	}
	return damaged, nil
}

// whyIncomplete compares a layer with its recorded size and, if the size differs, with its archive. Without the archive a smaller
// layer counts as damaged: a clone that pulls the image again loses a minute, and a program with empty files harms it for good.
func (s containerdStore) whyIncomplete(l layer, archive string, sizes map[string]int64, damaged map[string]string) (string, error) {
	if _, err := s.tree.Lstat(l.dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("the layer /%s is missing", l.dir), nil
	}
	now, err := s.usage(l.dir)
	if err != nil || now == l.bytes && !s.unclean {
		return "", err
	}
	if _, listed := sizes[archive]; listed && damaged[archive] == "" {
		return s.blobDiffers(s.blob(archive), l.dir)
	}
	if now < l.bytes {
		return fmt.Sprintf("the layer /%s takes %d bytes, and took %d after the pull", l.dir, now, l.bytes), nil
	}
	return "", nil
}

// namesIn returns the names in a snapshotter's database; none without a database.
func (s containerdStore) namesIn(base string) (map[string]bool, error) {
	names := map[string]bool{}
	index := base + "/metadata.db"
	if _, err := s.tree.Lstat(index); errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	known, err := s.snapshotter(index)
	for name := range known {
		names[name] = true
	}
	return names, err
}

// addLayers adds damaged layers and everything above them: a pull finds an existing layer by its key, and does not unpack it again.
func (d *Damage) addLayers(all []layerRecord, damaged map[string]string) {
	for more := true; more; {
		more = false
		for _, l := range all {
			below := l.namespace + "/" + l.snapshotter + "/" + l.parent
			if d.remove.snapshots[l.at()] || damaged[l.at()] == "" && (l.parent == "" || !d.remove.snapshots[below]) {
				continue
			}
			d.remove.snapshots[l.at()], d.remove.layers[l.snapshotter+"/"+l.name], more = true, true, true
		}
	}
}

// Remove removes the damaged images, with their damaged content and layers and the layers above. Undamaged content of these images
// stays, and containerd removes it at its next collection.
func (d *Damage) Remove() error {
	r := d.remove
	if len(r.images)+len(r.blobs)+len(r.snapshots) == 0 {
		return nil
	}
	if _, err := d.store.rewrite(d.store.index, func(at []string, _ []byte) bool { return len(at) > 3 && at[0] == "v1" && r.has(at[1], at[2:]) }); err != nil {
		return err
	}
	for digest := range r.blobs {
		if _, err := d.store.tree.Remove(d.store.blob(digest), nil); err != nil {
			return err
		}
	}
	root := path.Dir(path.Dir(d.store.index))
	for _, snapshotter := range checkedSnapshotters {
		if err := d.removeLayers(root+"/io.containerd.snapshotter.v1."+snapshotter, snapshotter); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether an entry of a namespace is removed.
func (r removal) has(namespace string, at []string) bool {
	switch n := len(at); {
	case at[0] == "images" && n == 2:
		return r.images[namespace+"/"+at[1]]
	case at[0] == "content" && n == 3 && at[1] == "blob":
		return r.blobs[at[2]]
	case at[0] == "snapshots" && n == 3:
		return r.snapshots[namespace+"/"+at[1]+"/"+at[2]]
	case at[0] == "snapshots" && n == 5 && at[3] == "children":
		return r.snapshots[namespace+"/"+at[1]+"/"+at[4]]
	case at[0] == "leases":
		return r.leased(namespace, at)
	default:
		return false
	}
}

// leased reports whether a lease's reference is removed.
func (r removal) leased(namespace string, at []string) bool {
	switch n := len(at); {
	case n == 5 && at[2] == "snapshots":
		return r.snapshots[namespace+"/"+at[3]+"/"+at[4]]
	case n == 4 && at[2] == "content":
		return r.blobs[at[3]]
	default:
		return false
	}
}

// removeLayers removes layers from a snapshotter.
func (d *Damage) removeLayers(base, snapshotter string) error {
	index := base + "/metadata.db"
	if _, err := d.store.tree.Lstat(index); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	known, err := d.store.snapshotter(index)
	if err != nil {
		return err
	}
	gone := func(name string) bool { return d.remove.layers[snapshotter+"/"+name] }
	for name, sn := range known {
		if !gone(name) {
			continue
		}
		if _, err := d.store.Store.remove(base + "/snapshots/" + sn.number); err != nil {
			return err
		}
	}
	_, err = d.store.rewrite(index, func(at []string, value []byte) bool {
		return len(at) == 3 && at[0] == "v1" && (at[1] == "snapshots" && gone(at[2]) || at[1] == "parents" && gone(string(value)))
	})
	return err
}
