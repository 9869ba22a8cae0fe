package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"
)

const (
	containerdSnapshotter = "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
	containerdIndex       = containerdSnapshotter + "/metadata.db"
	containerdSnap        = containerdSnapshotter + "/snapshots"
)

// Kinds of snapshots in the index: a container's writable layer, and a layer of an image.
const (
	snapshotActive    = 2
	snapshotCommitted = 3
)

// writable is the snapshotter's name for the writable layer of a pod.
func writable(uid string) string { return "k8s.io/" + uid + "/rw" }

// snapshotID is the number of a snapshot, and the name of its directory. Real numbers count up; here, the number is
// computed from the name.
func snapshotID(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:8]) >> 16
}

// snapshotDir is where a snapshot's files are.
func snapshotDir(root, name string) string {
	return filepath.Join(root, containerdSnap, strconv.FormatUint(snapshotID(name), 10))
}

// addSnapshot adds a snapshot to the index.
func addSnapshot(root, name string, kind byte) error {
	return withSnapshots(root, func(all *bolt.Bucket) error {
		snapshot, err := all.CreateBucketIfNotExists([]byte(name))
		if err != nil {
			return err
		}
		return errors.Join(
			snapshot.Put([]byte("id"), binary.AppendUvarint(nil, snapshotID(name))), snapshot.Put([]byte("kind"), []byte{kind}))
	})
}

// removeSnapshot removes a snapshot and its index entry.
func removeSnapshot(root, name string) error {
	if !exists(filepath.Join(root, containerdIndex)) {
		return nil
	}
	err := withSnapshots(root, func(all *bolt.Bucket) error {
		if all.Bucket([]byte(name)) == nil {
			return nil
		}
		return all.DeleteBucket([]byte(name))
	})
	return errors.Join(err, os.RemoveAll(snapshotDir(root, name)))
}

// writablePods lists the pods with a writable layer.
func writablePods(root string) (uids []string, err error) {
	if !exists(filepath.Join(root, containerdIndex)) {
		return nil, nil
	}
	err = withSnapshots(root, func(all *bolt.Bucket) error {
		return all.ForEachBucket(func(name []byte) error {
			if uid, found := strings.CutPrefix(string(name), "k8s.io/"); found && all.Bucket(name).Get([]byte("kind"))[0] == snapshotActive {
				uids = append(uids, strings.TrimSuffix(uid, "/rw"))
			}
			return nil
		})
	})
	return uids, err
}

// withSnapshots opens the index for a change.
func withSnapshots(root string, change func(all *bolt.Bucket) error) error {
	return changeIndex(root, containerdIndex, 0o700, func(version *bolt.Bucket) error {
		all, err := version.CreateBucketIfNotExists([]byte("snapshots"))
		if err != nil {
			return err
		}
		return change(all)
	})
}

// LayerDir is where the files of a layer are, as a path below the root.
func LayerDir(name string) string { return filepath.Join(snapshotDir("", name), "fs") }

// AddLayer adds a layer of an image, or a writable layer of a container.
func AddLayer(root, name string, image bool) error {
	kind := byte(snapshotActive)
	if image {
		kind = snapshotCommitted
	}
	return errors.Join(os.MkdirAll(filepath.Join(root, LayerDir(name)), 0o755), addSnapshot(root, name, kind))
}
