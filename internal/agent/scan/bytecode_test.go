package scan

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestByteCodeOfLink: if a module is a link to a different directory, its byte code counts as unknown.
func TestByteCodeOfLink(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "etc/python3/sitecustomize.py", "pass\n")
	writeFile(t, dir, "usr/lib/python3/__pycache__/sitecustomize.cpython-311.pyc", "\xa7\r\r\n and sixteen bytes")
	if err := os.Symlink("/etc/python3/sitecustomize.py", filepath.Join(dir, "usr/lib/python3/sitecustomize.py")); err != nil {
		t.Fatal(err)
	}
	if report := scanTree(t, dir, Options{}); report.Count != 0 || report.Files != 2 {
		t.Errorf("%+v", report)
	}
}

// TestByteCode: byte code of a package's module repeats the texts of the module, and is known if the module is known.
func TestByteCode(t *testing.T) {
	const module = "usr/lib/python3/dist-packages/site/config.py"
	const compiled = "usr/lib/python3/dist-packages/site/__pycache__/config.cpython-311.pyc"
	_, key, err := ed25519.GenerateKey(rand.Reader)
	der, err := x509.MarshalPKCS8PrivateKey(must(t, key, err))
	source := "# an example\n" + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(t, der, err)}))
	written := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		flags    uint32
		time     time.Time
		size     int
		packaged bool
		findings int
	}{
		"of the package's module":           {0, written, len(source), true, 0},
		"by a hash of its source":           {1, time.Time{}, 0, true, 0},
		"of an older module":                {0, written.Add(-time.Hour), len(source), true, 1},
		"of a module of another size":       {0, written, len(source) + 1, true, 1},
		"of a module that is not installed": {0, written, len(source), false, 2}, // includes the module
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, module, source)
			if err := os.Chtimes(filepath.Join(dir, module), written, written); err != nil {
				t.Fatal(err)
			}
			if test.packaged {
				packaged(t, dir, module)
			}
			head := []byte("\xa7\r\r\n")
			head = binary.LittleEndian.AppendUint32(head, test.flags)
			head = binary.LittleEndian.AppendUint32(head, uint32(max(0, test.time.Unix())))
			head = binary.LittleEndian.AppendUint32(head, uint32(test.size))
			writeFile(t, dir, compiled, string(head)+source)
			if report := scanTree(t, dir, Options{}); report.Count != test.findings {
				t.Errorf("%d findings, want %d: %+v", report.Count, test.findings, report.Findings)
			}
		})
	}
}
