package print

import (
	"bytes"
	"fmt"
	"io"
)

// poolWriter inserts the pool's name after the time of each line.
type poolWriter struct {
	out  io.Writer
	pool string
}

// NewPoolWriter returns a writer for Lines that inserts the pool's name after the time of each line.
func NewPoolWriter(out io.Writer, pool string) io.Writer { return poolWriter{out, pool} }

// Write implements io.Writer.
func (w poolWriter) Write(text []byte) (int, error) {
	at, rest, found := bytes.Cut(text, []byte("  "))
	if !found {
		return w.out.Write(text)
	}
	if _, err := fmt.Fprintf(w.out, "%s  %s: %s", at, w.pool, rest); err != nil {
		return 0, err
	}
	return len(text), nil
}
