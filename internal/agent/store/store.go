package store

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// ErrInUse is returned if a program has the store open, so that the store cannot be read or changed.
var ErrInUse = errors.New("a program has the database open; stop the container runtime")

// Store is one store in a tree.
type Store struct {
	tree *tree.Tree
	// index is the path found by the rule.
	index string
	kind  rules.Store
	// spared are directories of the working container, as paths of the tree.
	spared []string
	// unclean: the machine once stopped without a shutdown, so the content of files is compared, and not their sizes alone.
	unclean bool
}

// At returns the store of a kind with its index at a path. spared are directories of the working container, which stay.
func At(t *tree.Tree, kind rules.Store, index string, spared []string) Store {
	return Store{tree: t, index: index, kind: kind, spared: spared}
}

// layout has the operations on a kind of store. Unknown content is an error in all operations.
type layout interface {
	forget() (tree.Removed, error)
	remembers() (string, error)
	broken() (string, error)
}

// The stores of each kind.
type (
	containerdStore struct{ Store }
	snapshotStore   struct{ Store }
	dockerStore     struct{ Store }
	storageStore    struct{ Store }
)

var kinds = map[rules.Store]func(Store) layout{
	rules.Containerd: func(s Store) layout { return containerdStore{s} },
	rules.Snapshots:  func(s Store) layout { return snapshotStore{s} },
	rules.Docker:     func(s Store) layout { return dockerStore{s} },
	rules.Storage:    func(s Store) layout { return storageStore{s} },
}

// Forget removes the store's data about containers, and the containers' files. Images stay. Forget may be repeated.
// Files of the result counts records too.
func (s Store) Forget() (tree.Removed, error) { return kinds[s.kind](s).forget() }

// Remembers describes remaining data about containers; empty if there is none.
func (s Store) Remembers() (string, error) { return kinds[s.kind](s).remembers() }

// InUse reports whether a program has the store open. Only database stores can show this.
func (s Store) InUse() bool {
	if s.kind != rules.Containerd && s.kind != rules.Snapshots {
		return false
	}
	f, err := s.tree.OpenFile(s.index, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// A writer holds a lock on the database.
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// Broken describes damaged images in the store; empty if intact. A clone would run damaged images, because it does not
// pull existing images.
func (s Store) Broken() (string, error) {
	s.unclean = stoppedUncleanly(s.tree)
	return kinds[s.kind](s).broken()
}

// spares reports whether a directory, or something in it, stays.
func (s Store) spares(dir string) bool {
	return slices.ContainsFunc(s.spared, func(own string) bool { return own == dir || strings.HasPrefix(own, dir+"/") })
}

// names lists a directory. A missing directory is empty.
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

// holdsSomething reports whether a directory has content; true if unreadable. "merged" is only the mount point of a
// container's file system.
func (s Store) holdsSomething(dir string) bool {
	names, err := s.names(dir)
	return err != nil || slices.ContainsFunc(names, func(name string) bool { return name != "merged" })
}

// remove removes a layer, except mounted directories: a mount shows files of other directories.
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
