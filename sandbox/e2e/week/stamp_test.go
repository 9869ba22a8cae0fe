package week

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"testing"
	"time"
)

// stamps are set by the API server's clock. Quotes within a text are escaped, so an object in an annotation does
// not match.
var stamps = regexp.MustCompile(`"(creationTimestamp|deletionTimestamp)":\s*"([^"\\]+)"`)

// translate shows the stamps of a JSON document by another clock.
func translate(document []byte, at func(time.Time) time.Time) []byte {
	return stamps.ReplaceAllFunc(document, func(found []byte) []byte {
		parts := stamps.FindSubmatch(found)
		stamp, err := time.Parse(time.RFC3339, string(parts[2]))
		if err != nil {
			return found
		}
		return []byte(`"` + string(parts[1]) + `":"` + at(stamp).Format(time.RFC3339) + `"`)
	})
}

// withoutStamps sets stamps of a JSON document to null.
func withoutStamps(document []byte) []byte { return stamps.ReplaceAll(document, []byte(`"$1":null`)) }

// translateLines translates a stream of documents, one document per line.
func translateLines(from io.ReadCloser, at func(time.Time) time.Time) io.ReadCloser {
	return &lines{ReadCloser: from, reader: bufio.NewReaderSize(from, 64<<10), at: at}
}

type lines struct {
	io.ReadCloser
	reader *bufio.Reader
	at     func(time.Time) time.Time
	rest   []byte
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.reader.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		l.rest = translate(line, l.at)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func TestStampsAreTranslated(t *testing.T) {
	later := func(stamp time.Time) time.Time { return stamp.Add(26 * time.Hour) }
	const (
		before = `{"metadata":{"creationTimestamp":"2026-03-09T10:00:00Z","deletionTimestamp": "2026-03-09T11:00:00Z","annotations":{"a":"{\"creationTimestamp\":\"2026-03-09T10:00:00Z\"}"}},"spec":{"template":{"metadata":{"creationTimestamp":null}}},"status":{"startTime":"2026-03-09T10:00:00Z"}}` + "\n"
		after  = `{"metadata":{"creationTimestamp":"2026-03-10T12:00:00Z","deletionTimestamp":"2026-03-10T13:00:00Z","annotations":{"a":"{\"creationTimestamp\":\"2026-03-09T10:00:00Z\"}"}},"spec":{"template":{"metadata":{"creationTimestamp":null}}},"status":{"startTime":"2026-03-09T10:00:00Z"}}` + "\n"
		bare   = `{"metadata":{"creationTimestamp":null,"deletionTimestamp":null,"annotations":{"a":"{\"creationTimestamp\":\"2026-03-09T10:00:00Z\"}"}},"spec":{"template":{"metadata":{"creationTimestamp":null}}},"status":{"startTime":"2026-03-09T10:00:00Z"}}` + "\n"
	)
	if got := string(translate([]byte(before), later)); got != after {
		t.Errorf("a document: %s", got)
	}
	if got := string(withoutStamps([]byte(before))); got != bare {
		t.Errorf("a document that is written: %s", got)
	}
	stream, err := io.ReadAll(translateLines(io.NopCloser(bytes.NewReader([]byte(before+before))), later))
	if err != nil || string(stream) != after+after {
		t.Errorf("a stream: %v, %s", err, stream)
	}
}
