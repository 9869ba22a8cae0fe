package scan

import (
	"crypto"
	"encoding/binary"
	"errors"
	"os"

	"github.com/kamino-dev/kamino/internal/agent/rpmdb"
)

// Tags of a header. Source: rpm, include/rpm/rpmtag.h.
const (
	rpmFileStates, rpmFileDigests, rpmDirIndexes = 1029, 1035, 1116
	rpmBaseNames, rpmDirNames, rpmDigestAlgo     = 1117, 1118, 5011
)

// rpmDigests are the algorithms of file digests. Source: RFC 4880, 9.4.
var rpmDigests = map[uint32]crypto.Hash{0: crypto.MD5, 1: crypto.MD5, 2: crypto.SHA1, 8: crypto.SHA256, 9: crypto.SHA384, 10: crypto.SHA512, 11: crypto.SHA224}

// readRPM adds the files of rpm packages. Beyond damage in the database, and in databases that are not read, no files are
// added, so that they are searched.
func (p *packages) readRPM(root *os.Root) error {
	if err := rpmdb.Each(root.Open, p.rpmHeader); err != nil && !errors.Is(err, rpmdb.ErrDamaged) {
		return err
	}
	return nil
}

// rpmHeader adds the installed, regular files of one package.
func (p *packages) rpmHeader(h rpmdb.Header) {
	dirs, names, digests, states, indexes := h.Texts(rpmDirNames), h.Texts(rpmBaseNames), h.Texts(rpmFileDigests), h.Value(rpmFileStates), h.Value(rpmDirIndexes)
	algorithm, _ := h.Number(rpmDigestAlgo)
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
