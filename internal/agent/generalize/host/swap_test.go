package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

func opened(t *testing.T, dir string) *tree.Tree {
	t.Helper()
	o, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// TestSwapPartitionsAreWiped uses files instead of devices.
func TestSwapPartitionsAreWiped(t *testing.T) {
	root := t.TempDir()
	device := func(name, signature string, page int) string {
		t.Helper()
		content := bytes.Repeat([]byte("a page of memory"), (3<<20)/16)
		if signature != "" {
			copy(content[page-len(signature):], signature)
		}
		path := filepath.Join(root, "dev", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	swap := device("sda3", swapSignature, 4096)
	old := device("cciss/c0d0p2", swapSignatureOld, 4096)
	large := device("nvme0n1p2", swapSignature, 65536)
	others := []string{device("sda1", "", 0), device("zram0", swapSignature, 4096), device("loop0", swapSignature, 4096)}
	if err := os.WriteFile(filepath.Join(root, "dev/sdb"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := "major minor  #blocks  name\n\n   8 0 1 sda\n   8 1 1 sda1\n   8 3 1 sda3\n   8 16 1 sdb\n 252 0 1 zram0\n   7 0 1 loop0\n 104 2 1 cciss!c0d0p2\n 259 2 1 nvme0n1p2\n"
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/partitions"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := (&Host{Log: &log}).wipeSwap(t.Context(), opened(t, root)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{swap, old, large} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := os.Getpagesize()
		if !bytes.Equal(content[page:], make([]byte, 3<<20-page)) {
			t.Errorf("%s still holds what was in memory", path)
		}
		if !bytes.HasPrefix(content, []byte("a page of memory")) {
			t.Errorf("the header of %s is gone", path)
		}
	}
	for _, path := range others {
		if content, err := os.ReadFile(path); err != nil || bytes.Count(content, []byte("a page of memory")) < 1000 {
			t.Errorf("%s was wiped (%v)", path, err)
		}
	}
	if n := strings.Count(log.String(), "wiped the swap partition"); n != 3 {
		t.Errorf("the log has %d:\n%s", n, log.String())
	}
}

func TestNoListOfPartitions(t *testing.T) {
	if err := (&Host{}).wipeSwap(t.Context(), opened(t, t.TempDir())); err != nil {
		t.Error(err)
	}
}
