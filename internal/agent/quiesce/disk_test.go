package quiesce

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// plant makes a directory tree. A content that begins with "-> " is the target of a link.
func plant(t *testing.T, files map[string]string) *tree.Tree {
	t.Helper()
	dir := t.TempDir()
	plantIn(t, dir, files)
	return opened(t, dir)
}

func opened(t *testing.T, dir string) *tree.Tree {
	t.Helper()
	tr, err := tree.OpenRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func plantIn(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			err = errors.Join(err, os.Symlink(target, p))
		} else {
			err = errors.Join(err, os.WriteFile(p, []byte(content), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sysfs has the devices of a node on AWS and of some other machines.
var sysfs = map[string]string{
	"sys/dev/block/259:0": "-> ../../devices/pci0/nvme/nvme0/nvme0n1",
	"sys/dev/block/259:1": "-> ../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1",
	"sys/dev/block/259:2": "-> ../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2",
	"sys/dev/block/259:9": "-> ../../devices/pci0/nvme/nvme1/nvme1n1",
	"sys/dev/block/253:0": "-> ../../devices/virtual/block/dm-0",
	"sys/dev/block/253:1": "-> ../../devices/virtual/block/dm-1",
	"sys/dev/block/253:2": "-> ../../devices/virtual/block/dm-2",
	"sys/dev/block/9:127": "-> ../../devices/virtual/block/md127",
	"sys/dev/block/7:0":   "-> ../../devices/virtual/block/loop0",
	"sys/dev/block/43:0":  "-> ../../devices/virtual/block/nbd0",
	"sys/dev/block/8:1":   "-> ../../devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sda/sda1",
	"sys/dev/block/8:17":  "-> ../../devices/pci0/virtio2/host0/target0:0:0/0:0:0:0/block/sdb/sdb1",

	"sys/devices/pci0/nvme/nvme0/nvme0n1/size":                                         "1",
	"sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1/partition":                          "1",
	"sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2/partition":                          "2",
	"sys/devices/pci0/nvme/nvme1/nvme1n1/size":                                         "1",
	"sys/devices/virtual/block/dm-0/dm/uuid":                                           "LVM-abc\n",
	"sys/devices/virtual/block/dm-1/dm/uuid":                                           "CRYPT-LUKS2-abc\n",
	"sys/devices/virtual/block/dm-2/dm/uuid":                                           "\n",
	"sys/devices/virtual/block/md127/md/level":                                         "raid0\n",
	"sys/devices/virtual/block/loop0/loop/backing_file":                                "/disk.img\n",
	"sys/devices/virtual/block/nbd0/size":                                              "1",
	"sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sda/sda1/partition": "1",
	"sys/devices/pci0/virtio2/host0/target0:0:0/0:0:0:0/block/sdb/sdb1/partition":      "1",
}

// ordinary are the mounts of every node: kernel, memory, containers, volumes of pods, and snaps.
const ordinary = `20 1 0:19 / /proc rw - proc proc rw
21 1 0:24 / /run rw - tmpfs tmpfs rw
22 1 0:50 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs rw - overlay overlay rw
23 1 7:0 / /snap/core/1 ro - squashfs /dev/loop0 ro
24 1 259:9 / /var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/x/globalmount rw - ext4 /dev/nvme1n1 rw
25 1 259:9 / /var/lib/kubelet/pods/x/volumes/kubernetes.io~csi/pvc/mount rw - ext4 /dev/nvme1n1 rw
26 1 259:9 / /mnt/data rw - xfs /dev/nvme1n1 rw
27 1 0:51 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw
28 1 0:52 / /proc/fs/nfsd rw - nfsd nfsd rw
29 1 0:53 / /data rw - nfs4 10.0.0.1:/data rw
`

// TestDisks has the ways in which disks are made. What a copy of one disk does not show completely is refused with a remedy.
func TestDisks(t *testing.T) {
	tr := plant(t, sysfs)
	for name, test := range map[string]struct {
		mounts, device, refused string
		beside                  []string
	}{
		"partition, ext4":      {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw", device: "nvme0n1p1"},
		"partition, xfs":       {mounts: "1 0 259:1 / / rw - xfs /dev/nvme0n1p1 rw", device: "nvme0n1p1"},
		"whole disk":           {mounts: "1 0 259:0 / / rw - xfs /dev/nvme0n1 rw", device: "nvme0n1"},
		"SCSI":                 {mounts: "1 0 8:17 / / rw - ext4 /dev/sdb1 rw", device: "sdb1"},
		"covered":              {mounts: "1 0 0:2 / / rw - rootfs rootfs rw\n2 1 259:1 / / rw - ext4 /dev/root rw", device: "nvme0n1p1"},
		"bound":                {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:1 /x /var/y rw - ext4 /dev/root rw", device: "nvme0n1p1"},
		"EFI":                  {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:2 / /boot/efi rw - vfat /dev/nvme0n1p2 rw", device: "nvme0n1p1", beside: []string{"/boot/efi"}},
		"EFI, on another disk": {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:9 / /boot/efi rw - vfat /dev/nvme1n1 rw", refused: "/boot/efi is on another disk (nvme1n1)"},
		"LVM":                  {mounts: "1 0 253:0 / / rw - ext4 /dev/mapper/vg-root rw", refused: "a logical volume (LVM)"},
		"LUKS":                 {mounts: "1 0 253:1 / / rw - ext4 /dev/mapper/root rw", refused: "an encrypted device (LUKS)"},
		"other mapping":        {mounts: "1 0 253:2 / / rw - ext4 /dev/mapper/root rw", refused: "a mapped device"},
		"RAID":                 {mounts: "1 0 9:127 / / rw - xfs /dev/md127 rw", refused: "a RAID array (md)"},
		"loop":                 {mounts: "1 0 7:0 / / rw - ext4 /dev/loop0 rw", refused: "a file as a device (loop)"},
		"network block device": {mounts: "1 0 43:0 / / rw - ext4 /dev/nbd0 rw", refused: "a disk of another machine"},
		"iSCSI":                {mounts: "1 0 8:1 / / rw - ext4 /dev/sda1 rw", refused: "a disk of another machine (iSCSI)"},
		"btrfs":                {mounts: "1 0 0:30 /root / rw - btrfs /dev/nvme0n1p1 rw", refused: "the root file system is btrfs on /dev/nvme0n1p1"},
		"ZFS":                  {mounts: "1 0 0:30 / / rw - zfs rpool/ROOT rw", refused: "the root file system is zfs on rpool/ROOT"},
		"overlay":              {mounts: "1 0 0:30 / / rw - overlay overlay rw", refused: "an overlay has its files in other file systems"},
		"NFS":                  {mounts: "1 0 0:30 / / rw - nfs4 10.0.0.1:/root rw", refused: "the files are on another machine"},
		"f2fs":                 {mounts: "1 0 259:1 / / rw - f2fs /dev/root rw", refused: "only ext4 and xfs"},
		"ext3":                 {mounts: "1 0 259:1 / / rw - ext3 /dev/root rw", refused: "only ext4 and xfs"},
		"/var on a partition":  {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:2 / /var rw - ext4 /dev/nvme0n1p2 rw", refused: "/var is on a partition of its own (nvme0n1p2)"},
		"/var on a disk":       {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:9 / /var rw - xfs /dev/nvme1n1 rw", refused: "/var is on another disk (nvme1n1), and the copy of nvme0n1 lacks it"},
		"images on a disk":     {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:9 / /var/lib/containerd rw - xfs /dev/nvme1n1 rw", refused: "/var/lib/containerd is on another disk"},
		"kubelet on a disk":    {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 9:127 / /var/lib/kubelet rw - xfs /dev/md127 rw", refused: "/var/lib/kubelet is on another disk"},
		"/home on btrfs":       {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 0:31 / /home rw - btrfs /dev/nvme1n1 rw", refused: "/home is btrfs"},
		"unknown kind":         {mounts: "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:9 / /opt rw - newfs /dev/nvme1n1 rw", refused: "/opt is on another disk"},
	} {
		t.Run(name, func(t *testing.T) {
			plantIn(t, tr.Dir(), map[string]string{"proc/1/mountinfo": test.mounts + "\n" + ordinary})
			mounts, err := mountsOfHost(tr)
			if err != nil {
				t.Fatal(err)
			}
			_, dev, beside, err := judgeDisk(mounts, func(number string) (device, error) { return deviceOf(tr, number) })
			var refusal *RefusedError
			switch {
			case test.refused == "" && (err != nil || dev.name != test.device || !slices.Equal(beside, test.beside)):
				t.Errorf("device %q, beside %q, %v", dev.name, beside, err)
			case test.refused != "" && (!errors.As(err, &refusal) || refusal.ExitCode() != 3):
				t.Errorf("got device %q and %v, want a refusal", dev.name, err)
			case test.refused != "" && (!strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "capture the node in place, if it can return")):
				t.Errorf("refused with %q, want %q and a remedy", err, test.refused)
			}
		})
	}
}

// A device that sysfs does not show is not guessed: neither of the root file system, nor of another mount.
func TestUnknownDevice(t *testing.T) {
	tr := plant(t, sysfs)
	for _, mounts := range []string{
		"1 0 259:7 / / rw - ext4 /dev/nvme0n1p7 rw",
		"1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:7 / /opt rw - ext4 /dev/nvme0n1p7 rw",
		"2 1 259:1 / /opt rw - ext4 /dev/root rw",
	} {
		plantIn(t, tr.Dir(), map[string]string{"proc/1/mountinfo": mounts})
		found, err := mountsOfHost(tr)
		if err != nil {
			t.Fatal(err)
		}
		if _, dev, _, err := judgeDisk(found, func(number string) (device, error) { return deviceOf(tr, number) }); err == nil {
			t.Errorf("%s: %+v", mounts, dev)
		}
	}
}
