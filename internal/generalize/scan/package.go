package scan

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/md5"    //nolint:gosec // It is dpkg's checksum, and tells what a package brought from what was changed, not from what was forged.
	_ "crypto/sha1" //nolint:gosec // As above, of older packages of rpm.
	_ "crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// packages knows, of each file that an installed package owns, the checksum that the package came with.
type packages struct {
	seed maphash.Seed
	sums map[uint64]checksumOf
	// merged are directories at the top that are links to those of the same name below /usr.
	merged map[string]bool
	copied []byte
}

// checksumOf is the begin of a checksum: of the longer ones as much as of MD5's, which nobody has by chance.
type checksumOf struct {
	with  crypto.Hash
	value [md5.Size]byte
}

// Where dpkg keeps the checksums of packages, and those of their settings. Source: dpkg(1), deb-md5sums(5).
const (
	dpkgSums   = "var/lib/dpkg/info"
	dpkgStatus = "var/lib/dpkg/status"
)

// readPackages reads the checksums of rpm and of dpkg. A tree without either has none, so that all of it is searched.
func readPackages(root *os.Root) (*packages, error) {
	p := &packages{seed: maphash.MakeSeed(), sums: map[uint64]checksumOf{}, merged: map[string]bool{}}
	for _, dir := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if target, err := root.Readlink(dir); err == nil && path.Clean("/"+target) == "/usr/"+dir {
			p.merged[dir] = true
		}
	}
	if err := p.readRPM(root); err != nil {
		return nil, err
	}
	dir, err := root.Open(dpkgSums)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".md5sums") {
			if err := readLines(root, dpkgSums+"/"+name, p.line); err != nil {
				return nil, err
			}
		}
	}
	settings := false
	return p, readLines(root, dpkgStatus, func(line []byte) {
		// Conffiles:, and then lines of a blank, the path, the checksum and perhaps a word.
		if settings = settings && len(line) > 0 && line[0] == ' ' || bytes.HasPrefix(line, []byte("Conffiles:")); settings {
			if fields := bytes.Fields(line); len(fields) == 2 {
				p.add(string(fields[1]), string(fields[0]))
			}
		}
	})
}

func readLines(root *os.Root, name string, visit func(line []byte)) error {
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		visit(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	return nil
}

// line takes one of md5sums: the checksum in hex, two blanks, the path without its first slash.
func (p *packages) line(line []byte) {
	if checksum, name, found := strings.Cut(string(line), "  "); found {
		p.add(checksum, name)
	}
}

func (p *packages) add(checksum, name string) { p.addSum(name, checksum, crypto.MD5) }

// addSum takes a checksum in hex.
func (p *packages) addSum(name, checksum string, with crypto.Hash) {
	s := checksumOf{with: with}
	if n, err := hex.Decode(s.value[:], []byte(checksum[:min(len(checksum), 2*len(s.value))])); err == nil && n == len(s.value) {
		p.sums[p.key(strings.TrimPrefix(name, "/"))] = s
	}
}

// key of a path, as it is without links at the top.
func (p *packages) key(name string) uint64 {
	if top, _, found := strings.Cut(name, "/"); found && p.merged[top] {
		name = "usr/" + name
	}
	return maphash.String(p.seed, name)
}

// owns says whether a package owns a path of the machine, and whether the content is the package's.
func (p *packages) owns(name string, content io.Reader) (owned, unchanged bool, err error) {
	want, owned := p.sums[p.key(strings.TrimPrefix(name, "/"))]
	if !owned {
		return false, false, nil
	}
	if p.copied == nil {
		p.copied = make([]byte, 128<<10)
	}
	digest := want.with.New()
	if _, err := io.CopyBuffer(digest, struct{ io.Reader }{content}, p.copied); err != nil {
		return true, false, err
	}
	return true, bytes.HasPrefix(digest.Sum(nil), want.value[:]), nil
}
