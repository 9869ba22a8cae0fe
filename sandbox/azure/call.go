package azure

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody is more than ARM takes (4 MB).
const maxBody = 8 << 20

// call is one request on its way through.
type call struct {
	r         *http.Request
	route     *route
	vars      map[string]string
	principal principal
	body      object
	// fault that was ordered for it; nil if none.
	fault *Fault
	// started is the long operation that it began.
	started *operation
}

// reply is what a handler answers.
type reply struct {
	status int
	body   any
	header http.Header
	// operation that goes on; its polling headers are sent with the reply.
	operation *operation
}

func ok(body any) *reply { return &reply{status: http.StatusOK, body: body} }

func (c *call) version() string { return c.r.URL.Query().Get("api-version") }

// compute is the ID of the Compute resource that the path names.
func (c *call) compute(typesAndVars ...string) resourceID {
	id := resourceID{subscription: c.vars["subscription"], group: c.vars["group"], namespace: computeNamespace}
	for i := 0; i < len(typesAndVars); i += 2 {
		id = id.child(typesAndVars[i], c.vars[typesAndVars[i+1]])
	}
	return id
}

// readBody parses the JSON body; an empty one is an empty object.
func (c *call) readBody() *problem {
	c.body = object{}
	if c.r.Body == nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody))
	if err != nil {
		return badRequest("InvalidRequestContent", "The request content could not be read: %v.", err)
	}
	if len(strings.TrimSpace(string(data))) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, &c.body); err != nil {
		return badRequest("InvalidRequestContent", "The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return nil
}

// tracked checks what every tracked resource must say of itself in a PUT.
func (s *Server) tracked(c *call) *problem {
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

// normalLocation makes "West US 2" and "westus2" one.
func normalLocation(name string) string { return fold(strings.ReplaceAll(name, " ", "")) }

// writable is a body without what only the service writes.
func writable(body object) object {
	out := copyObject(body)
	for _, k := range []string{"id", "name", "type", "etag", "systemData", "managedBy", "instanceId", "resources"} {
		delete(out, k)
	}
	properties, isObject := out["properties"].(object)
	if !isObject {
		properties = object{}
		out["properties"] = properties
	}
	for _, k := range []string{"provisioningState", "timeCreated", "uniqueId", "vmId", "instanceView", "replicationStatus"} {
		delete(properties, k)
	}
	return out
}

// page cuts a list into pages as ARM does.
func (s *Server) page(c *call, values []any) *reply {
	return s.pageOf(c, len(values), func(i int) any { return values[i] })
}

// pageOf is page for lists whose elements are dear to render.
func (s *Server) pageOf(c *call, n int, render func(int) any) *reply {
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

// send writes a reply, with the polling headers of its operation.
func (s *Server) send(w http.ResponseWriter, c *call, rep *reply) {
	header := w.Header()
	for k, v := range rep.header {
		header[k] = v
	}
	if rep.operation != nil {
		s.pollingHeaders(header, c, rep)
	}
	writeJSON(w, rep.status, rep.body)
}

// pollingHeaders tell where to ask how an operation is going. A DELETE or POST also has a Location.
func (s *Server) pollingHeaders(header http.Header, c *call, rep *reply) {
	where := fmt.Sprintf("https://%s/subscriptions/%s/providers/%s/locations/%s/operations/%s?p=%s&api-version=%s",
		c.r.Host, s.config.SubscriptionID, computeNamespace, normalLocation(s.config.Location), rep.operation.ID, "sandbox", c.version())
	header.Set("Azure-AsyncOperation", where)
	if rep.status == http.StatusAccepted {
		header.Set("Location", strings.Replace(where, "&api-version=", "&monitor=true&api-version=", 1))
	}
	s.retryAfter(header, 10*time.Second)
}

// retryAfter says when to come back: in whole seconds for those that know only these, in milliseconds for
// the SDK, which prefers them. Both are of the wall, as a client waits there.
func (s *Server) retryAfter(header http.Header, simulated time.Duration) {
	wait := max(s.config.Clock.Real(simulated), 5*time.Millisecond)
	header.Set("Retry-After", strconv.Itoa(int(max((wait+time.Second-1)/time.Second, 1))))
	header.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	data, err := json.Marshal(body)
	if err != nil { // only values that came from JSON are ever sent
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that has gone is no fault of ours
}
