package scan

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Value is something that only the donor may have, known by its hash alone.
type Value struct {
	// Path where the donor had it, as a path of the machine.
	Path string
	// SHA256 of the file's content, in hex.
	SHA256 string
	// Bytes is the size of the content, zero if it is not known.
	Bytes int64
}

// maxIdentity is the size, in bytes, up to which content is compared with the donor's.
const maxIdentity = 8 << 10

// known is a set of values, ready to be compared with.
type known struct {
	paths map[string]string
	sizes []int
	// any tells that the size of some value is not known.
	any bool
}

func knownOf(values []Value) *known {
	k := &known{paths: map[string]string{}}
	for _, v := range values {
		k.paths[strings.ToLower(v.SHA256)] = v.Path
		k.any = k.any || v.Bytes == 0
		if size := int(v.Bytes); size > 0 && size <= maxIdentity && !slices.Contains(k.sizes, size) {
			k.sizes = append(k.sizes, size)
		}
	}
	return k
}

// is says whether content is the donor's, and of which file.
func (k *known) is(content []byte) (string, bool) {
	p, found := k.paths[sum(content)]
	return p, found
}

// whole compares the content of a file.
func (k *known) whole(content []byte) (string, bool) {
	if len(content) == 0 || !k.any && !slices.Contains(k.sizes, len(content)) {
		return "", false
	}
	return k.is(content)
}

var digits = func() (table [256]bool) {
	for _, c := range "0123456789abcdef-" {
		table[c] = true
	}
	return table
}()

// ids finds machine IDs and UUIDs of the donor as text: runs of 32 hexadecimal digits, or 36 with dashes.
// A run that long covers a position that divides by 32, so that only those are looked at.
func (k *known) ids(w *window, found func(hit)) {
	seen := -1
	for p := w.from; p < min(len(w.data), w.to+32); p += 32 {
		if !digits[w.data[p]] {
			continue
		}
		begin, end := p, p+1
		for begin > 0 && p-begin < 40 && digits[w.data[begin-1]] {
			begin--
		}
		for end < len(w.data) && end-begin < 40 && digits[w.data[end]] {
			end++
		}
		if n := end - begin; n != 32 && n != 36 || begin == seen || begin < w.from || begin >= w.to {
			continue
		}
		seen = begin
		text := w.data[begin:end]
		for _, form := range [][]byte{text, append(slices.Clone(text), '\n')} {
			if p, is := k.is(form); is {
				found(hit{kind: Identity, what: "the donor's " + path.Base(p), offset: w.offset + int64(begin), trace: true})
			}
		}
	}
}

// journalMagic begins each file of systemd's journal; the machine ID stands in binary at byte 40.
// Source: systemd, Journal File Format.
const (
	journalMagic     = "LPKSHHRH"
	journalMachineID = 40
)

// journals finds journals of the donor.
func (k *known) journals(w *window, found func(hit)) {
	for at := w.from; at < w.to; at += len(journalMagic) {
		next := bytes.Index(w.data[at:min(len(w.data), w.to+len(journalMagic)-1)], []byte(journalMagic))
		if next < 0 {
			return
		}
		at += next
		if at+journalMachineID+16 > len(w.data) {
			return
		}
		id := hex.EncodeToString(w.data[at+journalMachineID : at+journalMachineID+16])
		for _, form := range []string{id, id + "\n"} {
			if _, is := k.is([]byte(form)); is {
				found(hit{kind: Identity, what: "the donor's journal", offset: w.offset + int64(at), trace: true})
			}
		}
	}
}

// blockSize is the smallest unit in which file systems place content. What remains of a file's last block
// is zero, which tells where the content ends.
const blockSize = 1 << 10

// blocks finds files of the donor at the begin of blocks.
func (k *known) blocks(w *window, found func(hit)) {
	first := w.from + int((blockSize-(w.offset+int64(w.from))%blockSize)%blockSize)
	for p := first; p < w.to; p += blockSize {
		if w.data[p] == 0 {
			continue
		}
		content := w.data[p:min(len(w.data), p+maxIdentity+1)]
		for _, size := range k.sizes {
			if len(content) < size || content[size-1] == 0 || size%512 != 0 && len(content) > size && content[size] != 0 {
				continue
			}
			if at, is := k.is(content[:size]); is {
				found(hit{kind: Identity, what: "the donor's " + at, offset: w.offset + int64(p)})
			}
		}
		if !k.any {
			continue
		}
		size := bytes.IndexByte(content, 0)
		if size < 0 && len(content) <= maxIdentity {
			size = len(content)
		}
		if size > 0 && !slices.Contains(k.sizes, size) {
			if at, is := k.is(content[:size]); is {
				found(hit{kind: Identity, what: "the donor's " + at, offset: w.offset + int64(p)})
			}
		}
	}
}

var listLine = regexp.MustCompile(`^\\?([0-9a-fA-F]{64}) [ *](.+)$`)

// ReadList reads the donor's identities from a list as sha256sum writes it, made before the donor was
// generalized. An empty list is an error: nothing can be looked for with it.
func ReadList(r io.Reader) ([]Value, error) {
	var values []Value
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		m := listLine.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, fmt.Errorf("line %d is not one that sha256sum writes: a hash in hex, two spaces, a path", number)
		}
		values = append(values, Value{Path: m[2], SHA256: strings.ToLower(m[1])})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("the list of identities is empty")
	}
	return values, nil
}
