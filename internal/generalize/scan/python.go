package scan

import (
	"crypto"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// installed reads the checksums of Python packages in a directory. pip and other installers leave them, so that they can
// tell changed files from their own. Files outside of the directory are not taken over. Source: PyPA, Recording installed
// projects.
func (w *treeWalk) installed(name string, dir *os.Root, entries []fs.DirEntry) error {
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), ".dist-info") {
			continue
		}
		f, err := dir.Open(path.Join(entry.Name(), "RECORD"))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !isRegular(f) {
			continue
		}
		if err != nil {
			return err
		}
		w.packages.record(name, f)
		f.Close()
	}
	return nil
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	regular := err == nil && info.Mode().IsRegular()
	if !regular {
		f.Close()
	}
	return regular
}

// record adds the checksums of a RECORD file: lines with a path, the hash and the size. A line in another form ends the list.
func (p *packages) record(dir string, content io.Reader) {
	lines := csv.NewReader(content)
	lines.ReuseRecord, lines.FieldsPerRecord = true, -1
	for {
		fields, err := lines.Read()
		if err != nil {
			return
		}
		if len(fields) < 2 {
			continue
		}
		text, isSHA256 := strings.CutPrefix(fields[1], "sha256=")
		file := path.Join(dir, fields[0])
		sum, err := base64.RawURLEncoding.DecodeString(text)
		if isSHA256 && err == nil && strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/") && !p.has(file) {
			p.addSum(file, hex.EncodeToString(sum), crypto.SHA256)
		}
	}
}
