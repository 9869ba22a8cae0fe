//go:build machines

package real

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// secretsOfStatic and secretsOfBootstrap list files with secrets on a node of the profile, besides the secrets of
// every machine and the secrets that its use leaves.
var (
	secretsOfMachine   = []string{"etc/ssh/ssh_host_*_key", "var/lib/waagent/TransportPrivate.pem"}
	secretsOfUse       = []string{"root/.aws/credentials", "root/.bash_history", "root/.kube/config", "var/lib/kubelet/config.json", "var/lib/tailscale/tailscaled.state"}
	secretsOfStatic    = []string{"etc/kubernetes/certs/kubeletserver.key"}
	secretsOfBootstrap = []string{"var/lib/kubelet/pki/kubelet.key", "var/lib/kubelet/pki/kubelet-client-*.pem"}
)

// secrets returns unique pieces of a donor's secrets by path: a line from the middle of each private key, and
// planted tokens and passwords.
func secrets(t *testing.T, root string, patterns ...string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	var keys []string
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("there is no %s on the donor: %v", pattern, err)
		}
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				keys = append(keys, path)
			}
		}
	}
	for _, path := range keys {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		// The third last line of a multi-line key contains nothing that all keys share.
		line := lines[max(0, len(lines)-3)]
		if len(lines) < 4 {
			line = lines[len(lines)-1]
		}
		found[strings.TrimPrefix(path, root+"/")] = []byte(line[max(0, len(line)-40):])
	}
	return found
}

// machineID returns the forms of a machine's ID on a disk: text, and bytes in journals.
func machineID(t *testing.T, id string) map[string][]byte {
	t.Helper()
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 16 {
		t.Fatalf("%q is no machine ID: %v", id, err)
	}
	return map[string][]byte{"as text": []byte(id), "as bytes": raw}
}

// holding returns the files of a tree with a needle in their content or, as text, in their name.
func holding(t *testing.T, root string, needles map[string][]byte) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		content := []byte{}
		if entry.Type().IsRegular() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		for _, needle := range needles {
			if bytes.Contains(content, needle) || strings.Contains(entry.Name(), string(needle)) {
				found = append(found, strings.TrimPrefix(path, root))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// secretsOnDisk searches used and free blocks of a raw disk, and returns the paths of the found secrets.
func secretsOnDisk(t *testing.T, image string, needles map[string][]byte) []string {
	t.Helper()
	var found []string
	eachPiece(t, image, func(piece []byte) {
		for path, needle := range needles {
			if !slices.Contains(found, path) && bytes.Contains(piece, needle) {
				found = append(found, path)
			}
		}
	})
	slices.Sort(found)
	return found
}

// eachPiece reads a raw disk without its holes, which are most of the disk. Each piece begins with the last bytes
// of the previous piece, so that short texts are not cut.
func eachPiece(t *testing.T, image string, look func(piece []byte)) {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const overlap = 64
	buffer := make([]byte, 4<<20)
	for begin := int64(0); ; {
		data, err := unix.Seek(int(f.Fd()), begin, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := f.ReadAt(buffer, data)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		look(buffer[:n])
		if n < len(buffer) {
			return
		}
		begin = data + int64(n) - overlap
	}
}
