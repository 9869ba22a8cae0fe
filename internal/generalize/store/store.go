package store

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// Kind is a kind of store, as rules name it.
type Kind string

// The kinds of stores, and which file or directory of one a rule's paths find.
const (
	// Containerd is the database of all namespaces: io.containerd.metadata.v1.bolt/meta.db.
	Containerd Kind = "containerd"
	// Snapshots is the database of one of containerd's snapshotters: metadata.db beside its snapshots.
	Snapshots Kind = "containerd-snapshots"
	// Docker is the layer store of one of Docker's drivers: image/DRIVER/layerdb.
	Docker Kind = "docker"
	// Storage is that of CRI-O and Podman: DRIVER-layers/layers.json.
	Storage Kind = "containers-storage"
)

// ErrInUse says that a program has a store open, so that nothing can be said of it nor done to it.
var ErrInUse = errors.New("a program has it open; stop the container runtime")

// Store is one store in a tree.
type Store struct {
	tree *tree.Tree
	// index is the path of what the rule found.
	index string
	kind  Kind
	// spared are directories in which a container goes on writing, as paths of the tree.
	spared []string
}

// At is the store of a kind whose index is at a path of a tree. Directories that are spared belong to the
// container which does the work; they stay.
func At(t *tree.Tree, kind Kind, index string, spared []string) Store {
	return Store{tree: t, index: index, kind: kind, spared: spared}
}

// Known says whether there is such a kind of store.
func Known(kind Kind) bool { return kinds[kind] != nil }

// layout is what can be done with a store of some kind. What is unknown of one is an error everywhere.
type layout interface {
	forget() (tree.Removed, error)
	remembers() (string, error)
	broken() (string, error)
}

// A store of each kind.
type (
	containerdStore struct{ Store }
	snapshotStore   struct{ Store }
	dockerStore     struct{ Store }
	storageStore    struct{ Store }
)

var kinds = map[Kind]func(Store) layout{
	Containerd: func(s Store) layout { return containerdStore{s} },
	Snapshots:  func(s Store) layout { return snapshotStore{s} },
	Docker:     func(s Store) layout { return dockerStore{s} },
	Storage:    func(s Store) layout { return storageStore{s} },
}

// Forget removes what the store keeps of containers, and what they wrote. Images stay as they are. It may be
// repeated. Files of Removed are records as well.
func (s Store) Forget() (tree.Removed, error) { return kinds[s.kind](s).forget() }

// Remembers says what is left of containers in the store; empty if there is nothing.
func (s Store) Remembers() (string, error) { return kinds[s.kind](s).remembers() }

// InUse says whether a program has the store open. Only those that are databases tell.
func (s Store) InUse() bool {
	if s.kind != Containerd && s.kind != Snapshots {
		return false
	}
	f, err := s.tree.OpenFile(s.index, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// Who writes to such a database has it locked.
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// Broken says in what the store's images are not what it takes them for; empty if they are. A clone would
// run them as they are, because it does not pull what it has.
func (s Store) Broken() (string, error) { return kinds[s.kind](s).broken() }

// spares says whether a directory, or something in it, is to stay.
func (s Store) spares(dir string) bool {
	return slices.ContainsFunc(s.spared, func(own string) bool { return own == dir || strings.HasPrefix(own, dir+"/") })
}

// names lists a directory; one that is not there has none.
func (s Store) names(dir string) ([]string, error) {
	entries, err := s.tree.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}

// holdsSomething is true as well of what cannot be looked at. Below "merged" a container's file system was
// mounted; the directory itself holds nothing.
func (s Store) holdsSomething(dir string) bool {
	names, err := s.names(dir)
	return err != nil || slices.ContainsFunc(names, func(name string) bool { return name != "merged" })
}

// remove removes a layer. What is still mounted in it stays: the mount shows what lies in other directories.
func (s Store) remove(layer string) (sum tree.Removed, err error) {
	info, err := s.tree.Lstat(layer)
	if errors.Is(err, fs.ErrNotExist) {
		return sum, nil
	}
	if err != nil {
		return sum, err
	}
	paths := []string{layer}
	if info.IsDir() {
		names, err := s.names(layer)
		if err != nil {
			return sum, err
		}
		for _, name := range names {
			paths = append([]string{layer + "/" + name}, paths...)
		}
	}
	for _, p := range paths {
		removed, err := s.tree.Remove(p, nil)
		add(&sum, removed)
		mounted := errors.Is(err, tree.ErrMounted) && (p == layer || strings.HasSuffix(p, "/merged"))
		if err != nil && !mounted {
			return sum, err
		}
	}
	return sum, nil
}

func add(sum *tree.Removed, more tree.Removed) {
	sum.Files += more.Files
	sum.Dirs += more.Dirs
	sum.Bytes += more.Bytes
}
