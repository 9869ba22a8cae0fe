package azure

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// front handles a request before its noun: identity, route, permission, faults and the request log.
type front struct {
	*backend
	faults      faults
	logins      logins
	permissions permissions
	locks       locks
	groups      groups
	consoles    consoles
	routes      []*route
	requests    *requestlog.Log
	buckets     *simulator.Buckets
}

// send writes a reply, with the polling headers of its operation.
func (s *front) send(w http.ResponseWriter, c *call, rep *reply) {
	header := w.Header()
	for k, v := range rep.header {
		header[k] = v
	}
	if rep.operation != nil {
		s.pollingHeaders(header, c, rep)
	}
	simulator.JSON(w, rep.status, rep.body)
}

// pollingHeaders name the URLs for polls of an operation. A DELETE or POST also has a Location.
func (s *front) pollingHeaders(header http.Header, c *call, rep *reply) {
	where := fmt.Sprintf("https://%s/subscriptions/%s/providers/%s/locations/%s/operations/%s?p=%s&api-version=%s",
		c.r.Host, s.config.SubscriptionID, computeNamespace, normalLocation(s.config.Location), rep.operation.ID, "sandbox", c.version())
	header.Set("Azure-AsyncOperation", where)
	if rep.status == http.StatusAccepted {
		header.Set("Location", strings.Replace(where, "&api-version=", "&monitor=true&api-version=", 1))
	}
	s.retryAfter(header, 10*time.Second)
}

var repeatedSlashes = regexp.MustCompile(`//+`)

// serve routes a request and records the request in the request log.
func (s *front) serve(w http.ResponseWriter, r *http.Request) {
	// Resource Manager takes several slashes for one. The Azure CLI sends two before the type of a resource without a parent.
	r.URL.Path = repeatedSlashes.ReplaceAllString(r.URL.Path, "/")
	entry := requestlog.Request{Time: time.Now(), Method: r.Method, Path: r.URL.Path}
	counted := simulator.Watch(w, r)
	c := &call{r: r}
	defer func() { // also after a fault that drops the connection with a panic
		if c.route != nil {
			entry.Principal, entry.Noun, entry.Operation = c.principal.ClientID, c.route.noun, c.route.operation
		}
		entry.Status, entry.Took, entry.Wire = counted.Status, time.Since(entry.Time), counted.Wire()
		if entry.Noun == "operation" {
			entry.Class = requestlog.Poll
		}
		s.requests.Enter(entry, r.URL.RequestURI())
	}()
	if s.logins.serve(counted, r, &entry) || s.consoles.serve(counted, r, &entry) {
		return
	}
	rep, err := s.answer(counted, c)
	counted.Header().Set("x-ms-request-id", newUUID())
	counted.Header().Set("x-ms-correlation-request-id", newUUID())
	counted.Header().Set("Cache-Control", "no-cache")
	if p := asProblem(err); p != nil {
		s.sendProblem(counted, p)
		return
	}
	s.send(counted, c, rep)
}

func (s *front) sendProblem(w http.ResponseWriter, p *problem) {
	for k, v := range p.header {
		w.Header()[k] = v
	}
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	w.Header().Set("x-ms-failure-cause", "gateway")
	simulator.JSON(w, p.Status, p.body())
}

// answer handles a request up to its noun, in ARM's order.
func (s *front) answer(w http.ResponseWriter, c *call) (*reply, error) {
	if strings.HasPrefix(fold(c.r.URL.Path), "/metadata/endpoints") {
		return s.groups.endpoints(c)
	}
	who, p := s.logins.authenticate(c.r)
	if p != nil {
		return nil, p
	}
	c.principal = who
	rt, vars, unknown := s.find(c.r.Method, c.r.URL.Path)
	if unknown == nil {
		c.route, c.vars = rt, vars
		c.fault = s.faults.Strike(c.r.Method, c.r.URL.Path, rt.noun, rt.operation)
	}
	if err := s.faults.trouble(w, c, fault.Before); err != nil {
		return nil, err
	}
	if c.version() == "" {
		return nil, badRequest("MissingApiVersionParameter",
			"The api-version query parameter (?api-version=) is required for all requests.")
	}
	if unknown != nil {
		return nil, unknown
	}
	if p := s.throttle(w.Header(), c); p != nil {
		return nil, p
	}
	if p := s.admit(c); p != nil {
		return nil, p
	}
	return s.act(w, c)
}

// admit checks the subscription, the principal's permission, the locks in its way and the resource group.
func (s *front) admit(c *call) *problem {
	if sub := c.vars["subscription"]; sub != "" && !strings.EqualFold(sub, s.config.SubscriptionID) {
		return refuse(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.", sub)
	}
	if p := s.permissions.authorize(c, c.route.action, c.r.URL.Path); p != nil {
		return p
	}
	if p := s.locks.admits(c); p != nil {
		return p
	}
	if group := c.vars["group"]; group != "" && c.route.noun != "group" {
		known, ends := false, false
		s.store.Read(func(st *state) {
			g := st.group(s.config.SubscriptionID, group)
			if known = g != nil; known {
				c.vars["group"], ends = g.id().group, g.State == stateDeleting
			}
		})
		if ends && (c.r.Method == http.MethodPut || c.r.Method == http.MethodPatch) {
			return groupDeleting(group)
		}
		if !known {
			return refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", group)
		}
	}
	return c.readBody()
}

// act runs the handler, or a fault in its place.
func (s *front) act(w http.ResponseWriter, c *call) (*reply, error) {
	var rep *reply
	var err error
	if c.fault != nil && c.fault.Ignore {
		rep, err = s.pretend(c)
	} else {
		rep, err = c.route.handle(c)
	}
	if err != nil {
		return nil, err
	}
	if err := s.faults.trouble(w, c, fault.After); err != nil {
		return nil, err
	}
	return rep, nil
}

// find returns the route of a request, or ARM's error for unknown routes.
func (s *front) find(method, path string) (*route, map[string]string, *problem) {
	segments, known := split(path), false
	for _, r := range s.routes {
		vars, ok := r.match(segments)
		if !ok {
			continue
		}
		if r.method == method || r.method == http.MethodGet && method == http.MethodHead {
			return r, vars, nil
		}
		known = true
	}
	if known {
		return nil, nil, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The request method '%s' is not supported on this resource.", method)
	}
	return nil, nil, unknownType(path)
}

// pretend answers a write with success, without the write.
func (s *front) pretend(c *call) (*reply, error) {
	var op *operation
	err := s.change(c, func(st *state) error {
		op = c.begin(st, operation{Kind: "nothing", Target: c.r.URL.Path, Latency: s.config.Latencies.Delete, Lanes: []string{newUUID()}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch c.r.Method {
	case http.MethodPut, http.MethodPatch:
		look, vars, p := s.find(http.MethodGet, c.r.URL.Path)
		if p != nil {
			return nil, p
		}
		rep, err := look.handle(&call{r: c.r, route: look, vars: vars, principal: c.principal})
		if err != nil {
			return nil, err
		}
		rep.operation = op
		return rep, nil
	default:
		return &reply{status: http.StatusAccepted, operation: op}, nil
	}
}
