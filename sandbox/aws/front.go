package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/query"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/sigv4"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// maxBody is more than any service takes of a query.
const maxBody = 4 << 20

// service is a service of AWS, selected by the scope of a signature.
type service struct {
	name    string
	version string
	space   string
	actions map[string]*action
}

// action is an action of a service.
type action struct {
	name, noun string
	// reads: the action changes nothing. open: the action needs no signature.
	reads, open bool
	handle      func(c *call, st *state) (query.Element, error)
}

// noun is a type over backend with actions.
type noun interface{ actions() []*action }

// call is a request during its handling.
type call struct {
	r       *http.Request
	service *service
	action  *action
	in      *query.Value
	who     principal
	request string
	// fault that strikes the call; nil for none.
	fault *fault.Fault
	// after is the rest of the work before the answer, without the state; nil for none.
	after func() error
}

// done is the answer of an EC2 call without data.
func done() query.Element { return query.Of("", query.Bool("return", true)) }

// front handles a request before its noun: identity, action, permission, faults and the request log.
type front struct {
	*backend
	faults      faults
	permissions permissions
	sessions    sessions
	services    map[string]*service
	understood  *understood
	requests    *requestlog.Log
	buckets     *simulator.Buckets
}

// serve answers a request and records the request in the request log.
func (s *front) serve(w http.ResponseWriter, r *http.Request) {
	entry := requestlog.Request{Time: time.Now(), Method: r.Method, Path: r.URL.Path}
	counted := simulator.Watch(w, r)
	c := &call{r: r, request: newUUID(), service: s.services["ec2"]}
	defer func() { // also after a fault that drops the connection with a panic
		entry.Wire = counted.Wire()
		s.enter(entry, c, counted.Status)
	}()
	answer, err := s.answer(c)
	if isJSON(r) {
		sendJSON(counted, answer, asProblem(err))
		return
	}
	counted.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	counted.Header().Set("x-amzn-RequestId", c.request)
	if p := asProblem(err); p != nil {
		s.send(counted, p.Status, p.document(c.service, c.request))
		return
	}
	s.send(counted, http.StatusOK, answer)
}

func (s *front) enter(entry requestlog.Request, c *call, status int) {
	entry.Status, entry.Took, entry.Principal = status, time.Since(entry.Time), c.who.name
	uri := ""
	if c.action != nil {
		entry.Noun, entry.Operation, entry.Class = c.action.noun, c.action.name, requestlog.Write
		entry.Path = "/" + c.service.name + "/" + c.action.name
		if group := c.in.Get("AutoScalingGroupName"); group != "" {
			entry.Path += "/" + group
		}
		if c.action.reads {
			entry.Class = requestlog.Read
		}
		if c.service.name == "sts" {
			entry.Class = requestlog.Login
		}
		uri = c.in.String()
	}
	entry.Throttled = status == http.StatusServiceUnavailable || c.throttled()
	s.requests.Enter(entry, uri)
}

func (s *front) send(w http.ResponseWriter, status int, e query.Element) {
	w.WriteHeader(status)
	_, _ = w.Write(e.Document()) // the client has closed the connection
}

// answer handles a request up to its noun.
func (s *front) answer(c *call) (query.Element, error) {
	none := query.Element{}
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody))
	if err != nil {
		return none, bad("MalformedQueryString", "The request could not be read: %v", err)
	}
	if err := s.understand(c, body); err != nil {
		return none, err
	}
	if !c.action.open {
		if c.who, err = s.sessions.authenticate(c, body); err != nil {
			return none, err
		}
	}
	s.advance()
	c.fault = s.faults.strike(c)
	if err := s.faults.trouble(c, fault.Before); err != nil {
		return none, err
	}
	if p := s.throttle(c); p != nil {
		return none, p
	}
	if p := s.permissions.authorize(c); p != nil {
		return none, p
	}
	if c.in.True("DryRun") && c.service.name == "ec2" {
		return none, refuse(http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	answer, err := s.act(c)
	if err != nil {
		return none, err
	}
	s.advance()
	if err := s.faults.trouble(c, fault.After); err != nil {
		return none, err
	}
	return s.wrap(c, answer), nil
}

// understand reads the parameters, and finds service and action. The scope of the signature selects the service, or
// the API's version if the request has no signature.
func (s *front) understand(c *call, body []byte) error {
	if isJSON(c.r) {
		return s.understandJSON(c, body)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return bad("MalformedQueryString", "The query string is malformed: %v", err)
	}
	for name, values := range c.r.URL.Query() {
		if !strings.HasPrefix(name, "X-Amz-") { // of a presigned request's signature
			form[name] = values
		}
	}
	c.in = query.Parse(form)
	scope, _ := sigv4.Read(c.r)
	version := c.in.Get("Version")
	for _, known := range s.services {
		if known.name == scope.Service || scope.Service == "" && known.version == version {
			c.service = known
		}
	}
	name := c.in.Get("Action")
	if name == "" {
		return bad("MissingAction", "The request must contain the parameter Action")
	}
	if version != "" && version != c.service.version {
		return bad("InvalidAction", "Could not find operation %s for version %s", name, version)
	}
	a := c.service.actions[name]
	if a == nil {
		return bad("InvalidAction", "The action %s is not valid for this web service.", name)
	}
	c.action = a
	return nil
}

// act runs the handler. For a fault without effect, act uses a copy of the state, and drops the copy.
func (s *front) act(c *call) (answer query.Element, err error) {
	switch {
	case c.fault != nil && c.fault.Ignore:
		other := newState()
		s.store.Read(func(st *state) { err = clone(st, other) })
		if err != nil {
			return query.Element{}, err
		}
		other.moment = s.time.now()
		return c.action.handle(c, other)
	case c.action.reads:
		s.store.Read(func(st *state) { answer, err = c.read(st) })
		return answer, err
	}
	if err := s.rehearse(c); err != nil {
		return query.Element{}, err
	}
	err = s.store.Write(func(st *state) error {
		var p error
		st.Elapsed = s.time.now()
		st.moment = st.Elapsed
		answer, p = c.action.handle(c, st)
		return p
	})
	if err == nil && c.after != nil {
		err = c.after()
	}
	return answer, err
}

func clone(from, to *state) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// wrap puts an answer into the service's format: EC2 has the fields in the response, other services in a result.
func (s *front) wrap(c *call, answer query.Element) query.Element {
	if c.service.name == "ssm" || c.service.name == "eks" {
		return answer
	}
	out := query.Element{Name: c.action.name + "Response", Space: c.service.space}
	if c.service.name == "ec2" {
		out.Kids = append([]query.Element{query.Text("requestId", c.request)}, answer.Kids...)
		return out
	}
	answer.Name = c.action.name + "Result"
	out.Kids = []query.Element{answer, query.Of("ResponseMetadata", query.Text("RequestId", c.request))}
	return out
}

// throttled: a fault or a rate limit throttled the call.
func (c *call) throttled() bool {
	return c.fault != nil && (c.fault.Code == "Throttling" || c.fault.Code == "RequestLimitExceeded")
}

// throttle takes a token for the call.
func (s *front) throttle(c *call) *problem {
	t := s.config.Throttle
	switch c.service.name {
	case "autoscaling":
		if _, wait := s.buckets.Take("autoscaling", t.GroupBurst, t.GroupRate); wait > 0 {
			c.fault = &fault.Fault{Code: "Throttling"}
			return bad("Throttling", "Rate exceeded")
		}
	case "ec2":
		name, burst, rate := "ec2 writes", t.WriteBurst, t.WriteRate
		if c.action.reads {
			name, burst, rate = "ec2 reads", t.ReadBurst, t.ReadRate
		}
		if _, wait := s.buckets.Take(name, burst, rate); wait > 0 {
			c.fault = &fault.Fault{Code: "RequestLimitExceeded"}
			return refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
		}
	}
	return nil
}

// services are the simulated services, with the actions of the nouns.
func services(ec2, autoscaling, sts, iam, ssm, eks []noun) map[string]*service {
	out := map[string]*service{}
	for _, s := range []struct {
		service service
		nouns   []noun
	}{
		{service{name: "ec2", version: "2016-11-15", space: "http://ec2.amazonaws.com/doc/2016-11-15/"}, ec2},
		{service{name: "autoscaling", version: "2011-01-01", space: "http://autoscaling.amazonaws.com/doc/2011-01-01/"}, autoscaling},
		{service{name: "sts", version: "2011-06-15", space: "https://sts.amazonaws.com/doc/2011-06-15/"}, sts},
		{service{name: "iam", version: "2010-05-08", space: "https://iam.amazonaws.com/doc/2010-05-08/"}, iam},
		{service{name: "ssm", version: "2014-11-06"}, ssm},
		{service{name: "eks", version: "2017-11-01"}, eks},
	} {
		s.service.actions = map[string]*action{}
		for _, n := range s.nouns {
			for _, a := range n.actions() {
				s.service.actions[a.name] = a
			}
		}
		out[s.service.name] = &s.service
	}
	return out
}

// refusal turns a signature's error into the service's own.
func refusal(c *call, err error) *problem {
	var e *sigv4.Error
	if !errors.As(err, &e) {
		return asProblem(err)
	}
	if c.service.name == "ec2" {
		switch e.Reason {
		case sigv4.Missing:
			return bad("MissingAuthenticationToken", "%s", e.Text)
		case sigv4.Expired:
			return bad("RequestExpired", "Request has expired.")
		case sigv4.Malformed, sigv4.Mismatch:
			return refuse(http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials")
		}
	}
	code := map[sigv4.Reason]string{sigv4.Missing: "MissingAuthenticationToken", sigv4.Malformed: "IncompleteSignature"}[e.Reason]
	if code == "" {
		code = "SignatureDoesNotMatch"
	}
	return refuse(http.StatusForbidden, code, "%s", e.Text)
}

// resourceName is the name of the call for permissions.
func (c *call) resourceName() string {
	return fmt.Sprintf("%s:%s", c.service.name, strings.TrimSpace(c.action.name))
}
