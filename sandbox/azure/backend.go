package azure

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// backend is the shared part of all nouns: configuration, state, and long operations. Each noun is a type over backend,
// in a file with its name, with its requests and jobs.
type backend struct {
	config Config
	store  *simulator.Store[state]
	lanes  *simulator.Queues
	// jobs of operations, by kind; each noun adds its jobs.
	jobs map[string]job
}

// ensureGroup makes the configured resource group.
func (s *backend) ensureGroup() error {
	return s.store.Write(func(st *state) error {
		st.ensureGroup(s.config.SubscriptionID, s.config.ResourceGroup, s.config.Location)
		return nil
	})
}

// tracked checks the required properties of a tracked resource in a PUT.
func (s *backend) tracked(c *call) *problem {
	location := text(c.body, "location")
	if location == "" {
		return badRequest("LocationRequired", "The location property is required for this definition.")
	}
	if normalLocation(location) != normalLocation(s.config.Location) {
		return badRequest("LocationNotAvailableForResourceType", "The provided location '%s' is not available for resource type '%s'. "+
			"List of available regions for the resource type is '%s'.", location, c.route.pattern, s.config.Location)
	}
	return nil
}

// page cuts a list into pages as ARM does.
func (s *backend) page(c *call, values []any) *reply {
	return s.pageOf(c, len(values), func(i int) any { return values[i] })
}

// pageOf is page for lists with expensive elements.
func (s *backend) pageOf(c *call, n int, render func(int) any) *reply {
	from, _ := strconv.Atoi(c.r.URL.Query().Get("$skiptoken"))
	from = min(max(from, 0), n)
	to := min(from+s.config.PageSize, n)
	values := make([]any, 0, to-from)
	for i := from; i < to; i++ {
		values = append(values, render(i))
	}
	body := object{"value": values}
	if to < n {
		next := *c.r.URL
		q := next.Query()
		q.Set("$skiptoken", strconv.Itoa(to))
		next.RawQuery = q.Encode()
		body["nextLink"] = "https://" + c.r.Host + next.RequestURI()
	}
	return ok(body)
}

// retryAfter sets the wait before the next request: in whole seconds, and in milliseconds for the SDK, which prefers
// milliseconds. Both are real time, because clients wait in real time.
func (s *backend) retryAfter(header http.Header, simulated time.Duration) {
	wait := max(s.config.Clock.Real(simulated), 5*time.Millisecond)
	header.Set("Retry-After", strconv.Itoa(int(max((wait+time.Second-1)/time.Second, 1))))
	header.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
}

// date is a real time in a document.
func (s *backend) date(real time.Time) string {
	return s.config.Clock.At(real).Format(time.RFC3339Nano)
}

// documents renders a table's resources under an ID prefix, in the order of their names.
func documents[T any](table map[string]*T, prefix string, render func(*T) object) []any {
	var keys []string
	for k := range table {
		if strings.HasPrefix(k, fold(prefix)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := make([]any, 0, len(keys))
	for _, k := range keys {
		out = append(out, render(table[k]))
	}
	return out
}
