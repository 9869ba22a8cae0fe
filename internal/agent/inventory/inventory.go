// Package inventory reads the packages of a disk: dpkg's status, rpm's database in SQLite, and the CVEs in the changelogs
// of both. The package changes nothing. What cannot be read becomes a note, because a list is never worth a failed
// capture.
package inventory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/dpkgdb"
	"github.com/kamino-dev/kamino/internal/agent/rpmdb"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/contents"
)

// Limits of one disk. A larger disk has incomplete lists, with a note.
const (
	// maxPackages is the largest number of packages.
	maxPackages = 20_000
	// maxText is the longest name or version in bytes. Longer texts are cut.
	maxText = 256
)

// Packages adds the operating system, the packages and the CVEs of their changelogs to the contents.
func Packages(t *tree.Tree, c *contents.Contents) {
	r := &reader{tree: t, contents: c}
	c.OS = r.os()
	if err := r.dpkg(); err != nil {
		r.note("packages of dpkg: %v", err)
	}
	if err := r.rpm(); err != nil {
		r.note("packages of rpm: %v", err)
	}
	if len(c.Packages) == 0 {
		r.note("packages: the disk has no readable database of dpkg or rpm")
	}
}

type reader struct {
	tree     *tree.Tree
	contents *contents.Contents
}

// note adds a note. The first notes are enough to see that the list is incomplete.
func (r *reader) note(format string, args ...any) {
	if len(r.contents.Notes) < contents.MaxNotes {
		r.contents.Notes = append(r.contents.Notes, short(fmt.Sprintf(format, args...)))
	}
}

// add adds a package, unless there are too many.
func (r *reader) add(p contents.Package) {
	if len(r.contents.Packages) == maxPackages {
		r.note("packages: more than %d", maxPackages)
		return
	}
	for _, text := range []*string{&p.Name, &p.Version, &p.Arch, &p.Source, &p.SourceVersion, &p.SourceRPM} {
		*text = short(*text)
	}
	r.contents.Packages = append(r.contents.Packages, p)
}

// fixes adds the CVEs of a source package.
func (r *reader) fixes(source string, cves []string) {
	if r.contents.Fixes == nil {
		r.contents.Fixes = map[string][]string{}
	}
	r.contents.Fixes[short(source)] = cves
}

func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
}

// os reads os-release(5): /usr/lib has the file, and /etc a link to it.
func (r *reader) os() (found contents.OS) {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		content, err := r.tree.Read(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			value = short(strings.Trim(value, `"'`))
			switch key {
			case "ID":
				found.ID = value
			case "VERSION_ID":
				found.VersionID = value
			case "PRETTY_NAME":
				found.Name = value
			}
		}
		return found
	}
	return found
}

// file opens a regular file below the root.
func (r *reader) file(name string) (*os.File, error) {
	// O_NONBLOCK: a FIFO must not block.
	f, err := r.tree.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("/%s is not a regular file", name))
	}
	return f, nil
}

// maxStatus is how much of dpkg's status is read, in bytes.
const maxStatus = 64 << 20

// dpkg reads the status of dpkg. Source: dpkg-query(1), deb-control(5).
func (r *reader) dpkg() error {
	f, err := r.file(dpkgdb.Status)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	docs := map[string][]string{}
	err = dpkgdb.Each(io.LimitReader(f, maxStatus), func(fields map[string]string) {
		if p, is := debOf(fields); is {
			r.add(p)
			docs[p.SourceName()] = append(docs[p.SourceName()], p.Name)
		}
	})
	r.changelogs(docs)
	return err
}

// debOf is the package of a paragraph in dpkg's status; false if the package is not installed.
func debOf(fields map[string]string) (contents.Package, bool) {
	status := strings.Fields(fields["status"])
	if fields["package"] == "" || len(status) == 0 || status[len(status)-1] != "installed" {
		return contents.Package{}, false
	}
	p := contents.Package{Kind: contents.Deb, Name: fields["package"], Version: fields["version"], Arch: fields["architecture"]}
	source, version, _ := strings.Cut(fields["source"], "(")
	if source = strings.TrimSpace(source); source != p.Name {
		p.Source = source
	}
	if version = strings.Trim(version, " )"); version != p.Version {
		p.SourceVersion = version
	}
	return p, true
}

// Tags of a header. Source: rpm, include/rpm/rpmtag.h.
const rpmSource, rpmChanges = 1044, 1082

// rpm reads the databases of rpm.
func (r *reader) rpm() error {
	open := func(name string) (*os.File, error) { return r.file(name) }
	err := rpmdb.Each(open, func(h rpmdb.Header) {
		p, is := rpmOf(h)
		if !is {
			return
		}
		r.add(p)
		if _, known := r.contents.Fixes[p.SourceName()]; known {
			return
		}
		if changes := h.Texts(rpmChanges); len(changes) > 0 {
			found := cves{}
			for _, change := range changes {
				found.add(change)
			}
			r.fixes(p.SourceName(), found.list)
		}
	})
	if other := rpmdb.Other(open); other != "" {
		r.note("packages of rpm: %s has a format that is not read", other)
	}
	return err
}

// rpmOf is the package of a header; false for a trusted key.
func rpmOf(h rpmdb.Header) (p contents.Package, is bool) {
	p = contents.Package{Kind: contents.RPM, SourceRPM: h.Text(rpmSource)}
	if p.Name, p.Version, p.Arch, is = h.Package(); !is {
		return p, false
	}
	// NAME-VERSION-RELEASE.src.rpm
	source := p.SourceRPM
	for range 2 {
		source = source[:max(0, strings.LastIndexByte(source, '-'))]
	}
	if source != p.Name {
		p.Source = source
	}
	return p, true
}
