package rpmdb

import (
	"strings"
	"testing"
)

// FuzzRPM tests the readers of databases and headers.
func FuzzRPM(f *testing.F) {
	f.Add([]byte(sqliteMagic+"\x10\x00\x02\x02\x00\x40\x20\x20"+strings.Repeat("\x00", 76)+"\x0d\x00\x00\x00\x01\x0f\x00"), []byte("\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x04\x5d\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01a\x00b\x00"))
	f.Fuzz(func(t *testing.T, database, header []byte) {
		total := 0
		s := &sqlite{file: strings.NewReader(string(database))}
		_ = s.table("Packages", func(row []column) {
			for _, c := range row {
				total += len(c.bytes)
			}
		})
		h := headerOf(header)
		if h == nil {
			return
		}
		size := 0
		for _, tag := range []uint32{1000, 1029, 1035, 1082, 1116, 1117} {
			for _, text := range h.Texts(tag) {
				size += len(text) + 1
			}
			if len(h.Text(tag)) > len(header) || len(h.Value(tag)) > len(header) {
				t.Errorf("tag %d is longer than the header", tag)
			}
			_, _ = h.Number(tag)
		}
		if size > 6*len(header) {
			t.Errorf("%d bytes of text in %d", size, len(header))
		}
	})
}
