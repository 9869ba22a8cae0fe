package sandboxtest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Request describes requests of kamino.
type Request struct {
	Server Server
	// Pattern is a regular expression, in any case, for the method and path, such as "PUT .*/snapshots/"; on AWS for the
	// action, such as "CreateSnapshot".
	Pattern string
	// Texts must all be in the request's path or body.
	Texts []string
}

// Write requests, in the order of a capture, on Azure and on AWS.
var (
	CreatePrototype = Request{Server: APIServer, Pattern: `^POST .*/prototypes$`}
	CreateSnapshot  = Request{Server: Cloud, Pattern: `^PUT .*/snapshots/|^CreateSnapshot$`}
	CreateDisk      = Request{Server: Cloud, Pattern: `^PUT .*/disks/|^CreateVolume$`}
	CreateVersion   = Request{Server: Cloud, Pattern: `^PUT .*/versions/|^RegisterImage$`}
)

func (r Request) matches(to Server, is *http.Request) bool {
	if r.Server != to || is.URL.Query().Has("dryRun") { // a dry run has no effect
		return false
	}
	line := is.Method + " " + is.URL.Path
	if is.Header.Get("X-Amz-Date") != "" {
		line = WriteOf(is)
	}
	if !regexp.MustCompile("(?i)" + r.Pattern).MatchString(line) {
		return false
	}
	text := ""
	if len(r.Texts) > 0 {
		text = RequestText(is)
	}
	return !slices.ContainsFunc(r.Texts, func(want string) bool { return !strings.Contains(text, want) })
}

// Barrier is a proxy in front of all servers of an environment's processes. A Barrier delays chosen requests, calls
// functions at requests, and breaks connections. Use Env.Fault for errors of the cloud.
type Barrier struct {
	env *Env

	mu    sync.Mutex
	rules []*rule
	// cut holds the disconnected servers. Closing a channel in broken breaks the connections to its server.
	cut    map[Server]bool
	broken map[Server]chan struct{}
}

// rule is the action at the first matching request.
type rule struct {
	Request
	before, after func()
	used          bool
}

// Barrier adds a barrier for the processes that the environment starts afterwards. Each call returns the same
// barrier.
func (e *Env) Barrier() *Barrier {
	e.Helper()
	if e.barrier == nil {
		b := &Barrier{env: e, cut: map[Server]bool{}, broken: map[Server]chan struct{}{}}
		for _, server := range []Server{APIServer, Cloud, Management} {
			b.broken[server] = make(chan struct{})
		}
		e.barrier = b
		e.Environ = append(e.Environ, e.Sandbox.Intercept(e.T, e.Environ, b.handle)...)
	}
	return e.barrier
}

func (b *Barrier) handle(to Server, r *http.Request) Handling {
	hit := b.take(to, r)
	if hit != nil && hit.before != nil {
		hit.before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut[to] {
		return Handling{Drop: true}
	}
	return Handling{Until: b.broken[to], Answer: func(*http.Response) error {
		if hit != nil && hit.after != nil {
			hit.after()
		}
		return nil
	}}
}

// take finds the rule for a request, and marks the rule as used.
func (b *Barrier) take(to Server, r *http.Request) *rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rule := range b.rules {
		if !rule.used && rule.matches(to, r) {
			rule.used = true
			return rule
		}
	}
	return nil
}

func (b *Barrier) add(r rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = append(b.rules, &r)
}

// Before calls do when the first matching request arrives. The request waits for do.
func (b *Barrier) Before(r Request, do func()) { b.add(rule{Request: r, before: do}) }

// After calls do when the first matching request has taken effect. The response waits for do.
func (b *Barrier) After(r Request, do func()) { b.add(rule{Request: r, after: do}) }

// Cut breaks all connections to a server, and drops every request until Restore.
func (b *Barrier) Cut(server Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut[server] = true
	close(b.broken[server])
	b.broken[server] = make(chan struct{})
}

// Restore reconnects a server after Cut.
func (b *Barrier) Restore(server Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut[server] = false
}

// DelayedRequest is a delayed request.
type DelayedRequest struct {
	env              *Env
	request          Request
	arrived, release chan struct{}
	once             sync.Once
}

// Hold delays the first matching request until Release.
func (b *Barrier) Hold(r Request) *DelayedRequest {
	h := &DelayedRequest{env: b.env, request: r, arrived: make(chan struct{}), release: make(chan struct{})}
	b.Before(r, func() {
		close(h.arrived)
		<-h.release
	})
	b.env.Cleanup(h.Release)
	return h
}

// Wait returns when the request has arrived. The test fails if all processes of the environment have exited.
func (h *DelayedRequest) Wait() {
	h.env.Helper()
	Eventually(h.env, "a request "+h.request.Pattern+" arrives", func() (bool, string) {
		running := slices.ContainsFunc(h.env.processes, (*Process).Running)
		select {
		case <-h.arrived:
			return true, ""
		default:
		}
		if !running {
			h.env.Fatalf("no request %s arrived, and no process is left", h.request.Pattern)
		}
		return false, "no request"
	})
}

// Release lets the request go on.
func (h *DelayedRequest) Release() { h.once.Do(func() { close(h.release) }) }
