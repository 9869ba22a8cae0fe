package generalize

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const (
	dkmsDir = "var/lib/dkms"
	// secureBoot is a variable of the firmware with four bytes of attributes, and 1 if Secure Boot is on. Source: UEFI, 3.3.
	secureBoot = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
)

// onlySigned matches parameters with which a kernel loads only signed modules. Source: kernel-parameters.txt; kernel_lockdown(7).
var onlySigned = regexp.MustCompile(`(?:^|\s)(?:module\.sig_enforce(?:=[1yY])?|lockdown=\w+)(?:\s|$)`)

// lostModules returns which modules from outside its kernel a clone's boot would lose; empty if none. p is the directory of a kernel's
// modules, or of one version of a module of DKMS.
func lostModules(t *tree.Tree, p string) string {
	boot := bootKernelOf(t)
	if boot.release == "" {
		return ""
	}
	own := tree.ModulesOf(t, boot.release)
	if dir := path.Dir(path.Dir(p)); strings.HasSuffix("/"+dir, "/"+dkmsDir) {
		return notBuilt(t, p, boot.release, own)
	}
	release := path.Base(p)
	if release == boot.release {
		return unsigned(t, &boot, own)
	}
	others := tree.ModulesOf(t, release)
	if !isInstalled(t, release) || len(others) == 0 {
		return ""
	}
	if len(own) == 0 {
		return fmt.Sprintf("has modules, and the kernel %s, which a clone boots, has none in "+
			"/%s/%[1]s. Install its package again", boot.release, tree.ModulesDir)
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if why := whyLost(t, name, others[name], own[name], boot.release); why != "" {
			return why
		}
	}
	return ""
}

// whyLost compares a module of another kernel with that of the kernel that a clone boots, by their paths.
func whyLost(t *tree.Tree, name, other, mine, release string) string {
	if other == tree.Builtin || mine == tree.Builtin || mine != "" && tree.IsModuleOfKernel(other) {
		return ""
	}
	was, err := readModule(t, other)
	if err != nil || was.InTree {
		return ""
	}
	if mine == "" {
		return fmt.Sprintf("has the module %s (/%s), which does not come with a kernel, and the kernel %s, which a clone boots, lacks it. Run %s, and reboot",
			name, other, release, tree.ModuleCommand(other, release))
	}
	if is, err := readModule(t, mine); err == nil && was.Signed && !is.Signed {
		return fmt.Sprintf("has the signed module %s, and that of the kernel %s, which a clone boots, has no signature, so Secure Boot does not load it. "+
			"Sign it as before, or run %s", name, release, tree.ModuleCommand(mine, release))
	}
	return ""
}

func readModule(t *tree.Tree, p string) (scan.Module, error) {
	f, err := openFile(t, p)
	if err != nil {
		return scan.Module{}, err
	}
	defer f.Close()
	return scan.ReadModule(f)
}

func isInTree(t *tree.Tree, p string) bool {
	m, err := readModule(t, p)
	return err == nil && m.InTree
}

// isInstalled reports whether a kernel can boot, or runs: the directory of a removed kernel can stay with modules of DKMS.
func isInstalled(t *tree.Tree, release string) bool {
	for _, p := range []string{"boot/vmlinuz-" + release, "boot/vmlinux-" + release, path.Join(tree.ModulesDir, release, "vmlinuz")} {
		if _, info, err := t.Resolve(p); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return t.Running() && strings.TrimSpace(text(t, "proc/sys/kernel/osrelease")) == release
}

// excludes matches settings of a module of DKMS that is not for each kernel, or is only built on request. Source: dkms(8).
var (
	excludes    = regexp.MustCompile(`(?m)^\s*(?:BUILD_EXCLUSIVE_\w+|OBSOLETE_BY)=`)
	autoinstall = regexp.MustCompile(`(?mi)^\s*AUTOINSTALL=["']?y`)
	renames     = regexp.MustCompile(`(?m)^\s*DEST_MODULE_NAME\[`)
)

// notBuilt returns why a version of a module of DKMS is not there for the kernel of a clone; empty if it is, or need not be.
func notBuilt(t *tree.Tree, p, release string, own map[string]string) string {
	settings := text(t, path.Join(p, "source/dkms.conf"))
	if !autoinstall.MatchString(settings) || excludes.MatchString(settings) || isSuperseded(t, p) {
		return ""
	}
	built, _ := t.Glob(path.Join(literal(p), literal(release), "*/module/*.ko*"))
	name := path.Base(path.Dir(p)) + "/" + path.Base(p)
	if len(built) == 0 {
		return fmt.Sprintf("is a module that DKMS has not built for the kernel %s, which a clone boots. Run dkms autoinstall -k %s, and read its errors; "+
			"or, if no node needs the module, dkms remove %s --all", release, release, name)
	}
	for _, m := range built {
		if at := own[tree.ModuleName(m.Path)]; at == "" && !renames.MatchString(settings) || at == tree.Builtin || at != "" && isInTree(t, at) {
			return fmt.Sprintf("has %s, which is built and not installed for the kernel %s, which a clone boots. Run dkms install %s -k %s, and reboot",
				path.Base(m.Path), release, name, release)
		}
	}
	return ""
}

// isSuperseded reports whether another version of a module of DKMS is built for a kernel: one of them is installed.
func isSuperseded(t *tree.Tree, p string) bool {
	others, _ := t.Glob(path.Join(literal(path.Dir(p)), "*", literal(bootKernelOf(t).release), "*/module"))
	return slices.ContainsFunc(others, func(m tree.Match) bool { return !strings.HasPrefix(m.Path, p+"/") })
}

// unsigned names a module from outside the kernel of a clone that this kernel does not load, because it wants signatures.
func unsigned(t *tree.Tree, boot *bootKernel, own map[string]string) string {
	variable := text(t, secureBoot)
	if isOn := len(variable) == 5 && variable[4] == 1; !isOn && !onlySigned.MatchString(boot.options) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		p := own[name]
		if p == tree.Builtin || tree.IsModuleOfKernel(p) {
			continue
		}
		if m, err := readModule(t, p); err == nil && !m.InTree && !m.Signed {
			return fmt.Sprintf("has the module %s (/%s) without a signature, and with Secure Boot the kernel does not load it. "+
				"Sign it with a key that the firmware of each clone trusts, or switch Secure Boot off in the recipe of the pool", name, p)
		}
	}
	return ""
}
