package scan

import (
	"bytes"
	"crypto"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// rpmDatabases are the paths of rpm's database in SQLite: Fedora and descendants from 33, Red Hat from 9, Azure Linux.
// Older databases (Berkeley DB) and SUSE's (ndb) are not read; the files of their packages are searched.
var rpmDatabases = []string{"usr/lib/sysimage/rpm/rpmdb.sqlite", "var/lib/rpm/rpmdb.sqlite"}

// Tags of a header, and types of their values. Source: rpm, include/rpm/rpmtag.h and the format of headers.
const (
	rpmFileStates, rpmFileDigests, rpmDirIndexes = 1029, 1035, 1116
	rpmBaseNames, rpmDirNames, rpmDigestAlgo     = 1117, 1118, 5011
)

// rpmDigests are the algorithms of file digests. Source: RFC 4880, 9.4.
var rpmDigests = map[uint32]crypto.Hash{0: crypto.MD5, 1: crypto.MD5, 2: crypto.SHA1, 8: crypto.SHA256, 9: crypto.SHA384, 10: crypto.SHA512, 11: crypto.SHA224}

// readRPM adds the files of rpm packages. Beyond damage in the database no files are added, so that they are searched.
func (p *packages) readRPM(root *os.Root) error {
	for _, name := range rpmDatabases {
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) || escapes(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = (&sqlite{file: f}).table("Packages", func(row []column) {
			if len(row) == 2 {
				p.rpmHeader(row[1].bytes)
			}
		})
		f.Close()
		if err != nil && !errors.Is(err, errDamaged) {
			return err
		}
	}
	return nil
}

// escapes reports whether the error is os.Root's refusal of a link out of the tree. Errors of the system have a number.
func escapes(err error) bool {
	var errno syscall.Errno
	return err != nil && !errors.As(err, &errno)
}

// rpmHeader adds the installed, regular files of one package.
func (p *packages) rpmHeader(header []byte) {
	h := rpmHeaderOf(header)
	if h == nil {
		return
	}
	dirs, names, digests, states, indexes := h.texts(rpmDirNames), h.texts(rpmBaseNames), h.texts(rpmFileDigests), h.value(rpmFileStates), h.value(rpmDirIndexes)
	algorithm := uint32(0)
	if v := h.value(rpmDigestAlgo); len(v) >= 4 {
		algorithm = binary.BigEndian.Uint32(v)
	}
	with, known := rpmDigests[algorithm]
	if !known || len(names) != len(digests) || len(indexes) < 4*len(names) || len(states) < len(names) {
		return
	}
	for i, name := range names {
		dir := int(binary.BigEndian.Uint32(indexes[4*i:]))
		// State zero: installed, neither excluded nor replaced by another package.
		if states[i] != 0 || dir >= len(dirs) || len(digests[i]) != 2*with.Size() {
			continue
		}
		p.addSum(string(dirs[dir])+string(name), string(digests[i]), with)
	}
}

// rpmEntries are the values of a header, by tag.
type rpmEntries struct {
	index, data []byte
}

func rpmHeaderOf(header []byte) *rpmEntries {
	if len(header) < 8 {
		return nil
	}
	entries, length := int64(binary.BigEndian.Uint32(header)), int64(binary.BigEndian.Uint32(header[4:]))
	if 8+16*entries+length > int64(len(header)) {
		return nil
	}
	return &rpmEntries{index: header[8 : 8+16*entries], data: header[8+16*entries:][:length]}
}

// value returns the data from the beginning of a tag's value; nil if there is none.
func (h *rpmEntries) value(tag uint32) []byte {
	for e := h.index; len(e) >= 16; e = e[16:] {
		if binary.BigEndian.Uint32(e) == tag {
			if at := binary.BigEndian.Uint32(e[8:]); int64(at) < int64(len(h.data)) {
				return h.data[at:]
			}
		}
	}
	return nil
}

// texts returns the zero-terminated texts of a tag.
func (h *rpmEntries) texts(tag uint32) (all [][]byte) {
	for e := h.index; len(e) >= 16; e = e[16:] {
		if binary.BigEndian.Uint32(e) != tag {
			continue
		}
		rest := h.value(tag)
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
