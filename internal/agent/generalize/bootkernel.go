package generalize

import (
	"cmp"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// bootKernel is the kernel that a clone boots by default.
type bootKernel struct {
	// release is as uname -r prints it.
	release string
	// initramfs are paths in the tree, and options the parameters of the kernel.
	initramfs []string
	options   string
}

var (
	grubMenus   = []string{"boot/grub/grub.cfg", "boot/grub2/grub.cfg", "boot/efi/EFI/*/grub.cfg"}
	entryFiles  = []string{"boot/loader/entries/*.conf", "boot/efi/loader/entries/*.conf", "efi/loader/entries/*.conf"}
	unifiedDirs = []string{"boot/efi/EFI/Linux/*.efi", "boot/EFI/Linux/*.efi", "efi/EFI/Linux/*.efi"}
	// kernelOptions are shared by the entries of RHEL 8.
	kernelOptions = regexp.MustCompile(`(?m)^kernelopts=(.*)$`)
	// loaderDefault is the choice of systemd-boot. Source: loader.conf(5).
	loaderDefault = regexp.MustCompile(`(?m)^default\s+(\S+)`)
)

// bootKernelOf returns the kernel that a clone boots by default: that of the boot menu, else the newest in /boot. It is unknown, with
// an empty release, without a kernel, or without the kernel's modules.
func bootKernelOf(t *tree.Tree) bootKernel {
	for _, find := range []func(*tree.Tree) *bootEntry{menuDefault, specifiedDefault, unifiedDefault, newestKernel} {
		e := find(t)
		if e == nil {
			continue
		}
		k := bootKernel{options: e.options}
		if m := kernelOptions.FindStringSubmatch(text(t, "boot/grub2/grubenv")); m != nil {
			k.options = strings.ReplaceAll(k.options, "$kernelopts", m[1])
		}
		if len(e.kernels) > 0 {
			k.release = releaseOf(t, e.kernels[0])
		}
		for _, file := range e.initramfs {
			if p := bootFile(t, file); p != "" {
				k.initramfs = append(k.initramfs, p)
			}
		}
		return k
	}
	return bootKernel{}
}

// menuDefault is the default of a menu of GRUB or extlinux.
func menuDefault(t *tree.Tree) *bootEntry {
	for _, pattern := range slices.Concat(grubMenus, []string{"boot/extlinux/extlinux.conf", "boot/syslinux/syslinux.cfg"}) {
		for _, content := range filesOf(t, pattern) {
			if entries := entriesOf(pattern, content); len(entries) > 0 {
				e := defaultEntry(entries, chosenEntry(t, content))
				return &e
			}
		}
	}
	return nil
}

// specifiedDefault is the default among files of the Boot Loader Specification: the saved or configured one, else the newest. Source:
// grub2, blscfg; loader.conf(5).
func specifiedDefault(t *tree.Tree) *bootEntry {
	var entries []bootEntry
	for _, pattern := range entryFiles {
		found, _ := t.Glob(pattern)
		for _, m := range found {
			content, err := t.Read(m.Path)
			if more := entriesOf(m.Path, content); err == nil && len(more) > 0 {
				more[0].id = strings.TrimSuffix(path.Base(m.Path), ".conf")
				entries = append(entries, more[0])
			}
		}
	}
	chosen := chosenEntry(t, []byte("set default=saved_entry"))
	for _, settings := range filesOf(t, "boot/efi/loader/loader.conf", "boot/loader/loader.conf", "efi/loader/loader.conf") {
		if m := loaderDefault.FindSubmatch(settings); m != nil && chosen == "" {
			chosen = strings.TrimSuffix(string(m[1]), ".conf")
		}
	}
	var best *bootEntry
	for i := range entries {
		e := &entries[i]
		if is, err := path.Match(chosen, e.id); err == nil && is {
			return e
		}
		if !isRescue(e.id) && (best == nil || patch.CompareVersions(releaseOf(t, e.kernels[0]), releaseOf(t, best.kernels[0])) > 0) {
			best = e
		}
	}
	return best
}

// isRescue reports whether a name is of dracut's rescue entry, which is no default.
func isRescue(name string) bool { return strings.Contains(name, "0-rescue") }

// unifiedDefault is the newest unified kernel image.
func unifiedDefault(t *tree.Tree) (best *bootEntry) {
	newest := ""
	for _, pattern := range unifiedDirs {
		found, _ := t.Glob(pattern)
		for _, m := range found {
			name := path.Base(m.Path)
			if best != nil && patch.CompareVersions(name, newest) <= 0 {
				continue
			}
			content, _, _ := files{tree: t}.read(m.Path)
			newest, best = name, &bootEntry{kernels: []string{m.Path}, initramfs: []string{m.Path}, options: string(content)}
		}
	}
	return best
}

// newestKernel is the newest kernel in /boot, for a disk without a menu.
func newestKernel(t *tree.Tree) *bootEntry {
	found, _ := t.Glob("boot/vmlinuz-*")
	var names []string
	for _, m := range found {
		names = append(names, path.Base(m.Path))
	}
	release := patch.NewestKernel(names)
	if release == "" {
		return nil
	}
	e := &bootEntry{kernels: []string{"/boot/vmlinuz-" + release}}
	for _, name := range []string{"initrd.img-" + release, "initramfs-" + release + ".img"} {
		if bootFile(t, name) != "" {
			e.initramfs = append(e.initramfs, name)
		}
	}
	return e
}

// kernelFile matches the names of kernels with their release. Source: Linux, scripts/package, installkernel; kernel-install(8).
var kernelFile = regexp.MustCompile(`^(?:vmlinu[xz]|kernel|linux|Image)-(.+)$`)

// releaseOf returns the release of a kernel, by its name, by its link, or by its section .uname; empty if unknown.
func releaseOf(t *tree.Tree, file string) string {
	for _, p := range []string{strings.Trim(file, `"'`), bootFile(t, file)} {
		if m := kernelFile.FindStringSubmatch(path.Base(p)); m != nil {
			return m[1]
		}
	}
	p := bootFile(t, file)
	if path.Base(p) == "linux" { // TOKEN/RELEASE/linux
		return path.Base(path.Dir(p))
	}
	f, err := openFile(t, p)
	if err != nil {
		return ""
	}
	defer f.Close()
	for _, section := range scan.Sections(f, ".uname") {
		release := make([]byte, min(section.Size(), 256))
		n, _ := section.ReadAt(release, 0)
		return strings.Trim(string(release[:n]), "\x00\n ")
	}
	return ""
}

// openFile opens a regular file. O_NONBLOCK: a FIFO must not block.
func openFile(t *tree.Tree, p string) (*os.File, error) {
	real, info, err := t.Resolve(cmp.Or(p, "."))
	if err == nil && !info.Mode().IsRegular() {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, err
	}
	return t.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
