package generalize

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestNamesOfKernel: a name or an ID on the kernel command line is that of all clones, and refused before any change.
func TestNamesOfKernel(t *testing.T) {
	const name = "systemd.hostname=" + donor
	profile := load(t, v1alpha1.ProfileStatic)
	check := func(file, content string, refused bool) {
		t.Helper()
		dir := plant(t, node, map[string]string{file: content})
		was := snapshot(t, dir)
		err := runner(profile).Refusals(open(t, dir))
		if !refused {
			if err != nil {
				t.Errorf("/%s with %q: %v", file, content, err)
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), "-of-kernel: /"+file) || !strings.Contains(err.Error(), "reboot") {
			t.Errorf("/%s with %q: %v, want it refused with a remedy", file, content, err)
		}
		if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
			t.Errorf("changed:\n%s", diff)
		}
	}
	for line, refused := range map[string]bool{
		"root=UUID=aaaa systemd.hostname=" + donor:                  true,
		"hostname=" + donor + " quiet":                              true,
		"quiet 'hostname=" + donor + "'":                            true,
		"systemd.set_credential=system.hostname:" + donor:           true,
		"systemd.set-credential-binary=firstboot.hostname:bm9kZQ==": true,
		"systemd.machine-id=" + donorID:                             true,
		"ip=::::" + donor + ":eth0:dhcp":                            true,
		"ds=nocloud;h=" + donor + ";s=http://10.0.0.1/":             true,
		`ds=nocloud\;s=http://10.0.0.1/\;instance-id=i-0123`:        true,
		"'ds=nocloud-net;i=i-0123'":                                 true,
		"rd.iscsi.initiator=iqn.1993-08.org.debian:01:0123456789":   true,
		"rd.nvmf.hostnqn=nqn.2014-08.org.nvmexpress:uuid:0123-4567": true,
		"nfs.nfs4_unique_id=5fb06bd0":                               true,

		"ds=nocloud;s=http://10.0.0.1/i=1/":           false,
		"ip=dhcp rd.neednet=1 nameserver=10.0.0.2":    false,
		"ip=eth0:dhcp ip=:::::eth1:dhcp":              false,
		"hostname= site.hostname=x my_hostname=x":     false,
		"systemd.set_credential=network.dns:10.0.0.2": false,
		"quiet # systemd.hostname=" + donor:           false,
	} {
		check("etc/default/grub", "GRUB_CMDLINE_LINUX=\""+line+"\"\n", refused)
	}
	for file, content := range map[string]string{
		"etc/default/grub":              "GRUB_CMDLINE_LINUX=\"" + name + "\"\n",
		"etc/default/grub.d/50-x.cfg":   "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT " + name + "\"\n",
		"boot/grub/grub.cfg":            "\tlinux\t/vmlinuz root=UUID=aaaa ro " + name + "\n",
		"boot/grub2/custom.cfg":         "\tlinux /vmlinuz " + name + "\n",
		"boot/loader/entries/6.1.conf":  "title Linux\noptions " + name + "\n",
		"boot/grub2/grubenv":            "# GRUB Environment Block\nkernelopts=" + name + "\n####\n",
		"etc/kernel/cmdline":            name + "\n",
		"usr/lib/kernel/cmdline":        name + "\n",
		"boot/extlinux/extlinux.conf":   "label a\n  append " + name + "\n",
		"boot/firmware/cmdline.txt":     "console=tty1 " + name + "\n",
		"etc/dracut.conf.d/20-net.conf": "kernel_cmdline+=\" " + name + " \"\n",
	} {
		check(file, content, true)
	}
}

// TestDiskNamesOfKernel: a kernel command line on the disk names disks as each clone finds them. The host of a machine can
// pass one too, with the names that it gives to all.
func TestDiskNamesOfKernel(t *testing.T) {
	profile := load(t, v1alpha1.ProfileStatic)
	for line, refused := range map[string]bool{
		"root=/dev/vda1 ro":                          true,
		"ro root=/dev/nvme0n1p1":                     true,
		"'root=/dev/xvda' quiet":                     true,
		"root=block:/dev/sda15":                      true,
		"root=/dev/mmcblk0p2 rootwait":               true,
		"root=254:1":                                 true,
		"root=UUID=aaaa resume=/dev/vda2":            true,
		"root=UUID=aaaa fips=1 boot=/dev/sda1":       true,
		"cryptdevice=/dev/vda3:root":                 true,
		"root=/dev/md0 md=0,/dev/sda1,/dev/sdb1":     true,
		"mount.usr=/dev/vda3":                        true,
		"systemd.mount-extra=/dev/vda3:/srv:ext4":    true,
		"root=UUID=aaaa ro console=ttyS0":            false,
		"root=PARTUUID=aaaa-01":                      false,
		"root=LABEL=cloudimg-rootfs":                 false,
		"root=/dev/mapper/vg-root rd.lvm.lv=vg/root": false,
		"root=/dev/vg/root root=/dev/md0":            false,
		"root=zfs:rpool/ROOT root=/dev/nfs":          false,
		"root=/dev/disk/azure/root-part1":            false,
		"site.root=/dev/vda1 # root=/dev/vda1":       false,
	} {
		for file, content := range map[string]string{
			"boot/grub/grub.cfg":           "\tlinux\t/vmlinuz " + line + "\n",
			"boot/loader/entries/6.1.conf": "options " + line + "\n",
		} {
			err := runner(profile).Refusals(open(t, plant(t, node, map[string]string{file: content})))
			if got := err != nil && strings.Contains(err.Error(), "rule disk-name-of-kernel: /"+file) && strings.Contains(err.Error(), "blkid"); got != refused || !refused && err != nil {
				t.Errorf("/%s with %q: %v, want it refused: %t", file, line, err, refused)
			}
		}
	}
	for file, content := range map[string]string{
		"etc/initramfs-tools/conf.d/resume": "RESUME=/dev/vda2\n", "etc/default/grub": "GRUB_CMDLINE_LINUX=\"root=/dev/vda1\"\n", "etc/kernel/cmdline": "root=/dev/vda1 ro\n",
		"boot/grub2/grubenv": "# GRUB Environment Block\nkernelopts=root=/dev/vda1 ro\n####\n", "boot/extlinux/extlinux.conf": "append root=/dev/vda1\n",
	} {
		err := runner(profile).Refusals(open(t, plant(t, node, map[string]string{file: content})))
		if err == nil || !strings.Contains(err.Error(), "rule disk-name-of-kernel: /"+file) {
			t.Errorf("/%s: %v", file, err)
		}
	}
	must(t, runner(profile).Refusals(open(t, plant(t, node, map[string]string{"proc/cmdline": "root=/dev/vda1 ro\n"}))))
}
