package offline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bytesFile is a partition in memory.
type bytesFile []byte

func (b bytesFile) ReadAt(to []byte, at int64) (int, error) {
	return bytes.NewReader(b).ReadAt(to, at)
}

func (b bytesFile) WriteAt(from []byte, at int64) (int, error) {
	if at < 0 || at+int64(len(from)) > int64(len(b)) {
		return 0, io.ErrShortWrite
	}
	return copy(b[at:], from), nil
}

// TestRemovedNamesOfXFS needs root. Nothing of a removed name stays in any layout of XFS with checksums; the file system is whole, and its
// log is clean, also after it has gone round.
func TestRemovedNamesOfXFS(t *testing.T) {
	const needle = "0123456789abcdef0123456789abcdef"
	for name, options := range map[string]string{
		"default": "-q", "large sectors": "-s size=4096", "stripes": "--unsupported -d su=64k,sw=2 -l su=64k,size=32m", "small log": "--unsupported -l size=1400b",
		"large inodes": "-i size=1024", "without sparse inodes": "-i sparse=0", "few extents": "-i nrext64=0", "small blocks": "-b size=1024", "large directories": "-n size=16k",
		"trees of owners": "-m rmapbt=1,reflink=1",
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "small blocks" {
				t.Skip("takes seconds")
			}
			file := image(t, 400<<20, "")
			command(t, "", "mkfs.xfs", append(strings.Fields(options), "-f", file)...)
			device := strings.TrimSpace(command(t, "", "losetup", "--find", "--show", file))
			t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
			root := t.TempDir()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			mounted := func(work func()) {
				t.Helper()
				if err := unix.Mount(device, root, "xfs", 0, ""); err != nil {
					t.Skipf("mounting is not allowed here: %v", err)
				}
				work()
				must(unix.Unmount(root, 0))
			}
			rounds := 3
			if name == "small log" {
				rounds = 9
			}
			for round := range rounds {
				mounted(func() {
					for i := range 2000 {
						at := filepath.Join(root, fmt.Sprintf("%d-%d", i%20, round))
						must(os.MkdirAll(at, 0o755))
						must(os.Symlink(fmt.Sprint("/", needle, i), filepath.Join(at, fmt.Sprintf("%s-%0*d", needle, 1+i%100, i))))
						if i%50 == 0 {
							unix.Sync()
						}
					}
				})
				mounted(func() { command(t, "", "find", root, "-name", needle+"*", "-delete") })
				var free []extent
				mounted(func() {
					dir, err := os.Open(root)
					must(err)
					free, err = freeExtents(dir)
					must(errors.Join(err, dir.Close()))
				})
				f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL, 0)
				must(err)
				_, err = zeroFree(t.Context(), f, free)
				must(err)
				wiped, err := wipeXFS(t.Context(), f, 400<<20)
				if must(errors.Join(err, f.Close())); wiped == 0 {
					t.Error("nothing was wiped")
				}
				command(t, "", "xfs_repair", "-n", device)
				if out := command(t, "", "xfs_logprint", "-t", device); !strings.Contains(out, "<CLEAN>") {
					t.Errorf("the log is not clean:\n%s", out)
				}
			}
			raw, err := os.ReadFile(file)
			must(err)
			fs, err := readXFSFormat(bytesFile(raw))
			must(err)
			last, err := lastRecord(io.NewSectionReader(fs.f, fs.logBegin, fs.logLength))
			must(err)
			if cycle := binary.BigEndian.Uint32(raw[fs.logBegin+last.from+4:]); name == "small log" && cycle < 2 {
				t.Errorf("the log has not gone round: the last record is at %d of %d", last.from, fs.logLength)
			}
			if at := bytes.Index(raw, []byte(needle)); at >= 0 {
				t.Errorf("a removed name is still at byte %d", at)
			}
		})
	}
}
