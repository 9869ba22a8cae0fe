package store

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const testPage = 4 << 10

// meta makes the first two pages of a database valid and keeps the references.
func meta(content []byte) {
	for _, at := range []int{0, testPage} {
		if at+pageHeader+metaLength > len(content) {
			return
		}
		m := content[at+pageHeader:]
		binary.LittleEndian.PutUint32(m, boltMagic)
		binary.LittleEndian.PutUint32(m[4:], boltVersion)
		binary.LittleEndian.PutUint32(m[8:], testPage)
		sum := fnv.New64a()
		sum.Write(m[:metaLength-8])
		binary.LittleEndian.PutUint64(m[56:], sum.Sum64())
	}
}

// TestOverlappingElements: overlapping buckets give each element many paths. The number of visits must stay
// limited.
func TestOverlappingElements(t *testing.T) {
	page := func(below []byte) []byte {
		p := make([]byte, pageHeader+2*element)
		binary.LittleEndian.PutUint16(p[8:], flagLeaf)
		if below == nil {
			return p
		}
		binary.LittleEndian.PutUint16(p[10:], 2)
		for i := range 2 {
			e := p[pageHeader+i*element:]
			binary.LittleEndian.PutUint32(e, flagBucket)
			binary.LittleEndian.PutUint32(e[4:], uint32((2-i)*element))
			binary.LittleEndian.PutUint32(e[12:], uint32(bucketHeader+len(below)))
		}
		return append(append(p, make([]byte, bucketHeader)...), below...)
	}
	var root []byte
	for range 60 {
		root = page(root)
	}
	content := make([]byte, 4*testPage)
	copy(content[2*testPage:], root)
	binary.LittleEndian.PutUint64(content[2*testPage:], 2)
	binary.LittleEndian.PutUint32(content[2*testPage+12:], 1)
	binary.LittleEndian.PutUint64(content[pageHeader+16:], 2)
	meta(content)
	dir := t.TempDir()
	writeFile(t, dir, "db", content)
	visits := 0
	_, err := readPages(open(t, dir), "db", func([]string, []byte) error { visits++; return nil })
	if !errors.Is(err, errDamaged) || visits > len(content)/element || visits < 60 {
		t.Errorf("%d visits, %v", visits, err)
	}
}

// FuzzPages tests the reader of databases with valid checksums, so that the reader continues after the first page.
func FuzzPages(f *testing.F) {
	dir := f.TempDir()
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, &bolt.Options{PageSize: testPage})
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket([]byte("v1"))
			if err == nil {
				_, err = b.CreateBucket([]byte("k8s.io"))
			}
			return errors.Join(err, b.Put([]byte("version"), []byte("3")), b.Put([]byte("large"), make([]byte, 2*testPage)))
		})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(dir, "db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	tr, err := tree.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		meta(content)
		writeFile(t, dir, "db", content)
		visits := 0
		_, _ = readPages(tr, "db", func(at []string, value []byte) error {
			if visits++; len(at) == 0 || len(value) > len(content) {
				t.Errorf("%q has %d bytes", at, len(value))
			}
			return nil
		})
		if visits > len(content)/element {
			t.Errorf("%d elements in %d bytes", visits, len(content))
		}
	})
}
