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
