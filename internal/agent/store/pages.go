package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// pages reads a bbolt database page by page, without the library: it verifies the library's writes, sees free pages,
// and tolerates damaged files. Source: go.etcd.io/bbolt, the layout of pages, version 2 of the format.
type pages struct {
	file      *os.File
	page, all int64
	root      uint64
	used      map[uint64]bool
	// left is the number of elements that may still be visited. Each element occupies space in the file, unless
	// elements overlap.
	left int64
}

const (
	pageHeader  = 16
	element     = 16
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	metaLength  = 64

	flagBranch, flagLeaf, flagFreelist = 1, 2, 16
	flagBucket                         = 1
	// bucketHeader begins a bucket's value: the page of its root, and a sequence.
	bucketHeader = 16
	// maxNesting is more than the nesting of buckets and pages in any runtime's database.
	maxNesting = 64
	// maxPage is more than the size of any page with overflow: one value of a runtime's record.
	maxPage = 256 << 20
)

var errDamaged = errors.New("the database is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// readPages visits all keys of a database. visit receives the names of buckets and key with the value, nil for a
// bucket. visit may be nil.
func readPages(t *tree.Tree, p string, visit func(at []string, value []byte) error) (stale int, err error) {
	if info, err := t.Lstat(p); err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(errors.New("not a regular file"), err)
	}
	f, err := t.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	d := pages{file: f, all: info.Size(), used: map[uint64]bool{}, left: info.Size() / element}
	if err := d.meta(); err != nil {
		return 0, err
	}
	if visit == nil {
		visit = func([]string, []byte) error { return nil }
	}
	if err := d.walk(d.root, nil, 0, visit); err != nil {
		return 0, err
	}
	return d.stale()
}

// meta finds the newer of the two meta pages.
func (d *pages) meta() error {
	if d.all == 0 {
		return errors.New("the database is empty, so the content was lost")
	}
	var newest uint64
	found := false
	for size := int64(1 << 10); size <= 1<<16; size <<= 1 {
		for _, at := range []int64{0, size} {
			b := make([]byte, pageHeader+metaLength)
			if _, err := d.file.ReadAt(b, at); err != nil {
				continue
			}
			m := b[pageHeader:]
			sum := fnv.New64a()
			sum.Write(m[:metaLength-8])
			if binary.LittleEndian.Uint32(m) != boltMagic || binary.LittleEndian.Uint32(m[4:]) != boltVersion ||
				int64(binary.LittleEndian.Uint32(m[8:])) != size || binary.LittleEndian.Uint64(m[56:]) != sum.Sum64() {
				continue
			}
			if transaction := binary.LittleEndian.Uint64(m[48:]); !found || transaction > newest {
				found, newest, d.page = true, transaction, size
				d.root = binary.LittleEndian.Uint64(m[16:])
				d.used = map[uint64]bool{0: true, 1: true}
				d.freelist(binary.LittleEndian.Uint64(m[32:]))
			}
		}
	}
	if !found {
		return damaged("the first two pages are not pages of a database")
	}
	return nil
}

// freelist marks the pages of the free list as used. A database may have no free list.
func (d *pages) freelist(id uint64) {
	if page, err := d.readPage(id); err == nil && binary.LittleEndian.Uint16(page[8:]) == flagFreelist {
		return
	}
	delete(d.used, id)
}

// readPage returns a page with its overflow, and marks the pages as used.
func (d *pages) readPage(id uint64) ([]byte, error) {
	count := uint64(d.all / d.page)
	header := make([]byte, pageHeader)
	if id < 2 || id >= count {
		return nil, damaged("page %d is not there", id)
	}
	if _, err := d.file.ReadAt(header, int64(id)*d.page); err != nil {
		return nil, err
	}
	more := uint64(binary.LittleEndian.Uint32(header[12:]))
	if binary.LittleEndian.Uint64(header) != id || id+more >= count || more > maxPage/uint64(d.page) {
		return nil, damaged("page %d is damaged", id)
	}
	for i := id; i <= id+more; i++ {
		if d.used[i] {
			return nil, damaged("page %d is used twice", i)
		}
		d.used[i] = true
	}
	page := make([]byte, int64(more+1)*d.page)
	_, err := d.file.ReadAt(page, int64(id)*d.page)
	return page, err
}

func (d *pages) walk(id uint64, at []string, depth int, visit func([]string, []byte) error) error {
	page, err := d.readPage(id)
	if err != nil {
		return err
	}
	return d.elements(page, at, depth, visit)
}

// elements visits a page, or a small bucket inside a value.
func (d *pages) elements(page []byte, at []string, depth int, visit func([]string, []byte) error) error {
	if depth > maxNesting {
		return damaged("the pages are nested too deep")
	}
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != flagBranch && flags != flagLeaf || pageHeader+count*element > len(page) {
		return damaged("a page is damaged")
	}
	if d.left -= int64(count); d.left < 0 {
		return damaged("the elements overlap")
	}
	for i := range count {
		from := pageHeader + i*element
		e := page[from:]
		if flags == flagBranch {
			if err := d.walk(binary.LittleEndian.Uint64(e[8:]), at, depth+1, visit); err != nil {
				return err
			}
			continue
		}
		begin := uint64(from) + uint64(binary.LittleEndian.Uint32(e[4:]))
		middle := begin + uint64(binary.LittleEndian.Uint32(e[8:]))
		end := middle + uint64(binary.LittleEndian.Uint32(e[12:]))
		if end > uint64(len(page)) {
			return damaged("a key points outside the page")
		}
		key, value := append(at[:len(at):len(at)], string(page[begin:middle])), page[middle:end:end]
		if binary.LittleEndian.Uint32(e)&flagBucket == 0 {
			if err := visit(key, value); err != nil {
				return err
			}
			continue
		}
		if err := d.bucket(value, key, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

func (d *pages) bucket(value []byte, at []string, depth int, visit func([]string, []byte) error) error {
	if len(value) < bucketHeader {
		return damaged("a bucket has no root")
	}
	if err := visit(at, nil); err != nil {
		return err
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return d.walk(root, at, depth, visit)
	}
	if len(value) < bucketHeader+pageHeader {
		return damaged("a small bucket has no page")
	}
	return d.elements(value[bucketHeader:], at, depth, visit)
}

// stale counts free pages that are not blank: removed data may still be readable there.
func (d *pages) stale() (count int, err error) {
	page := make([]byte, d.page)
	for at := int64(0); at < d.all; at += d.page {
		if d.used[uint64(at/d.page)] {
			continue
		}
		n, err := d.file.ReadAt(page, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return count, err
		}
		// The header of a page that was never filled only names its purpose.
		for i := pageHeader; i < n; i++ {
			if page[i] != 0 {
				count++
				break
			}
		}
	}
	return count, nil
}
