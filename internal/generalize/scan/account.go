package scan

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Known is what a search did not look into, or not to the end, and what it does not know the origin of.
type Known struct {
	// Packages are files that installed packages own and that have the content that these came with, by the
	// packages' own checksums. They are not searched.
	Packages Counted `json:"packages,omitzero"`
	// Images are container stores, which are not searched, with how many entries each has: blobs, layers.
	Images []Store `json:"images,omitempty"`
	// Mounts are directories where something is mounted that is not on this disk, or that is a directory of the same
	// file system. Neither is looked into.
	Mounts Listing `json:"mounts,omitzero"`
	// Cut are files that unpack to more than is looked at.
	Cut Listing `json:"cut,omitzero"`
	// Changed are files that packages own and that have another content. They are searched.
	Changed Listing `json:"changed,omitzero"`
	// Unknown are files that neither a package nor an image nor the base brought. They are searched.
	Unknown Directories `json:"unknown,omitzero"`
}

// Counted is a number of files, and of the bytes in them.
type Counted struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Store is a directory of a container runtime.
type Store struct {
	Path    string `json:"path"`
	Entries int    `json:"entries"`
}

// Listing is a complete count, and the first few.
type Listing struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"`
}

// maxFirst is how many names a listing gives.
const maxFirst = 20

func (l *Listing) add(name string) {
	if l.Count++; len(l.First) < maxFirst {
		l.First = append(l.First, name)
	}
}

// Directories are files by directory: complete counts, and the first names of each.
type Directories struct {
	// Files and Dirs in all.
	Files int `json:"files"`
	Dirs  int `json:"dirs"`
	// List of the first directories, by path.
	List []Directory `json:"list,omitempty"`
}

// Directory is how many files one directory has, and the first of their names.
type Directory struct {
	Dir   string   `json:"dir"`
	Files int      `json:"files"`
	Names []string `json:"names,omitempty"`
}

const (
	// maxDirectories is how many directories a report lists.
	maxDirectories = 200
	// maxNames is how many names of each.
	maxNames = 3
	// maxLevels is from which depth on files are counted for the directory above.
	maxLevels = 4
	// maxCounted is how many directories are kept apart while counting; from then on those at the top count.
	maxCounted = 20_000
)

// directories counts files while a tree is gone through.
type directories map[string]*Directory

func (d directories) add(name string) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if parts := strings.SplitN(dir, "/", maxLevels+2); len(parts) > maxLevels+1 {
		below := strings.Join(parts[:maxLevels+1], "/")
		base, dir = strings.TrimPrefix(name, below+"/"), below
	}
	known := d[dir]
	if known == nil && len(d) >= maxCounted {
		dir = "/" + strings.SplitN(dir, "/", 3)[1]
		known = d[dir]
	}
	if known == nil {
		known = &Directory{Dir: dir}
		d[dir] = known
	}
	if known.Files++; len(known.Names) < maxNames {
		known.Names = append(known.Names, base[:min(len(base), 256)])
	}
}

func (d directories) list() Directories {
	all := Directories{Dirs: len(d)}
	for _, dir := range slices.Sorted(maps.Keys(d)) {
		all.Files += d[dir].Files
		if len(all.List) < maxDirectories {
			all.List = append(all.List, *d[dir])
		}
	}
	return all
}

// unowned counts a file that nobody is known to have brought.
func (w *treeWalk) unowned(at placeOf) {
	if w.Base == nil || !w.Base(at.name) {
		w.unknown.add(at.shown)
	}
}

// skipImages counts what is in a container store.
func (k *Known) skipImages(dir *os.Root, name, shown string) {
	store := Store{Path: shown}
	count := func(below string) {
		if f, err := dir.Open(path.Join(name, below)); err == nil {
			names, _ := f.Readdirnames(-1)
			store.Entries += len(names)
			f.Close()
		}
	}
	// Blobs and snapshots lie one level or two below their store; others right in it.
	switch {
	case exists(dir, path.Join(name, "blobs/sha256")):
		count("blobs/sha256")
	case exists(dir, path.Join(name, "snapshots")):
		count("snapshots")
	default:
		count(".")
	}
	k.Images = append(k.Images, store)
}

func exists(dir *os.Root, name string) bool {
	_, err := dir.Lstat(name)
	return err == nil
}

func (k *Known) add(other *Known) {
	k.Packages.Files += other.Packages.Files
	k.Packages.Bytes += other.Packages.Bytes
	k.Images = append(k.Images, other.Images...)
	for _, pair := range [][2]*Listing{{&k.Mounts, &other.Mounts}, {&k.Cut, &other.Cut}, {&k.Changed, &other.Changed}} {
		pair[0].Count += pair[1].Count
		pair[0].First = append(pair[0].First, pair[1].First...)
	}
	k.Unknown.Files += other.Unknown.Files
	k.Unknown.Dirs += other.Unknown.Dirs
	k.Unknown.List = append(k.Unknown.List, other.Unknown.List...)
}
