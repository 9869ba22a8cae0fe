package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// A running machine shows its block devices in /sys, and its mounts in the table of process 1, as Linux does. Its root is partition 1 of its
// first disk. Further disks have no partitions, as new volumes of EC2.

// MountTable is the mount table of the machine, and RootMount the line of its root.
const (
	MountTable = "proc/1/mountinfo"
	RootNumber = "259:1"
	RootMount  = "22 1 " + RootNumber + " / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,discard\n"
)

// FurtherNumber is the device number of a further disk.
func FurtherNumber(i int) string { return fmt.Sprintf("259:%d", 10+i) }

// ShowDevice shows a disk in /sys, or with a partition the partition.
func ShowDevice(root, number, disk, partition string) error {
	at := path.Join("devices/pci0000:00/nvme", disk)
	if partition != "" {
		at = path.Join(at, partition)
		if err := WriteFile(filepath.Join(root, "sys", at, "partition"), []byte("1\n"), 0o444); err != nil {
			return err
		}
	}
	link := filepath.Join(root, "sys/dev/block", number)
	err := errors.Join(os.MkdirAll(filepath.Join(root, "sys", at), 0o755), os.MkdirAll(filepath.Dir(link), 0o755))
	if err == nil {
		err = os.Symlink(path.Join("../..", at), link)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Mount mounts a further disk of a running machine in a directory, as a program on the machine does. The files of the directory stay those
// of the root.
func Mount(root, serial, dir string) error {
	number, err := os.ReadFile(filepath.Join(root, Numbers, serial))
	if err != nil {
		return err
	}
	return Append(filepath.Join(root, MountTable), fmt.Sprintf("40 22 %s / %s rw,relatime shared:2 - ext4 /dev/disk/by-id/%s rw\n", number, dir, serial), 0o644)
}
