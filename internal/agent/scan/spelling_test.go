package scan

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/md5" //nolint:gosec // dpkg uses this checksum
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

const donorID = "4c4c4544004b4e108031c7c04f563932"

var ofDonor = []Value{{Path: "/etc/machine-id", SHA256: sum([]byte(donorID + "\n")), Bytes: 33}}

// identitiesIn returns the number of findings of the donor's identities in a tree with one file.
func identitiesIn(t *testing.T, name string, content []byte) int {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := Tree(t.Context(), dir, Options{Identities: ofDonor})
	if err != nil {
		t.Fatal(err)
	}
	return report.Count
}

// TestSpellingsOfID: the machine ID is found in any case, with and without dashes, next to other characters.
func TestSpellingsOfID(t *testing.T) {
	const dashed = "4c4c4544-004b-4e10-8031-c7c04f563932"
	for text, want := range map[string]int{
		donorID: 1, strings.ToUpper(donorID): 1, dashed: 1, strings.ToUpper(dashed): 1, "4C4c4544-004b4e10-8031c7c04f563932": 1,
		donorID + "-6.1.112": 1, "node-" + donorID: 1, "a-" + donorID: 1, "x" + donorID + "y": 1, "node" + donorID: 1, "beef" + donorID + "cafe": 1,
		"urn:uuid:" + dashed: 1, "{" + dashed + "}": 1, dashed + "-" + strings.Repeat("a", 64): 1, strings.Repeat("b", 64) + "-" + donorID: 1,
		donorID[:31]: 0, donorID[1:]: 0, "5" + donorID[1:]: 0, donorID[:16] + " " + donorID[16:]: 0, donorID + " " + dashed: 2,
	} {
		for _, pad := range []int{0, 1, 17, 31, 32, 1000} {
			content := strings.Repeat("z", pad) + "\n" + text + "\n"
			if got := identitiesIn(t, "opt/a", []byte(content)); got != want {
				t.Errorf("%q after %d bytes: %d findings, want %d", text, pad, got, want)
			}
		}
	}
	for _, name := range []string{donorID, "n-" + donorID, donorID + ".conf", donorID + "-6.1.conf", dashed, strings.ToUpper(dashed)} {
		if identitiesIn(t, "opt/"+name, []byte("x")) == 0 {
			t.Errorf("the name %q is not found", name)
		}
	}
}

// cpio returns an archive of one file.
func cpio(name, content string) []byte {
	var b bytes.Buffer
	entry := func(name, content string) {
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00", 1, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
		b.Write(make([]byte, -b.Len()&3))
		b.WriteString(content)
		b.Write(make([]byte, -b.Len()&3))
	}
	if name != "" {
		entry(name, content)
	}
	entry(cpioTrailer, "")
	return b.Bytes()
}

// TestSettingsOfAnInitramfs: settings are found in the text files of an initramfs, and not in its programs.
func TestSettingsOfAnInitramfs(t *testing.T) {
	const setting = "\npassword = uae4Ohj5eiMu\n"
	for name, test := range map[string]struct {
		path, content string
		want          int
	}{
		"settings":  {"etc/agent.conf", setting, 1},
		"a library": {"usr/lib/libcrypto.so.3", "\x7fELF\x02\x01\x01\x00" + setting, 0},
		"a header":  {"usr/include/agent.h", setting, 0},
	} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(slices.Concat(cpio("bin/sh", "\x7fELF\x00"), cpio(test.path, test.content), cpio("etc/hostname", "node\n")))
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := identitiesIn(t, "boot/initrd.img", packed.Bytes()); got != test.want {
			t.Errorf("%s: %d findings, want %d", name, got, test.want)
		}
	}
}

// TestPackagesInAnInitramfs: a key in the unchanged library of a package is no finding.
func TestPackagesInAnInitramfs(t *testing.T) {
	const library = "\x7fELF\x02\x01\x01\x00(private-key (rsa (n #00A1B2C3D4E5F6071829) (e #010001#) (d #0A1B2C3D4E5F60718293#)))"
	for name, test := range map[string]struct {
		path, content string
		want          int
	}{
		"the library":        {"usr/lib/libgcrypt.so.20", library, 0},
		"below a link":       {"./lib/libgcrypt.so.20", library, 0},
		"a changed library":  {"usr/lib/libgcrypt.so.20", library + "x", 1},
		"a copy":             {"usr/lib/libcopy.so", library, 0},
		"of no package":      {"usr/lib/libsite.so", library + "x", 1},
		"a file in its path": {"etc/usr/lib/libgcrypt.so.20", library + "x", 1},
	} {
		dir := t.TempDir()
		var packed bytes.Buffer
		plain, w := slices.Concat(cpio(test.path, test.content), cpio("etc/hostname", "node\n")), gzip.NewWriter(&packed)
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), os.Symlink("usr/lib", filepath.Join(dir, "lib"))); err != nil {
			t.Fatal(err)
		}
		writeFile(t, dir, "var/lib/dpkg/info/libgcrypt20.md5sums", fmt.Sprintf("%x  usr/lib/libgcrypt.so.20\n", md5.Sum([]byte(library)))) //nolint:gosec // As above.
		for how, content := range map[string]string{"packed": packed.String(), "plain": string(plain)} {
			writeFile(t, dir, "boot/initrd.img", content)
			report, err := Tree(t.Context(), dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if report.Count != test.want {
				t.Errorf("%s, %s: %+v, want %d", name, how, report.Findings, test.want)
			}
		}
	}
}

// TestInitramfs: the machine ID, and a host name that is a word, are found in each archive of an initramfs, in each usual
// compression.
func TestInitramfs(t *testing.T) {
	packers := map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":                 func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"zstd":                 func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
		"xz":                   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"none":                 func(w io.Writer) (io.WriteCloser, error) { return nopCloser{w}, nil },
		"lz4":                  func(w io.Writer) (io.WriteCloser, error) { return &lz4Writer{Writer: w}, nil },
		"lzma":                 func(w io.Writer) (io.WriteCloser, error) { return lzma.NewWriter(w) },
		"unified kernel image": func(w io.Writer) (io.WriteCloser, error) { return &unifiedWriter{w: w}, nil },
	}
	find := func(content []byte) int {
		dir := t.TempDir()
		writeFile(t, dir, "boot/initramfs.img", string(content))
		report, err := Tree(t.Context(), dir, Options{
			Identities: ofDonor, Literals: []Literal{{Text: "worker.corp.example", IsWord: true}, {Text: "worker", IsWord: true}, {What: "host name", Text: "pool-donor-07"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return report.Count
	}
	microcode := append(cpio("kernel/x86/microcode/GenuineIntel.bin", strings.Repeat("m", 3000)), make([]byte, 700)...)
	empty := append(cpio("", ""), make([]byte, 300)...)
	for what, main := range map[string]struct {
		archive []byte
		want    int
	}{
		"a machine ID":         {cpio("etc/machine-id", donorID+"\n"), 1},
		"a host name":          {cpio("./etc/hostname", "Worker\n"), 1},
		"a long host name":     {cpio("etc/hostname", "worker.corp.example\n"), 1},
		"a hosts file":         {cpio("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 worker.corp.example worker\n"), 1},
		"a network file":       {cpio("etc/sysconfig/network", "NETWORKING=yes\nHOSTNAME=\"worker\"\n"), 1},
		"a distinct name":      {cpio("etc/hosts", "127.0.1.1 pool-donor-07\n"), 1},
		"an empty machine ID":  {cpio("etc/machine-id", ""), 0},
		"no host name":         {cpio("etc/hostname", ""), 0},
		"the name of no host":  {cpio("etc/hosts", "127.0.0.1 localhost\n10.0.0.9 worker-registry\n"), 0},
		"the name as a word":   {cpio("usr/lib/dracut/worker.sh", "# starts a worker\n"), 0},
		"a name in no setting": {cpio("etc/services", "worker 9000/tcp\n"), 0},
	} {
		for how, pack := range packers {
			var packed bytes.Buffer
			w, err := pack(&packed)
			if err == nil {
				_, err = w.Write(main.archive)
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			for where, early := range map[string][]byte{"alone": nil, "after microcode": microcode, "after an empty archive": empty, "after both": append(bytes.Clone(empty), microcode...)} {
				if got := find(append(bytes.Clone(early), packed.Bytes()...)); (got > 0) != (main.want > 0) {
					t.Errorf("%s, %s, %s: %d findings", what, how, where, got)
				}
			}
		}
	}
	for name, damaged := range map[string][]byte{"cut": microcode[:200], "a header alone": []byte("070701"), "no number": []byte("070701" + strings.Repeat("x", 200)), "an end": cpio("", "")} {
		if find(damaged) != 0 {
			t.Errorf("%s: found", name)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// lz4Writer writes the older format of lz4 without compression.
type lz4Writer struct {
	io.Writer
	begun bool
}

func (w *lz4Writer) Write(p []byte) (int, error) {
	var out []byte
	if !w.begun {
		out = append(out, lz4Legacy...)
	}
	w.begun = true
	block := []byte{0xf0}
	for n := len(p) - 15; n >= 0; n -= 255 {
		block = append(block, byte(min(n, 255)))
	}
	if len(p) < 15 {
		block = []byte{byte(len(p)) << 4}
	}
	block = append(block, p...)
	_, err := w.Writer.Write(append(binary.LittleEndian.AppendUint32(out, uint32(len(block))), block...))
	return len(p), err
}

func (w *lz4Writer) Close() error { return nil }

// unifiedWriter writes a unified kernel image with an initramfs in gzip, as ukify does.
type unifiedWriter struct {
	w         io.Writer
	initramfs bytes.Buffer
}

func (u *unifiedWriter) Write(p []byte) (int, error) { return u.initramfs.Write(p) }

func (u *unifiedWriter) Close() error {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(u.initramfs.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	_, err := u.w.Write(unifiedImage(map[string][]byte{".cmdline": []byte("root=UUID=aaaa"), ".initrd": packed.Bytes(), ".linux": []byte("MZ kernel")}))
	return err
}

// unifiedImage returns a portable executable with sections.
func unifiedImage(sections map[string][]byte) []byte {
	const header, aligned = 0x40, 0x200
	head := make([]byte, header)
	copy(head, "MZ")
	binary.LittleEndian.PutUint32(head[0x3c:], header)
	head = append(head, "PE\x00\x00"...)
	head = binary.LittleEndian.AppendUint16(head, 0x8664)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(sections)))
	head = append(head, make([]byte, 16)...) // without symbols, and without an optional header
	var content []byte
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		section := make([]byte, 40)
		copy(section, name)
		for i, value := range []int{len(sections[name]), 0x1000, len(sections[name]), aligned + len(content)} {
			binary.LittleEndian.PutUint32(section[8+4*i:], uint32(value))
		}
		head, content = append(head, section...), append(content, sections[name]...)
	}
	return append(append(head, make([]byte, aligned-len(head))...), content...)
}

// TestLZ4 unpacks what the program lz4 1.9 wrote, and damaged forms of it.
func TestLZ4(t *testing.T) {
	var want strings.Builder
	for i := 1; i <= 6; i++ {
		fmt.Fprintf(&want, "line %d of a host: node-one node-one node-one node-one\n", i)
	}
	for options, text := range map[string]string{
		"-l -9":                     "AiFMGEIAAAD/C2xpbmUgMSBvZiBhIGhvc3Q6IG5vZGUtb25lCQAIEQo2AB8yNgAiHzM2ACIfNDYAIh81NgAiHzY2ABdQZS1vbmU=",
		"-9":                        "BCJNGGRAp0IAAAD/C2xpbmUgMSBvZiBhIGhvc3Q6IG5vZGUtb25lCQAIEQo2AB8yNgAiHzM2ACIfNDYAIh81NgAiHzY2ABdQZS1vbmUAAAAAQvDj4Q==",
		"-9 -BD -B4 --content-size": "BCJNGGxAQwEAAAAAAAAvQgAAAP8LbGluZSAxIG9mIGEgaG9zdDogbm9kZS1vbmUJAAgRCjYAHzI2ACIfMzYAIh80NgAiHzU2ACIfNjYAF1BlLW9uZQAAAABC8OPh",
	} {
		packed, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, times := range []int{1, 2} {
			got, err := io.ReadAll(&lz4Reader{r: bufio.NewReader(bytes.NewReader(bytes.Repeat(packed, times)))})
			if line := strings.TrimSuffix(want.String(), "\n"); err != nil || string(got) != strings.Repeat(line, times) {
				t.Errorf("%s, %d times: %q, %v", options, times, got, err)
			}
		}
		for i := range packed {
			damaged := bytes.Clone(packed)
			damaged[i] ^= 0x41
			_, _ = io.ReadAll(&lz4Reader{r: bufio.NewReader(bytes.NewReader(damaged[:max(i, len(packed)/2)]))}) // must end, and not panic
		}
	}
}

// TestLargeInitramfs: the name of the donor is found behind the programs and drivers of an initramfs.
func TestLargeInitramfs(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	driver := make([]byte, maxUnpacked+maxUnpacked/4)
	for i := 0; i < len(driver); i += 64 {
		binary.LittleEndian.PutUint32(driver[i:], uint32(i)*2654435761)
	}
	if _, err := w.Write(slices.Concat(cpio("usr/lib/modules/6.1/drivers.ko", string(driver)), cpio("etc/hostname", "worker\n"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "boot/initramfs-6.1.img", packed.String())
	report, err := Tree(t.Context(), dir, Options{Literals: []Literal{{Text: "worker", IsWord: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Count != 1 {
		t.Errorf("%d findings", report.Count)
	}
}
