package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Finding is something that must not be in a clone, or may be there for a reason. It never holds the
// secret itself.
type Finding struct {
	// Path of the machine where it was found, in a tree.
	Path string `json:"path,omitempty"`
	// Offset in bytes from the begin of the file or of the image.
	Offset int64 `json:"offset"`
	// Block says of an image whether the place is free or in use; empty if that cannot be told.
	Block Block `json:"block,omitempty"`
	Kind  Kind  `json:"kind"`
	// What it is: the form of the key or token, or the file of the donor that it is the content of.
	What string `json:"what"`
	// Rule is the id of the rule that the path belongs to, empty if no rule knows it.
	Rule string `json:"rule,omitempty"`
	// Kept says why it may stay; empty if it may not.
	Kept string `json:"kept,omitempty"`
	// SHA256 of the secret, where that does not help to guess it, so that it can be known again in an image.
	SHA256 string `json:"sha256,omitempty"`
}

// Where is the place of a finding in words.
func (f *Finding) Where() string {
	switch {
	case f.Path != "":
		return f.Path
	case f.Block != "":
		return fmt.Sprintf("byte %d (%s)", f.Offset, f.Block)
	default:
		return fmt.Sprintf("byte %d", f.Offset)
	}
}

// Report is what a scan saw.
type Report struct {
	// Files and Bytes that were read.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Count of findings that may not stay; Findings lists the first of them.
	Count    int       `json:"count"`
	Findings []Finding `json:"findings,omitempty"`
	// KeptCount of findings that may stay; Kept lists the first of them, with the reason.
	KeptCount int       `json:"keptCount,omitempty"`
	Kept      []Finding `json:"kept,omitempty"`
}

// maxListed is how many findings a report lists, of those that may stay and of those that may not.
const maxListed = 100

// Add takes over what another scan saw.
func (r *Report) Add(other *Report) {
	r.Files, r.Bytes = r.Files+other.Files, r.Bytes+other.Bytes
	r.Count, r.KeptCount = r.Count+other.Count, r.KeptCount+other.KeptCount
	r.Findings = append(r.Findings, other.Findings...)
	r.Kept = append(r.Kept, other.Kept...)
}

// Owner is what a profile says of a path.
type Owner struct {
	// Rule that the path belongs to.
	Rule string
	// Keeps says why what is there may stay; empty if it may not.
	Keeps string
}

// Options say what to look for, and where.
type Options struct {
	// Identities of the donor. Without any only keys and tokens are looked for.
	Identities []Value
	// Owner says which rule a path of a tree belongs to; nil if nobody knows.
	Owner func(path string) Owner
	// Known are SHA-256 of secrets that may stay in an image, with the reason.
	Known map[string]string
	// FreeOnly takes keys and tokens in blocks in use for somebody else's concern; the donor's identities
	// are looked for everywhere all the same.
	FreeOnly bool
	// Dirs of a tree that are read, as paths of the machine; all of it if empty.
	Dirs []string

	// images has container images read as well.
	images bool
	// each is called with everything that is found; nil if nobody wants to know.
	each func(Finding)
}

// Dirs are the directories in which a machine keeps what it got or made for itself. The rest comes from
// packages and images, which bring keys of their own for tests and examples.
func Dirs() []string { return []string{"/etc", "/home", "/root", "/var/lib", "/var/log"} }

// shared are parts of those that come from packages and container images, by the thousands of files.
var shared = []string{
	"var/lib/containerd/io.containerd.content.v1.content", "var/lib/containerd/io.containerd.snapshotter.v1.*",
	"var/lib/containers/storage", "var/lib/docker/overlay2", "var/lib/docker/image", "var/lib/snapd/snaps",
	"var/lib/snapd/cache", "proc", "sys", "dev", "run",
}

// Brought returns the hashes of keys that came with packages and container images, and where each is: what a
// tree has outside of the directories in which a machine keeps what is its own. In an image of the same disk
// they cannot be told from others by anything else.
func Brought(ctx context.Context, dir string) (map[string]string, error) {
	brought := map[string]string{}
	_, err := Tree(ctx, dir, Options{images: true, each: func(f Finding) {
		if f.SHA256 != "" && !own(f.Path) {
			brought[f.SHA256] = f.Path + ": it came with a package or a container image"
		}
	}})
	if err != nil {
		return nil, err
	}
	return brought, nil
}

// own says whether a path of the machine is where it keeps what it got or made for itself.
func own(p string) bool {
	for dir := strings.TrimPrefix(p, "/"); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if skipped(dir) {
			return false
		}
	}
	return slices.ContainsFunc(Dirs(), func(dir string) bool { return strings.HasPrefix(p, dir+"/") })
}

type scanner struct {
	Options
	known  *known
	report *Report
	buffer []byte
}

func newScanner(o Options) *scanner {
	return &scanner{Options: o, known: knownOf(o.Identities), report: &Report{}, buffer: make([]byte, buffered)}
}

// add takes a hit into the report.
func (s *scanner) add(f Finding) {
	if s.each != nil {
		s.each(f)
	}
	if f.Kept != "" {
		if s.report.KeptCount++; len(s.report.Kept) < maxListed {
			s.report.Kept = append(s.report.Kept, f)
		}
		return
	}
	if s.report.Count++; len(s.report.Findings) < maxListed {
		s.report.Findings = append(s.report.Findings, f)
	}
}

// Tree reads the files of a directory tree, links not followed. What cannot be read is an error, because
// it cannot be vouched for; what goes while it is looked at is not.
func Tree(ctx context.Context, dir string, o Options) (*Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := newScanner(o)
	dirs := o.Dirs
	if len(dirs) == 0 {
		dirs = []string{"/"}
	}
	for _, d := range dirs {
		top := path.Clean(strings.TrimPrefix(d, "/"))
		if top == "" {
			top = "."
		}
		if info, err := root.Lstat(top); err != nil || !info.IsDir() {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return nil, err
		}
		w := treeWalk{scanner: s, root: root}
		err := fs.WalkDir(root.FS(), top, func(p string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return w.visit(p, d, err)
		})
		if err != nil {
			return s.report, fmt.Errorf("look for secrets in %s: %w", d, err)
		}
	}
	return s.report, nil
}

type treeWalk struct {
	*scanner
	root *os.Root
}

func (w *treeWalk) visit(p string, d fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case d.IsDir():
		if skipped(p) && (!w.images || !strings.HasPrefix(p, "var/")) {
			return fs.SkipDir
		}
		return w.enter(p)
	case !d.Type().IsRegular():
		return nil
	}
	f, err := w.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return w.file(f, "/"+p, info.Size())
}

func skipped(p string) bool {
	return slices.ContainsFunc(shared, func(pattern string) bool {
		ok, err := path.Match(pattern, p)
		return err == nil && ok
	})
}

// enter leaves out what is mounted from elsewhere: no copy of the disk has it.
func (w *treeWalk) enter(p string) error {
	if p == "." {
		return nil
	}
	here, err := w.root.Lstat(p)
	if err != nil {
		return err
	}
	above, err := w.root.Lstat(path.Dir(p))
	if err != nil || sameDevice(here, above) {
		return err
	}
	dir, err := w.root.Open(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	if part, err := onDisk(dir); err != nil || part {
		return err
	}
	return fs.SkipDir
}

func sameDevice(a, b fs.FileInfo) bool {
	x, isX := a.Sys().(*syscall.Stat_t)
	y, isY := b.Sys().(*syscall.Stat_t)
	return !isX || !isY || x.Dev == y.Dev
}

// file looks through one file of a tree.
func (s *scanner) file(f *os.File, name string, size int64) error {
	s.report.Files++
	owner := Owner{}
	if s.Owner != nil {
		owner = s.Owner(name)
	}
	found := func(h hit) {
		s.add(Finding{Path: name, Offset: h.offset, Kind: h.kind, What: h.what, SHA256: h.sum, Rule: owner.Rule, Kept: owner.Keeps})
	}
	return extents(f, size, func(offset, length int64) error {
		s.report.Bytes += length
		return windows(io.NewSectionReader(f, offset, length), offset, s.buffer, func(w *window) error {
			w.secrets(found)
			w.binaryKeys(false, found)
			if len(s.known.paths) == 0 {
				return nil
			}
			if w.offset == 0 && w.from == 0 && int64(len(w.data)) == size {
				if p, is := s.known.whole(w.data); is {
					found(hit{kind: Identity, what: "the donor's " + p})
					return nil
				}
			}
			s.known.ids(w, found)
			s.known.journals(w, found)
			return nil
		})
	})
}
