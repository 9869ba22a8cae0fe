package generalize

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// installed are two kernels with their initramfs, on a separate boot partition.
var installed = map[string]string{"boot/vmlinuz-6.1": "k", "boot/initrd.img-6.1": "i", "boot/vmlinuz-6.9": "k", "boot/initrd.img-6.9": "i"}

// menu returns a menu of grub-mkconfig: the first kernel, and both in a submenu.
func menu(first, second string) string {
	return "load_env\nif [ \"${next_entry}\" ] ; then\n   set default=\"${next_entry}\"\nelse\n   set default=\"0\"\nfi\nfunction load_video {\n  insmod all_video\n}\n" +
		"menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-aaaa' {\n\tload_video\n\tif [ x$grub_platform = xxen ]; then insmod xzio; fi\n" + first + "}\n" +
		"submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-aaaa' {\n\tmenuentry 'with 6.9' --class debian $menuentry_id_option 'id-6.9' {\n" + first + "\t}\n" +
		"\tmenuentry 'with 6.1' --class debian $menuentry_id_option 'id-6.1' {\n" + second + "\t}\n}\nmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {\n\tfwsetup\n}\n"
}

// TestBootFiles: a boot menu with an entry that cannot boot is refused before any change.
func TestBootFiles(t *testing.T) {
	const (
		grub, bls   = "boot/grub/grub.cfg", "boot/loader/entries/"
		newest, old = "\tlinux\t/vmlinuz-6.9 root=UUID=aaaa ro quiet\n\tinitrd\t/initrd.img-6.9\n", "\tlinux\t/vmlinuz-6.1 root=UUID=aaaa ro\n\tinitrd\t/initrd.img-6.1\n"
		without     = "\tlinux\t/vmlinuz-6.9 root=PARTUUID=aaaa-01 ro\n"
	)
	type files = map[string]string
	for name, test := range map[string]struct {
		files files
		want  string // part of the refusal; empty: not refused
	}{
		"a menu":                        {files{grub: menu(newest, old)}, ""},
		"no initramfs":                  {files{grub: menu("\tlinux /vmlinuz-6.9 root=UUID=aaaa ro\n", old)}, `the entry "Debian GNU/Linux", which starts /vmlinuz-6.9 without an initramfs`},
		"no initramfs, by partition":    {files{grub: menu(without, old)}, "/vmlinuz-6.9 without an initramfs"},
		"no kernel":                     {files{grub: menu(newest, strings.ReplaceAll(old, "6.1", "5.10"))}, `the entry "with 6.1", and its file /vmlinuz-5.10 does not exist`},
		"no file of the initramfs":      {files{grub: menu(newest, strings.ReplaceAll(old, "initrd.img-6.1", "initrd.img-5.10"))}, "its file /initrd.img-5.10"},
		"an empty initramfs":            {files{grub: menu(newest, old), "boot/initrd.img-6.9": ""}, "its file /initrd.img-6.9 does not exist or is empty"},
		"a link to nothing":             {files{grub: menu("\tlinux /vmlinuz root=UUID=aaaa\n\tinitrd /initrd.img\n", old), "boot/vmlinuz": "-> vmlinuz-6.9", "boot/initrd.img": "-> initrd.img-9"}, "its file /initrd.img "},
		"another default, by its place": {files{grub: strings.Replace(menu(without, old), `default="0"`, `default="1>1"`, 1)}, ""},
		"another default, by its ID":    {files{grub: strings.Replace(menu(newest, "\tlinux /vmlinuz-6.1 root=LABEL=/\n"), `default="0"`, `default="gnulinux-advanced-aaaa>id-6.1"`, 1)}, `the entry "with 6.1", which starts /vmlinuz-6.1 without`},
		"a saved default":               {files{grub: strings.Replace(menu(without, old), `default="0"`, `default="${saved_entry}"`, 1), "boot/grub/grubenv": "# GRUB Environment Block\nsaved_entry=with 6.1\n###\n"}, ""},
		"no boot partition":             {files{grub: menu("\tlinux /boot/vmlinuz-6.9 root=UUID=aaaa\n\tinitrd /boot/initrd.img-6.9\n", old)}, ""},
		"a subvolume":                   {files{grub: menu("\tlinux /@/boot/vmlinuz-6.9 root=UUID=aaaa\n\tinitrd /@/boot/initrd.img-6.9\n", "\tlinux /BOOT/debian@/vmlinuz-6.1 root=ZFS=r\n\tinitrd /BOOT/debian@/initrd.img-6.1\n")}, ""},
		"older commands":                {files{"boot/grub2/grub.cfg": menu("\tlinux16 /vmlinuz-6.9 root=/dev/mapper/rhel-root\n\tinitrd16 /initramfs-6.9.img\n", old)}, "/initramfs-6.9.img"},
		"microcode":                     {files{grub: menu("\tlinuxefi ($root)/vmlinuz-6.9 root=UUID=aaaa\n\tinitrdefi /ucode.img /initrd.img-6.9\n", old)}, "its file /ucode.img"},
		"a try without an initramfs":    {files{grub: menu("\tif [ \"${initrdfail}\" = 1 ]; then\n"+newest+"\telse\n"+without+"\tfi\n", old)}, ""},
		"a kernel that needs none":      {files{grub: "menuentry 'a' {\n" + without + "}\nmenuentry 'b' {\n" + without + "}\n"}, ""},
		"the memory":                    {files{grub: menu(newest, old) + "menuentry 'Memory test' {\n\tlinux16 /vmlinuz-6.1 console=ttyS0\n}\n"}, ""},
		"another system":                {files{grub: menu(newest, old) + "menuentry 'Other' $menuentry_id_option 'osprober-gnulinux-/boot/vmlinuz-4' {\n\tlinux /boot/vmlinuz-4 root=/dev/mapper/b\n}\n"}, ""},
		"a variable":                    {files{grub: menu("\tlinux $kernel root=UUID=aaaa\n\tinitrd ${prefix}/x\n", old)}, ""},
		"entries":                       {files{bls + "id-6.9.conf": "title New\nversion 6.9\nlinux /vmlinuz-6.9\ninitrd /initrd.img-6.9 $tuned_initrd\noptions $kernelopts\n"}, ""},
		"an entry without its kernel":   {files{bls + "id-6.9.conf": "title New\nlinux /vmlinuz-7\ninitrd /initrd.img-6.9\noptions root=UUID=aaaa\n"}, "/" + bls + "id-6.9.conf has the entry \"New\", and its file /vmlinuz-7"},
		"an entry without initramfs": {files{bls + "id-6.9.conf": "title New\nlinux /vmlinuz-6.9\noptions $kernelopts\n", bls + "id-6.1.conf": "title Old\nlinux /vmlinuz-6.1\ninitrd /initrd.img-6.1\noptions $kernelopts\n"},
			"the entry \"New\", which starts /vmlinuz-6.9 without"},
		"an entry of systemd-boot": {files{"boot/efi/loader/entries/os-6.9.conf": "title A\nlinux /os/6.9/linux\ninitrd /os/6.9/initrd\noptions root=UUID=aaaa\n", "boot/efi/os/6.9/linux": "k"}, "its file /os/6.9/initrd"},
		"extlinux":                 {files{"boot/extlinux/extlinux.conf": "default l0\nlabel l0\n\tlinux /boot/vmlinuz-6.9\n\tinitrd /boot/initrd.img-7\n\tappend root=UUID=aaaa ro\n"}, "its file /boot/initrd.img-7"},
		"extlinux, appended":       {files{"boot/extlinux/extlinux.conf": "LABEL l0\n\tKERNEL ../vmlinuz-6.9\n\tAPPEND initrd=../initrd.img-6.9 root=UUID=aaaa ro\n"}, ""},
		"the menu of a partition":  {files{"boot/efi/EFI/ubuntu/grub.cfg": "search.fs_uuid aaaa root\nset prefix=($root)'/boot/grub'\nconfigfile $prefix/grub.cfg\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := plant(t, node, withoutEditsOf(installed, test.files), test.files)
			was := snapshot(t, dir)
			_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
			if test.want == "" {
				must(t, err)
				return
			}
			why := refusedOf(t, err).Error()
			if !strings.Contains(why, "rule boot-files: /") || !strings.Contains(why, test.want) || !strings.Contains(why, "update-initramfs -c -k VERSION") || !strings.Contains(why, "dracut -f --kver VERSION") {
				t.Errorf("got %q", why)
			}
			if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
				t.Errorf("changed all the same:\n%s", diff)
			}
		})
	}
	// A tree without its boot partition shows no kernel.
	must(t, runner(load(t, v1alpha1.ProfileStatic)).Refusals(open(t, plant(t, node, map[string]string{grub: menu(newest, old)}))))
}
