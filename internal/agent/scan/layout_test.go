package scan

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestXFS reads an image as mkfs.xfs would write it: two groups, a log, and a tree of free blocks with two levels.
func TestXFS(t *testing.T) {
	for magic, head := range map[string]int{"AB3B": 56, "ABTB": 16} {
		disk := make([]byte, 128<<10)
		put := func(at int, values ...uint32) {
			for i, v := range values {
				binary.BigEndian.PutUint32(disk[at+4*i:], v)
			}
		}
		const block, group = 1024, 64 << 10
		copy(disk, "XFSB")
		put(4, block, 0, 128)
		binary.BigEndian.PutUint64(disk[48:], 1<<6|20) // the log, in the second group from block 20 on
		put(84, 64, 2)
		put(96, 8)
		binary.BigEndian.PutUint16(disk[102:], 512)
		disk[124] = 6
		node := func(at, level, records int, next uint32) {
			copy(disk[at:], magic)
			binary.BigEndian.PutUint16(disk[at+4:], uint16(level))
			binary.BigEndian.PutUint16(disk[at+6:], uint16(records))
			put(at+12, next)
		}
		for i, root := range []uint32{4, 5} {
			copy(disk[i*group+512:], "XAGF")
			put(i*group+512+16, root)
			put(i*group+512+28, uint32(2-i))
		}
		node(4*block, 1, 2, noBlock)
		put(4*block+head+(block-head)/12*8, 6, 7)
		node(6*block, 0, 1, 7)
		put(6*block+head, 10, 2)
		node(7*block, 0, 2, noBlock)
		put(7*block+head, 30, 4, 50, 1)
		node(group+5*block, 0, 1, noBlock)
		put(group+5*block+head, 40, 24)

		l := layoutOf(strings.NewReader(string(disk)), int64(len(disk)))
		for at, want := range map[int64]Block{
			0: InUse, 9: InUse, 10: Free, 11: Free, 12: InUse, 29: InUse, 33: Free, 34: InUse, 50: Free, 51: InUse, 64 + 20: Log, 64 + 27: Log, 64 + 40: Free, 64 + 63: Free,
		} {
			if got := l.at(at * block); got != want {
				t.Errorf("%s: block %d is %q, want %q", magic, at, got, want)
			}
		}
	}
}

// TestRealXFS deletes a file from a real file system; it needs mkfs.xfs and the right to mount.
func TestRealXFS(t *testing.T) {
	all, root, name := secrets(t), t.TempDir(), filepath.Join(t.TempDir(), "disk.raw")
	for _, command := range [][]string{{"truncate", "-s", "320M", name}, {"mkfs.xfs", "-q", name}, {"mount", "-o", "loop", name, root}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	writeFile(t, root, "gone.key", all["PKCS #1 in PEM"])
	writeFile(t, root, "stays.key", all["OpenSSH"])
	unix.Sync()
	if err := os.Remove(filepath.Join(root, "gone.key")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Unmount(root, 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range scanImage(t, name, Options{}).Findings {
		got = append(got, string(f.Block))
	}
	if len(got) != 2 || got[0] == got[1] || got[0] == "" || got[1] == "" {
		t.Errorf("got %q, want a free block and a block in use", got)
	}
}

// TestUnreadBlocks needs the right to mount. Blocks below unwritten extents, and blocks of a file that was open when the
// power went, are free: no clone reads them.
func TestUnreadBlocks(t *testing.T) {
	all, root, name := secrets(t), t.TempDir(), filepath.Join(t.TempDir(), "disk.raw")
	for _, command := range [][]string{{"truncate", "-s", "64M", name}, {"mkfs.ext4", "-q", "-F", "-b", "1024", name}, {"mount", "-o", "loop", name, root}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	writeFile(t, root, "below.key", all["PKCS #1 in PEM"])
	writeFile(t, root, "stays.key", all["OpenSSH"])
	writeFile(t, root, "open.key", all["PKCS #8 in PEM"])
	unix.Sync()
	if err := os.Remove(filepath.Join(root, "below.key")); err != nil {
		t.Fatal(err)
	}
	unix.Sync()
	keeper, err := os.Create(filepath.Join(root, "keeper"))
	must(t, keeper, err)
	if err := unix.Fallocate(int(keeper.Fd()), 0, 0, 48<<20); err != nil {
		t.Skip(err)
	}
	open, err := os.Open(filepath.Join(root, "open.key"))
	must(t, open, err)
	defer open.Close()
	if err := os.Remove(filepath.Join(root, "open.key")); err != nil {
		t.Fatal(err)
	}
	unix.Sync()
	got := map[string]string{}
	for _, f := range scanImage(t, name, Options{}).Findings {
		got[f.What] += fmt.Sprint(f.Block, ";")
	}
	keeper.Close()
	free, used := 0, 0
	for _, blocks := range got {
		free, used = free+strings.Count(blocks, string(Free)), used+strings.Count(blocks, string(InUse))
	}
	if free != 2 || used != 1 {
		t.Errorf("got %v, want two free blocks and one in use", got)
	}
}
