package scan

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
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

// collection adds the checksums of an Ansible collection, in whose directory Galaxy and the package of Ansible leave them. Source:
// Ansible, Collection Galaxy metadata structure, FILES.json.
func (w *treeWalk) collection(name string, dir *os.Root, entries []fs.DirEntry) error {
	has := func(file string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == file && e.Type().IsRegular() })
	}
	if !has("MANIFEST.json") || !has("FILES.json") {
		return nil
	}
	f, err := dir.Open("FILES.json")
	if err != nil {
		return err
	}
	defer f.Close()
	var list struct {
		Files []struct {
			Name string
			Sum  string `json:"chksum_sha256"`
		}
	}
	if json.NewDecoder(io.LimitReader(f, maxCollection)).Decode(&list) != nil {
		return nil // without the list, the files are of unknown origin
	}
	for _, file := range list.Files {
		if at := path.Join(name, file.Name); len(file.Sum) == 2*sha256.Size && strings.HasPrefix(at, strings.TrimSuffix(name, "/")+"/") && !w.packages.has(at) {
			w.packages.addSum(at, file.Sum, crypto.SHA256)
		}
	}
	return nil
}

// maxCollection limits the list of files of a collection; the largest lists have 1 MiB.
const maxCollection = 32 << 20

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
