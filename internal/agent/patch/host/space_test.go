package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// TestSpaceForModules: a new kernel needs space for what DKMS builds for it, and a refusal names the kernels that no boot needs.
func TestSpaceForModules(t *testing.T) {
	kib := strings.Repeat("x", 1<<10)
	n := directory(t, map[string]string{
		"usr/src/nvidia-550/a.c": kib, "usr/src/nvidia-550/b/c.c": kib, "usr/src/nvidia-535/a.c": kib,
		"var/lib/dkms/nvidia/550/6.1.0-40/x86_64/module/nvidia.ko": kib + kib, "var/lib/dkms/nvidia/550/6.1.0-40/x86_64/module/uvm.ko.xz": kib,
		"var/lib/dkms/nvidia/550/6.1.0-38/x86_64/module/nvidia.ko": kib, "var/lib/dkms/nvidia/535/6.1.0-38/x86_64/module/nvidia.ko": kib,
		"var/lib/dkms/nvidia/550/6.1.0-40/x86_64/log/make.log": kib, "var/lib/dkms/zfs/2.3/build/a.o": kib,
		"var/lib/dkms/gone/1/6.1.0-40/x86_64/module/gone.ko": kib,
		"boot/vmlinuz-6.1.0-40":                              "k", "boot/vmlinuz-6.1.0-38": "k", "boot/vmlinuz-6.1.0-9": "k", "boot/vmlinuz-0-rescue-aa": "k", "boot/initrd.img-6.1.0-9": "i",
		kernelPath: "6.1.0-38\n",
	})
	for _, version := range []string{"550", "535"} {
		if err := os.Symlink("/usr/src/nvidia-"+version, filepath.Join(n.Root, "var/lib/dkms/nvidia", version, "source")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("550/6.1.0-40/x86_64", filepath.Join(n.Root, "var/lib/dkms/nvidia/kernel-6.1.0-40-x86_64")); err != nil {
		t.Fatal(err)
	}
	var err error
	if n.tree, err = tree.Open(n.Root); err != nil {
		t.Fatal(err)
	}
	// Two files of source and three KiB of modules twice, and one KiB twice without a source.
	if got, err := dkmsBytes(n.tree); err != nil || got != (2+2*3+2)<<10 {
		t.Errorf("DKMS needs %d bytes, %v", got, err)
	}
	if failure := n.room(need{"boot", 1}, need{"nowhere", 1 << 62}); failure != nil {
		t.Errorf("there is room: %+v", failure)
	}
	failure := n.room(need{"boot", 1}, need{"usr", 1 << 62})
	if failure == nil || failure.Reason != patch.NoSpace || !strings.Contains(failure.Message, "/usr has ") || !strings.HasSuffix(failure.Message, "no boot needs: 6.1.0-9") {
		t.Errorf("without room: %+v", failure)
	}
}
