package apt

import (
	"regexp"
	"slices"

	"github.com/kamino-dev/kamino/internal/patch"
)

// kernelPackage is a package of one kernel's ABI. Metapackages, such as linux-image-amd64, have no version in the name.
var kernelPackage = regexp.MustCompile(`^linux-(?:[a-z]+-)*(?:image|image-unsigned|modules|modules-extra|headers|tools|cloud-tools|kbuild)-(?:[a-z]+-)*[0-9]`)

// corePackages are used by every process, so that only a reboot puts a new version into use everywhere.
// Source: dnf-plugins-core, needs_restarting.py, NEED_REBOOT, with Debian's names.
var corePackages = []string{
	"libc6", "systemd", "dbus", "dbus-daemon", "libssl3", "libssl3t64", "libssl1.1", "linux-firmware", "firmware-linux",
	"intel-microcode", "amd64-microcode", "zlib1g",
}

// RebootFacts are the observations for the need of a reboot.
type RebootFacts struct {
	// Required: /run/reboot-required exists; Packages has the lines of /run/reboot-required.pkgs.
	Required bool
	Packages []string
	// Kernels are the names vmlinuz-RELEASE in /boot, and Running is the running release.
	Kernels []string
	Running string
	// Installed is what was installed since the boot, as far as known.
	Installed []patch.Change
}

// Reboot judges the need of a reboot. A kernel without a file in /boot is unknown to this disk, as in a container, and is
// no witness.
func Reboot(f RebootFacts) patch.RebootNeed {
	need := patch.RebootNeed{Need: patch.NotNeeded}
	add := func(w patch.Witness, packages ...string) {
		need.Need, need.Witnesses, need.Packages = patch.Needed, append(need.Witnesses, w), append(need.Packages, packages...)
	}
	if f.Required {
		add(patch.RebootRequiredFile, f.Packages...)
	}
	if newest := patch.NewestKernel(f.Kernels); newest != "" && newest != f.Running && slices.Contains(f.Kernels, "vmlinuz-"+f.Running) {
		add(patch.NewerKernel, kernelImage+newest)
	}
	var core []string
	for _, c := range f.Installed {
		if slices.Contains(corePackages, plain(c.Name)) && c.From != "" {
			core = append(core, plain(c.Name))
		}
	}
	if len(core) > 0 {
		add(patch.CorePackage, core...)
	}
	slices.Sort(need.Packages)
	need.Packages = slices.Compact(need.Packages)
	return need
}
