package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/rules"
)

// wtmp has records of a type and a user.
func wtmp(records ...string) []byte {
	kinds := map[string]uint16{"reboot": bootTime, "shutdown": runLevel, "runlevel": runLevel, "core": 7}
	var b []byte
	for _, user := range records {
		record := make([]byte, wtmpRecord)
		binary.NativeEndian.PutUint16(record, kinds[user])
		copy(record[wtmpUser:], user)
		b = append(b, record...)
	}
	return b
}

// TestUncleanStops: after a stop without a shutdown, files of the right size can be empty inside, and all are compared.
func TestUncleanStops(t *testing.T) {
	const journal = "var/log/journal/0123/"
	zeros := func(dir, name string) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		clear(content)
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	stops := map[string]struct {
		file    string
		content []byte
		unclean bool
	}{
		"no logs":                     {"var/log/x", nil, false},
		"a journal that was closed":   {journal + "system@0-1.journal", nil, false},
		"a journal that was not":      {journal + "system@0-1.journal~", nil, true},
		"a shutdown between boots":    {"var/log/wtmp", wtmp("reboot", "runlevel", "core", "shutdown", "reboot", "runlevel"), false},
		"no shutdown between boots":   {"var/log/wtmp", wtmp("shutdown", "reboot", "runlevel", "core", "reboot"), true},
		"a log of one boot, and more": {"var/log/wtmp", append(wtmp("reboot", "core"), 1, 2, 3), false},
	}
	dir := containerd(t, zipped)
	blobs, err := filepath.Glob(filepath.Join(dir, contents, "blobs/sha256/*"))
	must(t, err)
	blob, err := filepath.Rel(dir, blobs[0])
	must(t, err)
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			for what, file := range map[string]string{"whole": "", "a layer": overlay + "/snapshots/1/fs/usr/bin/tool", "a blob": blob} {
				copied := t.TempDir()
				must(t, os.CopyFS(copied, os.DirFS(dir)))
				writeFile(t, copied, stop.file, stop.content)
				if file != "" {
					zeros(copied, file)
				}
				why, err := stores(t, copied)[rules.Containerd].Broken()
				must(t, err)
				if want := stop.unclean && file != ""; (why != "") != want || want && !strings.Contains(why, "since a stop without a shutdown, /"+file) {
					t.Errorf("%s: got %q, refused: %t", what, why, want)
				}
			}
		})
	}
	t.Run("another snapshotter", func(t *testing.T) {
		writeFile(t, dir, journal+"system@0-1.journal~", nil)
		db, err := bolt.Open(filepath.Join(dir, metaDB), 0o600, nil)
		must(t, err)
		must(t, db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("v1"))
			for _, name := range []string{"k8s.io", "snapshots", "erofs", "sha256:aa"} {
				if b, err = b.CreateBucketIfNotExists([]byte(name)); err != nil {
					return err
				}
			}
			return b.Put([]byte("name"), []byte("k8s.io/1/sha256:aa"))
		}))
		must(t, db.Close())
		if why, err := stores(t, dir)[rules.Containerd].Broken(); err != nil || !strings.Contains(why, "layers of the snapshotter erofs, which Kamino cannot compare") {
			t.Errorf("got %q, %v", why, err)
		}
		must(t, os.Remove(filepath.Join(dir, journal, "system@0-1.journal~")))
		if why, err := stores(t, dir)[rules.Containerd].Broken(); err != nil || why != "" {
			t.Errorf("after clean stops: %q, %v", why, err)
		}
	})
	t.Run("Docker", func(t *testing.T) {
		dir := t.TempDir()
		const file, docker = "usr/bin/tool", "var/lib/docker/"
		sum := crc64.New(crc64.MakeTable(crc64.ISO))
		_, _ = sum.Write([]byte(layerFiles[file]))
		line, err := json.Marshal(map[string]any{"type": 1, "name": file, "size": len(layerFiles[file]), "payload": sum.Sum(nil)})
		must(t, err)
		writeFile(t, dir, docker+"overlay2/aa/diff/"+file, []byte(layerFiles[file]))
		writeFile(t, dir, docker+"image/overlay2/layerdb/sha256/11/cache-id", []byte("aa"))
		writeFile(t, dir, docker+"image/overlay2/layerdb/sha256/11/tar-split.json.gz", zipped(t, append(bytes.Clone(line), '\n')))
		writeFile(t, dir, journal+"system@0-1.journal~", nil)
		s := At(open(t, dir), rules.Docker, docker+"image/overlay2/layerdb", nil)
		if why, err := s.Broken(); err != nil || why != "" {
			t.Errorf("whole: %q, %v", why, err)
		}
		zeros(dir, docker+"overlay2/aa/diff/"+file)
		if why, err := s.Broken(); err != nil || !strings.Contains(why, "another content than after the pull") {
			t.Errorf("zeros: %q, %v", why, err)
		}
	})
}
