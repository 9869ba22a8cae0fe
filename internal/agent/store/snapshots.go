package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// committed is the kind of a snapshot that is an image's layer. Other snapshots are writable, views or half unpacked.
// Source: containerd, core/snapshots.
const committed = 3

// snapshotDirs are the snapshotters' directories of a snapshot, by its number.
var snapshotDirs = []string{"snapshots", "active"}

// snapshot is a snapshot in its snapshotter's database.
type snapshot struct {
	number string
	kind   byte
}

// backend is a snapshotter's database, by containerd's names of snapshots.
type backend map[string]snapshot

// image reports whether the number belongs to an image's layer.
func (b backend) image(number string) bool {
	for _, sn := range b {
		if sn.number == number {
			return sn.kind == committed
		}
	}
	return false
}

// snapshotter reads a snapshotter's database. Source: containerd, core/snapshots/storage: buckets v1, snapshots, then
// one per name; id is a varint.
func (s Store) snapshotter(index string) (backend, error) {
	all := backend{}
	err := s.withDatabase(index, func(tx *bolt.Tx) error {
		version := tx.Bucket([]byte("v1"))
		if version == nil || version.Bucket([]byte("snapshots")) == nil {
			return nil // nothing was ever unpacked
		}
		snapshots := version.Bucket([]byte("snapshots"))
		return snapshots.ForEachBucket(func(name []byte) error {
			b := snapshots.Bucket(name)
			number, n := binary.Uvarint(b.Get([]byte("id")))
			kind := b.Get([]byte("kind"))
			if n <= 0 || len(kind) != 1 {
				return fmt.Errorf("the entry %q is not a snapshot", name)
			}
			all[string(name)] = snapshot{strconv.FormatUint(number, 10), kind[0]}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("the writable layers are unknown: %w", err)
	}
	return all, nil
}

// sparesNumber reports whether the working container writes to a snapshot.
func (s Store) sparesNumber(base, number string) bool {
	return slices.ContainsFunc(snapshotDirs, func(sub string) bool { return s.spares(base + "/" + sub + "/" + number) })
}

// forget removes all snapshots except image layers: directories, also those unknown to the database, and entries.
func (s snapshotStore) forget() (sum tree.Removed, err error) {
	known, err := s.snapshotter(s.index)
	if err != nil {
		return sum, err
	}
	base := path.Dir(s.index)
	if err := s.reachable(base, known); err != nil {
		return sum, err
	}
	for _, sub := range snapshotDirs {
		names, err := s.names(base + "/" + sub)
		if err != nil {
			return sum, err
		}
		for _, name := range names {
			if known.image(name) || s.spares(base+"/"+sub+"/"+name) {
				continue
			}
			removed, err := s.remove(base + "/" + sub + "/" + name)
			add(&sum, removed)
			if err != nil {
				return sum, err
			}
		}
	}
	gone := func(name string) bool {
		sn, found := known[name]
		return found && sn.kind != committed && !s.sparesNumber(base, sn.number)
	}
	records, err := s.rewrite(s.index, func(at []string, value []byte) bool {
		switch {
		case len(at) != 3 || at[0] != "v1":
			return false
		case at[1] == "snapshots":
			return gone(at[2])
		default: // the entry of its parent
			return at[1] == "parents" && gone(string(value))
		}
	})
	add(&sum, records)
	return sum, err
}

// reachable returns an error if writable layers are not files or directories here, for example a block device.
func (s snapshotStore) reachable(base string, known backend) error {
	for _, sub := range snapshotDirs {
		if names, err := s.names(base + "/" + sub); err != nil || len(names) > 0 {
			return err
		}
	}
	for _, sn := range known {
		if sn.kind != committed {
			return fmt.Errorf("/%s lists the writable layer %s, which has no directory to remove", s.index, sn.number)
		}
	}
	return nil
}

// remembers checks the pages of the database and the directories.
func (s snapshotStore) remembers() (string, error) {
	kinds, numbers := map[string]byte{}, map[string]string{}
	stale, err := readPages(s.tree, s.index, func(at []string, value []byte) error {
		if len(at) != 4 || at[0] != "v1" || at[1] != "snapshots" {
			return nil
		}
		switch at[3] {
		case "id":
			number, _ := binary.Uvarint(value)
			numbers[at[2]] = strconv.FormatUint(number, 10)
		case "kind":
			if len(value) == 1 {
				kinds[at[2]] = value[0]
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("/%s: %w", s.index, err)
	}
	base, images, others := path.Dir(s.index), map[string]bool{}, 0
	for name, number := range numbers {
		if images[number] = kinds[name] == committed; !images[number] && !s.sparesNumber(base, number) {
			others++
		}
	}
	if why, err := s.leftOver(base, images); err != nil || why != "" {
		return why, err
	}
	if others > 0 {
		return fmt.Sprintf("/%s lists %d writable layers", s.index, others), nil
	}
	return staleText(s.index, stale), nil
}

// leftOver names a directory that is not an image's layer.
func (s snapshotStore) leftOver(base string, images map[string]bool) (string, error) {
	for _, sub := range snapshotDirs {
		names, err := s.names(base + "/" + sub)
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if dir := base + "/" + sub + "/" + name; !images[name] && !s.spares(dir) {
				return "/" + dir + " holds data of a container", nil
			}
		}
	}
	return "", nil
}

func staleText(index string, stale int) string {
	if stale == 0 {
		return ""
	}
	return fmt.Sprintf("%d free pages of /%s hold removed data", stale, index)
}

// broken reports missing image layers, and writable layers that forget cannot remove.
func (s snapshotStore) broken() (string, error) {
	known, err := s.snapshotter(s.index)
	if err != nil {
		return "", err
	}
	base := path.Dir(s.index)
	if err := s.reachable(base, known); err != nil {
		return "", err
	}
	for _, sub := range snapshotDirs {
		names, err := s.names(base + "/" + sub)
		if err != nil {
			return "", err
		}
		for name, sn := range known {
			if len(names) > 0 && sub == "snapshots" && sn.kind == committed && !slices.Contains(names, sn.number) {
				return fmt.Sprintf("/%s knows the layer %s, and /%s/snapshots/%s is not there", s.index, path.Base(name), base, sn.number), nil
			}
		}
	}
	return "", nil
}

var errUnknown = errors.New("unknown to this version of Kamino")
