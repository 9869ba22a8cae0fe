package offline

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sfdiskTable is the answer of sfdisk, which reads tables with code of its own.
type sfdiskTable struct {
	Table struct {
		Partitions []struct {
			Start, Size      int64
			Type, UUID, Name string
		} `json:"partitions"`
	} `json:"partitiontable"`
}

// image makes a sparse file with a partition table.
func image(t *testing.T, size int64, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.raw")
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if script != "" {
		command(t, script, "sfdisk", "--quiet", name)
	}
	return name
}

// command runs a program with an input, and returns its output. A machine without the program skips the test.
func command(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestPartitionsAsSfdisk compares the reader with sfdisk, on tables that sfdisk wrote.
func TestPartitionsAsSfdisk(t *testing.T) {
	for name, script := range map[string]string{
		"gpt as clouds write it": "label: gpt\nsector-size: 512\nstart=262144, type=L, name=root\nsize=100M, type=U\n",
		"gpt with a gap":         "label: gpt\n1: size=1M, type=21686148-6449-6E6F-744E-656564454649\n14: size=4M\n15: size=50M, type=U, name=\"a name\"\n",
		"mbr":                    "label: dos\nsize=10M, type=83, bootable\nsize=10M, type=82\n",
		"mbr with logical ones":  "label: dos\nlabel-id: 0xabcd1234\n1: size=10M, type=83\n3: size=60M, type=f\n5: size=5M, type=83\n6: size=5M, type=82\n7: size=5M\n",
	} {
		t.Run(name, func(t *testing.T) {
			const size = 400 << 20
			disk := image(t, size, script)
			var want sfdiskTable
			if err := json.Unmarshal([]byte(command(t, "", "sfdisk", "--json", disk)), &want); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(disk)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := partitions(f, size)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for _, w := range want.Table.Partitions {
				if w.Type == "f" {
					continue // the frame of the logical partitions
				}
				if at >= len(got) {
					t.Fatalf("%d partitions, want more", len(got))
				}
				p := got[at]
				at++
				if p.Begin != w.Start*sector || p.Length != w.Size*sector || !strings.EqualFold(p.Type, w.Type) ||
					w.UUID != "" && !strings.EqualFold(p.UUID, w.UUID) ||
					p.Name != w.Name {
					t.Errorf("got %+v, want %+v", p, w)
				}
			}
			if at != len(got) || at == 0 {
				t.Errorf("%d partitions, want %d", len(got), at)
			}
		})
	}
}

// TestFalseTables: a table that is damaged, or that the kernel would read in another way, is an error.
func TestFalseTables(t *testing.T) {
	const size = 100 << 20
	whole, err := os.ReadFile(image(t, size, "label: gpt\nsize=10M\nsize=10M\n"))
	if err != nil {
		t.Fatal(err)
	}
	summed := func(change func(disk []byte)) func([]byte) {
		return func(disk []byte) {
			change(disk)
			header := disk[512:][:92]
			binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(disk[1024:][:128*128]))
			clear(header[16:20])
			binary.LittleEndian.PutUint32(header[16:], crc32.ChecksumIEEE(header))
		}
	}
	entry := func(n, field int, value uint64) func([]byte) {
		return summed(func(disk []byte) { binary.LittleEndian.PutUint64(disk[1024+128*n+field:], value) })
	}
	for name, c := range map[string]struct {
		change func(disk []byte)
		want   error
	}{
		"unchanged":           {func([]byte) {}, nil},
		"a bit of the header": {func(disk []byte) { disk[512+40] ^= 1 }, errDamaged},
		"a bit of an entry":   {func(disk []byte) { disk[1024+32] ^= 1 }, errDamaged},
		"no header":           {func(disk []byte) { clear(disk[512:1024]) }, errDamaged},
		"overlap":             {entry(1, 32, 2048), errOverlap},
		"beyond the end":      {entry(1, 40, size/sector), errOutside},
		"backwards":           {entry(1, 40, 1), errEntries},
		"a huge number":       {entry(1, 40, 1<<63), errEntries},
	} {
		disk := bytes.Clone(whole)
		c.change(disk)
		if _, err := partitions(bytes.NewReader(disk), size); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// Linux ignores GPT without a protective MBR.
	clear(whole[446:512])
	if got, err := partitions(bytes.NewReader(whole), size); err != nil || len(got) != 1 || got[0].Number != 0 || got[0].Length != size {
		t.Errorf("without a protective MBR: %+v, %v", got, err)
	}
}

// TestContentAsBlkid compares superblocks with what blkid reads, on file systems of their own programs.
func TestContentAsBlkid(t *testing.T) {
	for name, args := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-F", "-L", "a label"}, "ext2": {"mkfs.ext2", "-q", "-F", "-b", "1024"}, "xfs": {"mkfs.xfs", "-q", "-L",
			"xfslabel"},
		"fat32": {"mkfs.vfat", "-F", "32", "-n", "UEFI"}, "fat16": {"mkfs.vfat", "-F", "16"}, "swap": {"mkswap", "-L", "swaplabel"},
	} {
		t.Run(name, func(t *testing.T) {
			const size = 320 << 20
			disk := image(t, size, "")
			command(t, "", args[0], append(args[1:], disk)...)
			want := map[string]string{}
			for line := range strings.Lines(command(t, "", "blkid", "-p", "-o", "export", disk)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				want[key] = strings.ReplaceAll(value, `\ `, " ")
			}
			if want["TYPE"] == "ext2" {
				want["TYPE"] = "ext4" // one driver
			}
			f, err := os.Open(disk)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := contentOf(f, 0, size)
			if string(got.Kind) != want["TYPE"] || got.FileSystem != want["UUID"] || got.Label != want["LABEL"] || got.ForeignJournal {
				t.Errorf("got %+v, want %v", got, want)
			}
		})
	}
}

// TestOtherContent: volumes that hold file systems are recognized, also with a file system at its usual place.
func TestOtherContent(t *testing.T) {
	const size = 1 << 20
	for kind, at := range map[Kind]map[int]string{
		luks: {0: "LUKS\xba\xbe\x00\x01"}, lvm: {512: "LABELONE",
			536: "LVM2 001"}, btrfs: {64<<10 + 64: "_BHRfS_M"}, "bcache": {4120: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca"},
		"zfs_member": {128<<10 + 1024: "\x0c\xb1\xba\x00\x00\x00\x00\x00"}, "f2fs": {1024: "\x10\x20\xf5\xf2"},
	} {
		disk := make([]byte, size)
		copy(disk[1024+0x38:], "\x53\xef")
		for offset, magic := range at {
			copy(disk[offset:], magic)
		}
		if got := contentOf(bytes.NewReader(disk), 0, size); got.Kind != kind {
			t.Errorf("got %q, want %q", got.Kind, kind)
		}
	}
	for _, offset := range []int{0, 4096, size - 8192, size - 64<<10} {
		disk := make([]byte, size)
		copy(disk[1024+0x38:], "\x53\xef")
		copy(disk[offset:], "\xfc\x4e\x2b\xa9")
		if got := contentOf(bytes.NewReader(disk), 0, size); got.Kind != md {
			t.Errorf("at %d: got %q", offset, got.Kind)
		}
	}
}

// FuzzDevice reads the table and superblocks of a hostile device.
func FuzzDevice(f *testing.F) {
	gptDisk := make([]byte, 64<<10)
	copy(gptDisk[510:], "\x55\xaa")
	gptDisk[450], gptDisk[458] = protective, 1
	copy(gptDisk[512:], "EFI PART")
	extended := make([]byte, 4096)
	copy(extended[510:], "\x55\xaa")
	extended[450], extended[454], extended[458] = 5, 1, 7
	f.Add(gptDisk)
	f.Add(extended)
	f.Add(bytes.Repeat([]byte("XFSB"), 1024))
	f.Fuzz(func(t *testing.T, disk []byte) {
		size := int64(len(disk))
		found, err := partitions(bytes.NewReader(disk), size)
		if err != nil {
			return
		}
		for _, p := range found {
			if p.Begin < 0 || p.Length <= 0 && size > 0 || p.Begin+p.Length > size {
				t.Errorf("%+v is not on a device of %d bytes", p, size)
			}
		}
		_, _ = chooseRoot(found, "")
		_, _ = planMounts(string(disk), found, Partition{})
		_ = refuseForeign(found, Content{})
	})
}

// sectorFile is a device of one sector.
type sectorFile struct{ *bytes.Reader }

func (s sectorFile) WriteAt(b []byte, at int64) (int, error) {
	all := make([]byte, sector)
	_, _ = s.ReadAt(all, 0)
	n := copy(all[at:], b)
	s.Reset(all)
	return n, nil
}

// TestClearDirty: only the bit of a mounted FAT changes, at its place in each kind.
func TestClearDirty(t *testing.T) {
	for name, c := range map[string]struct {
		at    int
		boot  map[int]string
		clear bool
	}{
		"FAT32":    {0x41, map[int]string{82: "FAT32   ", 510: "\x55\xaa"}, true},
		"FAT16":    {0x25, map[int]string{54: "FAT16   ", 510: "\x55\xaa"}, true},
		"not FAT":  {0x25, map[int]string{510: "\x55\xaa"}, false},
		"no magic": {0x41, map[int]string{82: "FAT32   "}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := bytes.Repeat([]byte{3}, sector)
			for at, text := range c.boot {
				copy(before[at:], text)
			}
			if c.boot[510] == "" {
				before[510] = 0
			}
			want := bytes.Clone(before)
			if c.clear {
				want[c.at] = 2
			}
			f := sectorFile{bytes.NewReader(before)}
			got := make([]byte, sector)
			if err := clearDirty(f); err != nil {
				t.Fatal(err)
			}
			_, _ = f.ReadAt(got, 0)
			if !bytes.Equal(got, want) {
				t.Errorf("got %x, want %x", got, want)
			}
		})
	}
}
