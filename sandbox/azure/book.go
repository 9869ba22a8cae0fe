package azure

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// keptRequests is how many requests the book remembers.
const keptRequests = 20000

// Class is how a request counts.
type Class string

const (
	// Read is a GET that tells something new.
	Read Class = "read"
	// Write is a PUT, PATCH, POST or DELETE.
	Write Class = "write"
	// Poll is a GET of a long operation's status.
	Poll Class = "poll"
	// Repeat is a GET of a URL that the same principal has got before, with no write of anybody since.
	Repeat Class = "repeat"
	// Login is a request to a token endpoint; it is no ARM request.
	Login Class = "login"
)

// Request is one request as the book knows it; it holds no secrets.
type Request struct {
	Time   time.Time     `json:"time"`
	Took   time.Duration `json:"took"`
	Method string        `json:"method"`
	Path   string        `json:"path"`
	// Status is 0 for a connection that was dropped.
	Status int   `json:"status"`
	Class  Class `json:"class"`
	// Principal is the client ID; empty if it was not recognized.
	Principal string `json:"principal,omitempty"`
	// Noun and Operation as in Fault; empty for an unknown path.
	Noun      string `json:"noun,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// Stats counts requests since the start or the last ResetStats.
type Stats struct {
	// Requests to ARM, of all classes; logins are apart.
	Requests int `json:"requests"`
	Reads    int `json:"reads"`
	Writes   int `json:"writes"`
	Polls    int `json:"polls"`
	Repeats  int `json:"repeats"`
	Logins   int `json:"logins"`
	// Throttled were answered 429, Failed with any other error.
	Throttled int `json:"throttled"`
	Failed    int `json:"failed"`
	// ByOperation counts reads and writes as "version put".
	ByOperation map[string]int `json:"byOperation"`
}

// book records requests.
type book struct {
	mu       sync.Mutex
	requests []Request
	stats    Stats
	writes   int            // number of the last write
	seen     map[string]int // principal and URL to the number of the last write before the GET
}

func (b *book) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.stats, b.seen = nil, Stats{ByOperation: map[string]int{}}, map[string]int{}
}

func (b *book) enter(r Request, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Class != Login {
		r.Class = b.classify(r, uri)
		b.stats.Requests++
	}
	switch r.Class {
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
	if (r.Class == Read || r.Class == Write) && r.Noun != "" {
		b.stats.ByOperation[r.Noun+" "+r.Operation]++
	}
	switch {
	case r.Status == http.StatusTooManyRequests:
		b.stats.Throttled++
	case r.Status >= http.StatusBadRequest:
		b.stats.Failed++
	}
	if len(b.requests) >= keptRequests {
		b.requests = append(b.requests[:0], b.requests[keptRequests/2:]...)
	}
	b.requests = append(b.requests, r)
}

func (b *book) classify(r Request, uri string) Class {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		b.writes++
		return Write
	}
	if r.Noun == "operation" {
		return Poll
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
func (s *Server) Stats() Stats {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	out := s.book.stats
	out.ByOperation = make(map[string]int, len(s.book.stats.ByOperation))
	for k, v := range s.book.stats.ByOperation {
		out.ByOperation[k] = v
	}
	return out
}

// ResetStats starts counting and recording anew.
func (s *Server) ResetStats() { s.book.reset() }

// Requests lists the requests so far, oldest first; the oldest of very many are forgotten.
func (s *Server) Requests() []Request {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return append([]Request(nil), s.book.requests...)
}
