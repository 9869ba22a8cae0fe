// Package requestlog records and counts the requests to a simulated cloud by class: reads, writes, polls, repeats and
// logins. The package knows no cloud.
package requestlog

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// keptRequests is how many requests the log keeps.
const keptRequests = 20000

// Class is how a request counts.
type Class string

const (
	// Read is a GET with new information.
	Read Class = "read"
	// Write is a PUT, PATCH, POST or DELETE.
	Write Class = "write"
	// Poll is a GET of a long operation's status.
	Poll Class = "poll"
	// Repeat is a GET of a URL that the same principal got before, without a write of any principal since.
	Repeat Class = "repeat"
	// Login is a request to a token endpoint; it is no request to the cloud proper.
	Login Class = "login"
)

// Request is a recorded request, without secrets.
type Request struct {
	Time   time.Time     `json:"time"`
	Took   time.Duration `json:"took"`
	Method string        `json:"method"`
	Path   string        `json:"path"`
	// Status is 0 for a dropped connection.
	Status int   `json:"status"`
	Class  Class `json:"class"`
	// Principal is the client ID; empty if unknown.
	Principal string `json:"principal,omitempty"`
	// Noun and Operation as in a fault; empty for an unknown path.
	Noun      string `json:"noun,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Throttled: the answer asked the client to wait. Status 429 implies Throttled.
	Throttled bool `json:"throttled,omitempty"`
	// Wire is for the record of the run; nil without a record.
	Wire *Wire `json:"-"`
}

// Stats counts requests since the start or the last Reset.
type Stats struct {
	// Requests of all classes; logins are apart.
	Requests int `json:"requests"`
	Reads    int `json:"reads"`
	Writes   int `json:"writes"`
	Polls    int `json:"polls"`
	Repeats  int `json:"repeats"`
	Logins   int `json:"logins"`
	// Throttled counts answers with status 429, Failed all other errors.
	Throttled int `json:"throttled"`
	Failed    int `json:"failed"`
	// ByOperation counts reads and writes as "version put".
	ByOperation map[string]int `json:"byOperation"`
}

// Log records requests. Use New. Methods are safe for concurrent use.
type Log struct {
	// Record receives every request; nil drops them. Set Record before the first request.
	Record *Record

	mu       sync.Mutex
	requests []Request
	stats    Stats
	writes   int            // number of the last write
	seen     map[string]int // principal and URL to the number of the last write before the GET
}

// New is an empty book.
func New() *Log {
	b := &Log{}
	b.Reset()
	return b
}

// Reset deletes all requests and counters.
func (b *Log) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.stats, b.seen = nil, Stats{ByOperation: map[string]int{}}, map[string]int{}
}

// Enter records a request; the URI identifies repeats. Logins and polls have their class already. For other requests,
// the class follows from the method, or from a class Read or Write, and from earlier requests.
func (b *Log) Enter(r Request, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Class == "" || r.Class == Read || r.Class == Write {
		r.Class = b.classify(r, uri)
	}
	b.Record.enter(r)
	r.Wire = nil
	b.count(r.Class)
	if (r.Class == Read || r.Class == Write) && r.Noun != "" {
		b.stats.ByOperation[r.Noun+" "+r.Operation]++
	}
	switch {
	case r.Throttled || r.Status == http.StatusTooManyRequests:
		b.stats.Throttled++
	case r.Status >= http.StatusBadRequest:
		b.stats.Failed++
	}
	if len(b.requests) >= keptRequests {
		b.forget()
	}
	b.requests = append(b.requests, r)
}

// forget deletes the older half of the requests except writes, which matter longer. If only writes are left, forget
// deletes the older half of all.
func (b *Log) forget() {
	older := 0
	kept := slices.DeleteFunc(b.requests, func(r Request) bool {
		older++
		return older <= keptRequests/2 && r.Class != Write
	})
	if len(kept) >= keptRequests*3/4 {
		kept = append(kept[:0], kept[len(kept)-keptRequests/2:]...)
	}
	b.requests = kept
}

// count counts a request of a class.
func (b *Log) count(c Class) {
	if c != Login {
		b.stats.Requests++
	}
	switch c {
	case Login:
		b.stats.Logins++
	case Poll:
		b.stats.Polls++
	case Repeat:
		b.stats.Repeats++
	case Read:
		b.stats.Reads++
	case Write:
		b.stats.Writes++
	}
}

func (b *Log) classify(r Request, uri string) Class {
	if r.Class == Write || r.Class == "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		b.writes++
		return Write
	}
	key := r.Principal + " " + strings.ToLower(uri)
	last, before := b.seen[key]
	b.seen[key] = b.writes
	if before && last == b.writes {
		return Repeat
	}
	return Read
}

// Stats counts the requests so far.
func (b *Log) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.stats
	out.ByOperation = maps.Clone(b.stats.ByOperation)
	return out
}

// Requests lists the requests so far, oldest first; the oldest of very many are forgotten.
func (b *Log) Requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}
