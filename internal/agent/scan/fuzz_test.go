package scan

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"path/filepath"
	"testing"
	"unicode/utf16"
)

// squeezed compresses content with gzip several times.
func squeezed(t testing.TB, content []byte, times int) []byte {
	for range times {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		content = b.Bytes()
	}
	return content
}

// archived returns a zip archive with content under many names.
func archived(t testing.TB, content []byte, names int) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range names {
		w, err := z.Create(filepath.Join("d", string(rune('a'+i%26)), hex.EncodeToString([]byte{byte(i >> 16), byte(i >> 8), byte(i)})))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpacked searches content as a file, and returns the number of unpacked bytes.
func unpacked(t testing.TB, content []byte, found func(secretHit)) (bytesOut int64, cut bool) {
	s, err := newScanner(Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := s.decoder("", int64(len(content)))
	secrets := everything().sweep("", true, found)
	secrets.decoder = d
	whole := *d.left
	err = windows(bytes.NewReader(content), 0, s.buffer, func(w *window) error {
		if w.offset == 0 && w.from == 0 {
			d.unpack(w.data, int64(len(content)), io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content))), secrets)
		}
		secrets.window(w)
		w.binaryKeys(true, found)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets.finish()
	return whole - *d.left, *d.cut
}

// TestBombs: content that unpacks to a huge size costs only the allowed work, and is reported.
func TestBombs(t *testing.T) {
	zeros := squeezed(t, make([]byte, 16<<20), 1)
	giant := archived(t, nil, 1)
	binary.LittleEndian.PutUint32(giant[len(giant)-10:], maxDirectory+1)
	for name, content := range map[string][]byte{
		"gzip, 1000 to 1":                zeros,
		"gzip in gzip, 100,000 to 1":     squeezed(t, zeros, 1),
		"gzip in gzip in gzip":           squeezed(t, zeros, 2),
		"an archive of such":             archived(t, zeros, 3),
		"an archive in an archive":       archived(t, archived(t, zeros, 3), 3),
		"gzip in base64":                 []byte(base64.StdEncoding.EncodeToString(zeros)),
		"an archive of too many files":   archived(t, nil, maxEntries+1),
		"an archive with a giant's list": giant,
	} {
		out, cut := unpacked(t, content, func(h secretHit) { t.Errorf("%s: found %+v", name, h) })
		if most := unpackable("", int64(len(content))); !cut || out > most || most > max(minUnpacked, timesUnpacked*int64(len(content))) {
			t.Errorf("%s: %d bytes unpack to %d of %d at most, cut short: %t", name, len(content), out, most, cut)
		}
	}
}

// FuzzDecoders tests every decoder and every reader of binary keys. Results lie within the input, and the unpacked size
// has a limit.
func FuzzDecoders(f *testing.F) {
	text := []byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\npassword = Trustno1-at-all\n")
	wide := utf16.Encode([]rune(string(text)))
	var inUTF16 []byte
	for _, c := range wide {
		inUTF16 = append(inUTF16, byte(c), byte(c>>8))
	}
	for _, seed := range [][]byte{
		text, inUTF16, squeezed(f, text, 1), squeezed(f, text, 3), archived(f, text, 3), []byte(hex.EncodeToString(text)), []byte(base64.StdEncoding.EncodeToString(text)),
		[]byte(base64.RawURLEncoding.EncodeToString(squeezed(f, text, 1))), []byte("\x30\x82\x01\x00\x02\x01\x00" + string(make([]byte, 256))),
		[]byte("\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01a"), []byte("\x05\x02\x00\x00\x00\x3c\x00\x02\x00\x07EXAMPLE"),
		[]byte("LUKS\xba\xbe\x00\x01aes"), []byte("openssh-key-v1\x00\x00\x00\x00\x04none"), []byte("\x95\x01\x3e\x04abcd\x01\x03\xff"), []byte("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nAAAAIK"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		out, _ := unpacked(t, content, func(h secretHit) {
			if h.what == "" || h.offset < 0 || h.offset >= int64(len(content)) {
				t.Errorf("found %+v in %d bytes", h, len(content))
			}
		})
		if out > unpackable("", int64(len(content))) {
			t.Errorf("%d bytes unpack to %d", len(content), out)
		}
	})
}

// FuzzPackages tests the readers of package data: lists of dpkg and headers of Python's byte code. Files without a
// checksum in a list are searched, whatever the list.
func FuzzPackages(f *testing.F) {
	f.Add([]byte("d41d8cd98f00b204e9800998ecf8427e  usr/lib/a.py\n"), []byte("Package: a\nConffiles:\n /etc/a d41d8cd98f00b204e9800998ecf8427e\n"), []byte("\xa7\r\r\n\x01\x00\x00\x00sixteen bytes and"))
	f.Add([]byte("\n  \nzz  usr\nd41d8cd98f00b204e9800998ecf8427e  ../../etc\n"), []byte("Conffiles:\n /etc/a newconffile\n"), []byte("short"))
	f.Fuzz(func(t *testing.T, sums, status, code []byte) {
		dir := t.TempDir()
		writeFile(t, dir, "var/lib/dpkg/info/a.md5sums", string(sums))
		writeFile(t, dir, "var/lib/dpkg/status", string(status))
		writeFile(t, dir, "usr/lib/a.py", "pass\n")
		writeFile(t, dir, "usr/lib/__pycache__/a.cpython-311.pyc", string(code))
		writeFile(t, dir, "opt/key", "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHC\n")
		report, err := Tree(t.Context(), dir, Options{})
		if err == nil && report.Count == 0 {
			t.Errorf("the key was not found: %+v", report)
		}
	})
}
