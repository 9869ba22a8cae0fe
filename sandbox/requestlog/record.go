package requestlog

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"errors"
	"hash/maphash"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
)

// recordLimit is how many bytes a record holds before compression. A longer record is incomplete, and a check of the run fails.
// The cloud of the lights-out week needs a fraction.
const recordLimit = 1 << 30

// Wire is the part of a request that only a record keeps: what the client sent and got.
type Wire struct {
	// Agent is the client's User-Agent.
	Agent string
	// Query of the URL, In the body of the request, Out the body of the answer.
	Query   string
	In, Out string
}

// Record writes every request of a run into a compressed file, a line of JSON each, with numbers from 1. Methods are safe for
// concurrent use; a nil Record drops all requests.
type Record struct {
	mu     sync.Mutex
	file   *os.File
	packed *gzip.Writer
	lines  *bufio.Writer
	seed   maphash.Seed
	// last has the number of a request by the hash of its answer.
	last           map[uint64]int
	count, written int
	err            error
}

// OpenRecord creates the file, which only the owner may read.
func OpenRecord(path string) (*Record, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	r := &Record{file: file, seed: maphash.MakeSeed(), last: map[uint64]int{}}
	r.packed, _ = gzip.NewWriterLevel(file, gzip.BestSpeed) // the level is legal
	r.lines = bufio.NewWriterSize(r.packed, 1<<16)
	return r, nil
}

// Close ends the file, and returns how many requests the record should hold. Later requests are dropped.
func (r *Record) Close() (requests int, err error) {
	if r == nil {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return r.count, nil
	}
	err = errors.Join(r.err, r.lines.Flush(), r.packed.Close(), r.file.Close())
	r.file = nil
	return r.count, err
}

// line is a request in the file.
type line struct {
	Seq int `json:"seq"`
	Request
	Agent string `json:"agent,omitempty"`
	Query string `json:"query,omitempty"`
	// In and Out are the bodies as JSON, without secrets.
	In  any `json:"in,omitempty"`
	Out any `json:"out,omitempty"`
	// Same is the number of an earlier request with the same answer, which Out lacks.
	Same int `json:"same,omitempty"`
}

func (r *Record) enter(q Request) {
	if r == nil {
		return
	}
	l := line{Request: q}
	if w := q.Wire; w != nil {
		l.Agent, l.Query = w.Agent, w.Query
		// Answers with tokens and long texts stay out.
		if q.Class != Login && q.Noun != "blob" && !strings.HasPrefix(q.Operation, "GetConsole") {
			l.In, l.Out = Structured(w.In), Structured(w.Out)
		}
	}
	out, _ := json.Marshal(l.Out) // came from JSON, or is made of maps and texts
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	r.count++
	l.Seq = r.count
	if q.Class != Write && l.Out != nil {
		hash := maphash.Bytes(r.seed, out)
		if seq, again := r.last[hash]; again {
			l.Out, l.Same = nil, seq
		} else {
			r.last[hash] = l.Seq
		}
	}
	text, err := json.Marshal(l)
	if r.written += len(text); err == nil && r.written <= recordLimit {
		_, err = r.lines.Write(append(text, '\n'))
	}
	r.err = cmp.Or(r.err, err)
}

// omitted are secrets, and numbers that make equal answers differ.
var omitted = map[string]bool{
	"customdata": true, "userdata": true, "adminpassword": true, "protectedsettings": true, "accesssas": true, "requestid": true, "responsemetadata": true,
}

// Structured turns JSON, a form or XML into JSON without secrets: parts of a form and elements of XML are objects, and lists where
// the protocol has numbers or elements "item" and "member".
func Structured(body string) any {
	var value any
	switch {
	case body == "":
		return nil
	case body[0] == '{' || body[0] == '[':
		if json.Unmarshal([]byte(body), &value) != nil {
			return body
		}
	case body[0] == '<':
		value = element(xml.NewDecoder(strings.NewReader(body)))
	default:
		form, err := url.ParseQuery(body)
		if err != nil {
			return body
		}
		tree := map[string]any{}
		for name, values := range form {
			put(tree, strings.Split(name, "."), values[0])
		}
		value = tree
	}
	return tidy(value)
}

func put(tree map[string]any, path []string, value string) {
	for _, part := range path[:len(path)-1] {
		next, is := tree[part].(map[string]any)
		if !is {
			next = map[string]any{}
			tree[part] = next
		}
		tree = next
	}
	tree[path[len(path)-1]] = value
}

// element reads an XML element up to its end: a text, or an object whose repeated names are lists.
func element(d *xml.Decoder) any {
	out, words := map[string]any{}, ""
	for {
		token, err := d.Token()
		switch t := token.(type) {
		case xml.StartElement:
			before, again := out[t.Name.Local]
			list, many := before.([]any)
			switch next := element(d); {
			case many:
				out[t.Name.Local] = append(list, next)
			case again:
				out[t.Name.Local] = []any{before, next}
			default:
				out[t.Name.Local] = next
			}
		case xml.CharData:
			words += string(t)
		}
		if _, ended := token.(xml.EndElement); !ended && err == nil {
			continue
		}
		if len(out) == 0 {
			return words
		}
		return out
	}
}

// tidy drops omitted values, and turns numbered and repeated parts into lists.
func tidy(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = tidy(v[i])
		}
	case map[string]any:
		for key, part := range v {
			if omitted[strings.ToLower(key)] {
				delete(v, key)
				continue
			}
			v[key] = tidy(part)
		}
		for _, name := range []string{"item", "member"} {
			if only, is := v[name]; is && len(v) == 1 {
				if list, many := only.([]any); many {
					return list
				}
				return []any{only}
			}
		}
		var list []any
		for n := 1; len(list) < len(v); n++ {
			part, is := v[strconv.Itoa(n)]
			if !is {
				return v
			}
			list = append(list, part)
		}
		if len(list) > 0 {
			return list
		}
	}
	return value
}
