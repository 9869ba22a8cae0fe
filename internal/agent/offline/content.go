package offline

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Content is what a superblock says of a partition. Empty: unknown, or none.
type Content struct {
	Kind Kind
	// FileSystem is the UUID as blkid prints it, and Label the label.
	FileSystem, Label string
	// MountedAt is where ext4 was last mounted.
	MountedAt string
	// Journal is false if the journal is on another device.
	ForeignJournal bool
}

// Kind is the kind of a partition's content, as blkid names it.
type Kind string

// Kinds of content. Kamino mounts the first three.
const (
	ext4  Kind = "ext4"
	xfs   Kind = "xfs"
	vfat  Kind = "vfat"
	swap  Kind = "swap"
	lvm   Kind = "LVM2_member"
	md    Kind = "linux_raid_member"
	luks  Kind = "crypto_LUKS"
	btrfs Kind = "btrfs"
)

// foreign names the kinds that refuse the disk, for people. Other kinds of file systems are no root, and nothing mounts them.
var foreign = map[Kind]string{
	lvm: "a physical volume of LVM", md: "a member of a software RAID (md)", luks: "an encrypted volume (LUKS)", btrfs: "a btrfs file system",
	"bcache": "a cached device (bcache)", "zfs_member": "a member of a ZFS pool", "f2fs": "an f2fs file system",
}

// contentOf reads the superblock in a range of a device. Volumes that contain file systems come first, because the
// superblock of the inner file system may be at its usual place, too. Source: libblkid, superblocks.
func contentOf(r io.ReaderAt, begin, length int64) Content {
	at := func(offset int64, n int) []byte {
		if offset < 0 || offset+int64(n) > length {
			return nil
		}
		return bytesAt(r, begin+offset, n)
	}
	has := func(offset int64, magic string) bool { return string(at(offset, len(magic))) == magic }
	switch {
	case has(0, "LUKS\xba\xbe"):
		return Content{Kind: luks}
	case hasLVM(has):
		return Content{Kind: lvm}
	case hasMD(has, length):
		return Content{Kind: md}
	case has(4096+24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca"):
		return Content{Kind: "bcache"}
	case has(64<<10+0x40, "_BHRfS_M"):
		return Content{Kind: btrfs}
	case hasZFS(at):
		return Content{Kind: "zfs_member"}
	case has(1024, "\x10\x20\xf5\xf2"):
		return Content{Kind: "f2fs"}
	case has(0, "XFSB"):
		return xfsContent(at(0, 512))
	case has(1024+0x38, "\x53\xef"):
		return extContent(at(1024, 1024))
	}
	for page := int64(4 << 10); page <= 64<<10; page *= 2 {
		if has(page-10, "SWAPSPACE2") || has(page-10, "SWAP-SPACE") {
			return Content{Kind: swap, FileSystem: uuidText(at(1024+12, 16)), Label: cText(at(1024+28, 16))}
		}
	}
	return fatContent(at(0, 512))
}

func hasLVM(has func(int64, string) bool) bool {
	for offset := int64(0); offset < 4*sector; offset += sector {
		if has(offset, "LABELONE") && has(offset+24, "LVM2 001") {
			return true
		}
	}
	return false
}

// hasMD looks at the places of the versions 1.1, 1.2, 1.0 and 0.90. Source: Linux, drivers/md/md.c.
func hasMD(has func(int64, string) bool, length int64) bool {
	const magic = "\xfc\x4e\x2b\xa9"
	end := length / sector
	for _, offset := range []int64{0, 4096, (end - 16) &^ 7 * sector, length&^(64<<10-1) - 64<<10} {
		if has(offset, magic) {
			return true
		}
	}
	return false
}

// hasZFS looks for an uberblock of the first label.
func hasZFS(at func(int64, int) []byte) bool {
	ring := at(128<<10, 128<<10)
	for ; len(ring) >= 1024; ring = ring[1024:] {
		if bytes.HasPrefix(ring, []byte("\x0c\xb1\xba\x00\x00\x00\x00\x00")) || bytes.HasPrefix(ring, []byte("\x00\x00\x00\x00\x00\xba\xb1\x0c")) {
			return true
		}
	}
	return false
}

// extContent reads the superblock of ext2, ext3 and ext4, which one driver mounts. Source: Linux,
// Documentation/filesystems/ext4/super.rst.
func extContent(super []byte) Content {
	const journalDevice = 0x8
	return Content{
		Kind: ext4, FileSystem: uuidText(super[0x68:]), Label: cText(super[0x78:0x88]), MountedAt: cText(super[0x88:0xC8]),
		ForeignJournal: binary.LittleEndian.Uint32(super[0xE4:]) != 0 || binary.LittleEndian.Uint32(super[0x60:])&journalDevice != 0,
	}
}

// xfsContent reads the superblock of XFS. A log of its own device has no beginning here. Source: Linux,
// fs/xfs/libxfs/xfs_format.h.
func xfsContent(super []byte) Content {
	return Content{
		Kind:           xfs,
		FileSystem:     uuidText(super[32:]),
		Label:          cText(super[108:120]),
		ForeignJournal: binary.BigEndian.Uint64(super[48:]) == 0,
	}
}

// fatContent reads the boot sector of FAT. Source: Microsoft, FAT specification.
func fatContent(boot []byte) Content {
	if boot == nil || boot[510] != 0x55 || boot[511] != 0xAA {
		return Content{}
	}
	var at int // of the serial number, which the label follows
	switch {
	case string(boot[82:87]) == "FAT32":
		at = 67
	case string(boot[54:57]) == "FAT":
		at = 39
	default:
		return Content{}
	}
	label := strings.TrimRight(string(boot[at+4:at+15]), " ")
	if label == "NO NAME" {
		label = "" // the text for none
	}
	return Content{
		Kind:       vfat,
		FileSystem: fmt.Sprintf("%04X-%04X", binary.LittleEndian.Uint16(boot[at+2:]), binary.LittleEndian.Uint16(boot[at:])),
		Label:      label,
	}
}

// clearDirty clears the bit of FAT that says that it is mounted. A copy of a running machine has the bit, and FAT has no journal to replay. The
// kernel never clears a bit that it found at the mount, so that the check afterwards would end with an error. Source: Linux, fs/fat/inode.c,
// fat_set_state.
func clearDirty(f interface {
	io.ReaderAt
	io.WriterAt
}) error {
	const dirty = 0x01
	boot := bytesAt(f, 0, 512)
	if fatContent(boot).Kind != vfat {
		return nil
	}
	at := 0x25
	if string(boot[82:87]) == "FAT32" {
		at = 0x41
	}
	if boot[at]&dirty == 0 {
		return nil
	}
	_, err := f.WriteAt([]byte{boot[at] &^ dirty}, int64(at))
	return err
}

// uuidText returns the text of a UUID; empty for zeros.
func uuidText(b []byte) string {
	if len(b) < 16 || bytes.Equal(b[:16], make([]byte, 16)) {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
