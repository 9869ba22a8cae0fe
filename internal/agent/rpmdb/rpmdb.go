// Package rpmdb reads the headers of installed packages from rpm's database in SQLite: Fedora and descendants from 33, Red
// Hat from 9, Azure Linux, Amazon Linux 2023. The package reads damaged and hostile databases without a crash.
//
// Older databases (Berkeley DB) and SUSE's (ndb) are not read. Other reports whether a tree has such a database.
package rpmdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// databases are the paths of the database in SQLite, and others the paths in formats that are not read.
var (
	databases = []string{"usr/lib/sysimage/rpm/rpmdb.sqlite", "var/lib/rpm/rpmdb.sqlite"}
	others    = []string{"var/lib/rpm/Packages", "usr/lib/sysimage/rpm/Packages", "var/lib/rpm/Packages.db", "usr/lib/sysimage/rpm/Packages.db"}
)

// Open opens a path of a tree, and never a path outside.
type Open func(name string) (*os.File, error)

// Each calls visit for each header of the databases in a tree. ErrDamaged means that headers are missing beyond the
// damage.
func Each(open Open, visit func(Header)) error {
	damaged := false
	for _, name := range databases {
		f, err := open(name)
		if errors.Is(err, fs.ErrNotExist) || escapes(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = (&sqlite{file: f}).table("Packages", func(row []column) {
			if len(row) == 2 {
				if h := headerOf(row[1].bytes); h != nil {
					visit(*h)
				}
			}
		})
		f.Close()
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		damaged = damaged || err != nil
	}
	if damaged {
		return ErrDamaged
	}
	return nil
}

// Other returns the path of a database in a format that is not read; empty without such a database.
func Other(open Open) string {
	for _, name := range others {
		if f, err := open(name); err == nil {
			f.Close()
			return "/" + name
		}
	}
	return ""
}

// Pending returns the path of a database's log with changes that are not in the database, or were not undone: a transaction was
// open, or a program was killed. It is empty without such a log. Source: SQLite, Write-Ahead Logging and Atomic Commit.
func Pending(open Open) string {
	for _, name := range databases {
		for _, log := range []string{"-wal", "-journal"} {
			f, err := open(name + log)
			if err != nil {
				continue
			}
			head := bytesAt(f, 0, 4)
			f.Close()
			if head != nil && !bytes.Equal(head, make([]byte, len(head))) {
				return "/" + name + log
			}
		}
	}
	return ""
}

// escapes reports whether the error is os.Root's refusal of a link out of the tree. Errors of the system have a number.
func escapes(err error) bool {
	var errno syscall.Errno
	return err != nil && !errors.As(err, &errno)
}

// Header has the values of one package, by tag. Source: rpm, include/rpm/rpmtag.h and the format of headers.
type Header struct {
	index, data []byte
}

func headerOf(blob []byte) *Header {
	if len(blob) < 8 {
		return nil
	}
	entries, length := int64(binary.BigEndian.Uint32(blob)), int64(binary.BigEndian.Uint32(blob[4:]))
	if 8+16*entries+length > int64(len(blob)) {
		return nil
	}
	return &Header{index: blob[8 : 8+16*entries], data: blob[8+16*entries:][:length]}
}

// Value returns the data from the beginning of a tag's value; nil if there is none.
func (h Header) Value(tag uint32) []byte {
	for e := h.index; len(e) >= 16; e = e[16:] {
		if binary.BigEndian.Uint32(e) == tag {
			if at := binary.BigEndian.Uint32(e[8:]); int64(at) < int64(len(h.data)) {
				return h.data[at:]
			}
		}
	}
	return nil
}

// Texts returns the zero-terminated texts of a tag.
func (h Header) Texts(tag uint32) (all [][]byte) {
	for e := h.index; len(e) >= 16; e = e[16:] {
		if binary.BigEndian.Uint32(e) != tag {
			continue
		}
		rest := h.Value(tag)
		for range binary.BigEndian.Uint32(e[12:]) {
			text, after, found := bytes.Cut(rest, []byte{0})
			if !found {
				return nil
			}
			all, rest = append(all, text), after
		}
		return all
	}
	return nil
}

// Text returns the first text of a tag; empty if there is none.
func (h Header) Text(tag uint32) string {
	text, _, found := bytes.Cut(h.Value(tag), []byte{0})
	if !found {
		return ""
	}
	return string(text)
}

// Number returns the first number of a tag with 32 bits.
func (h Header) Number(tag uint32) (n uint32, found bool) {
	if v := h.Value(tag); len(v) >= 4 {
		return binary.BigEndian.Uint32(v), true
	}
	return 0, false
}

// Tags of a package's identity. Source: rpm, include/rpm/rpmtag.h.
const (
	nameTag, versionTag, releaseTag = 1000, 1001, 1002
	epochTag, archTag               = 1003, 1022
)

// Package returns the identity of the package; false for a trusted key, which is no package. The version is
// [EPOCH:]VERSION-RELEASE, without an epoch zero.
func (h Header) Package() (name, version, arch string, ok bool) {
	name, version, arch = h.Text(nameTag), h.Text(versionTag)+"-"+h.Text(releaseTag), h.Text(archTag)
	if epoch, _ := h.Number(epochTag); epoch > 0 {
		version = strconv.FormatUint(uint64(epoch), 10) + ":" + version
	}
	return name, version, arch, name != "" && name != "gpg-pubkey"
}
