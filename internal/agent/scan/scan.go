package scan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Finding is data that must not be in a clone, or that may stay for a reason. It never contains the secret.
type Finding struct {
	// Path is the path of the machine, in a tree.
	Path string `json:"path,omitempty"`
	// Offset is in bytes from the beginning of the file or image.
	Offset int64 `json:"offset"`
	// Block is the state of the block in an image; empty if unknown.
	Block Block `json:"block,omitempty"`
	Kind  Kind  `json:"kind"`
	// What describes the form of the key or token, or names the donor's file.
	What string `json:"what"`
	// Rule is the ID of the path's rule; empty without a rule.
	Rule string `json:"rule,omitempty"`
	// Kept is why the finding may stay; empty if it must not.
	Kept string `json:"kept,omitempty"`
	// SHA256 is the hash of a secret that cannot be guessed from it, for recognition in an image.
	SHA256 string `json:"sha256,omitempty"`
}

// Where returns the place of a finding in words.
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

// Report is the result of a scan.
type Report struct {
	// RuleSet describes the forms with version.
	RuleSet string `json:"ruleSet,omitempty"`
	// Files and Bytes are the searched amounts.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	KnownFiles
	// Count is the number of forbidden findings. Findings lists the first of them.
	Count    int       `json:"count"`
	Findings []Finding `json:"findings,omitempty"`
	// KeptCount is the number of allowed findings. Kept lists the first of them, with reasons.
	KeptCount int       `json:"keptCount,omitempty"`
	Kept      []Finding `json:"kept,omitempty"`
}

// maxListed is the number of listed findings of each kind, forbidden and allowed.
const maxListed = 100

// Add adds the report of another scan.
func (r *Report) Add(other *Report) {
	r.Files, r.Bytes = r.Files+other.Files, r.Bytes+other.Bytes
	r.KnownFiles.add(&other.KnownFiles)
	r.Count, r.KeptCount = r.Count+other.Count, r.KeptCount+other.KeptCount
	r.Findings = append(r.Findings, other.Findings...)
	r.Kept = append(r.Kept, other.Kept...)
}

// Owner is a profile's decision about a path.
type Owner struct {
	// Rule is the rule of the path.
	Rule string
	// Keeps is why content at the path may stay; empty if it must not.
	Keeps string
}

// Change is what a run does to a file or directory.
type Change struct {
	// Removed: nothing is left at the path. Something below a directory may stay.
	Removed bool
	// Name is the new path of the machine, and Content the new content; empty and nil without a change.
	Name    string
	Content []byte
}

// body is the content of a file, or the content that a run leaves of it.
type body struct {
	io.ReaderAt
	size int64
	// file is nil for a content that is not on the disk.
	file *os.File
}

// reader reads the whole content from its beginning.
func (b body) reader() *io.SectionReader { return io.NewSectionReader(b, 0, b.size) }

// extents calls visit for each part with data.
func (b body) extents(visit func(offset, length int64) error) error {
	if b.file == nil {
		return visit(0, b.size)
	}
	return extents(b.file, b.size, visit)
}

// Options define the search.
type Options struct {
	// Identities are the donor's. Without identities only keys and tokens are searched.
	Identities []Value
	// Literals are the donor's values in plain text. They are searched in files of people and their tools only.
	Literals []Literal
	// Owner returns the rule of a path in a tree. May be nil.
	Owner func(path string) Owner
	// Changed returns what a later run leaves of a file or directory, for a search before the run. Nil: everything stays.
	Changed func(path string) Change
	// Base reports whether every machine of the kind has the file although no package owns it. May be nil.
	Base func(path string) bool
	// Leftovers are removed files with another remaining name, by inode, with the removed name.
	Leftovers map[Inode]string
	// Known has the SHA-256 of secrets that may stay in an image, with reasons.
	Known map[string]string
	// FreeOnly allows keys and tokens in blocks in use. The donor's identities are forbidden everywhere.
	FreeOnly bool
	// NoLog forbids in the log of XFS what is forbidden in free blocks: the log was wiped.
	NoLog bool
	// Dirs are the searched directories of a tree, as paths of the machine; empty: the whole tree.
	Dirs []string
	// Hashes lists files of unknown origin with their SHA-256, for a comparison of two machines.
	Hashes bool
	// All also searches the files of packages and container images.
	All bool

	// every searches binary keys at each sector of a file, as in an image.
	every bool
	// hashesOnly reads only files of unknown origin, and searches nothing.
	hashesOnly bool
	// each receives every finding with its key for recognition and the origin of the file. May be nil.
	each func(f Finding, key, broughtBy string)
}

// Inode identifies a file regardless of its names.
type Inode struct{ Device, Number uint64 }

// Brought returns the hashes of secrets in a tree that an image of the same disk may contain, with reasons: from packages and
// container images, kept, or in the middle of a file (a test key in a program).
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

// insideProgram is the origin of a binary key in the middle of a file.
const insideProgram = "the surrounding file"

type scanner struct {
	Options
	known *known
	// literals is nil without values.
	literals *literals
	report   *Report
	buffer   []byte
	// buffers are for streams within streams, by depth, and entry is for a file of an initramfs.
	buffers  [][]byte
	entry    []byte
	packages *packages
}

func newScanner(o Options) (*scanner, error) {
	set, err := RuleSet()
	if err != nil {
		return nil, err
	}
	return &scanner{Options: o, known: knownOf(o.Identities), literals: literalsOf(o.Literals), report: &Report{RuleSet: set}, buffer: make([]byte,
		buffered)}, nil
}

// add adds a finding to the report.
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

// Tree searches the files of a directory tree with their names and extended attributes. Links are not followed. An
// unreadable file is an error; a file deleted meanwhile is not.
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
		return nil, fmt.Errorf("read the files of packages: %w", err)
	}
	w := treeWalk{scanner: s, ctx: ctx, root: root, unknown: directories{}, names: linkedNames{map[Inode]string{}, map[Inode]placeOf{}}}
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
			return nil, fmt.Errorf("look for secrets in %s: the path is a link: pass the target instead", d)
		case !info.IsDir():
			continue
		}
		if err := w.walk(top); err != nil {
			return s.report, fmt.Errorf("look for secrets in %s: %w", d, err)
		}
	}
	w.leftovers()
	s.report.Unknown = w.unknown.list()
	return s.report, nil
}

// brings are the container stores with images, which are skipped. Sources: containerd, Docker, containers/storage and
// snapd, the layout of their directories.
var brings = []string{
	"var/lib/containerd/io.containerd.content.v1.content", "var/lib/containerd/io.containerd.snapshotter.v1.*",
	"var/lib/containerd-stargz-grpc/snapshotter", "var/lib/soci-snapshotter-grpc/snapshotter",
	"var/lib/containers/storage", "var/lib/docker/overlay2", "var/lib/docker/image", "var/lib/snapd/snaps",
	"var/lib/snapd/cache",
	"var/lib/rancher/*/agent/containerd/io.containerd.content.v1.content", "var/lib/rancher/*/agent/containerd/io.containerd.snapshotter.v1.*",
	"var/lib/docker/containerd/daemon/io.containerd.content.v1.content", "var/lib/docker/containerd/daemon/io.containerd.snapshotter.v1.*",
}

func isImageStore(p string) bool {
	return slices.ContainsFunc(brings, func(pattern string) bool {
		ok, err := path.Match(pattern, p)
		return err == nil && ok
	})
}

// Hashes returns the SHA-256 of the files of unknown origin that a run leaves in a tree, without a search. Files of packages are
// not read. changed may be nil.
func Hashes(ctx context.Context, dir string, base func(path string) bool, changed func(path string) Change) (map[string]string, error) {
	report, err := Tree(ctx, dir, Options{Base: base, Hashes: true, Changed: changed, hashesOnly: true})
	if err != nil {
		return nil, err
	}
	return report.Hashes, nil
}

// file searches one file of a tree.
func (w *treeWalk) file(f body, place placeOf) error {
	if w.hashesOnly {
		return w.hashUnknown(f, place)
	}
	broughtBy, isUnknown := place.broughtBy, false // unknown: from no package, image or base system
	owned, unchanged, err := w.packages.owns(place.name, f.reader())
	if err == nil && !owned {
		unchanged, err = w.byteCode(place.name, f.reader())
	}
	if err != nil {
		return err
	}
	switch {
	case unchanged && !w.All:
		w.report.Packages.Files++
		w.report.Packages.Bytes += f.size
		return nil
	case unchanged:
		broughtBy = "a package"
	case owned:
		w.report.Changed.add(place.shown)
	case broughtBy == "" && (w.Base == nil || !w.Base(place.name)):
		w.unknown.add(place.shown)
		isUnknown = true
	}
	w.report.Files++
	if isUnknown {
		if err := w.hash(f, place); err != nil {
			return err
		}
	}
	return w.content(f, place, broughtBy, isUnknown, w.foundIn(f, place, broughtBy))
}

// foundIn returns a function that adds the findings in a file to the report. A copy of a packaged file has only what the
// package brought.
func (w *treeWalk) foundIn(f body, place placeOf, broughtBy string) func(secretHit) {
	var owner Owner
	asked := false
	return func(h secretHit) {
		if !asked {
			asked = true
			if w.Owner != nil {
				owner = w.Owner(place.name)
			}
			if broughtBy == "" && owner.Keeps == "" && w.packages.isCopy(f.reader()) {
				broughtBy = "a package"
			}
		}
		w.addFinding(Finding{Path: place.shown, Offset: h.offset, Kind: h.kind, What: h.what, SHA256: h.sum, Rule: owner.Rule, Kept: owner.Keeps},
			h.key(), broughtBy)
	}
}

// hashUnknown hashes a file that no package, image or base system brought.
func (w *treeWalk) hashUnknown(f body, place placeOf) error {
	if place.broughtBy != "" || w.packages.has(place.name) {
		return nil
	}
	if unchanged, err := w.byteCode(place.name, f.reader()); err != nil || unchanged {
		return err
	}
	if w.Base != nil && w.Base(place.name) {
		return nil
	}
	return w.hash(f, place)
}

// addFinding adds a finding to the report, unless a package or image brought the file.
func (s *scanner) addFinding(f Finding, key, broughtBy string) {
	if s.each != nil {
		s.each(f, key, broughtBy)
	}
	if broughtBy == "" || s.All && s.each == nil {
		s.add(f)
	}
}

// content searches the content of a file.
func (w *treeWalk) content(f body, place placeOf, broughtBy string, isUnknown bool, found func(secretHit)) error {
	name, size := place.name, f.size
	named := broughtBy == "" && takesNames(name)
	d := w.decoder(name, size)
	first := true
	var secrets *streamSearch
	err := f.extents(func(offset, length int64) error {
		w.report.Bytes += length
		return windows(io.NewSectionReader(f, offset, length), offset, w.buffer, func(v *window) error {
			if first {
				first = false
				if v.offset == 0 {
					found = d.ofPackages(v.data, f.reader(), size, found)
				}
				secrets = everything().sweep(name, named && isText(v.data), found)
				secrets.spared = func() bool { return generated(name) }
				secrets.decoder = d
				placed(name, v, found)
				if v.offset == 0 {
					if isUnknown && size <= maxPossible {
						w.possible(v.data, place, found)
					}
					if broughtBy == "" && isCore(v.data) {
						found(secretHit{kind: Memory, what: "core dump (ELF)"})
					}
					d.unpack(v.data, size, f.reader(), secrets)
				}
			}
			secrets.window(v)
			v.binaryKeys(false, found)
			if broughtBy == "" && w.literals.watches(name) {
				w.literals.find(name, v, found)
			}
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

// middle reports binary keys in the middle of a file. An image shows such keys; a tree does not.
func (w *treeWalk) middle(v *window, name string) {
	v.binaryKeys(true, func(h secretHit) {
		if h.offset > 0 {
			w.each(Finding{Path: name, Offset: h.offset, Kind: h.kind, What: h.what, SHA256: h.sum}, h.key(), insideProgram)
		}
	})
}

// identities searches for the donor's identities.
func (s *scanner) identities(w *window, size int64, found func(secretHit)) {
	if len(s.known.paths) == 0 {
		return
	}
	if w.offset == 0 && w.from == 0 && int64(len(w.data)) == size {
		if p, is := s.known.whole(w.data); is {
			found(secretHit{kind: Identity, what: "the donor's " + p})
			return
		}
	}
	s.known.ids(w, found)
	s.known.journals(w, found)
}

// isCore reports whether content is a core dump. Source: elf(5), e_ident and e_type.
func isCore(head []byte) bool {
	const identity, kind, core = 16, 18, 4
	if len(head) < kind || !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return false
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if head[5] == 2 {
		order = binary.BigEndian
	}
	return order.Uint16(head[identity:]) == core
}

// isText reports whether a file is text, by its beginning.
func isText(head []byte) bool { return bytes.IndexByte(head[:min(len(head), 8<<10)], 0) < 0 }
