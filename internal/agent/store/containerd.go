package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// containerdSchema is the newest known version of containerd's database: 2.0 and later. 1.x writes 3. Source:
// containerd, core/metadata, buckets and migrations.
const containerdSchema = 4

// containerdKinds are the known kinds in a namespace. Any other kind may belong to containers.
var containerdKinds = []string{"labels", "indexes", "images", "containers", "snapshots", "content", "sandboxes", "leases"}

// containers has the entries of containerd's database that belong to containers.
type containers struct {
	// ids of containers and sandboxes, after namespace and "/".
	ids map[string]bool
	// snapshots to remove, after namespace, "/", snapshotter and "/".
	snapshots map[string]bool
}

// checkContainerd returns an error for a database of an unknown kind.
func checkContainerd(tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, version *bolt.Bucket) error {
		if string(name) != "v1" {
			return fmt.Errorf("the schema is %q: %w", name, errUnknown)
		}
		if v, n := binary.Varint(version.Get([]byte("version"))); n < 0 || v > containerdSchema {
			return fmt.Errorf("the schema is v1.%d: %w", v, errUnknown)
		}
		return version.ForEachBucket(func(namespace []byte) error {
			return version.Bucket(namespace).ForEach(func(kind, _ []byte) error {
				if !slices.Contains(containerdKinds, string(kind)) {
					return fmt.Errorf("the namespace %q has %q: %w", namespace, kind, errUnknown)
				}
				return nil
			})
		})
	})
}

// external are the databases of snapshotters that are services of their own, by the name that containerd's configuration gives
// them. Amazon Linux 2023 for EKS has SOCI.
var external = map[string]string{
	"stargz":         "var/lib/containerd-stargz-grpc/snapshotter/metadata.db",
	"soci":           "var/lib/soci-snapshotter-grpc/snapshotter/metadata.db",
	"fuse-overlayfs": "var/lib/containerd-fuse-overlayfs-grpc/metadata.db",
}

// snapshotters returns the databases of containerd's snapshotters by name: built-in and external.
func (s containerdStore) snapshotters() (map[string]backend, error) {
	all := map[string]backend{}
	root := path.Dir(path.Dir(s.index))
	const own = "io.containerd.snapshotter.v1."
	names, err := s.names(root)
	if err != nil {
		return nil, err
	}
	indexes := map[string]string{}
	for _, name := range names {
		if short, found := strings.CutPrefix(name, own); found {
			indexes[short] = root + "/" + name + "/metadata.db"
		}
	}
	maps.Copy(indexes, external)
	for name, index := range indexes {
		if _, err := s.tree.Lstat(index); err != nil {
			continue
		}
		if all[name], err = s.snapshotter(index); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// containers finds the entries of containers. A snapshot is an image's layer if its snapshotter says so. For an unknown
// snapshotter only snapshots named by containers are removed.
func (s containerdStore) containers(tx *bolt.Tx) (containers, error) {
	found := containers{map[string]bool{}, map[string]bool{}}
	if err := checkContainerd(tx); err != nil {
		return found, err
	}
	known, err := s.snapshotters()
	if err != nil {
		return found, err
	}
	base := path.Dir(path.Dir(s.index))
	version := tx.Bucket([]byte("v1"))
	if version == nil {
		return found, nil
	}
	return found, version.ForEachBucket(func(namespace []byte) error {
		b, at := version.Bucket(namespace), string(namespace)+"/"
		mine := map[string]bool{}
		for _, kind := range []string{"containers", "sandboxes"} {
			all := b.Bucket([]byte(kind))
			err := eachBucket(all, func(id string, c *bolt.Bucket) {
				found.ids[at+id] = true
				mine[string(c.Get([]byte("snapshotter")))+"/"+string(c.Get([]byte("snapshotKey")))] = true
			})
			if err != nil {
				return err
			}
		}
		all := b.Bucket([]byte("snapshots"))
		return eachBucket(all, func(name string, keys *bolt.Bucket) {
			theirs, isKnown := known[name]
			_ = eachBucket(keys, func(key string, entry *bolt.Bucket) {
				sn := theirs[string(entry.Get([]byte("name")))]
				gone := mine[name+"/"+key]
				if isKnown {
					gone = sn.kind != committed && !s.sparesNumber(base+"/io.containerd.snapshotter.v1."+name, sn.number)
				}
				if gone {
					found.snapshots[at+name+"/"+key] = true
				}
			})
		})
	})
}

func eachBucket(in *bolt.Bucket, visit func(name string, b *bolt.Bucket)) error {
	if in == nil {
		return nil
	}
	return in.ForEachBucket(func(name []byte) error {
		visit(string(name), in.Bucket(name))
		return nil
	})
}

// forget removes containers and sandboxes from each namespace, with their leases and snapshots. It also removes
// unfinished downloads, because their bytes are of no use without records.
func (s containerdStore) forget() (sum tree.Removed, err error) {
	var theirs containers
	err = s.withDatabase(s.index, func(tx *bolt.Tx) (err error) {
		theirs, err = s.containers(tx)
		return err
	})
	if err != nil {
		return sum, err
	}
	sum, err = s.rewrite(s.index, func(at []string, _ []byte) bool { return len(at) > 2 && theirs.has(at[1], at[2:]) })
	if err != nil {
		return sum, err
	}
	ingests := s.ingests()
	names, err := s.names(ingests)
	if err != nil {
		return sum, err
	}
	for _, name := range names {
		removed, err := s.tree.Remove(ingests+"/"+name, nil)
		add(&sum, removed)
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// ingests is the directory of unfinished downloads.
func (s containerdStore) ingests() string {
	return path.Dir(path.Dir(s.index)) + "/io.containerd.content.v1.content/ingest"
}

// has reports whether an entry of a namespace is removed.
func (c containers) has(namespace string, at []string) bool {
	id := func(n int) string { return namespace + "/" + strings.Join(at[n-1:], "/") }
	switch at[0] {
	case "containers", "sandboxes":
		return true
	case "content":
		return len(at) == 2 && at[1] == "ingests"
	case "leases":
		return len(at) == 2 && c.ids[id(2)] || len(at) == 3 && at[2] == "ingests" ||
			len(at) == 5 && at[2] == "snapshots" && c.snapshots[id(4)]
	case "snapshots":
		return len(at) == 3 && c.snapshots[id(2)] ||
			len(at) == 5 && at[3] == "children" && c.snapshots[namespace+"/"+at[1]+"/"+at[4]]
	default:
		return false
	}
}

// remembers counts the entries in the database's pages, and compares its snapshots with the snapshotters' snapshots.
func (s containerdStore) remembers() (string, error) {
	counts := map[string]int{}
	named := map[string]string{}
	stale, err := readPages(s.tree, s.index, func(at []string, value []byte) error {
		switch {
		case len(at) == 4 && slices.Contains([]string{"containers", "sandboxes"}, at[2]):
			counts[at[2]]++
		case len(at) == 5 && at[2] == "content" && at[3] == "ingests":
			counts["open downloads"]++
		case len(at) == 6 && at[2] == "snapshots" && at[5] == "name":
			named[at[3]+" "+string(value)] = at[3]
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("/%s: %w", s.index, err)
	}
	for _, what := range []string{"containers", "sandboxes", "open downloads"} {
		if n := counts[what]; n > 0 {
			return fmt.Sprintf("/%s still has %d %s", s.index, n, what), nil
		}
	}
	if stale > 0 {
		return staleText(s.index, stale), nil
	}
	if why, err := s.openDownloads(); err != nil || why != "" {
		return why, err
	}
	return s.disagree(named)
}

// openDownloads reports bytes of unfinished downloads.
func (s containerdStore) openDownloads() (string, error) {
	names, err := s.names(s.ingests())
	if err != nil || len(names) == 0 {
		return "", err
	}
	return fmt.Sprintf("/%s has %d open downloads", s.ingests(), len(names)), nil
}

// disagree names a snapshot in containerd's database that its snapshotter does not have.
func (s containerdStore) disagree(named map[string]string) (string, error) {
	has, read := map[string]bool{}, map[string]bool{}
	for _, snapshotter := range named {
		index := path.Dir(path.Dir(s.index)) + "/io.containerd.snapshotter.v1." + snapshotter + "/metadata.db"
		if _, err := s.tree.Lstat(index); err != nil || read[snapshotter] {
			continue
		}
		read[snapshotter] = true
		_, err := readPages(s.tree, index, func(at []string, _ []byte) error {
			if len(at) == 3 && at[0] == "v1" && at[1] == "snapshots" {
				has[snapshotter+" "+at[2]] = true
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("/%s: %w", index, err)
		}
	}
	for name, snapshotter := range named {
		if read[snapshotter] && !has[name] {
			return fmt.Sprintf("/%s has a snapshot without an entry in %s: %s", s.index, snapshotter, name), nil
		}
	}
	return "", nil
}
