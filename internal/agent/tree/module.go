package tree

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ModulesDir has the modules of each kernel. Builtin is the path of a module that is a part of its kernel.
const (
	ModulesDir = "lib/modules"
	Builtin    = "builtin"
)

// ModulesOf returns the modules of a kernel with their paths, by name. A link to a module that is not there is no module.
func ModulesOf(t *Tree, release string) map[string]string {
	found := map[string]string{}
	dir, _, err := t.Resolve(path.Join(ModulesDir, release))
	if err != nil {
		return found
	}
	text, _ := t.Read(path.Join(dir, "modules.builtin"))
	for line := range strings.Lines(string(text)) {
		if name := ModuleName(strings.TrimSpace(line)); name != "" {
			found[name] = Builtin
		}
	}
	_ = t.Walk(dir, func(p string, info fs.FileInfo) error {
		if p != dir && path.Dir(p) == dir && (info.Name() == "build" || info.Name() == "source") {
			return fs.SkipDir
		}
		name := ModuleName(p)
		if name == "" || info.IsDir() {
			return nil
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if _, info, err = t.Resolve(p); err != nil {
				return nil
			}
		}
		if info.Mode().IsRegular() && (found[name] == "" || IsModuleOfKernel(found[name])) {
			found[name] = p // depmod prefers updates and other directories to that of the kernel
		}
		return nil
	})
	return found
}

// ModuleName returns the name of a module by its file; empty for other files. The kernel does not distinguish - and _.
func ModuleName(file string) string {
	name, ext, found := strings.Cut(path.Base(file), ".ko")
	if !found || !slices.Contains([]string{"", ".gz", ".xz", ".zst"}, ext) {
		return ""
	}
	return strings.ReplaceAll(name, "-", "_")
}

// IsModuleOfKernel reports whether a module is in the directory of the modules that come with a kernel. Ubuntu puts drivers of NVIDIA there, too.
func IsModuleOfKernel(p string) bool { return strings.Contains(p, "/kernel/") }

// ModuleCommand is the command that installs a module for a kernel, by the module's place.
func ModuleCommand(module, release string) string {
	dir := path.Dir(module)
	switch {
	case strings.Contains(dir, "/dkms") || strings.HasSuffix(dir, "/updates"):
		return "dkms autoinstall -k " + release
	case strings.Contains(dir, "/weak-updates"):
		return "weak-modules --add-kernel " + release
	case strings.Contains(dir, "/kernel/nvidia-"):
		return "apt-get install linux-modules-" + path.Base(dir) + "-" + release
	case strings.Contains(dir, "/extra"):
		return "dkms autoinstall -k " + release + " (of akmods: akmods --force --kernels " + release + "; of a package: install that for this kernel)"
	default:
		return "the command that installs it for " + release
	}
}
