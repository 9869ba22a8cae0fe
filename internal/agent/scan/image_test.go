package scan

import (
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func image(t testing.TB, size int64, parts map[int64]string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.raw")
	f, err := os.Create(name)
	must(t, f, err)
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for at, content := range parts {
		if _, err := f.WriteAt([]byte(content), at); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

func scanImage(t testing.TB, name string, o Options) *Report {
	t.Helper()
	report, err := Image(t.Context(), name, o)
	return must(t, report, err)
}

func TestImageWithoutFileSystem(t *testing.T) {
	all := secrets(t)
	for name, secret := range all {
		// The secret lies on the border of two windows and of two extents of data.
		for _, at := range []int64{1<<20 - int64(len(secret)/2), 8192} {
			report := scanImage(t, image(t, 8<<20, map[int64]string{at: secret, 6 << 20: "x"}), Options{})
			if report.Count != 1 || report.Findings[0].Offset < at || report.Findings[0].Offset > at+128 || report.Findings[0].Block != "" {
				t.Errorf("%s at %d: got %+v", name, at, report)
			}
		}
	}
	for name, content := range lookalikes(t) {
		if report := scanImage(t, image(t, 1<<20, map[int64]string{4096: content}), Options{}); report.Count > 0 {
			t.Errorf("%s was taken for a %s", name, report.Findings[0].What)
		}
	}
}

func TestKnownInImage(t *testing.T) {
	key := secrets(t)["PKCS #1 in PEM"]
	name := image(t, 1<<20, map[int64]string{8192: key})
	found := scanImage(t, name, Options{})
	report := scanImage(t, name, Options{Known: map[string]string{found.Findings[0].SHA256: "nothing joins without it"}})
	if report.Count != 0 || len(report.Kept) != 1 || report.Kept[0].Kept != "nothing joins without it" {
		t.Errorf("got %+v", report)
	}
}

// TestKnownPackageFiles tests a key of a package or container image, a key inside a program, and the machine's
// own key.
func TestKnownPackageFiles(t *testing.T) {
	all, dir := secrets(t), t.TempDir()
	writeFile(t, dir, "usr/share/doc/example/server.key", all["PKCS #1 in PEM"])
	// A password has no hash in a report, but is compared, too.
	example, own := "Authorization: Basic QWRtaW46b3BlbiBzZXNhbWUx\n", "Authorization: Basic QWRtaW46VHJ1c3RubzEtYXQtYWxs\n"
	writeFile(t, dir, "usr/share/doc/example/README", example)
	packaged(t, dir, "usr/share/doc/example/server.key", "usr/share/doc/example/README")
	block, _ := pem.Decode([]byte(all["SEC 1 in PEM"]))
	program := strings.Repeat("\x7fELF", 3*sector/4) + string(block.Bytes)
	writeFile(t, dir, "usr/bin/openssl", program)
	writeFile(t, dir, "usr/bin/kubeadm", "\x7fELF\x00kubeadm join --token abcdef.1234567890abcdef 1.2.3.4:6443\x00--tls-bootstrap-token abcdef.0123456789abcdef\x00")
	writeFile(t, dir, "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/etc/test.key", all["OpenSSH"])
	writeFile(t, dir, "etc/ssl/private/own.key", all["PKCS #8 in PEM"])
	known, err := Brought(t.Context(), dir, Options{})
	if err != nil || len(known) != 4 {
		t.Fatalf("got %v, %v", known, err)
	}
	name := image(t, 4<<20, map[int64]string{8192: all["PKCS #1 in PEM"], 1 << 20: all["OpenSSH"], 2 << 20: all["PKCS #8 in PEM"], 3 << 20: program, 3<<20 + 64<<10: example, 3<<20 + 128<<10: own})
	report := scanImage(t, name, Options{Known: known})
	if report.Count != 2 || report.Findings[0].Offset != 2<<20 || report.Findings[1].Offset != 3<<20+128<<10 || len(report.Kept) != 4 {
		t.Errorf("got %+v", report)
	}
}

func TestIdentityInBlocks(t *testing.T) {
	small, large, binaryOne := "a host's key "+letters(400), letters(1024), "\x05\x02\x00\x00"+letters(90)
	name := image(t, 4<<20, map[int64]string{3 * 1024: small, 1<<20 + 1024: large, 2<<20 - 1024: binaryOne, 3 << 20: "not " + small})
	for _, known := range []bool{true, false} {
		var values []Value
		for _, content := range []string{small, large, binaryOne} {
			v := Value{Path: fmt.Sprintf("/etc/%d", len(content)), SHA256: sum([]byte(content))}
			if known {
				v.Bytes = int64(len(content))
			}
			values = append(values, v)
		}
		var got []int64
		for _, f := range scanImage(t, name, Options{Identities: values}).Findings {
			got = append(got, f.Offset)
		}
		want := []int64{3 * 1024, 1<<20 + 1024, 2<<20 - 1024}
		if !known { // the end of binary content is unknown
			want = want[:2]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sizes known %v (-want +got):\n%s", known, diff)
		}
	}
}

// TestFreeBlocks deletes a key from a real file system: the scan finds the key in a free block, and no longer after a
// trim.
func TestFreeBlocks(t *testing.T) {
	for _, tool := range []string{"mkfs.ext4", "debugfs"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is needed: apt-get install e2fsprogs", tool)
		}
	}
	all, dir, name := secrets(t), t.TempDir(), filepath.Join(t.TempDir(), "disk.raw")
	writeFile(t, dir, "etc/gone.key", all["PKCS #1 in PEM"])
	writeFile(t, dir, "etc/stays.key", all["OpenSSH"])
	id := letters(32)
	writeFile(t, dir, "etc/machine-id", id+"\n")
	writeFile(t, dir, "etc/hosts", "10.0.3.17 Worker-7F3A\n")
	writeFile(t, dir, "etc/hostname", "worker-7f3a\n")
	named := Options{Literals: []Literal{{What: "host name", Text: "worker-7f3a"}}}
	values := []Value{{Path: "/etc/machine-id", SHA256: sum([]byte(id + "\n")), Bytes: 33}}
	call := func(command string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), command, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	const begin = 1 << 20
	call("mkfs.ext4", "-q", "-F", "-E", fmt.Sprintf("offset=%d", begin), "-d", dir, name, "48M")
	// The MBR has an entry for the partition, so that the scan finds the file system as on a full disk.
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, f, err)
	mbr := make([]byte, sector)
	mbr[446+4] = 0x83
	binary.LittleEndian.PutUint32(mbr[446+8:], begin/sector)
	binary.LittleEndian.PutUint32(mbr[446+12:], 47<<20/sector)
	mbr[510], mbr[511] = 0x55, 0xAA
	if _, err := f.WriteAt(mbr, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	device := fmt.Sprintf("%s?offset=%d", name, begin)

	states := func(o Options) (found []string) {
		for _, f := range scanImage(t, name, o).Findings {
			found = append(found, fmt.Sprintf("%s: %s", f.What, f.Block))
		}
		return found
	}
	count := func(found []string, what string) (n int) {
		for _, f := range found {
			if strings.HasPrefix(f, what) {
				n++
			}
		}
		return n
	}
	if found := states(Options{Identities: values}); count(found, "private key (PEM): block in use") != 2 || count(found, "the donor's /etc/machine-id: block in use") == 0 {
		t.Fatalf("before: %q", found)
	}
	// Files may name the donor by design; free blocks may not.
	if found := states(named); count(found, "the donor's") != 0 {
		t.Errorf("names in files: %q", found)
	}
	call("debugfs", "-w", "-R", "rm /etc/hosts", device)
	if found := states(named); count(found, "the donor's host name: free block") != 1 {
		t.Errorf("a removed name: %q", found)
	}
	call("debugfs", "-w", "-R", "rm /etc/gone.key", device)
	call("debugfs", "-w", "-R", "rm /etc/machine-id", device)
	if found := states(Options{Identities: values}); count(found, "private key (PEM): free block") != 1 || count(found, "private key (PEM): block in use") != 1 || count(found, "the donor's /etc/machine-id: free block") != 1 {
		t.Errorf("removed: %q", found)
	}
	if found := states(Options{Identities: values, FreeOnly: true}); count(found, "private key (PEM)") != 1 {
		t.Errorf("removed, free blocks only: %q", found)
	}
	// The test does what fstrim does on a disk with discard: free blocks read as zeros.
	for _, f := range scanImage(t, name, Options{Identities: values}).Findings {
		if f.Block == Free {
			disk, err := os.OpenFile(name, os.O_RDWR, 0)
			must(t, disk, err)
			if _, err := disk.WriteAt(make([]byte, 1024), f.Offset/1024*1024); err != nil {
				t.Fatal(err)
			}
			disk.Close()
		}
	}
	if found := states(Options{Identities: values, FreeOnly: true}); len(found) > 0 {
		t.Errorf("trimmed: %q", found)
	}
}

func TestImageErrors(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "nowhere"), image(t, 0, nil), t.TempDir()} {
		if _, err := Image(t.Context(), name, Options{}); err == nil {
			t.Errorf("%s was read as an image", name)
		}
	}
}

// FuzzLayout tests damaged file systems and partition tables.
func FuzzLayout(f *testing.F) {
	super := make([]byte, 8192)
	binary.LittleEndian.PutUint16(super[1024+0x38:], extMagic)
	binary.LittleEndian.PutUint32(super[1024+0x04:], 64)
	binary.LittleEndian.PutUint32(super[1024+0x20:], 8192)
	f.Add(super)
	f.Fuzz(func(_ *testing.T, content []byte) {
		l := layoutOf(strings.NewReader(string(content)), int64(len(content)))
		for at := int64(0); at < int64(len(content)); at += 512 {
			l.at(at)
		}
	})
}

func BenchmarkText(b *testing.B) {
	line := []byte("Nov 21 03:00:00 vmss000004 kubelet[812]: I1121 03:00:00.123456 812 reconciler.go:224] \"operationExecutor.VerifyControllerAttachedVolume started\" volume=c0ffee00-0000-4000-8000-000000000002\n")
	content := make([]byte, 0, 64<<20)
	for len(content)+len(line) < 64<<20 {
		content = append(content, line...)
	}
	s, _ := newScanner(Options{Identities: []Value{{Path: "/etc/machine-id", SHA256: sum([]byte("x")), Bytes: 33}}})
	b.SetBytes(int64(len(content)))
	secrets := everything().sweep("", true, func(secretHit) {})
	secrets.decoder = s.decoder("", maxUnpacked)
	for b.Loop() {
		err := windows(strings.NewReader(string(content)), 0, s.buffer, func(w *window) error {
			secrets.window(w)
			s.known.ids(w, func(secretHit) {})
			s.known.journals(w, func(secretHit) {})
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
