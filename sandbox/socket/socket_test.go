package socket_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/socket"
)

// TestDir listens in directories of every length near the limit of a socket's path.
func TestDir(t *testing.T) {
	root, err := os.MkdirTemp("/tmp", "s") //nolint:usetesting // lengths are tested, from a short path on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	moved := 0
	for length := len(root) + 2; length < 140; length++ {
		parent := root + "/" + strings.Repeat("d", length-len(root)-1)
		if err := os.Mkdir(parent, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", parent)
		dir, err := socket.Dir("kamino-sandbox-")
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(dir) != parent {
			moved++
		} else if moved > 0 {
			t.Errorf("a directory of %d bytes is used, a shorter one was not", length)
		}
		listener, err := net.Listen("unix", filepath.Join(dir, strings.Repeat("n", 15)))
		if err != nil {
			t.Errorf("with temporary files in a directory of %d bytes: %v", length, err)
		} else {
			_ = listener.Close()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
	if moved == 0 || moved > 80 {
		t.Errorf("%d of the directories were too long", moved)
	}
}
