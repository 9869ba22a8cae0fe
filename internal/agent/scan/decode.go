package scan

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const (
	// minRun is the length of the shortest decoded text in base64 or hex, in characters. For UTF-16 it is half the
	// length in bytes.
	minRun = 64
	// maxDepth is the number of nested encodings that are decoded.
	maxDepth = 3
	// maxUnpacked limits the unpacked bytes of a file, at any depth: timesUnpacked its size, but at least minUnpacked.
	// Logs compress to a twentieth; content that compresses to a thousandth is repetition.
	maxUnpacked, minUnpacked, timesUnpacked = 64 << 20, 4 << 20, 128
	// maxInitramfs is maxUnpacked for files of the boot loader: dracut's initramfs of one machine unpacks to 78 MB, and one for
	// all machines to more.
	maxInitramfs = 1 << 30
	// maxEntries is the number of searched files in an archive.
	maxEntries = 10_000
	// maxDirectory is the size of the largest archive directory that is read, in bytes.
	maxDirectory = 16 << 20
)

// decoder searches encoded or compressed content recursively, up to a depth and a number of bytes.
type decoder struct {
	*scanner
	depth int
	// via describes the encoding for people.
	via string
	// left is the number of bytes that may still be unpacked, shared by all depths.
	left *int64
	// cut is set after left is exhausted.
	cut *bool
	// name is the path of the file, or of the entry in an archive; empty without a file.
	name string
	// isEntry: the content is a file of a decoded archive, which is not unpacked further.
	isEntry bool
}

// unpackable returns how many bytes may be unpacked from a file of the size.
func unpackable(name string, size int64) int64 {
	limit := int64(maxUnpacked)
	if strings.HasPrefix(name, "/boot/") || strings.HasPrefix(name, "/efi/") {
		limit = maxInitramfs
	}
	return min(limit, max(minUnpacked, timesUnpacked*min(size, limit)))
}

func (s *scanner) decoder(name string, size int64) *decoder {
	left, cut := unpackable(name, size), false
	return &decoder{scanner: s, left: &left, cut: &cut, name: name}
}

// below searches a stream decoded from a part of another stream, and passes findings to the outer sweep. A stream that
// cannot be decoded completely is searched as far as possible.
func (d *decoder) below(how string, above *streamSearch, begin, end int64, named bool, r io.Reader) {
	if d.depth < maxDepth {
		d.search(part{how: how, name: d.name, named: named, begin: begin, end: end}, above, &budget{r: r, left: d.left, cut: d.cut})
	}
}

// unpacked searches an uncompressed stream. The files of an initramfs are searched one by one, because programs contain
// settings without values. Unchanged files of packages are not searched: libgcrypt has keys for its own test.
func (d *decoder) unpacked(how string, above *streamSearch, r io.Reader) {
	content := bufio.NewReaderSize(&budget{r: r, left: d.left, cut: d.cut}, nested)
	eachEntry(content, func(name string, isText bool, file io.Reader) {
		start := d.startOf(file)
		if !d.packages.brought(name, start) {
			p := part{how: how, name: path.Clean("/" + name), named: isText && takesNames("/"+name), isEntry: true, whole: start}
			d.search(p, above, io.MultiReader(strings.NewReader(name+"\x00"), bytes.NewReader(start), file))
		}
	})
	d.search(part{how: how, name: withoutPacking(d.name), named: true}, above, content)
}

// maxPacked is the size of the largest file of an initramfs that is compared with packages, in bytes.
const maxPacked = 16 << 20

// startOf reads a file of an initramfs up to maxPacked. The next call overwrites the content.
func (d *decoder) startOf(file io.Reader) []byte {
	start := bytes.NewBuffer(d.entry[:0])
	_, _ = start.ReadFrom(io.LimitReader(file, maxPacked)) // an error ends the file
	d.entry = start.Bytes()
	return d.entry
}

// withoutPacking returns the name of a file without the extension of its compression.
func withoutPacking(name string) string {
	switch ext := path.Ext(name); ext {
	case ".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma":
		return strings.TrimSuffix(name, ext)
	default:
		return name
	}
}

// part is a decoded part of a stream.
type part struct {
	// how describes the encoding, and name is the path of the file or entry with the part.
	how, name string
	// named enables secrets that are recognizable only by their names.
	named bool
	// begin and end are the part's place in the outer stream.
	begin, end int64
	// isEntry is true for a file of an initramfs, and whole is its content, unless it is larger than maxPacked.
	isEntry bool
	whole   []byte
}

// search searches a decoded stream. The caller limits the bytes of the stream.
func (d *decoder) search(p part, above *streamSearch, r io.Reader) {
	next := *d
	next.depth++
	next.isEntry = p.isEntry
	next.name = p.name
	next.via = ", in " + p.how
	copied := sync.OnceValue(func() bool { return len(p.whole) < maxPacked && d.packages.isCopy(bytes.NewReader(p.whole)) })
	found := func(h secretHit) {
		if p.isEntry && h.kind != Identity && copied() {
			return
		}
		h.what += next.via
		h.offset = p.begin
		above.decoded(h, p.end)
	}
	for len(d.buffers) <= d.depth {
		d.buffers = append(d.buffers, make([]byte, nested))
	}
	if p.isEntry && d.namesDonor(p.name, p.whole) {
		found(secretHit{kind: Identity, what: "the donor's host name", trace: true})
	}
	s := everything().sweep(p.name, p.named, found)
	s.decoder = &next
	// An error ends the decodable part: the file is damaged, or only resembles the format.
	_ = windows(r, 0, d.buffers[d.depth], func(w *window) error {
		s.window(w)
		w.binaryKeys(false, found)
		if len(d.known.paths) > 0 {
			d.known.ids(w, found)
		}
		if p.isEntry && d.literals.watches(p.name) {
			d.literals.find(p.name, w, found)
		}
		return nil
	})
	s.finish()
}

// nameFiles have the name of the machine, in an initramfs that was built for it. Source: dracut, modules 00systemd and 35network;
// systemd, hostname(5).
var nameFiles = []string{"/etc/hostname", "/etc/HOSTNAME", "/etc/hosts", "/etc/sysconfig/network"}

// namesDonor reports whether a file of an initramfs gives a clone the name of the donor, by a word of other files.
func (s *scanner) namesDonor(file string, content []byte) bool {
	if !slices.Contains(nameFiles, file) {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(string(content)), func(r rune) bool { return unicode.IsSpace(r) || r == '=' || r == '"' })
	return slices.ContainsFunc(words, func(word string) bool {
		short, _, _ := strings.Cut(word, ".")
		return slices.ContainsFunc(s.Literals, func(v Literal) bool { return v.IsWord && (word == v.Text || short == v.Text) })
	})
}

// nested is the buffer size for a stream within a stream.
const nested = 64<<10 + before + after

// budget is a reader with a limit shared by several streams.
type budget struct {
	r    io.Reader
	left *int64
	cut  *bool
}

func (b *budget) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		*b.cut = true
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	if err != nil {
		return n, io.EOF
	}
	return n, nil
}

// window searches the encoded content of a window's own part.
func (d *decoder) window(w *window, s *streamSearch) {
	d.runs(w, &inBase64, func(begin, end int) { d.base64(w, s, begin, end, base64.RawStdEncoding) })
	d.runs(w, &inBase64URL, func(begin, end int) {
		if bytes.ContainsAny(w.data[begin:end], "-_") {
			d.base64(w, s, begin, end, base64.RawURLEncoding)
		}
	})
	d.wide(w, s)
	if w.offset == 0 && w.from == 0 && d.depth > 0 && !d.isEntry {
		d.unpack(w.data, 0, nil, s)
	}
}

var (
	inBase64    = alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
	inBase64URL = alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
)

// runs calls visit for each long run of characters of an alphabet, lines joined. A long run covers a position divisible
// by minRun, so that only such positions are tested.
func (d *decoder) runs(w *window, in *[256]bool, visit func(begin, end int)) {
	for p := w.from; p < w.to; p += minRun {
		if !in[w.data[p]] {
			continue
		}
		begin, end := p, p+1
		for begin > 0 && p-begin < before && in[w.data[begin-1]] {
			begin--
		}
		for end < len(w.data) && in[w.data[end]] {
			end++
		}
		if end-begin >= minRun-4 {
			end = goesOn(w.data, begin, end, in)
			visit(begin, end)
		}
		p = max(p, w.from+(end-w.from)/minRun*minRun)
	}
}

// goesOn extends a run over the following lines of a text with line breaks.
func goesOn(data []byte, begin, end int, in *[256]bool) int {
	line := end - begin
	for end < len(data) && line >= minRun-4 {
		next := end
		for next < len(data) && next-end < 40 && (data[next] == '\n' || data[next] == '\r' || data[next] == ' ' || data[next] == '\t') {
			next++
		}
		if next == end {
			break
		}
		stop := next
		for stop < len(data) && in[data[stop]] {
			stop++
		}
		if stop == next {
			break
		}
		line, end = stop-next, stop
	}
	return end
}

// base64 decodes a run if the beginning is promising.
func (d *decoder) base64(w *window, s *streamSearch, begin, end int, encoding *base64.Encoding) {
	run, from, to := w.data[begin:end], w.offset+int64(begin), w.offset+int64(end)
	if isHex(run[:min(len(run), minRun-4)]) {
		head := make([]byte, 24)
		n, err := hex.Decode(head, joined(run[:min(len(run), 60)], 48))
		if err == nil && promising(head[:n]) {
			d.below("hex", s, from, to, true, hex.NewDecoder(&unbroken{run}))
		}
		return
	}
	// The run may have begun before the window, at any of four positions in a group.
	shifts := 1
	if begin == 0 && w.offset > 0 || begin > 0 && begin <= w.from-before+1 {
		shifts = 4
	}
	for shift := range shifts {
		head := make([]byte, 48)
		n, err := encoding.Decode(head, joined(run[shift:min(len(run), shift+80)], 48))
		if err == nil && promising(head[:n]) {
			d.below("base64", s, from, to, true, base64.NewDecoder(encoding, &unbroken{run[shift:]}))
		}
	}
}

// joined returns up to n characters of a text without line breaks.
func joined(text []byte, n int) []byte {
	out := make([]byte, 0, n)
	for _, c := range text {
		if c > ' ' && len(out) < n {
			out = append(out, c)
		}
	}
	return out[:len(out)/4*4]
}

// unbroken reads a text without line breaks.
type unbroken struct{ rest []byte }

func (u *unbroken) Read(p []byte) (n int, err error) {
	for n < len(p) && len(u.rest) > 0 {
		if u.rest[0] > ' ' {
			p[n] = u.rest[0]
			n++
		}
		u.rest = u.rest[1:]
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func isHex(text []byte) bool {
	for _, c := range text {
		if !digits[fold(c)] && c > ' ' {
			return false
		}
	}
	return true
}

// promising reports whether decoded bytes begin like text, or like a known format.
func promising(head []byte) bool {
	if len(head) < 16 {
		return false
	}
	if packed(head) != "" || head[0] == 0x30 || bytes.HasPrefix(head, []byte{0xFE, 0xED, 0xFE, 0xED}) || bytes.HasPrefix(head, []byte("openssh-key-v1\x00")) {
		return true
	}
	strange, zeros := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			zeros++
		case c < 0x20 && c != '\n' && c != '\r' && c != '\t' || c >= 0x7f:
			strange++
		}
	}
	return strange <= len(head)/16 && (zeros == 0 || zeros >= len(head)/2-1)
}

// wide searches text in UTF-16, with zero in every second byte.
func (d *decoder) wide(w *window, s *streamSearch) {
	for p := w.from; p+3 < len(w.data) && p < w.to; p += minRun {
		at := p
		if w.data[at] == 0 {
			at++
		}
		if !isWide(w.data, at) {
			continue
		}
		begin, end := at, at
		for begin >= 2 && at-begin < before && isWide(w.data, begin-2) {
			begin -= 2
		}
		for isWide(w.data, end) {
			end += 2
		}
		// In big-endian order the last character may be the last byte of the data.
		if end < len(w.data) && w.data[end] != 0 {
			end++
		}
		if end-begin >= minRun {
			text := make([]byte, 0, (end-begin)/2+1)
			for i := begin; i < end; i += 2 {
				text = append(text, w.data[i])
			}
			d.below("UTF-16", s, w.offset+int64(begin), w.offset+int64(end), true, bytes.NewReader(text))
		}
		p = max(p, w.from+(end-w.from)/minRun*minRun)
	}
}

// isWide reports whether an ASCII character and a zero are at a position.
func isWide(data []byte, at int) bool {
	return at >= 0 && at+1 < len(data) && data[at+1] == 0 && data[at] != 0 && (data[at] >= 0x20 && data[at] < 0x7f || data[at] == '\n' ||
		data[at] == '\r' || data[at] == '\t')
}
