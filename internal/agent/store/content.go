package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// content is the image data of containerd's database.
type content struct {
	// blobs are the sizes in bytes by digest.
	blobs map[string]int64
	// targets are the digests of named images.
	targets []string
}

func (s containerdStore) content() (c content, err error) {
	c.blobs = map[string]int64{}
	err = s.withDatabase(s.index, func(tx *bolt.Tx) error {
		if err := checkContainerd(tx); err != nil {
			return err
		}
		version := tx.Bucket([]byte("v1"))
		return eachBucket(version, func(_ string, namespace *bolt.Bucket) {
			if all := namespace.Bucket([]byte("content")); all != nil {
				_ = eachBucket(all.Bucket([]byte("blob")), func(digest string, blob *bolt.Bucket) {
					c.blobs[digest], _ = binary.Varint(blob.Get([]byte("size")))
				})
			}
			_ = eachBucket(namespace.Bucket([]byte("images")), func(_ string, image *bolt.Bucket) {
				if target := image.Bucket([]byte("target")); target != nil {
					c.targets = append(c.targets, string(target.Get([]byte("digest"))))
				}
			})
		})
	})
	return c, err
}

// blob returns the path of a digest's content.
func (s containerdStore) blob(digest string) string {
	return path.Dir(path.Dir(s.index)) + "/io.containerd.content.v1.content/blobs/" + strings.Replace(digest, ":", "/", 1)
}

// broken reports blobs with another size than in the database, and unpacked layers that differ from their archives. An
// unfinished download breaks nothing: no record refers to the download.
func (s containerdStore) broken() (string, error) {
	c, err := s.content()
	if err != nil {
		return "", err
	}
	for digest, size := range c.blobs {
		info, err := s.tree.Lstat(s.blob(digest))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("a cached image is damaged: /%s is missing, but listed in /%s; remove the image, and pull the image again",
				s.blob(digest), s.index), nil
		case err != nil:
			return "", err
		case info.Size() != size:
			return fmt.Sprintf("a cached image is damaged: /%s has %d bytes, and /%s lists %d; remove the image, and pull the image again",
				s.blob(digest), info.Size(), s.index, size), nil
		}
	}
	if s.unclean {
		if why, err := s.brokenSince(c); err != nil || why != "" {
			return why, err
		}
	}
	return s.brokenLayers(c)
}

// brokenSince compares all blobs with their digests, after an unclean stop. Layers of a snapshotter that is not read are refused.
func (s containerdStore) brokenSince(c content) (string, error) {
	v, err := s.inventory()
	if err != nil {
		return "", err
	}
	for _, l := range v.layers {
		if !slices.Contains(checkedSnapshotters, l.snapshotter) {
			return fmt.Sprintf("the machine has stopped without a shutdown, and /%s has layers of the snapshotter %s, which Kamino cannot compare: "+
				"remove the images of this snapshotter, or capture another node", s.index, l.snapshotter), nil
		}
	}
	damaged, err := s.damagedBlobs(c.blobs)
	for _, digest := range slices.Sorted(maps.Keys(damaged)) {
		return fmt.Sprintf("a cached image is damaged: since a stop without a shutdown, %s; remove the image, and pull the image again", damaged[digest]), nil
	}
	return "", err
}

// brokenLayers compares layers with their archives, if a layer's disk usage has changed since unpacking. Other layers
// are intact and need no reading.
func (s containerdStore) brokenLayers(c content) (string, error) {
	archives := map[string]string{}
	for _, target := range c.targets {
		s.archivesOf(target, archives, 0)
	}
	for _, snapshotter := range []string{"overlayfs", "native"} {
		base := path.Dir(path.Dir(s.index)) + "/io.containerd.snapshotter.v1." + snapshotter
		layers, err := s.unpacked(base)
		if err != nil {
			return "", err
		}
		for name, usage := range layers {
			blob, kept := archives[path.Base(name)]
			if _, known := c.blobs[blob]; !kept || !known {
				continue
			}
			now, err := s.usage(usage.dir)
			if err != nil || now == usage.bytes && !s.unclean {
				if err != nil {
					return "", err
				}
				continue
			}
			why, err := s.blobDiffers(s.blob(blob), usage.dir)
			if err != nil || why != "" {
				return why, err
			}
		}
	}
	return "", nil
}

// layer is an unpacked layer with its disk usage in bytes.
type layer struct {
	dir   string
	bytes int64
}

// unpacked returns a snapshotter's image layers by name.
func (s containerdStore) unpacked(base string) (map[string]layer, error) {
	all := map[string]layer{}
	index := base + "/metadata.db"
	if _, err := s.tree.Lstat(index); err != nil {
		return nil, nil
	}
	known, err := s.snapshotter(index)
	if err != nil {
		return nil, err
	}
	err = s.withDatabase(index, func(tx *bolt.Tx) error {
		for name, sn := range known {
			if sn.kind != committed {
				continue
			}
			dir := base + "/snapshots/" + sn.number
			if info, err := s.tree.Lstat(dir + "/fs"); err == nil && info.IsDir() && !strings.HasSuffix(base, ".native") {
				dir += "/fs"
			}
			bytes, _ := binary.Varint(tx.Bucket([]byte("v1")).Bucket([]byte("snapshots")).Bucket([]byte(name)).Get([]byte("size")))
			all[name] = layer{dir, bytes}
		}
		return nil
	})
	return all, err
}

// usage returns a directory's disk usage as containerd counts it: each file once.
func (s containerdStore) usage(dir string) (bytes int64, err error) {
	seen := map[uint64]bool{}
	if _, err := s.tree.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	err = s.tree.Walk(dir, func(_ string, info fs.FileInfo) error {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink > 1 && !info.IsDir() && seen[st.Ino] {
			return nil
		}
		if st.Nlink > 1 && !info.IsDir() {
			seen[st.Ino] = true
		}
		bytes += st.Blocks * 512
		return nil
	})
	return bytes, err
}

// manifest is an image manifest, or an index of manifests. Source: OCI image specification.
type manifest struct {
	Manifests []reference `json:"manifests"`
	Config    reference   `json:"config"`
	Layers    []reference `json:"layers"`
}

type reference struct {
	Digest string `json:"digest"`
}

// maxIndexes is the depth of nested manifest lists.
const maxIndexes = 4

// archivesOf finds the archive of each image layer by containerd's name of the unpacked layer: the digest of the chain
// of layers. Source: OCI image specification, layer chain IDs.
func (s containerdStore) archivesOf(digest string, archives map[string]string, depth int) {
	var manifest manifest
	if depth > maxIndexes || !s.parse(digest, &manifest) {
		return
	}
	for _, m := range manifest.Manifests {
		s.archivesOf(m.Digest, archives, depth+1)
	}
	var config struct {
		RootFS struct {
			Layers []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if len(manifest.Layers) == 0 || !s.parse(manifest.Config.Digest, &config) || len(config.RootFS.Layers) != len(manifest.Layers) {
		return
	}
	chain := ""
	for i, id := range config.RootFS.Layers {
		if chain == "" {
			chain = id
		} else {
			sum := sha256.Sum256([]byte(chain + " " + id))
			chain = "sha256:" + hex.EncodeToString(sum[:])
		}
		archives[chain] = manifest.Layers[i].Digest
	}
}

// parse parses a JSON blob. A missing blob belongs to another platform.
func (s containerdStore) parse(digest string, into any) bool {
	text, err := s.tree.Read(s.blob(digest))
	return err == nil && json.Unmarshal(text, into) == nil
}
