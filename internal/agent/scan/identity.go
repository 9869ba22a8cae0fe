package scan

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Value is data that only the donor may have, known only by its hash.
type Value struct {
	// Path is the donor's path of the file.
	Path string
	// SHA256 is the hash of the content in hex.
	SHA256 string
	// Bytes is the size of the content; zero if unknown.
	Bytes int64
}

// maxIdentity is the largest size of compared content, in bytes.
const maxIdentity = 8 << 10

// known is an indexed set of values.
type known struct {
	paths map[string]string
	sizes []int
	// any is true if the size of some value is unknown.
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

// is reports whether the content is the donor's, with the path.
func (k *known) is(content []byte) (string, bool) {
	p, found := k.paths[sum(content)]
	return p, found
}

// whole compares the content of a whole file.
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

// hexOrDash has the characters of IDs in any spelling.
var hexOrDash = func() (table [256]bool) {
	for _, c := range "0123456789abcdefABCDEF-" {
		table[c] = true
	}
	return table
}()

const (
	// idDigits is the number of digits of a machine ID or UUID.
	idDigits = 32
	// maxGlued is the length of the longest run of digits that is searched at each position. In a longer run, for
	// example a SHA-256, an ID begins or ends at a dash or at the end of the run.
	maxGlued = 48
	// maxRun is how far a run is followed from one of its positions.
	maxRun = 160
)

// ids finds machine IDs and UUIDs of the donor in text: 32 hexadecimal digits in any case, without their dashes. Such
// a run covers a position divisible by 32, so that only such positions are tested.
func (k *known) ids(w *window, found func(secretHit)) {
	seen := -1
	for p := w.from; p < min(len(w.data), w.to+idDigits); p += idDigits {
		if !hexOrDash[w.data[p]] {
			continue
		}
		begin, end := p, p+1
		for begin > 0 && p-begin < maxRun && hexOrDash[w.data[begin-1]] {
			begin--
		}
		for end < len(w.data) && end-p < maxRun && hexOrDash[w.data[end]] {
			end++
		}
		if end-begin < idDigits {
			continue
		}
		for _, at := range idStarts(w.data[begin:end]) {
			if at += begin; at <= seen || at < w.from || at >= w.to {
				continue
			}
			seen = at
			if p, is := k.id(w.data[at:end]); is {
				found(secretHit{kind: Identity, what: "the donor's " + path.Base(p), offset: w.offset + int64(at), trace: true})
			}
		}
	}
}

// idStarts returns the positions in a run of digits and dashes where an ID may begin, in ascending order.
func idStarts(run []byte) (starts []int) {
	var at []int
	for i, c := range run {
		if c != '-' {
			at = append(at, i)
		}
	}
	for n := 0; n+idDigits <= len(at); n++ {
		first, last := at[n], at[n+idDigits-1]
		atEdge := first == 0 || run[first-1] == '-' || last == len(run)-1 || run[last+1] == '-'
		if len(at) <= maxGlued || atEdge {
			starts = append(starts, first)
		}
	}
	return starts
}

// id compares the first 32 digits of a run with the donor's, as files spell them: with and without dashes, with and
// without a newline.
func (k *known) id(run []byte) (string, bool) {
	plain := make([]byte, 0, idDigits)
	for _, c := range run {
		if c != '-' && len(plain) < idDigits {
			plain = append(plain, fold(c))
		}
	}
	dashed := bytes.Join([][]byte{plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]}, []byte("-"))
	for _, form := range [][]byte{plain, dashed, bytes.ToUpper(dashed)} {
		for _, text := range [][]byte{form, append(slices.Clone(form), '\n')} {
			if !k.any && !slices.Contains(k.sizes, len(text)) {
				continue
			}
			if p, is := k.is(text); is {
				return p, true
			}
		}
	}
	return "", false
}

// journalMagic begins each file of systemd's journal. The machine ID is in binary at byte 40. Source: systemd, Journal
// File Format.
const (
	journalMagic     = "LPKSHHRH"
	journalMachineID = 40
)

// journals finds journals of the donor.
func (k *known) journals(w *window, found func(secretHit)) {
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
				found(secretHit{kind: Identity, what: "the donor's journal", offset: w.offset + int64(at), trace: true})
			}
		}
	}
}

// blockSize is the smallest alignment of content in file systems. The rest of a file's last block is zero, which shows
// the end of the content.
const blockSize = 1 << 10

// blocks finds files of the donor at the beginning of blocks.
func (k *known) blocks(w *window, found func(secretHit)) {
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
				found(secretHit{kind: Identity, what: "the donor's " + at, offset: w.offset + int64(p)})
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
				found(secretHit{kind: Identity, what: "the donor's " + at, offset: w.offset + int64(p)})
			}
		}
	}
}

var (
	listLine  = expression(`^\\?([0-9a-fA-F]{64}) [ *](.+)$`)
	valueLine = expression(`^value[ \t]+(\S.*?)\s*$`)
)

// minValue is the length of the shortest value in a list, in characters.
const minValue = 6

// ReadList reads the donor's identities from a list, made before generalizing: lines of sha256sum, and lines with the
// word "value" and a value in plain text. An empty list is an error, because the search would find nothing.
func ReadList(r io.Reader) (values []Value, literals []Literal, err error) {
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if m := valueLine().FindStringSubmatch(lines.Text()); m != nil {
			if len(m[1]) < minValue {
				return nil, nil, fmt.Errorf("line %d: the value has fewer than %d characters, and would be found everywhere", number, minValue)
			}
			for _, text := range Spellings(m[1]) {
				literals = append(literals, Literal{What: "value in line " + strconv.Itoa(number) + " of the list", Text: text})
			}
			continue
		}
		m := listLine().FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, nil, fmt.Errorf("line %d is neither a line of sha256sum (a hash in hex, two spaces, a path) nor \"value\" with a value", number)
		}
		values = append(values, Value{Path: m[2], SHA256: strings.ToLower(m[1])})
	}
	if err := lines.Err(); err != nil {
		return nil, nil, err
	}
	if len(values)+len(literals) == 0 {
		return nil, nil, errors.New("the list of identities is empty")
	}
	return values, literals, nil
}
