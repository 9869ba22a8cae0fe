package quiesce

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
)

// superblocks has the place of magic number and UUID, in bytes from the beginning of the device. Source: Linux,
// fs/ext4/ext4.h, struct ext4_super_block at 1024, and fs/xfs/libxfs/xfs_format.h, struct xfs_dsb.
var superblocks = map[string]struct {
	magic         []byte
	magicAt, uuid int64
}{
	"ext4": {[]byte{0x53, 0xEF}, 1024 + 0x38, 1024 + 0x68},
	"xfs":  {[]byte("XFSB"), 0, 32},
}

// readUUID returns the UUID of a file system of a kind on a device.
func readUUID(kind string, device io.ReaderAt) (string, error) {
	s, known := superblocks[kind]
	if !known {
		return "", fmt.Errorf("the superblock of %s is not known", kind)
	}
	magic, uuid := make([]byte, len(s.magic)), make([]byte, 16)
	if _, err := device.ReadAt(magic, s.magicAt); err != nil {
		return "", err
	}
	if !bytes.Equal(magic, s.magic) {
		return "", fmt.Errorf("the device has no superblock of %s", kind)
	}
	if _, err := device.ReadAt(uuid, s.uuid); err != nil {
		return "", err
	}
	h := hex.EncodeToString(uuid)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:], nil
}
