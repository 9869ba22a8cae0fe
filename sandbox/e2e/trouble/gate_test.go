package trouble

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// gate stands in front of a server. It lets everything through, but at a request that a test names it can
// stop, so that something happens at that very moment: before the request has had its effect, or when it
// has and nobody has been told.
type gate struct {
	url string

	mu      sync.Mutex
	hooks   []*hook
	rewrite func(*http.Response) error
	refusal *refusal
}

// refusal is what a gate answers by itself, in Resource Manager's form.
type refusal struct {
	path          *regexp.Regexp
	status        int
	code, message string
}

// hook is what happens at the first request that matches.
type hook struct {
	method        string
	path          *regexp.Regexp
	before, after func()
	// drop breaks the request off then, so that it has no effect.
	drop  bool
	spent bool
}

// apiGate puts a gate between the ground's children and the API server.
func (g *ground) apiGate() *gate {
	g.Helper()
	transport, err := rest.TransportFor(sandbox.Config())
	g.must(err)
	a := g.newGate("api", sandbox.Config().Host, transport)
	g.kubeconfig(func(c *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		c.Server = a.url
		*user = clientcmdapi.AuthInfo{} // the gate shows the administrator's certificate
	})
	return a
}

// kubeconfig gives the ground's children one of their own.
func (g *ground) kubeconfig(change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) {
	g.Helper()
	config, err := clientcmd.LoadFromFile(variable("KUBECONFIG"))
	g.must(err)
	now := config.Contexts[config.CurrentContext]
	change(config.Clusters[now.Cluster], config.AuthInfos[now.AuthInfo])
	file := filepath.Join(g.TempDir(), "kubeconfig")
	g.must(clientcmd.WriteToFile(*config, file))
	g.env = append(g.env, "KUBECONFIG="+file)
}

// cloudGate puts a gate between the ground's children and the simulated Resource Manager. The addresses
// that it gives out for long operations lead around the gate.
func (g *ground) cloudGate() *gate {
	g.Helper()
	roots, err := trusted()
	g.must(err)
	transport := &http.Transport{}
	transport.TLSClientConfig = tlsConfig(roots)
	original := variable("AZURE_AUTHORITY_HOST")
	a := g.newGate("cloud", original, transport)
	raw, err := os.ReadFile(variable("AZURE_ENVIRONMENT_FILEPATH"))
	g.must(err)
	environment := map[string]string{}
	g.must(json.Unmarshal(raw, &environment))
	environment["resourceManagerEndpoint"] = a.url + "/"
	raw, err = json.Marshal(environment)
	g.must(err)
	file := filepath.Join(g.TempDir(), "cloud.json")
	g.must(os.WriteFile(file, raw, 0o600))
	g.env = append(g.env, "AZURE_ENVIRONMENT_FILEPATH="+file)
	return a
}

func (g *ground) newGate(name, target string, transport http.RoundTripper) *gate {
	g.Helper()
	to, err := url.Parse(target)
	g.must(err)
	ca, err := authority.Open(filepath.Join(sandbox.Dir(), "pki"))
	g.must(err)
	pair, err := ca.Issue("gate-"+name+"-"+g.pool.Name, authority.Subject{Name: "gate", Hosts: []string{"127.0.0.1"}})
	g.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.must(err)
	a := &gate{url: "https://" + listener.Addr().String()}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = to.Host },
		Transport:      transport,
		FlushInterval:  -1,
		ErrorLog:       quiet,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: a.answered,
	}
	server := &http.Server{Handler: a.handler(proxy), ErrorLog: quiet}
	g.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, pair.CertFile, pair.KeyFile) }()
	return a
}

type hookKey struct{}

func (a *gate) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := a.take(r)
		if h != nil && h.before != nil {
			h.before()
		}
		if h != nil && h.drop {
			panic(http.ErrAbortHandler)
		}
		if refused := a.refused(r); refused != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(refused.status)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": refused.code, "message": refused.message}})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hookKey{}, h)))
	})
}

// take finds the hook that the request is for, once.
func (a *gate) take(r *http.Request) *hook {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.hooks {
		if !h.spent && h.method == r.Method && h.path.MatchString(r.URL.Path) && !r.URL.Query().Has("dryRun") { // which has no effect
			h.spent = true
			return h
		}
	}
	return nil
}

func (a *gate) answered(r *http.Response) error {
	if h, _ := r.Request.Context().Value(hookKey{}).(*hook); h != nil && h.after != nil {
		h.after()
	}
	a.mu.Lock()
	rewrite := a.rewrite
	a.mu.Unlock()
	if rewrite != nil {
		return rewrite(r)
	}
	return nil
}

func (a *gate) on(method, path string, h hook) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h.method, h.path = method, regexp.MustCompile("(?i)"+path)
	a.hooks = append(a.hooks, &h)
}

// before has something happen when a request arrives, before it has any effect.
func (a *gate) before(method, path string, do func()) { a.on(method, path, hook{before: do}) }

// instead has something happen when a request arrives, which then has no effect.
func (a *gate) instead(method, path string, do func()) {
	a.on(method, path, hook{before: do, drop: true})
}

// after has something happen when a request has had its effect, before anybody is told.
func (a *gate) after(method, path string, do func()) { a.on(method, path, hook{after: do}) }

// alter changes every answer.
func (a *gate) alter(rewrite func(*http.Response) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rewrite = rewrite
}

// refuse answers every request from now on whose path matches.
func (a *gate) refuse(path string, status int, code, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusal = &refusal{regexp.MustCompile("(?i)" + path), status, code, message}
}

// accept lets everything through again.
func (a *gate) accept() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusal = nil
}

func (a *gate) refused(r *http.Request) *refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusal == nil || !a.refusal.path.MatchString(r.URL.Path) {
		return nil
	}
	return a.refusal
}

// stopped is a request that a gate holds.
type stopped struct {
	arrived, release chan struct{}
	once             sync.Once
}

// hold stops the first request that matches until it is let go.
func (g *ground) hold(a *gate, method, path string) *stopped {
	s := &stopped{arrived: make(chan struct{}), release: make(chan struct{})}
	a.before(method, path, func() {
		close(s.arrived)
		<-s.release
	})
	g.Cleanup(s.letGo)
	return s
}

// meet stops as many requests that match until all of them are there.
func (a *gate) meet(requests int, method, path string) {
	var there sync.WaitGroup
	there.Add(requests)
	for range requests {
		a.before(method, path, func() {
			there.Done()
			there.Wait()
		})
	}
}

// await returns when the request is there.
func (s *stopped) await(g *ground) {
	g.Helper()
	eventually(g.T, "the request", func() (bool, string) {
		select {
		case <-s.arrived:
			return true, ""
		default:
		}
		if !slices.ContainsFunc(g.children, (*child).lives) {
			g.Fatal("the request never comes: nobody is left to make it")
		}
		return false, "it never comes"
	})
}

func (s *stopped) letGo() { s.once.Do(func() { close(s.release) }) }
