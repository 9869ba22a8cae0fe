package generalize

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestForeignDisks: a mount of a disk that a clone may not have is refused before any change.
func TestForeignDisks(t *testing.T) {
	const root = "UUID=aaaa / ext4 defaults 0 1\n"
	unit := "[Unit]\n[Mount]\nWhat=/dev/disk/by-uuid/bbbb\nWhere=/data\n"
	const wanted = "etc/systemd/system/local-fs.target.requires/data.mount"
	for name, test := range map[string]struct {
		files map[string]string
		want  string // part of the refusal; empty: not refused
	}{
		"the system":           {map[string]string{"etc/fstab": root + "LABEL=BOOT /boot ext4 defaults 0 2\nUUID=CCCC-DDDD /boot/efi vfat umask=0077 0 1\n"}, ""},
		"swap space":           {map[string]string{"etc/fstab": root + "UUID=bbbb none swap sw 0 0\n", "etc/crypttab": "cswap UUID=cccc /dev/urandom swap,nofail\n"}, ""},
		"swap that is mapped":  {map[string]string{"etc/crypttab": "cswap UUID=cccc /dev/urandom swap\n"}, ""},
		"a UUID":               {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 defaults 0 2\n"}, "line 2 needs UUID=bbbb for /data"},
		"quotes and tabs":      {map[string]string{"etc/fstab": "UUID=\"bbbb\"\t/my\\040data\text4\tdefaults\t0\t2\n"}, `needs UUID="bbbb" for /my data`},
		"a label":              {map[string]string{"etc/fstab": root + "PARTLABEL=data /srv xfs\n"}, "PARTLABEL=data for /srv"},
		"a path":               {map[string]string{"etc/fstab": root + "/dev/nvme1n1 /var/lib/containerd xfs defaults 0 2\n"}, "/dev/nvme1n1"},
		"a serial number":      {map[string]string{"etc/fstab": "/dev/disk/by-id/scsi-3600224-part1 / ext4 defaults 0 1\n"}, "by-id/scsi-3600224-part1 for /"},
		"a volume by its name": {map[string]string{"etc/fstab": "/dev/disk/by-id/dm-name-vg-root / ext4 defaults 0 1\n"}, ""},
		"optional":             {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 defaults,nofail 0 2\nUUID=cccc /x ext4 noauto 0 0\n"}, ""},
		"a similar option":     {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 x-nofail 0 2\n"}, "UUID=bbbb"},
		"the network":          {map[string]string{"etc/fstab": root + "10.0.0.9:/x /x nfs4 defaults 0 0\n//srv/y /y cifs user=z 0 0\n/dev/rbd0 /r ext4 _netdev 0 0\n"}, ""},
		"memory and binds":     {map[string]string{"etc/fstab": root + "tmpfs /tmp tmpfs defaults 0 0\n/srv /var/srv none bind 0 0\n/dev/shm /x tmpfs defaults 0 0\n"}, ""},
		"automatic":            {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 x-systemd.automount 0 2\n"}, ""},
		"a unit for swap":      {map[string]string{"etc/systemd/system/dev-sdb.swap": "[Swap]\nWhat=/dev/sdb\n", "etc/systemd/system/swap.target.wants/dev-sdb.swap": "-> ../dev-sdb.swap"}, "dev-sdb.swap: line 2 needs /dev/sdb"},
		"swap in memory":       {map[string]string{"etc/systemd/system/dev-zram0.swap": "[Swap]\nWhat=/dev/zram0\n", "etc/systemd/system/swap.target.wants/dev-zram0.swap": "-> ../dev-zram0.swap"}, ""},
		"a comment":            {map[string]string{"etc/fstab": root + "# UUID=bbbb /data ext4 defaults 0 2\n"}, ""},
		"removed lines":        {map[string]string{"etc/fstab": root + "/dev/disk/cloud/azure_resource-part1 /mnt auto defaults 0 2\n/dev/sdb1 /mnt ext4 comment=cloudconfig 0 2\n"}, ""},
		"a line after them":    {map[string]string{"etc/fstab": "/dev/sdb1 /mnt ext4 comment=cloudconfig 0 2\nUUID=bbbb /data ext4 defaults 0 2\n"}, "line 2 needs UUID=bbbb"},
		"a mapping":            {map[string]string{"etc/crypttab": "# comment\ndata UUID=bbbb none luks\n"}, "line 2 needs UUID=bbbb for /dev/mapper/data"},
		"an optional mapping":  {map[string]string{"etc/crypttab": "data UUID=bbbb none luks,nofail\n"}, ""},
		"the system's mapping": {map[string]string{"etc/fstab": "/dev/mapper/root / ext4 defaults 0 1\n", "etc/crypttab": "root UUID=bbbb none luks\n"}, ""},
		"a unit":               {map[string]string{"etc/systemd/system/data.mount": unit, wanted: "-> ../data.mount"}, "/etc/systemd/system/data.mount: line 3 needs /dev/disk/by-uuid/bbbb for /data"},
		"an array":             {map[string]string{"etc/mdadm/mdadm.conf": "HOMEHOST <system>\nARRAY /dev/md/data metadata=1.2 UUID=1:2:3:4\n"}, "line 2 assembles /dev/md/data"},
		"disks of an array":    {map[string]string{"etc/mdadm.conf": "DEVICE /dev/disk/by-id/nvme-vol01 partitions\n"}, "line 1 assembles /dev/disk/by-id/nvme-vol01"},
		"the system's array":   {map[string]string{"etc/fstab": "/dev/md0 / ext4 defaults 0 1\n", "etc/mdadm/mdadm.conf": "DEVICE partitions\nARRAY /dev/md0 UUID=1:2:3:4\nARRAY <ignore> UUID=5\n"}, ""},
		"EFI by its name":      {map[string]string{"etc/fstab": root + "/dev/vda3 /boot/efi vfat defaults 0 1\n"}, "line 2 names /dev/vda3 for /boot/efi"},
		"/boot by its name":    {map[string]string{"etc/fstab": root + "/dev/nvme0n1p2\t/boot ext4 defaults 0 2\n"}, "the UUID= of blkid /dev/nvme0n1p2"},
		"/usr by its name":     {map[string]string{"etc/fstab": root + "/dev/xvda2 /usr ext4 defaults 0 2\n"}, "/dev/xvda2 for /usr"},
		"a card by its name":   {map[string]string{"etc/fstab": root + "/dev/mmcblk0p1 /boot/firmware vfat\n"}, "/dev/mmcblk0p1 for /boot/firmware"},
		"a disk of IDE":        {map[string]string{"etc/fstab": root + "/dev/hda1 /boot ext3\n"}, "/dev/hda1 for /boot"},
		"an optional name":     {map[string]string{"etc/fstab": root + "/dev/vda3 /boot/efi vfat nofail 0 1\n/dev/sr0 /media/cdrom0 udf,iso9660 user,noauto 0 0\n"}, ""},
		"the root by its name": {map[string]string{"etc/fstab": "/dev/vda1 / ext4 defaults 0 1\n"}, ""},
		"a volume's name":      {map[string]string{"etc/fstab": root + "/dev/mapper/vg-boot /boot ext4\n/dev/vg/efi /boot/efi vfat\n"}, ""},
		"swap by its name":     {map[string]string{"etc/fstab": root + "/dev/vda2 none swap sw 0 0\n"}, ""},
		"the system's mapping by its name": {map[string]string{"etc/fstab": "/dev/mapper/root / ext4 defaults 0 1\n", "etc/crypttab": "root /dev/vda3 none luks\n"},
			"etc/crypttab: line 1 names /dev/vda3 for /dev/mapper/root"},
		"a unit by its name": {map[string]string{"etc/systemd/system/boot-efi.mount": "[Mount]\nWhat=/dev/vda3\nWhere=/boot/efi\n", "etc/systemd/system/local-fs.target.requires/boot-efi.mount": "-> ../boot-efi.mount"},
			"boot-efi.mount: line 2 names /dev/vda3 for /boot/efi"},
		"the array's disks by their names": {map[string]string{"etc/fstab": "/dev/md0 / ext4 defaults 0 1\n", "etc/mdadm/mdadm.conf": "DEVICE /dev/sda1 /dev/sdb1\nARRAY /dev/md0 UUID=1:2:3:4\n"}, "line 1 assembles /dev/sda1"},
		"an array of named disks":          {map[string]string{"etc/fstab": "/dev/md0 / ext4 defaults 0 1\n", "etc/mdadm.conf": "ARRAY /dev/md0 level=1 devices=/dev/sda1,/dev/sdb1\n"}, "line 1 assembles /dev/sda1"},
		"any disks of arrays":              {map[string]string{"etc/fstab": "/dev/md0 / ext4 defaults 0 1\n", "etc/mdadm.conf": "DEVICE /dev/sd*[0-9] /dev/nvme*\nARRAY /dev/md0 UUID=1:2:3:4\n"}, ""},
		"a name inside another option's":   {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 comment=nofail,x-site=nofail 0 2\n"}, "UUID=bbbb for /data"},
		"options that are taken back":      {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 nofail,fail 0 2\n"}, "UUID=bbbb for /data"},
		"a mount that something requires":  {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 noauto,x-systemd.required-by=local-fs.target 0 2\n"}, "UUID=bbbb for /data"},
		"a former option":                  {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 comment=systemd.automount 0 2\n"}, ""},
		"a directory on an optional disk":  {map[string]string{"etc/fstab": root + "/data/docker /var/lib/docker none bind 0 0\nUUID=bbbb /data ext4 nofail 0 2\n"}, "line 2 needs /data/docker for /var/lib/docker"},
		"an optional directory on it":      {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 nofail 0 2\n/data/docker /var/lib/docker none rbind,nofail 0 0\n"}, ""},
		"a directory beside the disk":      {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 nofail 0 2\n/database /var/db none bind 0 0\n"}, ""},
		"a timeout alone":                  {map[string]string{"etc/fstab": root + "UUID=bbbb /data ext4 x-systemd.device-timeout=5 0 2\n"}, "UUID=bbbb for /data"},
		"a mapping with a timeout":         {map[string]string{"etc/crypttab": "data UUID=bbbb none luks,x-systemd.device-timeout=5\n"}, "UUID=bbbb for /dev/mapper/data"},
		"a unit with timeouts":             {map[string]string{"etc/systemd/system/data.mount": "[Unit]\nJobTimeoutSec=5\n" + unit + "TimeoutSec=5\n", wanted: "-> ../data.mount"}, "needs /dev/disk/by-uuid/bbbb for /data"},
		"a unit with noauto":               {map[string]string{"etc/systemd/system/data.mount": unit + "Options=noauto,x-systemd.automount\n", wanted: "-> ../data.mount"}, "needs /dev/disk/by-uuid/bbbb for /data"},
		"swap of a unit, and its program":  {map[string]string{"etc/systemd/system/dev-sdb.swap": "[Swap]\nWhat=/dev/sdb\nOptions=nofail\nTimeoutSec=5\n", "etc/systemd/system/swap.target.wants/dev-sdb.swap": "-> ../dev-sdb.swap"}, "systemctl disable 'dev-sdb.swap'"},
		"swap of a unit that waits long":   {map[string]string{"etc/systemd/system/dev-sdb.swap": "[Unit]\nJobTimeoutSec=5min\n[Swap]\nWhat=/dev/sdb\n", "etc/systemd/system/swap.target.wants/dev-sdb.swap": "-> ../dev-sdb.swap"}, "Set JobTimeoutSec=10"},
		"swap of a unit that waits soon":   {map[string]string{"etc/systemd/system/dev-sdb.swap": "[Unit]\nJobTimeoutSec=10\n[Swap]\nWhat=/dev/sdb\n", "etc/systemd/system/swap.target.wants/dev-sdb.swap": "-> ../dev-sdb.swap"}, ""},
		"swap of a local unit":             {map[string]string{"usr/local/lib/systemd/system/dev-sdb.swap": "[Swap]\nWhat=\"/dev/sdb\"\n", "etc/systemd/system/swap.target.wants/dev-sdb.swap": "-> /usr/local/lib/systemd/system/dev-sdb.swap"}, "needs /dev/sdb"},
		"a unit that is off":               {map[string]string{"etc/systemd/system/data.mount": unit}, ""},
		"an optional unit":                 {map[string]string{"etc/systemd/system/data.mount": unit + "Options=noatime,nofail\n", wanted: "-> ../data.mount"}, ""},
		"a unit for NFS":                   {map[string]string{"etc/systemd/system/data.mount": unit + "Type=nfs\n", wanted: "-> ../data.mount"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := plant(t, withoutEditsOf(node, map[string]string{"etc/fstab": ""}), test.files)
			was := snapshot(t, dir)
			_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
			if test.want == "" {
				must(t, err)
				return
			}
			if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule foreign-disks: ") || !strings.Contains(why, test.want) {
				t.Errorf("got %q", why)
			}
			if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
				t.Errorf("changed all the same:\n%s", diff)
			}
		})
	}
}

// TestBootDisks: a boot that waits for a disk which a clone may not have is refused before any change.
func TestBootDisks(t *testing.T) {
	const root = "UUID=aaaa / ext4 defaults 0 1\n"
	for name, test := range map[string]struct {
		file, content string
		fstab         string
		refused       bool
	}{
		"a data disk":              {"etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet resume=UUID=bbbb\"\n", root, true},
		"the generated menu":       {"boot/grub/grub.cfg", "\tlinux /vmlinuz root=UUID=aaaa ro resume=PARTUUID=bbbb-02\n", root, true},
		"a boot entry":             {"boot/loader/entries/6.1.conf", "options root=UUID=aaaa resume=/dev/mapper/data-swap\n", root, true},
		"the environment of GRUB":  {"boot/grub2/grubenv", "# GRUB Environment Block\nkernelopts=root=UUID=aaaa resume=LABEL=swap\n####\n", root, true},
		"an initramfs":             {"etc/initramfs-tools/conf.d/resume", "RESUME=UUID=bbbb\n", root, true},
		"quotes":                   {"etc/initramfs-tools/initramfs.conf", "export RESUME='UUID=bbbb'\n", root, true},
		"a serial number":          {"etc/initramfs-tools/conf.d/resume", "RESUME=/dev/disk/by-id/scsi-36002248\n", root, true},
		"swap space of fstab":      {"etc/default/grub.d/50.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX resume=UUID=bbbb\"\n", root + "UUID=bbbb none swap sw 0 0\n", true},
		"dracut's command line":    {"etc/dracut.conf.d/resume.conf", "kernel_cmdline+=\" resume=UUID=bbbb \"\n", root, true},
		"a device of dracut":       {"etc/dracut.conf", "add_device+=\" /dev/disk/by-uuid/bbbb \"\n", root, true},
		"a mount of systemd":       {"etc/kernel/cmdline", "root=UUID=aaaa systemd.mount-extra=UUID=bbbb:/data:ext4\n", root, true},
		"a second parameter":       {"etc/kernel/cmdline", "resume=UUID=aaaa mount.usr=UUID=bbbb\n", root, true},
		"a swap file on the root":  {"etc/default/grub", "GRUB_CMDLINE_LINUX=\"resume=UUID=aaaa resume_offset=1024\"\n", root, false},
		"the same volume group":    {"etc/kernel/cmdline", "root=/dev/mapper/rhel-root rd.lvm.lv=rhel/root rd.lvm.lv=rhel/swap resume=/dev/mapper/rhel-swap\n", "/dev/mapper/rhel-root / xfs defaults 0 0\n", false},
		"another volume group":     {"etc/kernel/cmdline", "resume=/dev/data/swap\n", "/dev/rhel/root / xfs defaults 0 0\n", true},
		"a group with a dash":      {"etc/kernel/cmdline", "resume=/dev/mapper/my--vg-swap\n", "/dev/my-vg/root / xfs defaults 0 0\n", false},
		"a root without resume":    {"boot/grub2/grub.cfg", "linux /vmlinuz root=UUID=aaaa ro\n", root, false},
		"resume that is off":       {"etc/kernel/cmdline", "resume=UUID=bbbb noresume\n", root, false},
		"no device":                {"etc/initramfs-tools/conf.d/resume", "RESUME=none\n", root, false},
		"the initramfs's own pick": {"etc/initramfs-tools/conf.d/resume", "RESUME=auto\n", root, false},
		"a comment":                {"etc/default/grub", "# GRUB_CMDLINE_LINUX=\"resume=UUID=bbbb\"\n", root, false},
		"a longer name":            {"etc/kernel/cmdline", "noresume_x=1 site.resume=UUID=bbbb\n", root, false},
		"an optional mount":        {"etc/kernel/cmdline", "systemd.mount-extra=UUID=bbbb:/data:ext4:noatime,nofail\n", root, false},
		"a mount at /nofail":       {"etc/kernel/cmdline", "systemd.mount-extra=UUID=bbbb:nofail\n", root, true},
		"a mount in the initramfs": {"etc/kernel/cmdline", "rd.systemd.mount_extra=UUID=bbbb:/sysroot/data\n", root, true},
		"swap space with nofail":   {"etc/kernel/cmdline", "systemd.swap-extra=UUID=bbbb:nofail\n", root, true},
		"swap space, soon":         {"etc/kernel/cmdline", "systemd.swap_extra=UUID=bbbb:nofail,x-systemd.device-timeout=5s\n", root, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := plant(t, withoutEditsOf(node, map[string]string{"etc/fstab": ""}), map[string]string{"etc/fstab": test.fstab, test.file: test.content})
			was := snapshot(t, dir)
			_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
			if !test.refused {
				must(t, err)
				return
			}
			if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule boot-disks: /"+test.file) {
				t.Errorf("got %q", why)
			}
			if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
				t.Errorf("changed all the same:\n%s", diff)
			}
		})
	}
}

// TestPoolsOfZFS: the list of imported pools is removed only if the clone looks for its own pools.
func TestPoolsOfZFS(t *testing.T) {
	const cache, scan = "etc/zfs/zpool.cache", "usr/lib/systemd/system/zfs-import-scan.service"
	files := map[string]string{cache: "data\x00/dev/disk/by-id/nvme-vol1\x00", scan: "[Unit]\n[Install]\nWantedBy=zfs-import.target\n"}
	_, err := run(t, plant(t, node, files), runner(load(t, v1alpha1.ProfileStatic)))
	if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule zfs-pools: /"+cache) || !strings.Contains(why, "systemctl enable zfs-import-scan.service") {
		t.Errorf("got %q", why)
	}
	dir := plant(t, node, files, map[string]string{"etc/systemd/system/zfs-import.target.wants/zfs-import-scan.service": "-> /" + scan})
	_, err = run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	if exists(dir, cache) {
		t.Error("the list of the donor's pools stays")
	}
}

// TestSwapOfMissingDisks: no clone waits for swap space that it does not have, and the capture is not refused.
func TestSwapOfMissingDisks(t *testing.T) {
	const root = "UUID=aaaa / ext4 defaults 0 1\n"
	for _, line := range [][2]string{
		{"UUID=bbbb none swap sw 0 0", "UUID=bbbb none swap sw,nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb swap swap defaults", "UUID=bbbb swap swap defaults,nofail,x-systemd.device-timeout=10s"},
		{"LABEL=s none swap", "LABEL=s none swap nofail,x-systemd.device-timeout=10s"},
		{"/dev/sdb none swap sw,nofail 0 0", "/dev/sdb none swap sw,nofail,x-systemd.device-timeout=10s 0 0"},
		{"/dev/mapper/cswap none swap sw 0 0", "/dev/mapper/cswap none swap sw,nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap sw,x-systemd.device-timeout=3 0 0", "UUID=bbbb none swap sw,x-systemd.device-timeout=3,nofail 0 0"},
		{"UUID=bbbb none swap nofail,x-systemd.device-timeout=1min500ms 0 0", "UUID=bbbb none swap nofail,x-systemd.device-timeout=1min500ms 0 0"},
		{"UUID=bbbb none swap nofail,comment=systemd.device-timeout=3 0 0", "UUID=bbbb none swap nofail,comment=systemd.device-timeout=3 0 0"},
		{"UUID=bbbb none swap nofail,x-systemd.device-timeout=0 0 0", "UUID=bbbb none swap nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap nofail,x-systemd.device-timeout=infinity 0 0", "UUID=bbbb none swap nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap x-systemd.device-timeout=3,x-systemd.device-timeout=2h,nofail 0 0", "UUID=bbbb none swap nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap nofail,x-systemd.mount-timeout=3 0 0", "UUID=bbbb none swap nofail,x-systemd.mount-timeout=3,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap nofail,fail,x-systemd.device-timeout=soon 0 0", "UUID=bbbb none swap nofail,fail,nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap x-nofail,x-systemd.device-timeout=3 0 0", "UUID=bbbb none swap x-nofail,x-systemd.device-timeout=3,nofail 0 0"},
		{"UUID=bbbb none swap noauto,x-systemd.required-by=swap.target 0 0", "UUID=bbbb none swap noauto,nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap sw,x-systemd.automount 0 0", "UUID=bbbb none swap sw,x-systemd.automount,nofail,x-systemd.device-timeout=10s 0 0"},
		{"UUID=bbbb none swap noauto 0 0", "UUID=bbbb none swap noauto 0 0"},
		{"cswap UUID=cccc /dev/urandom swap", "cswap UUID=cccc /dev/urandom swap,nofail"},
		{"/dev/zram0 none swap pri=100 0 0", "/dev/zram0 none swap pri=100 0 0"},
		{"# UUID=bbbb none swap sw 0 0", "# UUID=bbbb none swap sw 0 0"},
	} {
		file, head := "etc/fstab", root
		if strings.HasPrefix(line[0], "cswap") {
			file, head = "etc/crypttab", ""
		}
		dir := plant(t, withoutEditsOf(node, map[string]string{file: ""}), map[string]string{file: head + line[0] + "\n"})
		r := runner(load(t, v1alpha1.ProfileStatic))
		must(t, r.Refusals(open(t, dir)))
		rule := r.Profile.Rules[slices.IndexFunc(r.Profile.Rules, func(rule rules.Rule) bool { return rule.ID == "foreign-disks" })]
		if o := r.apply(open(t, dir), &rule, &DonorValues{}); o.Why != "" {
			t.Error(o.Why)
		}
		if diff := cmp.Diff(head+line[1]+"\n", readFile(t, dir, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line[0], diff)
		}
	}
}

// TestAllowedForeignDisks get the option nofail; all other lines stay.
func TestAllowedForeignDisks(t *testing.T) {
	dir := plant(t, node, map[string]string{"etc/crypttab": "data UUID=bbbb\nmore UUID=cccc none luks # x\n"})
	must(t, os.WriteFile(filepath.Join(dir, "etc/fstab"), []byte("UUID=aaaa / ext4 defaults 0 1\nUUID=bbbb /data\nUUID=cccc\t/more\text4\nUUID=dddd /x ext4 noatime 0 2"), 0o600))
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Allow = []string{"foreign-disks"}
	_, err := run(t, dir, r)
	must(t, err)
	for file, want := range map[string]string{
		"etc/fstab":    "UUID=aaaa / ext4 defaults 0 1\nUUID=bbbb /data auto nofail\nUUID=cccc /more ext4 nofail\nUUID=dddd /x ext4 noatime,nofail 0 2\n",
		"etc/crypttab": "data UUID=bbbb none nofail\nmore UUID=cccc none luks,nofail # x\n",
	} {
		if diff := cmp.Diff(want, readFile(t, dir, file)); diff != "" {
			t.Errorf("/%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestDisksOfARunningMachine: sysfs shows which devices are on the disk of the root.
func TestDisksOfARunningMachine(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	must(t, err)
	dev := info.Sys().(*syscall.Stat_t).Dev
	for name, content := range map[string]string{
		fmt.Sprintf("sys/dev/block/%d:%d", dev>>8&0xfff, dev&0xff|dev>>12&0xfff00): "-> ../../devices/block/sda/sda1",
		"sys/devices/block/sda/sda1/partition":                                     "1", "sys/devices/block/sda/sda2/partition": "2",
		"sys/devices/block/sdb/size": "1", "sys/devices/block/dm-0/slaves/sda2": "-> ../../sda/sda2", "sys/devices/block/dm-1/slaves/sdb": "-> ../../sdb",
		"sys/class/block/sda1": "-> ../../devices/block/sda/sda1", "sys/class/block/sda2": "-> ../../devices/block/sda/sda2", "sys/class/block/sdb": "-> ../../devices/block/sdb",
		"sys/class/block/dm-0": "-> ../../devices/block/dm-0", "sys/class/block/dm-1": "-> ../../devices/block/dm-1",
		"sys/dev/block/8:2": "-> ../../devices/block/sda/sda2", "sys/dev/block/8:17": "-> ../../devices/block/sdb",
		"dev/sda1": "", "dev/sda2": "", "dev/sdb": "", "dev/dm-0": "", "dev/dm-1": "", "dev/mapper/vg-home": "-> ../dm-0", "dev/mapper/vg-data": "-> ../dm-1",
		"dev/disk/by-uuid/aaaa": "-> ../../sda1", "dev/disk/by-uuid/bbbb": "-> ../../sdb", "dev/disk/by-label/my\\x20data": "-> ../../sdb",
	} {
		writeFile(t, dir, name, content)
	}
	running, err := tree.OpenRunning(dir)
	must(t, err)
	defer running.Close()
	d := disksOf(running)
	if len(d.root) == 0 {
		t.Fatal("the disk of the root is not found")
	}
	for spec, want := range map[string]bool{
		"UUID=aaaa": false, "/dev/sda2": false, "8:2": false, "8:17": true, "8:99": true, "/dev/mapper/vg-home": false, "UUID=bbbb": true, "LABEL=\"my data\"": true, "/dev/mapper/vg-data": true, "UUID=none": true,
	} {
		if got := d.foreign(device{1, spec, "/home", false}); got != want {
			t.Errorf("%s: foreign %t, want %t", spec, got, want)
		}
	}
	// Even on the disk of the root, a kernel name is not that of all clones.
	const home, swap = "UUID=aaaa / ext4\n/dev/sda2 /home ext4\n", "/dev/sda1 / ext4\n/dev/sda2 none swap sw\n"
	if why := refuseForeign(running, "etc/fstab", []byte(home), nil); !strings.Contains(why, "line 2 names /dev/sda2 for /home") {
		t.Errorf("%q: got %q", home, why)
	}
	if got := string(addNofail(running, "etc/fstab", []byte(swap), nil, nil)); got != "/dev/sda1 / ext4\n/dev/sda2 none swap sw,nofail,x-systemd.device-timeout=10s\n" {
		t.Errorf("%q: got %q", swap, got)
	}
}

// TestBootEntries: names and content lose the machine ID, the sizes stay, and entries without the ID stay.
func TestBootEntries(t *testing.T) {
	const entries, other = "boot/loader/entries/", "ffffffffffffffffffffffffffffffff-6.0.conf"
	grubenv := "# GRUB Environment Block\nsaved_entry=" + donorID + "-6.1\n" + strings.Repeat("#", 100)
	dir := plant(t, node, map[string]string{
		entries + donorID + "-6.1.conf": "title Linux\nlinux /vmlinuz-6.1\nmachine-id " + donorID + "\n", entries + other: "title Old\n",
		"boot/efi/EFI/redhat/grubenv": grubenv, "boot/grub2/grubenv": "-> ../efi/EFI/redhat/grubenv", "etc/kernel/entry-token": donorID + "\n",
	})
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	if exists(dir, entries+donorID+"-6.1.conf") || readFile(t, dir, entries+noID+"-6.1.conf") != "title Linux\nlinux /vmlinuz-6.1\nmachine-id "+noID+"\n" || readFile(t, dir, entries+other) != "title Old\n" {
		t.Error("the entries have other names or contents")
	}
	if got := readFile(t, dir, "boot/grub2/grubenv"); got != strings.ReplaceAll(grubenv, donorID, noID) {
		t.Errorf("the environment of GRUB is %q", got)
	}
	if target, err := os.Readlink(filepath.Join(dir, "boot/grub2/grubenv")); err != nil || target != "../efi/EFI/redhat/grubenv" {
		t.Errorf("the link leads to %q (%v)", target, err)
	}
}

// TestRefusedNamesOfDisks: settings that name the donor's disks, or give its volumes to the donor alone.
func TestRefusedNamesOfDisks(t *testing.T) {
	for rule, files := range map[string]map[string]string{
		"lvm-names":       {"etc/lvm/lvmlocal.conf": "local {\n\tsystem_id_source = \"machineid\"\n}\n"},
		"lvm-names  ":     {"etc/lvm/lvm.conf": "devices {\n  filter = [ \"a|^/dev/sda2$|\",\n \"r|.*|\" ]\n}\n"},
		"lvm-names ":      {"etc/lvm/lvm.conf": "devices {\n  global_filter = [ \"a|/dev/disk/by-id/nvme-vol1|\", \"r|.*|\" ]\n}\n"},
		"multipath-names": {"etc/multipath.conf": "multipaths {\n  multipath {\n    wwid 3600508b400105e210000900000490000\n  }\n}\n"},
	} {
		_, err := run(t, plant(t, node, files), runner(load(t, v1alpha1.ProfileStatic)))
		if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule "+strings.TrimSpace(rule)+": ") {
			t.Errorf("%s: %q", rule, why)
		}
	}
}

// TestPatternsOfRefusals: similar contents are not refused.
func TestPatternsOfRefusals(t *testing.T) {
	for name, content := range map[string]string{
		"etc/default/grub":                     "GRUB_CMDLINE_LINUX=\"systemd.machine_id=firmware root=UUID=aaaa\"\n# root=/dev/disk/by-id/x\n",
		"etc/udev/rules.d/60-site.rules":       "SUBSYSTEM==\"net\", ATTR{address}==\"?*\", DRIVERS==\"ena\", NAME=\"eth0\"\n# ATTR{address}==\"00:0d:3a:12:34:56\"\n",
		"etc/initramfs-tools/conf.d/resume":    "RESUME=UUID=aaaa\n",
		"etc/initramfs-tools/conf.d/driver":    "MODULES=most\n",
		"etc/netplan/01.yaml":                  "network:\n  ethernets:\n    eth0:\n      dhcp4: true\n      nameservers: {addresses: [1.1.1.1, 8.8.8.8]}\n      routes: [{to: 10.0.0.0/8, via: 10.0.0.1}]\n      # addresses: [10.0.0.7/24]\n",
		"etc/systemd/network/80-ec2.network":   "[Match]\nDriver=ena\nName=eth0\n[Network]\nDHCP=yes\n[Link]\nMACAddressPolicy=none\n",
		"etc/network/interfaces":               "auto lo\niface lo inet loopback\n  address 127.0.0.1\niface eth0 inet dhcp\n",
		"etc/default/kubelet":                  "KUBELET_EXTRA_ARGS=\"--hostname-override=$(hostname) --node-ip=0.0.0.0 --v=2\"\n# --node-ip=10.0.3.17\n",
		"etc/rancher/k3s/config.yaml":          "node-label: [\"a=b\"]\nserver: https://10.0.0.1:6443\n",
		"var/lib/amazon/ssm/registration":      "{\"InstanceID\":\"i-0123456789abcdef0\"}\n",
		"etc/cdi/nvidia.yaml":                  "devices:\n- name: \"0\"\n- name: all\n",
		"boot/0123456789abcdef/config":         "x",
		"etc/multipath.conf":                   "defaults {}\nblacklist {\n  devnode \"^vd\"\n}\n",
		"etc/lvm/lvm.conf":                     "# system_id_source = \"uname\"\nsystem_id_source = \"none\"\nfilter = [ \"a|.*|\" ]\nglobal_filter = [ \"a|/dev/sd.*|\", \"a|/dev/nvme.*|\", \"r|.*|\" ]\nfilter = [ \"r|/dev/sda2|\" ]\n",
		"etc/udev/rules.d/66-azure-disk.rules": "ENV{ID_SERIAL}==\"*\", SYMLINK+=\"disk/x\"\n",
	} {
		_, err := run(t, plant(t, node, map[string]string{name: content}), runner(load(t, v1alpha1.ProfileStatic)))
		if err != nil {
			t.Errorf("/%s: %v", name, err)
		}
	}
}
