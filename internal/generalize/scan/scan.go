package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
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
	// RuleSet names what was looked for, with its version.
	RuleSet string `json:"ruleSet,omitempty"`
	// Files and Bytes that were searched.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	Known
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
	r.Known.add(&other.Known)
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
	// Base says whether a file of a tree is one that every machine of its kind has, though no package owns
	// it; nil if nobody knows.
	Base func(path string) bool
	// Leftovers are files that a rule removed under another name, with that.
	Leftovers map[Inode]string
	// Known are SHA-256 of secrets that may stay in an image, with the reason.
	Known map[string]string
	// FreeOnly takes keys and tokens in blocks in use for somebody else's concern; the donor's identities
	// are looked for everywhere all the same.
	FreeOnly bool
	// Dirs of a tree that are read, as paths of the machine; all of it if empty.
	Dirs []string
	// All has searched as well what packages and container images brought.
	All bool

	// every has binary keys looked for at each sector of a file, as in an image.
	every bool
	// each is called with everything that is found, what it is known again by, and who brought the file; nil if nobody wants to know.
	each func(f Finding, key, broughtBy string)
}

// Inode is a file, whatever its names are.
type Inode struct{ Device, Number uint64 }

// Brought returns the hashes of keys, tokens and passwords of a tree that an image of the same disk has as well, and that
// are no findings in the tree: they came with packages and container images, are kept, or stand where only
// the begin of a file is one in an image (a test key in the middle of a program).
func Brought(ctx context.Context, dir string, o Options) (map[string]string, error) {
	brought, found := map[string]string{}, map[string]bool{}
	o.All, o.every = true, true
	o.each = func(f Finding, key, by string) {
		switch {
		case key == "":
		case by != "":
			brought[key] = f.Path + ": it came with " + by
		case f.Kept != "":
			brought[key] = f.Path + ": " + f.Kept
		default:
			found[key] = true
		}
	}
	if _, err := Tree(ctx, dir, o); err != nil {
		return nil, err
	}
	for hash := range found {
		delete(brought, hash)
	}
	return brought, nil
}

// insideProgram is who brought a binary key that stands in the middle of a file.
const insideProgram = "the file in the middle of which it stands"

type scanner struct {
	Options
	known  *known
	report *Report
	buffer []byte
	// buffers for streams in streams, by depth.
	buffers  [][]byte
	packages *packages
}

func newScanner(o Options) (*scanner, error) {
	set, err := RuleSet()
	if err != nil {
		return nil, err
	}
	return &scanner{Options: o, known: knownOf(o.Identities), report: &Report{RuleSet: set}, buffer: make([]byte, buffered)}, nil
}

// add takes a hit into the report.
func (s *scanner) add(f Finding) {
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

// Tree reads the files of a directory tree, links not followed, with their names and extended attributes.
// What cannot be read is an error, because it cannot be vouched for; what goes while it is looked at is not.
func Tree(ctx context.Context, dir string, o Options) (*Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s, err := newScanner(o)
	if err != nil {
		return nil, err
	}
	if s.packages, err = readPackages(root); err != nil {
		return nil, fmt.Errorf("read which files packages own: %w", err)
	}
	w := treeWalk{scanner: s, ctx: ctx, root: root, unknown: directories{}}
	dirs := o.Dirs
	if len(dirs) == 0 {
		dirs = []string{"/"}
	}
	for _, d := range dirs {
		top := path.Clean(strings.TrimPrefix(d, "/"))
		if top == "" {
			top = "."
		}
		info, err := root.Lstat(top)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, fmt.Errorf("look for secrets in %s: it is a link, so what it leads to must be named instead", d)
		case !info.IsDir():
			continue
		}
		if err := w.walk(top); err != nil {
			return s.report, fmt.Errorf("look for secrets in %s: %w", d, err)
		}
	}
	s.report.Unknown = w.unknown.list()
	return s.report, nil
}

// brings are container stores, and what of them is an image: it is known and skipped. Sources: containerd,
// Docker, containers/storage and snapd, the layout of their directories.
var brings = []string{
	"var/lib/containerd/io.containerd.content.v1.content", "var/lib/containerd/io.containerd.snapshotter.v1.*",
	"var/lib/containers/storage", "var/lib/docker/overlay2", "var/lib/docker/image", "var/lib/snapd/snaps",
	"var/lib/snapd/cache",
}

func isImageStore(p string) bool {
	return slices.ContainsFunc(brings, func(pattern string) bool {
		ok, err := path.Match(pattern, p)
		return err == nil && ok
	})
}

// file looks through one file of a tree.
func (w *treeWalk) file(f *os.File, place placeOf, size int64) error {
	name := place.shown
	broughtBy := place.broughtBy
	owned, unchanged, err := w.packages.owns(place.name, f)
	if err == nil && !owned {
		unchanged, err = w.byteCode(place.name, f)
	}
	if err != nil {
		return err
	}
	switch {
	case unchanged && !w.All:
		w.report.Packages.Files++
		w.report.Packages.Bytes += size
		return nil
	case unchanged:
		broughtBy = "a package"
	case owned:
		w.report.Changed.add(name)
	case broughtBy == "":
		w.unowned(place)
	}
	w.report.Files++
	owner := Owner{}
	asked := false
	found := func(h hit) {
		if !asked && w.Owner != nil {
			owner, asked = w.Owner(place.name), true
		}
		w.give(Finding{Path: name, Offset: h.offset, Kind: h.kind, What: h.what, SHA256: h.sum, Rule: owner.Rule, Kept: owner.Keeps}, h.key(), broughtBy)
	}
	return w.content(f, place.name, size, broughtBy == "" && takesNames(name), found)
}

// give takes what was found into the report, unless it was brought.
func (s *scanner) give(f Finding, key, broughtBy string) {
	if s.each != nil {
		s.each(f, key, broughtBy)
	}
	if broughtBy == "" || s.All && s.each == nil {
		s.add(f)
	}
}

// content looks through the content of a file.
func (w *treeWalk) content(f *os.File, name string, size int64, named bool, found func(hit)) error {
	d := w.decoder(size)
	first := true
	var secrets *sweep
	err := extents(f, size, func(offset, length int64) error {
		w.report.Bytes += length
		return windows(io.NewSectionReader(f, offset, length), offset, w.buffer, func(v *window) error {
			if first {
				first = false
				secrets = everything().sweep(named && isText(v.data), found)
				secrets.spared = func() bool { return generated(name) }
				secrets.decoder = d
				placed(name, v, found)
				if v.offset == 0 {
					d.unpack(v.data, size, io.NewSectionReader(f, 0, size), secrets)
				}
			}
			secrets.window(v)
			v.binaryKeys(false, found)
			if w.every && w.each != nil {
				w.middle(v, name)
			}
			w.identities(v, size, found)
			return w.ctx.Err()
		})
	})
	if secrets != nil {
		secrets.finish()
	}
	if *d.cut {
		w.report.Cut.add(name)
	}
	return err
}

// middle tells of binary keys in the middle of a file, which an image shows and a tree does not.
func (w *treeWalk) middle(v *window, name string) {
	v.binaryKeys(true, func(h hit) {
		if h.offset > 0 {
			w.each(Finding{Path: name, Offset: h.offset, Kind: h.kind, What: h.what, SHA256: h.sum}, h.key(), insideProgram)
		}
	})
}

// identities looks for the donor's.
func (s *scanner) identities(w *window, size int64, found func(hit)) {
	if len(s.known.paths) == 0 {
		return
	}
	if w.offset == 0 && w.from == 0 && int64(len(w.data)) == size {
		if p, is := s.known.whole(w.data); is {
			found(hit{kind: Identity, what: "the donor's " + p})
			return
		}
	}
	s.known.ids(w, found)
	s.known.journals(w, found)
}

// isText says whether a file is one that people read, by how it begins.
func isText(head []byte) bool { return bytes.IndexByte(head[:min(len(head), 8<<10)], 0) < 0 }
