package generalize

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Contents of modules: of a kernel, from outside, and the latter with a signature.
const (
	ofKernel = "\x7fELF\x00license=GPL\x00intree=Y\x00name=x\x00vermagic=6.9 SMP\x00"
	foreign  = "\x7fELF\x00license=GPL\x00name=x\x00vermagic=6.9 SMP\x00"
	signed   = foreign + "0\x82signature~Module signature appended~\n"
)

// kernels are two kernels, of which the menu boots 6.9 by default.
var kernels = map[string]string{
	"boot/vmlinuz-6.1": "k", "boot/initrd.img-6.1": "i", "boot/vmlinuz-6.9": "k", "boot/initrd.img-6.9": "i",
	"boot/grub/grub.cfg": menu("\tlinux\t/vmlinuz-6.9 root=UUID=aaaa ro\n\tinitrd\t/initrd.img-6.9\n", "\tlinux\t/vmlinuz-6.1 root=UUID=aaaa ro\n\tinitrd\t/initrd.img-6.1\n"),
	"usr/lib/modules/6.1/kernel/drivers/nvme/host/nvme.ko":   ofKernel,
	"usr/lib/modules/6.9/kernel/drivers/nvme/host/nvme.ko":   ofKernel,
	"usr/lib/modules/6.1/kernel/drivers/block/old-driver.ko": ofKernel,
	"usr/lib/modules/6.9/modules.builtin":                    "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/scsi/sd_mod.ko\n",
	"lib":                                                    "-> usr/lib",
}

// TestKernelModules: a module from outside the kernel must be there for the kernel that a clone boots.
func TestKernelModules(t *testing.T) {
	type files = map[string]string
	const (
		old, next = "usr/lib/modules/6.1/", "usr/lib/modules/6.9/"
		dkms      = "var/lib/dkms/nvidia/550/"
		conf      = "PACKAGE_NAME=nvidia\nBUILT_MODULE_NAME[0]=nvidia\nAUTOINSTALL=\"yes\"\n"
	)
	built := files{dkms + "source/dkms.conf": conf, dkms + "6.9/x86_64/module/nvidia.ko.xz": compressed(t, "xz", foreign)}
	with := func(sets ...files) files {
		all := files{}
		for _, set := range sets {
			maps.Copy(all, set)
		}
		return all
	}
	for name, test := range map[string]struct {
		files files
		want  string // part of the refusal; empty: not refused
	}{
		"kernels alone":                     {files{}, ""},
		"DKMS, for the old kernel":          {files{old + "updates/dkms/nvidia.ko": foreign}, "has the module nvidia (/usr/lib/modules/6.1/updates/dkms/nvidia.ko), which does not come with a kernel, and the kernel 6.9, which a clone boots, lacks it. Run dkms autoinstall -k 6.9"},
		"DKMS, for both":                    {files{old + "updates/dkms/nvidia.ko": foreign, next + "updates/dkms/nvidia.ko.zst": compressed(t, "zst", foreign)}, ""},
		"packed with xz":                    {files{old + "extra/lustre.ko.xz": compressed(t, "xz", foreign)}, "the module lustre"},
		"packed with zstd":                  {files{old + "extra/zfs/zfs.ko.zst": compressed(t, "zst", foreign)}, "the module zfs"},
		"packed with gzip":                  {files{old + "misc/vmmon.ko.gz": compressed(t, "gz", foreign)}, "the module vmmon"},
		"dash and underscore":               {files{old + "extra/gdr-drv.ko": foreign, next + "extra/gdr_drv.ko": foreign}, ""},
		"extra modules of the kernel":       {files{old + "extra/sctp.ko.xz": compressed(t, "xz", ofKernel)}, ""},
		"a link of weak-modules":            {files{old + "extra/efa.ko": foreign, next + "weak-updates/efa.ko": "-> /lib/modules/6.1/extra/efa.ko"}, ""},
		"a link to nothing":                 {files{old + "weak-updates/efa.ko": "-> ../extra/efa.ko", old + "extra/efa.ko": foreign, next + "weak-updates/efa.ko": "-> /lib/modules/5.4/extra/efa.ko"}, "the module efa"},
		"Ubuntu's NVIDIA":                   {files{old + "kernel/nvidia-550srv/nvidia.ko": foreign}, "Run apt-get install linux-modules-nvidia-550srv-6.9, and reboot"},
		"now a part of the kernel":          {files{old + "updates/sd_mod.ko": foreign}, ""},
		"now with the kernel":               {files{old + "updates/nvme.ko": foreign}, ""},
		"what a removed kernel left":        {files{"usr/lib/modules/5.10/updates/dkms/nvidia.ko": foreign}, ""},
		"no modules of the default":         {files{next + "kernel/drivers/nvme/host/nvme.ko": "", next + "modules.builtin": "", "boot/grub/grub.cfg": menu("\tlinux /vmlinuz-6.9x root=UUID=aaaa\n\tinitrd /initrd.img-6.9\n", ""), "boot/vmlinuz-6.9x": "k"}, "has none in /lib/modules/6.9x"},
		"the default is the old kernel":     {files{old + "updates/dkms/nvidia.ko": foreign, "boot/grub/grub.cfg": strings.Replace(kernels["boot/grub/grub.cfg"], `default="0"`, `default="1>1"`, 1)}, ""},
		"signed for the old kernel alone":   {files{old + "extra/a.ko": signed, next + "extra/a.ko": foreign}, "has the signed module a, and that of the kernel 6.9"},
		"unsigned on a kernel that insists": {files{next + "extra/a.ko": foreign, "boot/grub/grub.cfg": strings.ReplaceAll(kernels["boot/grub/grub.cfg"], " ro\n", " ro module.sig_enforce=1\n")}, "(/usr/lib/modules/6.9/extra/a.ko) without a signature"},
		"signed on a kernel that insists":   {files{next + "extra/a.ko.xz": compressed(t, "xz", signed), "boot/grub/grub.cfg": strings.ReplaceAll(kernels["boot/grub/grub.cfg"], " ro\n", " ro lockdown=integrity\n")}, ""},
		"DKMS has not built it":             {files{dkms + "source/dkms.conf": conf}, "rule kernel-modules: /var/lib/dkms/nvidia/550 is a module that DKMS has not built for the kernel 6.9"},
		"DKMS has built it":                 {with(built, files{next + "updates/dkms/nvidia.ko.xz": compressed(t, "xz", foreign)}), ""},
		"DKMS has not installed it":         {built, "Run dkms install nvidia/550 -k 6.9"},
		"DKMS: not for each kernel":         {files{dkms + "source/dkms.conf": conf + "BUILD_EXCLUSIVE_KERNEL=\"^5\"\n"}, ""},
		"DKMS: by hand":                     {files{dkms + "source/dkms.conf": strings.ReplaceAll(conf, "yes", "")}, ""},
		"DKMS: the version before":          {with(built, files{next + "updates/dkms/nvidia.ko.xz": compressed(t, "xz", foreign), "var/lib/dkms/nvidia/535/source/dkms.conf": conf}), ""},
		"entries, the saved one": {files{"boot/grub/grub.cfg": "blscfg\n", "boot/grub2/grubenv": "saved_entry=id-6.1\n", old + "extra/a.ko": foreign,
			"boot/loader/entries/id-6.9.conf": "title A\nlinux /vmlinuz-6.9\ninitrd /initrd.img-6.9\n", "boot/loader/entries/id-6.1.conf": "title B\nlinux /vmlinuz-6.1\ninitrd /initrd.img-6.1\n"}, ""},
		"entries, the newest": {files{"boot/grub/grub.cfg": "blscfg\n", "boot/grub2/grubenv": "saved_entry=id-6.0\n", old + "extra/a.ko": foreign, "boot/vmlinuz-0-rescue-aa": "k",
			"boot/loader/entries/id-6.9.conf": "title A\nlinux /vmlinuz-6.9\ninitrd /initrd.img-6.9\n", "boot/loader/entries/id-6.1.conf": "title B\nlinux /vmlinuz-6.1\ninitrd /initrd.img-6.1\n",
			"boot/loader/entries/id-0-rescue.conf": "title C\nlinux /vmlinuz-0-rescue-aa\n"}, "the kernel 6.9, which a clone boots"},
		"no menu":             {files{"boot/grub/grub.cfg": "", old + "extra/a.ko": foreign}, "the kernel 6.9, which a clone boots"},
		"a container's image": {files{"boot/grub/grub.cfg": "", "boot/vmlinuz-6.1": "", "boot/vmlinuz-6.9": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) { testRefused(t, "kernel-modules", nil, test.want, kernels, test.files) })
	}
}

// TestBootDrivers: the initramfs must have the drivers of the machines of the pool.
func TestBootDrivers(t *testing.T) {
	type files = map[string]string
	const initrd = "boot/initrd.img-6.9"
	all := []string{"nvme/host/nvme.ko", "block/xen-blkfront.ko.xz", "block/virtio_blk.ko", "scsi/virtio_scsi.ko", "scsi/hv_storvsc.ko", "hv/hv_vmbus.ko"}
	kernel := files{}
	for _, name := range all {
		kernel["usr/lib/modules/6.9/kernel/drivers/"+name] = ofKernel
	}
	of := func(release string, names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, "usr/lib/modules/"+release+"/kernel/drivers/"+name)
		}
		return paths
	}
	most, hostOnly := of("6.9", all...), of("6.9", "nvme/host/nvme.ko")
	for name, test := range map[string]struct {
		files files
		disks []string
		want  string
	}{
		"generic, gzip":               {files{initrd: compressed(t, "gz", cpioOf(most...))}, nil, ""},
		"generic, xz":                 {files{initrd: compressed(t, "xz", cpioOf(most...))}, nil, ""},
		"generic, zstd, microcode":    {files{initrd: cpioOf("kernel/x86/microcode/GenuineIntel.bin") + compressed(t, "zst", cpioOf(most...))}, nil, ""},
		"drivers in the first":        {files{initrd: cpioOf("kernel/x86/microcode/a.bin") + cpioOf(most...) + compressed(t, "zst", cpioOf("init"))}, nil, ""},
		"generic, plain":              {files{initrd: cpioOf(most...)}, nil, ""},
		"host-only, gzip":             {files{initrd: compressed(t, "gz", cpioOf(hostOnly...))}, nil, "which was built for other hardware and lacks the driver hv_storvsc"},
		"host-only, xz":               {files{initrd: compressed(t, "xz", cpioOf(hostOnly...))}, nil, "lacks the driver hv_storvsc"},
		"host-only, zstd, microcode":  {files{initrd: cpioOf("kernel/x86/microcode/a.bin") + compressed(t, "zst", cpioOf(hostOnly...))}, nil, "lacks the driver hv_storvsc"},
		"host-only, a uniform pool":   {files{initrd: compressed(t, "gz", cpioOf(hostOnly...))}, []string{"nvme"}, ""},
		"host-only, a mixed pool":     {files{initrd: compressed(t, "gz", cpioOf(hostOnly...))}, []string{"nvme", "xen_blkfront"}, "lacks the driver xen_blkfront: a clone on a machine with disks of xen_blkfront"},
		"host-only, EC2":              {files{initrd: compressed(t, "gz", cpioOf(of("6.9", all[:2]...)...)), "etc/os-release": "ID=amzn\n"}, nil, ""},
		"host-only, Azure":            {files{initrd: compressed(t, "gz", cpioOf(hostOnly...)), "etc/waagent.conf": "# Azure\n"}, nil, "lacks the driver hv_storvsc"},
		"a driver that is built in":   {files{initrd: compressed(t, "gz", cpioOf(of("6.9", all[1:]...)...)), "usr/lib/modules/6.9/modules.builtin": "kernel/drivers/nvme/host/nvme.ko\nkernel/drivers/virtio/virtio_pci.ko\n"}, nil, ""},
		"a driver that no kernel has": {files{initrd: compressed(t, "gz", cpioOf(most...)), "usr/lib/modules/6.9/kernel/drivers/block/xen-blkfront.ko.xz": "-> nothing"}, nil, ""},
		"another kernel's":            {files{initrd: compressed(t, "gz", cpioOf(of("6.1", all...)...))}, nil, "which has the modules of another kernel (6.1)"},
		"a damaged one":               {files{initrd: compressed(t, "gz", cpioOf(hostOnly...))[:90]}, nil, ""},
		"a squashfs in it":            {files{initrd: compressed(t, "gz", cpioOf("squash-root.img"))}, nil, ""},
		"initramfs-tools":             {files{initrd: compressed(t, "gz", cpioOf(hostOnly...)), "usr/sbin/mkinitramfs": "x"}, nil, "MODULES=most in /etc/initramfs-tools/initramfs.conf and conf.d, and run update-initramfs -u -k 6.9"},
		"dracut":                      {files{initrd: compressed(t, "gz", cpioOf(hostOnly...))}, nil, "dracut --force --no-hostonly --kver 6.9"},
	} {
		t.Run(name, func(t *testing.T) { testRefused(t, "boot-drivers", test.disks, test.want, kernels, kernel, test.files) })
	}
}

// TestFIPS: a boot with fips=1 finds its kernel and the checksum.
func TestFIPS(t *testing.T) {
	type files = map[string]string
	withFIPS := func(options string) string {
		return strings.ReplaceAll(kernels["boot/grub/grub.cfg"], " ro\n", " ro "+options+"\n")
	}
	const sum = "boot/.vmlinuz-6.9.hmac"
	for name, test := range map[string]struct {
		files files
		want  string
	}{
		"off":                          {files{}, ""},
		"of the kernel alone":          {files{"boot/grub/grub.cfg": withFIPS("fips=1")}, ""},
		"with a checksum":              {files{"boot/grub/grub.cfg": withFIPS("fips=1"), sum: "x"}, ""},
		"no checksum":                  {files{"boot/grub/grub.cfg": withFIPS("fips=1"), "boot/.vmlinuz-6.1.hmac": "x"}, "/boot/.vmlinuz-6.9.hmac, does not exist"},
		"no checksum, dracut":          {files{"boot/grub/grub.cfg": withFIPS("fips=1"), "usr/lib/dracut/modules.d/01fips/fips.sh": "x"}, "/boot/.vmlinuz-6.9.hmac, does not exist"},
		"a boot file system":           {files{"boot/grub/grub.cfg": withFIPS("fips=1"), sum: "x", "etc/fstab": "UUID=aaaa / ext4 defaults 0 1\nUUID=bbbb /boot ext4 defaults 0 2\n"}, "Add boot=UUID=bbbb to the kernel command line"},
		"a named boot file system":     {files{"boot/grub/grub.cfg": withFIPS("fips=1 boot=UUID=bbbb"), sum: "x", "etc/fstab": "UUID=aaaa / ext4 defaults 0 1\nUUID=bbbb /boot ext4 defaults 0 2\n"}, ""},
		"the EFI partition":            {files{"boot/grub/grub.cfg": withFIPS("fips=1 boot=UUID=EFEF-0001"), sum: "x", "etc/fstab": "UUID=bbbb /boot ext4 defaults 0 2\nUUID=EFEF-0001 /boot/efi vfat umask=0077 0 1\n"}, "boot=UUID=EFEF-0001, and /boot is on UUID=bbbb"},
		"the EFI partition, one root":  {files{"boot/grub/grub.cfg": withFIPS("fips=1 boot=UUID=EFEF-0001"), sum: "x", "etc/fstab": "UUID=aaaa / ext4 defaults 0 1\nUUID=EFEF-0001 /boot/efi vfat umask=0077 0 1\n"}, "boot=UUID=EFEF-0001, and /boot is on UUID=aaaa"},
		"the root":                     {files{"boot/grub/grub.cfg": withFIPS("fips=1 boot=UUID=aaaa"), sum: "x", "etc/fstab": "UUID=aaaa / ext4 defaults 0 1\n"}, ""},
		"shared options, as in RHEL 8": {files{"boot/grub/grub.cfg": "blscfg\n", "boot/grub2/grubenv": "kernelopts=root=UUID=aaaa ro fips=1\n", "boot/.vmlinuz-6.1.hmac": "x", "boot/loader/entries/a-6.9.conf": "title A\nlinux /vmlinuz-6.9\ninitrd /initrd.img-6.9\noptions $kernelopts\n"}, "/boot/.vmlinuz-6.9.hmac"},
	} {
		t.Run(name, func(t *testing.T) { testRefused(t, "fips-of-kernel", nil, test.want, kernels, test.files) })
	}
}

// testRefused compares the refusals before a run, and the second look, with what one rule must say.
func testRefused(t *testing.T, rule string, disks []string, want string, files ...map[string]string) {
	t.Helper()
	all := map[string]string{}
	for _, set := range files {
		maps.Copy(all, set)
	}
	tr := open(t, plant(t, withoutEditsOf(node, all), all))
	p := load(t, v1alpha1.ProfileStatic).RequireDisks(disks)
	err := runner(p).Refusals(tr)
	if want == "" && err != nil {
		t.Errorf("refused: %v", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), "rule "+rule+": ") || !strings.Contains(err.Error(), want)) {
		t.Errorf("refused with %v, want %q", err, want)
	}
	for i := range p.Rules {
		if p.Rules[i].ID != rule {
			continue
		}
		if why, err := verify(tr, &p.Rules[i], &DonorValues{}); err != nil || (why != "") != (want != "") {
			t.Errorf("the second look says %q, %v", why, err)
		}
	}
}

// cpioOf is a cpio archive of empty files.
func cpioOf(names ...string) string {
	var b strings.Builder
	for _, name := range append(names, "TRAILER!!!") {
		fmt.Fprintf(&b, "070701%s%08x%s%08x%08x%s\x00", strings.Repeat("0", 48), 0, strings.Repeat("0", 32), len(name)+1, 0, name)
		for b.Len()%4 != 0 {
			b.WriteByte(0)
		}
	}
	return b.String() + strings.Repeat("\x00", (512-b.Len()%512)%512)
}

// compressed returns a content as a program with the file's extension packs it.
func compressed(t *testing.T, ext, content string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ext {
	case "gz":
		w = gzip.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	case "zst":
		w, err = zstd.NewWriter(&b)
	}
	must(t, err)
	_, err = io.WriteString(w, content)
	must(t, err)
	must(t, w.Close())
	return b.String()
}
