package rpmdb

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// sqlite reads the rows of one table of a SQLite database. Unlike the library it writes no file. Content that is only
// in a write-ahead log is not read. Source: SQLite, Database File Format.
type sqlite struct {
	file io.ReaderAt
	// page is the size of a page in bytes, and usable the used part of it.
	page, usable int64
	seen         map[int64]bool
}

const (
	sqliteMagic = "SQLite format 3\x00"
	// Kinds of a table's pages.
	sqliteInner, sqliteLeaf = 0x05, 0x0d
	// maxRow is the size of the largest row that is read, in bytes: a package with a hundred thousand files.
	maxRow = 64 << 20
)

// ErrDamaged is returned for a database that is damaged or of another format.
var ErrDamaged = errors.New("the database is damaged")

// column is a value of a row: a number, a text or a blob.
type column struct {
	number int64
	bytes  []byte
}

// table calls visit for each row of a table; a missing table has no rows.
func (s *sqlite) table(name string, visit func(row []column)) error {
	head := bytesAt(s.file, 0, 100)
	if head == nil || string(head[:16]) != sqliteMagic {
		return ErrDamaged
	}
	if s.page = int64(binary.BigEndian.Uint16(head[16:])); s.page == 1 {
		s.page = 1 << 16
	}
	if s.usable = s.page - int64(head[20]); s.page < 512 || s.page&(s.page-1) != 0 || s.usable < 480 {
		return ErrDamaged
	}
	root := int64(0)
	s.seen = map[int64]bool{}
	err := s.walk(1, func(row []column) {
		if len(row) >= 4 && string(row[0].bytes) == "table" && string(row[1].bytes) == name {
			root = row[3].number
		}
	})
	if err != nil || root == 0 {
		return err
	}
	return s.walk(root, visit)
}

// readPage returns a page. A second read of a page is an error, so that cycles end.
func (s *sqlite) readPage(number int64) ([]byte, error) {
	if number < 1 || number > math.MaxUint32 || s.seen[number] {
		return nil, ErrDamaged
	}
	s.seen[number] = true
	page := bytesAt(s.file, (number-1)*s.page, int(s.page))
	if page == nil {
		return nil, ErrDamaged
	}
	return page, nil
}

// walk visits the rows in a tree of pages.
func (s *sqlite) walk(number int64, visit func(row []column)) error {
	pending := []int64{number}
	for len(pending) > 0 {
		number, pending = pending[len(pending)-1], pending[:len(pending)-1]
		page, err := s.readPage(number)
		if err != nil {
			return err
		}
		head := page
		if number == 1 {
			head = page[100:]
		}
		kind, count, cells := head[0], int(binary.BigEndian.Uint16(head[3:])), head[8:]
		if kind == sqliteInner {
			pending, cells = append(pending, int64(binary.BigEndian.Uint32(head[8:]))), head[12:]
		}
		if kind != sqliteInner && kind != sqliteLeaf || 2*count > len(cells) {
			return ErrDamaged
		}
		for i := range count {
			at := int64(binary.BigEndian.Uint16(cells[2*i:]))
			if at+4 > s.usable {
				return ErrDamaged
			}
			if kind == sqliteInner {
				pending = append(pending, int64(binary.BigEndian.Uint32(page[at:])))
				continue
			}
			payload, err := s.payload(page[at:s.usable])
			if err != nil {
				return err
			}
			row, err := columns(payload)
			if err != nil {
				return err
			}
			visit(row)
		}
	}
	return nil
}

// payload returns the content of a cell, including its overflow pages.
func (s *sqlite) payload(cell []byte) ([]byte, error) {
	length, n := sqliteNumber(cell)
	_, m := sqliteNumber(cell[n:])
	cell = cell[n+m:]
	if n == 0 || m == 0 || length < 0 || length > maxRow {
		return nil, ErrDamaged
	}
	local, most := length, s.usable-35
	if length > most {
		least := (s.usable-12)*32/255 - 23
		if local = least + (length-least)%(s.usable-4); local > most {
			local = least
		}
	}
	if local > int64(len(cell)) {
		return nil, ErrDamaged
	}
	payload := append([]byte(nil), cell[:local]...)
	next := int64(0)
	for cell = cell[local:]; int64(len(payload)) < length; cell = nil {
		if cell != nil {
			if len(cell) < 4 {
				return nil, ErrDamaged
			}
			next = int64(binary.BigEndian.Uint32(cell))
		}
		page, err := s.readPage(next)
		if err != nil {
			return nil, err
		}
		next = int64(binary.BigEndian.Uint32(page))
		payload = append(payload, page[4:4+min(s.usable-4, length-int64(len(payload)))]...)
	}
	return payload, nil
}

// columns returns the values of a row.
func columns(row []byte) ([]column, error) {
	size, n := sqliteNumber(row)
	if n == 0 || size < int64(n) || size > int64(len(row)) {
		return nil, ErrDamaged
	}
	head, body := row[n:size], row[size:]
	var all []column
	for len(head) > 0 {
		kind, n := sqliteNumber(head)
		if n == 0 || kind < 0 {
			return nil, ErrDamaged
		}
		head = head[n:]
		width := int64(0)
		switch {
		case kind >= 12:
			width = (kind - 12) / 2
		case kind <= 7:
			width = [...]int64{0, 1, 2, 3, 4, 6, 8, 8}[kind]
		}
		if width > int64(len(body)) {
			return nil, ErrDamaged
		}
		value := column{bytes: body[:width]}
		if kind < 7 {
			for _, b := range value.bytes {
				value.number = value.number<<8 | int64(b)
			}
		}
		if kind == 9 {
			value.number = 1
		}
		all, body = append(all, value), body[width:]
	}
	return all, nil
}

// sqliteNumber decodes a number of one to nine bytes, and returns its length; 0 if cut short.
func sqliteNumber(b []byte) (value int64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		n++
		if n == 9 {
			return value<<8 | int64(c), n
		}
		value = value<<7 | int64(c&0x7f)
		if c < 0x80 {
			return value, n
		}
	}
	return 0, 0
}

// bytesAt returns so many bytes at an offset; nil if there are fewer.
func bytesAt(r io.ReaderAt, offset int64, n int) []byte {
	b := make([]byte, n)
	if _, err := r.ReadAt(b, offset); err != nil {
		return nil
	}
	return b
}
