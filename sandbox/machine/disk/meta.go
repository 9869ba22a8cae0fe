package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

const containerdMeta = "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"

// withMeta opens the runtime's database for a change in the namespace of Kubernetes. Source: containerd,
// core/metadata: buckets v1, namespace, kind, name.
func withMeta(root string, change func(namespace *bolt.Bucket) error) error {
	return changeIndex(root, containerdMeta, 0o711, func(version *bolt.Bucket) error {
		if err := version.Put([]byte("version"), binary.AppendVarint(nil, 3)); err != nil {
			return err
		}
		namespace, err := version.CreateBucketIfNotExists([]byte("k8s.io"))
		if err != nil {
			return err
		}
		return change(namespace)
	})
}

// indexPatience is how long another hand on a database is waited for.
const indexPatience = 30 * time.Second

// changeIndex opens a database of the runtime for a change, and creates its directory with the mode. The disk has the change at once, but
// nothing is synced on this host: here, a loss of power is only the end of a process, which loses no data.
func changeIndex(root, index string, mode fs.FileMode, change func(version *bolt.Bucket) error) (err error) {
	path := filepath.Join(root, index)
	if err := os.MkdirAll(filepath.Dir(path), mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	db, err := bolt.Open(path, 0o644, &bolt.Options{Timeout: indexPatience, NoSync: true, NoGrowSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(), Fsync(root, index)) }()
	return db.Update(func(tx *bolt.Tx) error {
		version, err := tx.CreateBucketIfNotExists([]byte("v1"))
		if err != nil {
			return err
		}
		return change(version)
	})
}

// lookAtMeta reads the same, and writes nothing: a write without a change leaves pages behind, too.
func lookAtMeta(root string, look func(namespace *bolt.Bucket) error) (err error) {
	db, err := bolt.Open(filepath.Join(root, containerdMeta), 0o644, &bolt.Options{Timeout: indexPatience, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bolt.Tx) error {
		if version := tx.Bucket([]byte("v1")); version != nil {
			if namespace := version.Bucket([]byte("k8s.io")); namespace != nil {
				return look(namespace)
			}
		}
		return nil
	})
}

// CheckStores opens the runtime's databases, as the runtime does at its start. A missing database is no error.
func CheckStores(root string) error {
	for _, path := range []string{containerdMeta, containerdIndex} {
		full := filepath.Join(root, path)
		info, err := os.Stat(full)
		if err != nil {
			continue
		}
		// bbolt initializes an empty file.
		if info.Size() == 0 {
			continue
		}
		db, err := bolt.Open(full, 0o644, &bolt.Options{Timeout: indexPatience, ReadOnly: true})
		if err != nil {
			return fmt.Errorf("open /%s: %w", path, err)
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

// field is a key of the database, with its buckets and its value.
type field struct {
	at    []string
	value []byte
}

func putFields(in *bolt.Bucket, fields ...field) error {
	for _, f := range fields {
		b, last := in, len(f.at)-1
		var err error
		for _, name := range f.at[:last] {
			if b, err = b.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		if err := b.Put([]byte(f.at[last]), f.value); err != nil {
			return err
		}
	}
	return nil
}

// recordImage records an image: name, content with its sizes, and unpacked layer.
func recordImage(root, image, digest, layer string, sizes map[string]int64) error {
	return withMeta(root, func(namespace *bolt.Bucket) error {
		all := []field{{[]string{"images", image, "target", "digest"}, []byte(digest)}, {[]string{"snapshots", "overlayfs", layer, "name"}, []byte(layer)}}
		for digest, size := range sizes {
			all = append(all, field{[]string{"content", "blob", digest, "size"}, binary.AppendVarint(nil, size)})
		}
		return putFields(namespace, all...)
	})
}

// RecordContainer records a pod's sandbox, container and writable layer. The environment in the specification
// contains the value of a Secret, as on a real node.
func RecordContainer(root, uid, layer, secret string) error {
	spec := `{"ociVersion":"1.1.0","process":{"args":["/app","--token=` + secret + `"],"env":["DB_PASSWORD=` + secret + `"]}}`
	return withMeta(root, func(namespace *bolt.Bucket) error {
		return putFields(namespace,
			field{[]string{"sandboxes", uid, "spec"}, []byte(spec)},
			field{[]string{"leases", uid, "createdat"}, []byte{1}},
			field{[]string{"containers", uid, "spec"}, []byte(spec)},
			field{[]string{"containers", uid, "snapshotter"}, []byte("overlayfs")},
			field{[]string{"containers", uid, "snapshotKey"}, []byte(uid)},
			field{[]string{"snapshots", "overlayfs", uid, "name"}, []byte(layer)})
	})
}

// forgetContainer removes a pod's records. The content stays in free pages, as on a real node.
func forgetContainer(root, uid string) error {
	if !exists(filepath.Join(root, containerdMeta)) {
		return nil
	}
	known := false
	err := lookAtMeta(root, func(namespace *bolt.Bucket) error {
		known = len(recordsOf(namespace, uid)) > 0
		return nil
	})
	if err != nil || !known {
		return err
	}
	return withMeta(root, func(namespace *bolt.Bucket) error {
		for _, b := range recordsOf(namespace, uid) {
			if err := b.DeleteBucket([]byte(uid)); err != nil {
				return err
			}
		}
		return nil
	})
}

// recordsOf returns the buckets with records of a pod.
func recordsOf(namespace *bolt.Bucket, uid string) (of []*bolt.Bucket) {
	for _, kind := range [][]string{{"sandboxes"}, {"leases"}, {"containers"}, {"snapshots", "overlayfs"}} {
		b := namespace
		for _, name := range kind {
			if b != nil {
				b = b.Bucket([]byte(name))
			}
		}
		if b != nil && b.Bucket([]byte(uid)) != nil {
			of = append(of, b)
		}
	}
	return of
}

// recordedImages returns the names of recorded images, with digests.
func recordedImages(root string) (images []field) {
	if !exists(filepath.Join(root, containerdMeta)) {
		return nil
	}
	err := lookAtMeta(root, func(namespace *bolt.Bucket) error {
		all := namespace.Bucket([]byte("images"))
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(name []byte) error {
			if target := all.Bucket(name).Bucket([]byte("target")); target != nil {
				images = append(images, field{[]string{string(name)}, append([]byte(nil), target.Get([]byte("digest"))...)})
			}
			return nil
		})
	})
	if err != nil {
		return nil // with a damaged database, the runtime knows no images
	}
	return images
}
