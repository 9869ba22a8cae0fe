package sandboxtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// Server is a server that kamino uses.
type Server string

const (
	APIServer Server = "api"
	Cloud     Server = "cloud"
	// Management is the API server with the objects of Cluster API, where Cluster API builds the nodes.
	Management Server = "management"
)

// Handling is the effect on an intercepted request. The zero Handling forwards the request.
type Handling struct {
	// Drop breaks the connection; the server never gets the request.
	Drop bool
	// Until limits the duration of the request: when the channel closes, the request is canceled. nil: no limit.
	Until <-chan struct{}
	// After is called when the server has carried the request out. The answer is lost and the connection breaks.
	After func()
	// Answer may change the server's answer. An error breaks the connection.
	Answer func(*http.Response) error
}

// Intercept puts a proxy in front of each server of a kamino with these rights until the test ends, and returns variables for Env.
// handle may change or block requests, in many goroutines. Azure's long operations bypass the proxies.
func (s *Sandbox) Intercept(t testing.TB, rights []string, handle func(Server, *http.Request) Handling) []string {
	t.Helper()
	dir := t.TempDir()
	environment := map[string]string{}
	for _, v := range s.Environment() {
		environment[v.Name] = v.Value
	}
	for _, v := range rights {
		name, value, _ := strings.Cut(v, "=")
		environment[name] = value
	}
	api, err := s.apiProxy(t, APIServer, environment["KUBECONFIG"], filepath.Join(dir, "kubeconfig"), handle)
	if err != nil {
		t.Fatal(err)
	}
	more := slices.Clone(rights)
	if kubeconfig := environment[managementVariable]; kubeconfig != "" {
		management, err := s.apiProxy(t, Management, kubeconfig, filepath.Join(dir, "management"), handle)
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, managementVariable+"="+management)
	}
	cloud, err := s.cloudProxy(t, environment, dir, handle)
	if err != nil {
		t.Fatal(err)
	}
	return append(more, "KUBECONFIG="+api, cloud)
}

// managementVariable names the kubeconfig of the management cluster.
const managementVariable = "KAMINO_MANAGEMENT_KUBECONFIG"

// WriteOf returns the change in a request to the cloud or to the management cluster, such as "PUT /subscriptions/..."
// or "RegisterImage". WriteOf returns an empty string for requests without a change.
func WriteOf(r *http.Request) string {
	if r.Header.Get("X-Amz-Date") == "" {
		if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/selfsubject") {
			return ""
		}
		return r.Method + " " + r.URL.Path
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	in, bad := url.ParseQuery(string(body))
	if err != nil || bad != nil || in.Get("DryRun") == "true" {
		return ""
	}
	for _, looks := range []string{"Describe", "Get", "Simulate"} {
		if strings.HasPrefix(in.Get("Action"), looks) {
			return ""
		}
	}
	return in.Get("Action")
}

// RequestText returns the path and the decoded body of a request.
func RequestText(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	text, bad := url.QueryUnescape(string(body))
	if err != nil || bad != nil {
		text = string(body)
	}
	return r.URL.Path + " " + text
}

// apiProxy returns a kubeconfig of a service account that leads through a proxy.
func (s *Sandbox) apiProxy(t testing.TB, server Server, kubeconfig, to string, handle func(Server, *http.Request) Handling) (string, error) {
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(s.Config()))
	if err != nil {
		return "", err
	}
	address, err := s.proxy(t, server, s.Config().Host, transport, handle)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", err
	}
	now := config.Contexts[config.CurrentContext]
	if config.AuthInfos[now.AuthInfo].Token == "" {
		return "", fmt.Errorf("%s has no token that passes a proxy", kubeconfig)
	}
	config.Clusters[now.Cluster].Server = address
	return to, clientcmd.WriteToFile(*config, to)
}

// cloudProxy returns the variable with the address of the cloud's proxy. On Azure, the variable names the file that
// describes the cloud.
func (s *Sandbox) cloudProxy(t testing.TB, environment map[string]string, dir string, handle func(Server, *http.Request) Handling) (string, error) {
	ca, err := os.ReadFile(filepath.Join(s.Dir(), sandboxdir.CAFile))
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	if s.AWS() != nil {
		address, err := s.proxy(t, Cloud, environment["AWS_ENDPOINT_URL"], transport, handle)
		return "AWS_ENDPOINT_URL=" + address, err
	}
	address, err := s.proxy(t, Cloud, environment["AZURE_AUTHORITY_HOST"], transport, handle)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "cloud.json")
	raw, err := os.ReadFile(environment["AZURE_ENVIRONMENT_FILEPATH"])
	if err != nil {
		return "", err
	}
	described := map[string]string{}
	if err := json.Unmarshal(raw, &described); err != nil {
		return "", fmt.Errorf("description of the cloud: %w", err)
	}
	described["resourceManagerEndpoint"] = address + "/"
	if raw, err = json.Marshal(described); err != nil {
		return "", err
	}
	return "AZURE_ENVIRONMENT_FILEPATH=" + to, os.WriteFile(to, raw, 0o600)
}

type handlingKey struct{}

// proxyPair is the certificate of all proxies in front of a server. Parallel tests create the certificate once.
func (s *Sandbox) proxyPair(server Server) (authority.Pair, error) {
	s.issuing.Lock()
	defer s.issuing.Unlock()
	ca, err := authority.Open(filepath.Join(s.Dir(), "pki"))
	if err != nil {
		return authority.Pair{}, err
	}
	return ca.Issue("proxy-"+string(server), authority.Subject{Name: "proxy", Hosts: []string{"127.0.0.1"}})
}

// proxy serves in front of a server and returns the address of the proxy.
func (s *Sandbox) proxy(t testing.TB, server Server, target string, transport http.RoundTripper, handle func(Server, *http.Request) Handling) (string, error) {
	to, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	pair, err := s.proxyPair(server)
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	quiet := log.New(io.Discard, "", 0)
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = to.Host
			if r.In.Header.Get("X-Amz-Date") != "" {
				r.Out.Host = r.In.Host // the signature covers this host
			}
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			switch p, _ := r.Request.Context().Value(handlingKey{}).(Handling); {
			case p.After != nil:
				p.After()
				return http.ErrAbortHandler
			case p.Answer != nil:
				return p.Answer(r)
			default:
				return nil
			}
		},
	}
	front := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := handle(server, r)
		if p.Drop {
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), handlingKey{}, p))
		defer cancel()
		go func() {
			select {
			case <-p.Until:
				cancel()
			case <-ctx.Done():
			}
		}()
		reverse.ServeHTTP(w, r.WithContext(ctx))
	})}
	t.Cleanup(func() { _ = front.Close() })
	go func() { _ = front.ServeTLS(listener, pair.CertFile, pair.KeyFile) }()
	return "https://" + listener.Addr().String(), nil
}
