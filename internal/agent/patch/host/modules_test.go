package host

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// TestModulesOfTheNextKernel: a patch fails if the next kernel lacks a loaded module from outside the kernel, and names the module and the command.
func TestModulesOfTheNextKernel(t *testing.T) {
	const (
		old, next = "lib/modules/6.1.0-38/", "lib/modules/6.1.0-40/"
		ext4      = "ext4 1048576 1 - Live 0x0000000000000000\n"
		nvidia    = "nvidia_drm 81920 0 - Live 0x0000000000000000 (POE)\n"
	)
	for name, c := range map[string]struct {
		loaded string
		files  map[string]string
		want   string
	}{
		"lost": {
			ext4 + nvidia, map[string]string{old + "updates/dkms/nvidia-drm.ko.xz": "m"},
			"kernel 6.1.0-40, which the next boot starts, lacks the loaded module nvidia_drm of kernel 6.1.0-38, " +
				"so the reboot would lose its driver. Run dkms autoinstall -k 6.1.0-40",
		},
		"built":                      {ext4 + nvidia, map[string]string{old + "updates/dkms/nvidia-drm.ko": "m", next + "updates/dkms/nvidia-drm.ko": "m"}, ""},
		"part of the next kernel":    {nvidia, map[string]string{old + "extra/nvidia-drm.ko": "m", next + "modules.builtin": "kernel/nvidia-drm.ko\n"}, ""},
		"loaded by a container":      {ext4 + nvidia, nil, ""},
		"of the kernel":              {ext4, map[string]string{old + "kernel/fs/ext4/ext4.ko": "m"}, ""},
		"not loaded":                 {ext4, map[string]string{old + "updates/dkms/nvidia-drm.ko": "m"}, ""},
		"by hand":                    {nvidia, map[string]string{old + "extra/nvidia-drm.ko": "m"}, "akmods --force --kernels 6.1.0-40"},
		"no new kernel":              {nvidia, map[string]string{old + "extra/nvidia-drm.ko": "m", "proc/sys/kernel/osrelease": "6.1.0-40\n"}, ""},
		"a forced module, no source": {"odd 1 0 - Live 0x0 (F)\n", map[string]string{old + "extra/odd.ko": "m"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				loadedPath: c.loaded, kernelPath: "6.1.0-38\n",
				"boot/vmlinuz-6.1.0-38": "k", "boot/vmlinuz-6.1.0-40": "k", next + "kernel/fs/ext4/ext4.ko": "m",
			}
			for path, content := range c.files {
				files[path] = content
			}
			n := directory(t, files)
			var err error
			if n.tree, err = tree.Open(n.Root); err != nil {
				t.Fatal(err)
			}
			failure := n.keepsModules()
			if (failure != nil) != (c.want != "") || failure != nil && (failure.Reason != patch.InstallFailed || !strings.Contains(failure.Message, c.want)) {
				t.Errorf("the patch ends with %+v, want %q", failure, c.want)
			}
		})
	}
}
