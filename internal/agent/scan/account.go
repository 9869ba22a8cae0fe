package scan

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// KnownFiles lists the parts of a disk that a search skipped or cut, and files of unknown origin.
type KnownFiles struct {
	// Packages counts files whose content matches the checksum of an installed package. They are not searched.
	Packages FileCount `json:"packages,omitzero"`
	// Images are container stores with their numbers of entries (blobs, layers). They are not searched.
	Images []Store `json:"images,omitempty"`
	// Mounts are skipped directories: mounts from elsewhere, and bind mounts of the same file system.
	Mounts Listing `json:"mounts,omitzero"`
	// Cut are files that unpack to more than the limit.
	Cut Listing `json:"cut,omitzero"`
	// Changed are package files with other content. They are searched.
	Changed Listing `json:"changed,omitzero"`
	// Possible are small files of unknown origin that may hold an identity: by their name, or by a UUID in them.
	Possible Listing `json:"possible,omitzero"`
	// Hashes has the SHA-256 of files of unknown origin by path, if Options.Hashes asks for them.
	Hashes map[string]string `json:"hashes,omitempty"`
	// Unknown are files from no package, image or base system. They are searched.
	Unknown Directories `json:"unknown,omitzero"`
}

// FileCount is a number of files with their total size in bytes.
type FileCount struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Store is a directory of a container runtime.
type Store struct {
	Path    string `json:"path"`
	Entries int    `json:"entries"`
}

// Listing is a complete count with the first entries.
type Listing struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"`
}

// maxFirst is the number of names in a listing.
const maxFirst = 20

func (l *Listing) add(name string) {
	if l.Count++; len(l.First) < maxFirst {
		l.First = append(l.First, name)
	}
}

// Directories counts files by directory, with the first names.
type Directories struct {
	// Files and Dirs are complete counts.
	Files int `json:"files"`
	Dirs  int `json:"dirs"`
	// List has the first directories, by path.
	List []Directory `json:"list,omitempty"`
}

// Directory is the number of files in a directory, with the first names.
type Directory struct {
	Dir   string   `json:"dir"`
	Files int      `json:"files"`
	Names []string `json:"names,omitempty"`
}

const (
	// maxDirectories is the number of directories in a report.
	maxDirectories = 200
	// maxNames is the number of names per directory.
	maxNames = 3
	// maxLevels is the depth below which files are counted for a parent directory.
	maxLevels = 4
	// maxCounted is the number of separately counted directories; further files are counted at the top level.
	maxCounted = 20_000
)

// directories counts files during a walk.
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

// skipImages counts the entries of a container store.
func (k *KnownFiles) skipImages(dir *os.Root, name, shown string) {
	store := Store{Path: shown}
	count := func(below string) {
		if f, err := dir.Open(path.Join(name, below)); err == nil {
			names, _ := f.Readdirnames(-1)
			store.Entries += len(names)
			f.Close()
		}
	}
	// Blobs and snapshots are one or two levels below the store, other entries directly in it.
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

func (k *KnownFiles) add(other *KnownFiles) {
	k.Packages.Files += other.Packages.Files
	k.Packages.Bytes += other.Packages.Bytes
	k.Images = append(k.Images, other.Images...)
	for _, pair := range [][2]*Listing{{&k.Mounts, &other.Mounts}, {&k.Cut, &other.Cut}, {&k.Changed, &other.Changed}, {&k.Possible, &other.Possible}} {
		pair[0].Count += pair[1].Count
		pair[0].First = append(pair[0].First, pair[1].First...)
	}
	k.Unknown.Files += other.Unknown.Files
	k.Unknown.Dirs += other.Unknown.Dirs
	k.Unknown.List = append(k.Unknown.List, other.Unknown.List...)
}
