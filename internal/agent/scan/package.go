package scan

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/md5"    //nolint:gosec // dpkg's checksum detects changes, not forgery
	_ "crypto/sha1" //nolint:gosec // As above, of older packages of rpm.
	_ "crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// packages has the checksums of the files of installed packages.
type packages struct {
	seed maphash.Seed
	sums map[uint64]checksumOf
	// merged are top directories that are links to the same name below /usr.
	merged map[string]bool
	copied []byte
	// contents has the checksums of all files; nil before the first question.
	contents map[checksumOf]bool
}

// checksumOf is the prefix of a checksum. All checksums are cut to the length of MD5, which is enough against
// coincidence.
type checksumOf struct {
	with  crypto.Hash
	value [md5.Size]byte
}

// Files of dpkg with the checksums of packages and of their settings. Source: dpkg(1), deb-md5sums(5).
const (
	dpkgSums   = "var/lib/dpkg/info"
	dpkgStatus = "var/lib/dpkg/status"
)

// readPackages reads the checksums of rpm and dpkg. In a tree without both, all files are searched.
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
		// After "Conffiles:" each line has a blank, the path, the checksum and perhaps a word.
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

// line parses a line of md5sums: the checksum in hex, two blanks, the path without its first slash.
func (p *packages) line(line []byte) {
	if checksum, name, found := strings.Cut(string(line), "  "); found {
		p.add(checksum, name)
	}
}

func (p *packages) add(checksum, name string) { p.addSum(name, checksum, crypto.MD5) }

// addSum adds a checksum in hex.
func (p *packages) addSum(name, checksum string, with crypto.Hash) {
	s := checksumOf{with: with}
	if n, err := hex.Decode(s.value[:], []byte(checksum[:min(len(checksum), 2*len(s.value))])); err == nil && n == len(s.value) {
		p.sums[p.key(strings.TrimPrefix(name, "/"))] = s
		if p.contents != nil {
			p.contents[s] = true
		}
	}
}

// key hashes a path after resolving top links.
func (p *packages) key(name string) uint64 {
	if top, _, found := strings.Cut(name, "/"); found && p.merged[top] {
		name = "usr/" + name
	}
	return maphash.String(p.seed, name)
}

// has reports whether a package owns a path of the machine.
func (p *packages) has(name string) bool {
	_, owned := p.sums[p.key(strings.TrimPrefix(name, "/"))]
	return owned
}

// owns reports whether a package owns a path of the machine, and whether the content is unchanged.
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

// brought reports whether a file of an initramfs is an unchanged file of a package. A longer content is cut at maxPacked.
func (p *packages) brought(name string, content []byte) bool {
	if p == nil || len(content) == maxPacked {
		return false
	}
	_, unchanged, err := p.owns(path.Clean("/"+name), bytes.NewReader(content))
	return unchanged && err == nil
}

// isCopy reports whether a content is that of any packaged file. GRUB, for example, copies its modules to /boot. The cost
// is that of reading the content, so callers ask only about a file with findings.
func (p *packages) isCopy(content io.Reader) bool {
	if p == nil || len(p.sums) == 0 {
		return false
	}
	if p.contents == nil {
		p.contents = make(map[checksumOf]bool, len(p.sums))
		for _, sum := range p.sums {
			p.contents[sum] = true
		}
	}
	digests := map[crypto.Hash]hash.Hash{}
	var all []io.Writer
	for sum := range p.contents {
		if digests[sum.with] == nil {
			digests[sum.with] = sum.with.New()
			all = append(all, digests[sum.with])
		}
	}
	if _, err := io.Copy(io.MultiWriter(all...), content); err != nil {
		return false
	}
	for with, digest := range digests {
		sum := checksumOf{with: with}
		copy(sum.value[:], digest.Sum(nil))
		if p.contents[sum] {
			return true
		}
	}
	return false
}
